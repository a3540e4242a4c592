package topology

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// fileText is a file as read.
type fileText struct {
	name, vhost string
	defaults    *yaml.Node
	exchanges   []*exchangeText
	queues      []*queueText
	queueNodes  *yaml.Node
	sources     sources
}

var fileKeys = schema[fileText]{
	{"version", true, func(d *decoder, _ *fileText, n *yaml.Node) { d.version(n) }},
	{"name", true, func(d *decoder, f *fileText, n *yaml.Node) {
		if s, ok := d.text(n, "name"); ok && d.name(n, "topology", s, maxTopologyName) {
			f.name = s
		}
	}},
	{"vhost", false, func(d *decoder, f *fileText, n *yaml.Node) {
		if s, ok := d.text(n, "vhost"); ok && d.vhost(n, s) {
			f.vhost = s
		}
	}},
	{"defaults", false, func(d *decoder, f *fileText, n *yaml.Node) {
		// Read once by itself, so that what is wrong in it is found when no queue uses it.
		var q queueText
		if mapping(d, n, "defaults", defaultsKeys, &q) != nil {
			f.defaults = n
		}
	}},
	{"exchanges", false, func(d *decoder, f *fileText, n *yaml.Node) { d.exchanges(f, n) }},
	{"queues", false, func(d *decoder, f *fileText, n *yaml.Node) {
		if d.is(n, yaml.MappingNode, "queues") {
			f.queueNodes = n
		}
	}},
}

func (d *decoder) version(n *yaml.Node) {
	kind, ok := d.scalar(n, "version")
	if !ok || kind == "integer" && n.Value == "1" {
		return
	}
	x := Diagnostic{Code: codeVersion, Message: "version is " + quoted(n), Expected: "1"}
	switch {
	case n.Value == "1":
		x.Hint = "remove the quotes"
	case kind == "integer":
		x.Hint = "the file is for a newer program"
	}
	d.refuse(n, x)
}

func (d *decoder) vhost(n *yaml.Node, s string) bool {
	switch {
	case s == "":
		d.refuse(n, Diagnostic{Code: codeName, Message: "vhost is empty", Expected: "a vhost's name", Hint: `the default one is "/"`})
	case len(s) > maxName:
		d.refuse(n, Diagnostic{Code: codeName, Message: fmt.Sprintf("vhost has %d bytes", len(s)), Expected: "at most 255"})
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || 0x7f <= r && r <= 0x9f }):
		d.refuse(n, Diagnostic{Code: codeName, Message: fmt.Sprintf("vhost %q has a control character", shown(s)), Expected: "printable text"})
	default:
		return true
	}
	return false
}

// topology reads the whole file.
func (d *decoder) topology(root *yaml.Node) *fileText {
	f := &fileText{vhost: "/", sources: newSources()}
	mapping(d, root, "the file", fileKeys, f)
	// Queues come last, wherever they stand: defaults may be below them.
	if f.queueNodes != nil {
		d.queues(f)
	}
	return f
}

func (d *decoder) exchanges(f *fileText, n *yaml.Node) {
	if !d.is(n, yaml.MappingNode, "exchanges") {
		return
	}
	if !d.few(n, "exchanges") {
		return
	}
	for k, v := range pairs(n) {
		x := &exchangeText{name: k}
		x.Name, x.Durable = k.Value, true
		if d.bad[k] {
			continue
		}
		if isNull(v) {
			v = &yaml.Node{Kind: yaml.MappingNode, Line: k.Line, Column: k.Column}
		}
		x.values = mapping(d, v, "exchange", exchangeKeys, x)
		f.exchanges = append(f.exchanges, x)
	}
}

func (d *decoder) queues(f *fileText) {
	if !d.few(f.queueNodes, "queues") {
		return
	}
	for k, v := range pairs(f.queueNodes) {
		if d.bad[k] {
			continue
		}
		q := &queueText{name: k}
		q.Name, q.Type, q.Durable = k.Value, retry.Quorum, true
		if isNull(v) {
			// A queue of which nothing is said but that it exists.
			v = &yaml.Node{Kind: yaml.MappingNode, Line: k.Line, Column: k.Column}
		}
		if f.defaults != nil && !d.bad[v] {
			v = overlay("queue", f.defaults, v)
		}
		q.values = mapping(d, v, "queue", queueKeys, q)
		f.queues = append(f.queues, q)
	}
}

// few reports whether there are few enough for one broker, and reports if not.
func (d *decoder) few(n *yaml.Node, what string) bool {
	if len(n.Content) <= 2*maxObjects {
		return true
	}
	d.refuse(n.Content[2*maxObjects], Diagnostic{
		Code: codeTooLarge, Message: fmt.Sprintf("%d %s", len(n.Content)/2, what), Expected: fmt.Sprintf("at most %d", maxObjects),
		Hint: "split the topology into files of their own names",
	})
	return false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// overlay returns over with what only base says added, at every level of mappings. The nodes keep
// their places. Of delays and backoff the one in over wins. key is the key under which both stand.
func overlay(key string, base, over *yaml.Node) *yaml.Node {
	if base.Kind != yaml.MappingNode || over.Kind != yaml.MappingNode {
		return over
	}
	out := *over
	out.Content = make([]*yaml.Node, 0, len(over.Content)+len(base.Content))
	at := make(map[string]int, len(over.Content)/2)
	for k, v := range pairs(over) {
		if _, twice := at[k.Value]; !twice {
			at[k.Value] = len(out.Content) + 1
		}
		out.Content = append(out.Content, k, v)
	}
	_, delays := at["delays"]
	_, backoff := at["backoff"]
	for k, v := range pairs(base) {
		i, both := at[k.Value]
		switch {
		case both:
			out.Content[i] = overlay(k.Value, v, out.Content[i])
		case key == "retry" && (delays || backoff) && (k.Value == "delays" || k.Value == "backoff"):
		default:
			out.Content = append(out.Content, k, v)
		}
	}
	return &out
}
