package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// mostLabels is how many bindings one arrow names.
const mostLabels = 3

// Mermaid returns a diagram of the manifest: exchanges as hexagons, queues as cylinders, and besides the
// bindings, dotted, alternate exchanges and dead-lettering. Of many bindings between the same two it
// names a few. Names are escaped, whatever they hold.
func (m Manifest) Mermaid() string {
	d := diagram{ids: map[sourceKey]string{}, labels: map[[3]string][]string{}}
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
		for _, name := range slices.Sorted(maps.Keys(b.Arguments)) {
			label = strings.TrimSpace(fmt.Sprintf("%s %s=%v", label, name, b.Arguments[name]))
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
	d.edges()
	return d.b.String()
}

// diagram is a Mermaid flowchart in the making. Nodes have ids of their own, since names are free.
type diagram struct {
	b   strings.Builder
	ids map[sourceKey]string
	// order is the arrows as source, arrow and target; labels is what they say.
	order  [][3]string
	labels map[[3]string][]string
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
		label += "<br/>" + escape(about)
	}
	open, closing := "{{", "}}"
	if kind == KindQueue {
		open, closing = "[(", ")]"
	}
	fmt.Fprintf(&d.b, "  %s%s\"%s\"%s\n", id, open, label, closing)
	return id
}

// edge notes an arrow; several between the same two are drawn as one.
func (d *diagram) edge(arrow, from, to, label string) {
	k := [3]string{from, arrow, to}
	if _, ok := d.labels[k]; !ok {
		d.order = append(d.order, k)
	}
	d.labels[k] = append(d.labels[k], label)
}

// edges draws what was noted.
func (d *diagram) edges() {
	for _, k := range d.order {
		labels := slices.DeleteFunc(d.labels[k], func(l string) bool { return l == "" })
		more := len(labels) - mostLabels
		if more > 0 {
			labels = labels[:mostLabels]
		}
		for i := range labels {
			labels[i] = escape(labels[i])
		}
		if more > 0 {
			labels = append(labels, fmt.Sprintf("and %d more", more))
		}
		arrow := k[1]
		if len(labels) > 0 {
			arrow += `|"` + strings.Join(labels, "<br/>") + `"|`
		}
		fmt.Fprintf(&d.b, "  %s %s %s\n", k[0], arrow, k[2])
	}
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
