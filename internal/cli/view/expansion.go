package view

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rmqkit/rmqkit/topology"
)

// Expansion is everything that a topology leads to.
type Expansion struct {
	Name string `json:"name"`
	topology.Manifest
}

// mermaid draws what a message can do: follow a binding (solid), die or find no binding (dotted).
func (x Expansion) mermaid(w *bytes.Buffer) {
	g := graph{w: w, ids: map[node]string{}, labels: map[edge][]string{}}
	fmt.Fprintln(w, "flowchart LR")
	for _, e := range x.Exchanges {
		g.declare(node{topology.ToExchange, e.Name}, "{{%s}}", e.Name, e.Type)
	}
	for _, q := range x.Queues {
		kind, _ := q.Arguments["x-queue-type"].(string)
		label := []string{q.Name}
		if kind != "" {
			label = append(label, kind)
		}
		if ttl, ok := q.Arguments["x-message-ttl"]; ok {
			label = append(label, fmt.Sprintf("%v ms", ttl))
		}
		g.declare(node{topology.ToQueue, q.Name}, "[(%s)]", label...)
	}
	for _, b := range x.Bindings {
		label := b.RoutingKey
		if len(b.Arguments) > 0 {
			label = strings.TrimSpace(label + " " + arguments(b.Arguments))
		}
		g.edge(node{topology.ToExchange, b.Source}, "-->", label, node{b.DestinationKind, b.Destination})
	}
	for _, e := range x.Exchanges {
		if to, ok := e.Arguments["alternate-exchange"].(string); ok {
			g.edge(node{topology.ToExchange, e.Name}, "-.->", "otherwise", node{topology.ToExchange, to})
		}
	}
	for _, q := range x.Queues {
		if to, ok := q.Arguments["x-dead-letter-exchange"].(string); ok {
			label := "dead"
			if key, ok := q.Arguments["x-dead-letter-routing-key"].(string); ok {
				label += " as " + key
			}
			g.edge(node{topology.ToQueue, q.Name}, "-.->", label, node{topology.ToExchange, to})
		}
	}
	g.draw()
}

// maxLabels is how many labels of one edge are shown.
const maxLabels = 4

// node is an object in a drawing: an exchange and a queue may share a name.
type node struct {
	kind topology.DestinationKind
	name string
}

// edge is all that leads from one node to another in one way.
type edge struct {
	from  node
	arrow string
	to    node
}

// graph writes a Mermaid flow chart. Names of objects are free text, so nodes get ids of their own.
type graph struct {
	w      *bytes.Buffer
	ids    map[node]string
	edges  []edge
	labels map[edge][]string
}

func (g *graph) declare(n node, shape string, label ...string) {
	g.ids[n] = fmt.Sprintf("n%d", len(g.ids)+1)
	for i := range label {
		label[i] = escape(label[i])
	}
	fmt.Fprintf(g.w, "  %s"+shape+"\n", g.ids[n], `"`+strings.Join(label, "<br>")+`"`)
}

func (g *graph) edge(from node, arrow, label string, to node) {
	for _, n := range []node{from, to} {
		if _, ok := g.ids[n]; !ok {
			name := n.name
			if name == "" {
				name = "(default exchange)"
			}
			// Something that the topology uses and does not declare, such as amq.topic.
			g.declare(n, "[%s]", name)
		}
	}
	e := edge{from, arrow, to}
	if _, ok := g.labels[e]; !ok {
		g.edges = append(g.edges, e)
	}
	g.labels[e] = append(g.labels[e], label)
}

// draw writes the edges. Of many labels between the same two nodes the first and the last stand for all:
// the stamps after the last tier are a row.
func (g *graph) draw() {
	for _, e := range g.edges {
		labels := g.labels[e]
		if n := len(labels); n > maxLabels {
			labels = []string{labels[0], fmt.Sprintf("… %d more …", n-2), labels[n-1]}
		}
		for i := range labels {
			labels[i] = escape(labels[i])
		}
		text := strings.Join(labels, "<br>")
		if text != "" {
			text = `|"` + text + `"|`
		}
		fmt.Fprintf(g.w, "  %s %s%s %s\n", g.ids[e.from], e.arrow, text, g.ids[e.to])
	}
}

// escape makes any text a label: Mermaid reads markup, and ends a label at a quote.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < ' ' || strings.ContainsRune("\"#&<>`\\;", r):
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// arguments returns the arguments of a binding on one line, in the order of their names.
func arguments(args map[string]any) string {
	// fmt sorts the keys of a map.
	return strings.TrimPrefix(fmt.Sprint(args), "map")
}
