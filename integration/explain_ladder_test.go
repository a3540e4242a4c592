package integration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/topology"
)

// stop is one delivery, or the end of the way.
type stop struct {
	Queue, Exchange, RoutingKey string
	Attempt                     int
}

// explained returns the stops of the one way through an answer, and when a message comes to each.
func explained(tb testing.TB, answer *topology.Explanation) (stops []stop, when []topology.Span) {
	tb.Helper()
	for cs := answer.Copies; len(cs) > 0; cs = cs[0].Next {
		c := cs[0]
		if len(cs) != 1 || len(c.OneOf) > 0 {
			tb.Fatalf("the answer has more than one way: %+v", cs)
		}
		if c.Attempt > 0 || len(c.Next) == 0 {
			stops = append(stops, stop{c.Queue, c.Exchange, c.RoutingKeys[0], c.Attempt})
			when = append(when, c.After)
		}
	}
	return stops, when
}

// A message that is always rejected takes the way that topology.Explain says, and is at each stop when it
// says: never early, and late only by what a loaded machine takes.
func TestExplainedLadderIsTheBrokers(t *testing.T) {
	t.Parallel()
	const late = 5 * time.Second
	for name, spec := range map[string]string{
		"tiers": twoTiers,
		"slots": "{delays: [200ms, 400ms, 300ms], jitter: {band: 50%, slots: 3}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
				w := newWorld(t, b, yaml(queueType, spec))
				answer, err := w.topo.Router().Explain(topology.Question{
					Publish: topology.Publish{Exchange: exchange, RoutingKey: key}, Failures: topology.Always, Version: b.Version,
				})
				if err != nil {
					t.Fatal(err)
				}
				want, when := explained(t, answer)
				deliveries, parked := w.consume(t, work, 1), w.consume(t, dlq, 1)
				start := time.Now()
				w.publish(t, exchange, key, amqp.Publishing{MessageId: "m"})
				var got []stop
				for i, s := range want {
					from := deliveries
					if s.Queue == dlq {
						from = parked
					}
					d := next(t, from, when[i].Max+10*time.Second)
					after := time.Since(start)
					if after < when[i].Min || after > when[i].Max+late {
						t.Errorf("stop %d, %+v, after %v; explained: %v to %v", i, s, after, when[i].Min, when[i].Max)
					}
					got = append(got, stop{s.Queue, d.Exchange, d.RoutingKey, s.Attempt})
					if err := d.Nack(false, false); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("stops mismatch (-explained +broker):\n%s", diff)
				}
				if last := want[len(want)-1]; last.Queue != dlq {
					t.Errorf("explained to end at %+v, want %q", last, dlq)
				}
			})
		})
	}
}
