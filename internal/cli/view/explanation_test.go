package view

import (
	"testing"

	"github.com/rmqkit/rmqkit/topology"
)

// explained is an answer that has a bit of everything, in names that try to be something else.
func explained(t *testing.T) Explanation {
	t.Helper()
	toX := map[string]any{"x-dead-letter-exchange": "x", "x-message-ttl": int64(90_000)}
	bind := func(source, queue string) topology.Binding {
		return topology.Binding{Source: source, Destination: queue, DestinationKind: topology.ToQueue}
	}
	m := topology.Manifest{
		Exchanges: []topology.Exchange{
			{Name: "in\x1b[31m", Type: "fanout", Arguments: map[string]any{"alternate-exchange": "nowhere"}},
			{Name: "pick", Type: "x-random"},
			{Name: "x", Type: "fanout"},
		},
		Queues: []topology.Queue{
			{Name: "work", Arguments: map[string]any{"x-dead-letter-exchange": "pick"}},
			{Name: "kept"},
			{Name: "slow", Arguments: map[string]any{"x-dead-letter-exchange": "x", "x-message-ttl": int64(3_600_000)}},
			{Name: "fast", Arguments: toX},
			{Name: "away", Arguments: map[string]any{"x-dead-letter-exchange": "gone", "x-message-ttl": int64(1500)}},
		},
		Bindings: []topology.Binding{
			bind("in\x1b[31m", "work"), bind("in\x1b[31m", "kept"), bind("pick", "slow"), bind("pick", "fast"), bind("x", "work"), bind("x", "away"), bind("x", "slow"),
		},
	}
	e, err := topology.Explain(m, topology.Question{
		Publish: topology.Publish{Exchange: "in\x1b[31m", RoutingKey: ""}, Queue: "work", Failures: 1, Version: "4.0",
	})
	if err != nil {
		t.Fatal(err)
	}
	return Explanation{Explanation: e}
}

func TestExplanation(t *testing.T) {
	t.Parallel()
	e := explained(t)
	golden(t, "explanation.json", render(t, JSON, false, e))
	golden(t, "explanation.txt", render(t, Text, false, e))
	golden(t, "explanation.colour.txt", render(t, Text, true, e))
	e.Routes = true
	golden(t, "explanation.routes.txt", render(t, Text, false, e))
}

func TestExplanation_NoQueue(t *testing.T) {
	t.Parallel()
	e, err := topology.Explain(topology.Manifest{}, topology.Question{Publish: topology.Publish{RoutingKey: "q"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "publish to the default exchange, key q; RabbitMQ 4.3\n\n" +
		"It reaches no queue: the broker returns a mandatory message and drops any other silently.\n"
	if got := render(t, Text, false, Explanation{Explanation: e}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
