package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/topology"
)

// gen makes random topologies and messages.
type gen struct {
	*rand.Rand
	// theme are the values of headers in one topology.
	theme []any
	// fewHashes: the broker takes at most two # in a topic binding.
	fewHashes bool
}

func pick[T any](g gen, from []T) T { return from[g.IntN(len(from))] }

var (
	exchangeTypes = []string{
		"direct", "fanout", "topic", "topic", "headers", "headers", "headers", "x-random", "x-consistent-hash",
	}
	routingKeys = []string{"", "a", "b", "a.b", "b.a", "a.b.a", "a.b.b.a", ".", "a.", ".a", "a..b", "q1", "#", "*", "A"}
	patterns    = append([]string{
		"#", "*", "#", "a.#", "#.a", "*.b", "a.*", "*.*", "#.b.#", "#.*", "*.#", "#.#", "*.b.#", "a.#.a", "#.b.b.#", "a#", "#.#.#",
	}, routingKeys...)
	headerNames = []string{"h1", "h2", "x-h"}
	// themes are values that one may take for equal, and that the broker does or does not.
	themes = [][]any{
		{int64(1), int64(1), 1.0, "1", nil, true, int32(1), int16(1), int8(1), byte(1), float32(1), []byte("1"), time.Unix(1, 0)},
		{int64(1000), 1000.0, float32(1000), time.Unix(1, 0), time.Unix(1000, 0), nil},
		{"a", "", "A", []byte("a"), []byte(""), nil, false, true},
		{[]any{int64(1)}, []any{int32(1)}, []any{"a", nil}, []any{}, nil, map[string]any{"k": "v"}, map[string]any{}},
		{1.5, float32(1.5), 0.1, float32(0.1), int64(0), 0.0, ""},
	}
	matchModes = []any{nil, "all", "any", "all-with-x", "any-with-x"}
)

// manifest makes a topology of the given queues and 1 to 5 exchanges of its own.
func (g gen) manifest(prefix string, queues []string) topology.Manifest {
	m := topology.Manifest{Queues: declared(queues)}
	n := 1 + g.IntN(5)
	name := func(i int) string { return fmt.Sprintf("%sx%d", prefix, i) }
	for i := range n {
		x := topology.Exchange{Name: name(i), Type: pick(g, exchangeTypes), Internal: i > 0 && g.IntN(4) == 0}
		if g.IntN(2) == 0 {
			// It may be its own alternate exchange, or one that does not exist.
			x.Arguments = map[string]any{"alternate-exchange": name(g.IntN(n + 1))}
		}
		m.Exchanges = append(m.Exchanges, x)
	}
	for range g.IntN(3 * n) {
		x := pick(g, m.Exchanges)
		b := topology.Binding{Source: x.Name, DestinationKind: topology.ToQueue, Destination: pick(g, queues)}
		if g.IntN(5) < 2 {
			b.DestinationKind, b.Destination = topology.ToExchange, name(g.IntN(n))
		}
		b.RoutingKey, b.Arguments = g.binding(x.Type)
		m.Bindings = append(m.Bindings, b)
	}
	return m
}

func declared(names []string) []topology.Queue {
	out := make([]topology.Queue, len(names))
	for i, q := range names {
		out[i] = topology.Queue{Name: q, Durable: true}
	}
	return out
}

func (g gen) binding(exchangeType string) (key string, args map[string]any) {
	switch exchangeType {
	case "x-consistent-hash":
		return "1", nil
	case "topic":
		for key = pick(g, patterns); g.fewHashes && strings.Count(key, "#") > 2; {
			key = pick(g, patterns)
		}
		return key, nil
	case "headers":
		args = map[string]any{}
		if mode := pick(g, matchModes); mode != nil {
			args["x-match"] = mode
		}
		for range g.IntN(3) {
			args[pick(g, headerNames)] = g.argument()
		}
		if g.IntN(8) == 0 {
			args[pick(g, []string{"CC", "BCC"})] = nil
		}
		return pick(g, routingKeys), args
	}
	return pick(g, routingKeys), nil
}

// argument returns a value of the theme that a Manifest can hold.
func (g gen) argument() any {
	for {
		if v := pick(g, g.theme); inManifest(v) {
			return v
		}
	}
}

func inManifest(v any) bool {
	switch v := v.(type) {
	case nil, int64, float64, bool, string, map[string]any:
		return true
	case []any:
		return !slices.Contains(v, any(int32(1)))
	}
	return false
}

// message makes a message to an exchange of the topology that may be published to, or to the default one.
func (g gen) message(m topology.Manifest) routed {
	s := routed{manifest: m, headers: amqp.Table{}}
	s.publish.RoutingKey = pick(g, routingKeys)
	if x := pick(g, m.Exchanges); !x.Internal && g.IntN(10) > 0 {
		s.publish.Exchange = x.Name
	}
	for range 1 + g.IntN(4) {
		s.headers[pick(g, headerNames)] = pick(g, g.theme)
	}
	for _, more := range []string{"CC", "BCC"} {
		if g.IntN(6) == 0 {
			s.headers[more] = []any{pick(g, routingKeys), int64(1), "q2"}
		}
	}
	s.publish.Headers = maps.Clone(rabbit.Plain(s.headers))
	s.headers = rabbit.Table(s.publish.Headers)
	return s
}
