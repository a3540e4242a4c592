package rabbit

import (
	"bytes"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Plain returns a deep copy of headers or arguments in which every amqp.Table, at any depth, is a
// map[string]any: an amqp.Table inside an any is not a map[string]any to code that does not import
// the client library. All other values keep their types. Nil stays nil.
func Plain(t amqp.Table) map[string]any {
	if t == nil {
		return nil
	}
	out := make(map[string]any, len(t))
	for k, v := range t {
		out[k] = plain(v)
	}
	return out
}

func plain(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		return Plain(v)
	case []byte:
		return bytes.Clone(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

// Table is the inverse of [Plain].
func Table(m map[string]any) amqp.Table {
	if m == nil {
		return nil
	}
	out := make(amqp.Table, len(m))
	for k, v := range m {
		out[k] = table(v)
	}
	return out
}

func table(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return Table(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = table(v[i])
		}
		return out
	}
	return v
}
