package topology

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// YAML returns the manifest as YAML, with the keys and the order of its JSON. Names that look like
// something else are in quotes.
func (m Manifest) YAML() []byte {
	root := table("vhost", text(m.VHost))
	var exchanges, queues, bindings []*yaml.Node
	for _, x := range m.Exchanges {
		n := table("name", text(x.Name), "type", text(x.Type), "durable", boolean(x.Durable))
		flag(n, "auto_delete", x.AutoDelete)
		flag(n, "internal", x.Internal)
		exchanges = append(exchanges, withArguments(n, x.Arguments))
	}
	for _, q := range m.Queues {
		n := table("name", text(q.Name), "durable", boolean(q.Durable))
		flag(n, "auto_delete", q.AutoDelete)
		queues = append(queues, withArguments(n, q.Arguments))
	}
	for _, b := range m.Bindings {
		n := table("source", text(b.Source), "destination", text(b.Destination),
			"destination_type", text(string(b.DestinationKind)), "routing_key", text(b.RoutingKey))
		bindings = append(bindings, withArguments(n, b.Arguments))
	}
	for _, l := range []struct {
		key  string
		list []*yaml.Node
	}{{"exchanges", exchanges}, {"queues", queues}, {"bindings", bindings}} {
		if len(l.list) > 0 {
			root.Content = append(root.Content, text(l.key), &yaml.Node{Kind: yaml.SequenceNode, Content: l.list})
		}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		// A tree of plain nodes written to memory.
		panic(fmt.Sprintf("write a manifest as YAML: %v", err))
	}
	return b.Bytes()
}

// table returns a mapping of keys and nodes by turns.
func table(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(pairs); i += 2 {
		n.Content = append(n.Content, text(pairs[i].(string)), pairs[i+1].(*yaml.Node))
	}
	return n
}

func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func boolean(v bool) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
}

func flag(n *yaml.Node, name string, v bool) {
	if v {
		n.Content = append(n.Content, text(name), boolean(v))
	}
}

func withArguments(n *yaml.Node, args map[string]any) *yaml.Node {
	if len(args) > 0 {
		n.Content = append(n.Content, text("arguments"), value(args))
	}
	return n
}

// value returns the value of an argument. A float keeps its point, so that it comes back as one.
func value(v any) *yaml.Node {
	switch v := v.(type) {
	case string:
		return text(v)
	case bool:
		return boolean(v)
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: spellFloat(v)}
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, e := range v {
			n.Content = append(n.Content, value(e))
		}
		return n
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, text(k), value(v[k]))
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(v)}
}
