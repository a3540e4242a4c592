package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"gopkg.in/yaml.v3"
)

// MaxFileSize is the size in bytes of the largest file that is read.
const MaxFileSize = 1 << 20

// Parser reads topology files. The zero value takes variables from the process's environment. It is
// safe for concurrent use if LookupEnv is.
type Parser struct {
	// LookupEnv finds what ${NAME} stands for. Nil means [os.LookupEnv].
	LookupEnv func(name string) (string, bool)
}

// Parse reads a topology.yaml; file is its name in diagnostics. The error, if any, is [Diagnostics]:
// everything that is wrong, in source order. Variables come from the process's environment.
func Parse(file string, data []byte) (*Topology, error) { return Parser{}.Parse(file, data) }

// Parse is like the function [Parse], with the parser's variables.
func (p Parser) Parse(file string, data []byte) (*Topology, error) {
	d := &decoder{file: file, lookup: p.LookupEnv, bad: map[*yaml.Node]bool{}, variables: map[*yaml.Node]bool{}, seen: map[Diagnostic]bool{}}
	if d.lookup == nil {
		d.lookup = os.LookupEnv
	}
	t := d.read(data)
	if len(d.diagnostics) > 0 {
		return nil, d.sorted()
	}
	return t, nil
}

// read takes a file with one document. The result counts only if nothing was reported.
func (d *decoder) read(data []byte) *Topology {
	if !d.acceptable(data) {
		return nil
	}
	root, ok := d.document(data)
	if !ok || !d.prepare(root, 0) {
		return nil
	}
	f := d.topology(root)
	d.check(f)
	return f.topology()
}

// document returns the root of the only document.
func (d *decoder) document(data []byte) (root *yaml.Node, ok bool) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var docs []yaml.Node
	for len(docs) < 2 {
		var doc yaml.Node
		err := decodeNode(dec, &doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.add(d.syntax(err, data))
			return nil, false
		}
		docs = append(docs, doc)
	}
	switch {
	case len(docs) == 0 || len(docs[0].Content) == 0:
		d.add(Diagnostic{
			Position: d.at(1, 1), Code: codeEmpty, Message: "the file is empty",
			Expected: "a topology", Hint: "begin with: version: 1",
		})
		return nil, false
	case len(docs) > 1:
		d.add(Diagnostic{
			Position: d.at(docs[1].Line, docs[1].Column), Code: codeDocuments,
			Message: "the file has a second document", Expected: "one document",
		})
	}
	return docs[0].Content[0], true
}

// decodeNode reads the next document. A panic of the YAML parser, which only a bug in it can cause, is
// an error: the file is not ours to trust.
func decodeNode(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", r)
		}
	}()
	return dec.Decode(doc)
}
