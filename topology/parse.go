package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

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
	d := &decoder{file: file, lookup: p.LookupEnv, bad: map[*yaml.Node]bool{}, seen: map[Diagnostic]bool{}}
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

var (
	errorLine     = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '([^']*)' referenced$`)
)

// syntax turns an error of the YAML parser into a diagnostic. The parser tells the line at best, and
// not always the right one.
func (d *decoder) syntax(err error, data []byte) Diagnostic {
	lines := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	line, message := 1, err.Error()
	if m := errorLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = min(max(n, 1), len(lines))
		}
	}
	out := Diagnostic{Position: d.at(line, 1), Code: codeSyntax, Message: "not YAML: " + message}
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		out.Code, out.Message = codeAlias, fmt.Sprintf("alias %q", "*"+m[1])
		out.Expected, out.Hint = "a value", "write the value out; aliases are not supported, and a text that begins with * needs quotes"
		out.Position = find(d, lines, "*"+m[1])
		return out
	}
	// Tabs are the most common reason, and the parser's own words for them help nobody.
	for n := max(line-2, 1); n <= min(line+1, len(lines)); n++ {
		text := lines[n-1]
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if i := strings.IndexByte(indent, '\t'); i >= 0 {
			out.Position = d.at(n, i+1)
			out.Message, out.Expected = "a tab in the indentation", "spaces"
			return out
		}
	}
	out.Position.Column = 1 + len(lines[line-1]) - len(strings.TrimLeft(lines[line-1], " "))
	return out
}

// find returns the place of the first line that has text.
func find(d *decoder, lines []string, text string) Position {
	for i, l := range lines {
		if j := strings.Index(l, text); j >= 0 {
			return d.at(i+1, len([]rune(l[:j]))+1)
		}
	}
	return d.at(1, 1)
}
