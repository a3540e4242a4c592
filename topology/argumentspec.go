package topology

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// argumentRules says what may stand in a table of arguments.
type argumentRules struct {
	what string
	// fields are the arguments that have a field of their own, and which.
	fields map[string]string
	// types are those that the broker takes in one type only.
	types map[string]string
}

var (
	queueArguments = argumentRules{
		what: "arguments",
		fields: map[string]string{
			argQueueType: "type", argMessageTTL: "message_ttl", argExpires: "expires", argMaxLength: "max_length",
			argMaxLengthBytes: "max_length_bytes", argOverflow: "overflow", argSingleActive: "single_active_consumer",
			argDeliveryLimit: "delivery_limit", argMaxPriority: "max_priority", argLeaderLocator: "leader_locator",
			argInitialGroupSize: "initial_group_size",
			// Not arguments to the broker at all: whoever writes these means the fields.
			"durable": "durable", "auto_delete": "auto_delete",
		},
		types: map[string]string{
			argDLX: "text", argDLRK: "text", argStrategy: "text", "x-queue-mode": "text", "x-queue-master-locator": "text",
			argQueueVersion: "integer", "x-consumer-timeout": "integer", "x-quorum-target-group-size": "integer",
			"x-delayed-retry-type": "text", "x-delayed-retry-min": "integer", "x-delayed-retry-max": "integer",
		},
	}
	exchangeArguments = argumentRules{
		what: "arguments",
		fields: map[string]string{
			argAlternate: "alternate_exchange",
			// As above.
			"type": "type", "durable": "durable", "auto_delete": "auto_delete", "internal": "internal",
		},
		types: map[string]string{"x-delayed-type": "text", argHashHeader: "text", argHashProperty: "text"},
	}
	bindArguments   = argumentRules{what: "arguments", fields: map[string]string{argMatch: "match"}}
	headerArguments = argumentRules{what: "headers", fields: map[string]string{argMatch: "match"}}
)

// quotes are the styles of a value that is a text whatever it looks like.
const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// arguments reads a table of arguments.
func (d *decoder) arguments(n *yaml.Node, rules argumentRules) map[string]any {
	if !d.is(n, yaml.MappingNode, rules.what) {
		return nil
	}
	out := map[string]any{}
	for k, v := range pairs(n) {
		if d.bad[k] || !d.visit(k) {
			continue
		}
		if field, ok := rules.fields[k.Value]; ok {
			d.refuse(k, Diagnostic{
				Code: codeOwnField, Message: fmt.Sprintf("%s under %s", k.Value, rules.what), Expected: fmt.Sprintf("the field %q", field),
				Hint: fmt.Sprintf("write %s: … instead", field),
			})
			continue
		}
		if !d.argumentName(k) {
			continue
		}
		value, ok := d.argument(v, k.Value)
		if !ok {
			continue
		}
		if want := rules.types[k.Value]; want != "" && want != d.kind(v) {
			d.wrong(v, k.Value, article(want), "the broker refuses any other type")
			continue
		}
		out[k.Value] = value
	}
	return out
}

func (d *decoder) argumentName(k *yaml.Node) bool {
	if k.Value != "" && len(k.Value) <= maxName {
		return true
	}
	d.refuse(k, Diagnostic{
		Code: codeArgument, Message: fmt.Sprintf("the name of an argument has %d bytes", len(k.Value)),
		Expected: fmt.Sprintf("1 to %d", maxName),
	})
	return false
}

// argument reads any value that the broker can carry.
func (d *decoder) argument(n *yaml.Node, what string) (any, bool) {
	if d.bad[n] || !d.visit(n) {
		return nil, false
	}
	what = shown(what)
	switch n.Kind {
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, ok := d.argument(c, what)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case yaml.MappingNode:
		out := map[string]any{}
		for k, v := range pairs(n) {
			if d.bad[k] || !d.argumentName(k) {
				return nil, false
			}
			value, ok := d.argument(v, what)
			if !ok {
				return nil, false
			}
			out[k.Value] = value
		}
		return out, true
	}
	kind := kindOf(n)
	if d.variables[n] && n.Style&quotes == 0 {
		kind = d.kind(n)
	}
	switch kind {
	case "boolean":
		return strings.EqualFold(n.Value, "true"), true
	case "integer":
		v, ok := d.integer(n, what, math.MinInt64, math.MaxInt64)
		return v, ok
	case "number":
		v, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			d.refuse(n, Diagnostic{
				Code: codeArgument, Message: fmt.Sprintf("%s is %s", what, shown(n.Value)), Expected: "a finite number",
				Hint: "the broker ends a connection that sends another",
			})
			return nil, false
		}
		return v, true
	case "text":
		return n.Value, true
	}
	d.refuse(n, Diagnostic{
		Code: codeArgument, Message: fmt.Sprintf("%s is %s", what, article(kind)),
		Expected: "a number, boolean, text, list or mapping", Hint: "put quotes around it",
	})
	return nil, false
}
