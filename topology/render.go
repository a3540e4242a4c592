package topology

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

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

// Mermaid returns a diagram of the manifest: exchanges as hexagons, queues as cylinders, and besides the
// bindings, dotted, alternate exchanges and dead-lettering. Names are escaped, whatever they hold.
func (m Manifest) Mermaid() string {
	d := diagram{ids: map[sourceKey]string{}}
	d.b.WriteString("flowchart LR\n")
	for _, x := range m.Exchanges {
		d.node(KindExchange, x.Name, x.Type)
	}
	for _, q := range m.Queues {
		about := ""
		if ttl, ok := q.Arguments[argMessageTTL].(int64); ok {
			about = "waits " + spellRange(millis(ttl))
		}
		d.node(KindQueue, q.Name, about)
	}
	for _, b := range m.Bindings {
		label := b.RoutingKey
		if len(b.Arguments) > 0 {
			label = strings.TrimSpace(label + " " + canonical(b.Arguments))
		}
		d.edge("-->", d.id(KindExchange, b.Source), d.id(Kind(b.DestinationKind), b.Destination), label)
	}
	for _, x := range m.Exchanges {
		if to, ok := x.Arguments[argAlternate].(string); ok {
			d.edge("-.->", d.id(KindExchange, x.Name), d.id(KindExchange, to), "unroutable")
		}
	}
	for _, q := range m.Queues {
		to, ok := q.Arguments[argDLX].(string)
		if !ok {
			continue
		}
		label := "dead letters"
		key, _ := q.Arguments[argDLRK].(string)
		if key != "" {
			label += " as " + key
		}
		if to == "" {
			d.edge("-.->", d.id(KindQueue, q.Name), d.id(KindQueue, key), "dead letters")
			continue
		}
		d.edge("-.->", d.id(KindQueue, q.Name), d.id(KindExchange, to), label)
	}
	return d.b.String()
}

// diagram is a Mermaid flowchart in the making. Nodes have ids of their own, since names are free.
type diagram struct {
	b   strings.Builder
	ids map[sourceKey]string
}

// id returns the id of an object; one that the manifest does not declare is drawn when it is met.
func (d *diagram) id(kind Kind, name string) string {
	if id, ok := d.ids[sourceKey{kind, name, ""}]; ok {
		return id
	}
	return d.node(kind, name, "external")
}

func (d *diagram) node(kind Kind, name, about string) string {
	id := fmt.Sprintf("%c%d", kind[0], len(d.ids))
	d.ids[sourceKey{kind, name, ""}] = id
	label := escape(name)
	if about != "" {
		label += "<br/><i>" + escape(about) + "</i>"
	}
	open, closing := "{{", "}}"
	if kind == KindQueue {
		open, closing = "[(", ")]"
	}
	fmt.Fprintf(&d.b, "  %s%s\"%s\"%s\n", id, open, label, closing)
	return id
}

func (d *diagram) edge(arrow, from, to, label string) {
	if label != "" {
		arrow += `|"` + escape(label) + `"|`
	}
	fmt.Fprintf(&d.b, "  %s %s %s\n", from, arrow, to)
}

// escape writes everything that could mean something to Mermaid, Markdown or HTML as a character code.
// That holds for a digit or dash at the beginning too, which Mermaid would take for a list.
func escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case unicode.IsLetter(r), i > 0 && (unicode.IsDigit(r) || r == ' ' || r == '.' || r == '-' || r == '_' || r == '/' || r == ':' || r == ','):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
