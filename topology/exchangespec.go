package topology

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// exchangeText is an exchange as read, with the nodes that checks point at.
type exchangeText struct {
	ExchangeSpec
	name   *yaml.Node
	values map[string]*yaml.Node
	binds  []bindNode
}

// exchangeTypes are the broker's own; those of plugins begin with x-.
var exchangeTypes = []string{"direct", "fanout", "topic", "headers"}

var exchangeKeys = schema[exchangeText]{
	{"type", false, func(d *decoder, x *exchangeText, n *yaml.Node) { d.exchangeType(x, n) }},
	{"bind", false, func(d *decoder, x *exchangeText, n *yaml.Node) { x.Bind, x.binds = d.bindings(n) }},
	{"alternate_exchange", false, func(d *decoder, x *exchangeText, n *yaml.Node) {
		x.AlternateExchange, _ = d.text(n, "alternate_exchange")
	}},
	{"external", false, func(d *decoder, x *exchangeText, n *yaml.Node) { x.External, _ = d.boolean(n, "external") }},
	{"internal", false, func(d *decoder, x *exchangeText, n *yaml.Node) { x.Internal, _ = d.boolean(n, "internal") }},
	{"durable", false, func(d *decoder, x *exchangeText, n *yaml.Node) {
		if v, ok := d.boolean(n, "durable"); ok {
			x.Durable = v
		}
	}},
	{"auto_delete", false, func(d *decoder, x *exchangeText, n *yaml.Node) { x.AutoDelete, _ = d.boolean(n, "auto_delete") }},
	{"arguments", false, func(d *decoder, x *exchangeText, n *yaml.Node) { x.Arguments = d.arguments(n, exchangeArguments) }},
}

func (d *decoder) exchangeType(x *exchangeText, n *yaml.Node) {
	s, ok := d.text(n, "type")
	if !ok {
		return
	}
	for _, t := range exchangeTypes {
		if s == t {
			x.Type = s
			return
		}
	}
	if strings.HasPrefix(s, "x-") && len(s) > 2 && d.name(n, KindExchange, s, maxName) {
		x.Type = s
		return
	}
	d.refuse(n, Diagnostic{
		Code: codeValue, Message: fmt.Sprintf("type is %s", quoted(n)),
		Expected: oneOf(exchangeTypes) + ", or a plugin's type, which begins with x-", Hint: d.didYouMean(s, exchangeTypes),
	})
}

// bindNode is where a binding stands, and its values by key.
type bindNode struct {
	*yaml.Node
	values map[string]*yaml.Node
}

// bindText is a binding as read.
type bindText struct {
	BindSpec
	match   string
	headers map[string]any
}

var bindKeys = schema[bindText]{
	{"exchange", true, func(d *decoder, b *bindText, n *yaml.Node) { b.Exchange, _ = d.text(n, "exchange") }},
	{"key", false, func(d *decoder, b *bindText, n *yaml.Node) {
		if s, ok := d.text(n, "key"); ok && d.routingKey(n, s) {
			b.Key = s
		}
	}},
	{"match", false, func(d *decoder, b *bindText, n *yaml.Node) {
		b.match, _ = d.choice(n, "match", "all", "any", "all-with-x", "any-with-x")
	}},
	{"headers", false, func(d *decoder, b *bindText, n *yaml.Node) { b.headers = d.arguments(n, headerArguments) }},
	{"arguments", false, func(d *decoder, b *bindText, n *yaml.Node) { b.Arguments = d.arguments(n, bindArguments) }},
}

// bindings reads bind. The nodes are those of the bindings.
func (d *decoder) bindings(n *yaml.Node) ([]BindSpec, []bindNode) {
	if !d.is(n, yaml.SequenceNode, "bind") {
		return nil, nil
	}
	var (
		out   []BindSpec
		nodes []bindNode
	)
	for _, c := range n.Content {
		var b bindText
		values := mapping(d, c, "binding", bindKeys, &b)
		if values == nil {
			continue
		}
		if values["headers"] == nil && values["match"] != nil {
			d.refuse(values["match"], Diagnostic{
				Code: codeConflict, Message: "match without headers", Expected: "the headers to match", Hint: "such as headers: {format: pdf}",
			})
		}
		if values["headers"] != nil {
			if b.match == "" {
				b.match = "all"
			}
			for k, v := range b.headers {
				b.Arguments = set(b.Arguments, k, v)
			}
			b.Arguments = set(b.Arguments, argMatch, b.match)
		}
		out, nodes = append(out, b.BindSpec), append(nodes, bindNode{c, values})
	}
	return out, nodes
}

func (d *decoder) routingKey(n *yaml.Node, s string) bool {
	if len(s) <= maxName {
		return true
	}
	d.refuse(n, Diagnostic{
		Code: codeName, Message: fmt.Sprintf("key has %d bytes", len(s)), Expected: fmt.Sprintf("at most %d", maxName),
	})
	return false
}
