package view

import (
	"bytes"

	"gopkg.in/yaml.v3"
)

// writeYAML writes what JSON would hold, in the same order: JSON is YAML, only the style differs.
func writeYAML(w *bytes.Buffer, v any) error {
	data, err := versioned(v)
	if err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		return err
	}
	block(&n)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&n); err != nil {
		return err
	}
	return e.Close()
}

// block takes the style of JSON off a node, but for strings that YAML of any version could take for
// something else: "no" is false for many readers.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || plain(n.Value) {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
	}
}

// plain reports whether the encoder would write a string of Go without quotes.
func plain(s string) bool {
	out, err := yaml.Marshal(s)
	return err == nil && string(out) == s+"\n"
}
