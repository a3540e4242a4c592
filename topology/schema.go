package topology

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// key is one key of a mapping: its name, and how its value is read.
type key[T any] struct {
	name     string
	required bool
	read     func(d *decoder, into *T, value *yaml.Node)
}

// schema is the keys of a mapping, in the order of the reference page, which is tested against it.
type schema[T any] []key[T]

func (s schema[T]) names() []string {
	out := make([]string, len(s))
	for i, k := range s {
		out[i] = k.name
	}
	return out
}

// later are keys that the design names and that are not read yet, so that nobody hunts for a slip of
// the finger.
var later = map[string]string{
	"policies": "policies", "operator_policies": "policies", "users": "users", "permissions": "permissions",
	"topic_permissions": "permissions", "delays": "named delays", "tests": "tests of message paths",
}

// hints say where a word of RabbitMQ's or of another tool's belongs.
var hints = map[string]string{
	"routing_key": `did you mean "key"?`, "routingKey": `did you mean "key"?`,
	"bindings": `did you mean "bind"? it lists where a queue gets its messages from`,
	"ttl":      `did you mean "message_ttl"?`, "dlq": `did you mean "dead_letter"?`, "dead_letters": `did you mean "dead_letter"?`,
	"retries": `did you mean "retry"?`, "dlx": `dead_letter makes the exchanges it needs`, "source": `did you mean "exchange"?`,
	"priority": `did you mean "max_priority"?`, "max_attempts": `did you mean "attempts"?`, "multiplier": `did you mean "factor"?`,
}

// mapping reads n by its schema into *into. what is the name of the mapping in messages. It returns the
// nodes of the values that were there, by key, nil if n is no mapping. Duplicate keys have been
// reported before.
func mapping[T any](d *decoder, n *yaml.Node, what string, s schema[T], into *T) map[string]*yaml.Node {
	if !d.is(n, yaml.MappingNode, what) {
		return nil
	}
	values := make(map[string]*yaml.Node, len(n.Content)/2)
	for k, v := range pairs(n) {
		if d.bad[k] || !d.visit(k) {
			continue
		}
		known := false
		for _, f := range s {
			if f.name == k.Value {
				known = true
				values[k.Value] = v
				if !d.bad[v] {
					f.read(d, into, v)
				}
				break
			}
		}
		if !known {
			d.unknown(k, what, s.names())
		}
	}
	for _, f := range s {
		if f.required && values[f.name] == nil {
			d.add(Diagnostic{
				Position: d.of(n), Code: codeMissingKey, Message: fmt.Sprintf("%s has no %s", what, f.name),
				Expected: fmt.Sprintf("the key %q", f.name),
			})
		}
	}
	return values
}

func (d *decoder) unknown(k *yaml.Node, what string, known []string) {
	x := Diagnostic{
		Code: codeUnknownKey, Message: fmt.Sprintf("unknown key %q in %s", shown(k.Value), what),
		Expected: oneOf(known), Hint: d.didYouMean(k.Value, known),
	}
	if h, ok := hints[k.Value]; ok && x.Hint == "" {
		x.Hint = h
	}
	if x.Hint != "" {
		x.Expected = "one of the keys of " + what
	}
	if l, ok := later[k.Value]; ok && x.Hint == "" {
		x.Hint = l + " are not supported yet"
	}
	d.refuse(k, x)
}

// pairs yields the keys and values of a mapping.
func pairs(n *yaml.Node) func(yield func(k, v *yaml.Node) bool) {
	return func(yield func(k, v *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// is reports whether n has the kind, and reports if not.
func (d *decoder) is(n *yaml.Node, kind yaml.Kind, what string) bool {
	switch {
	case d.bad[n], !d.visit(n):
		return false
	case n.Kind == kind:
		return true
	}
	want := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a value"}[kind]
	x := Diagnostic{Code: codeWrongType, Message: fmt.Sprintf("%s is %s", what, article(kindOf(n))), Expected: want}
	if kind == yaml.SequenceNode && n.Kind != yaml.AliasNode {
		x.Hint = "write it as [ … ], or as lines that begin with -"
	}
	d.refuse(n, x)
	return false
}

// kindOf names what a node is in the words of the messages.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	case yaml.AliasNode:
		return "alias"
	}
	switch n.ShortTag() {
	case "!!int":
		return "integer"
	case "!!float":
		return "number"
	case "!!bool":
		return "boolean"
	case "!!null":
		return "empty value"
	case "!!timestamp":
		return "timestamp"
	}
	return "text"
}

func article(noun string) string {
	switch noun[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + noun
	}
	return "a " + noun
}

// shown shortens what a file says for a message.
func shown(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
