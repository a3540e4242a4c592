package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// The ladder of these tests: two tiers.
var twoTiers = delays("200ms", "400ms")

const (
	tier1 = work + ".retry.1.200ms"
	tier2 = work + ".retry.2.400ms"
	dlq   = work + ".dlq"
)

func tierName(name, queueType string) string {
	if queueType == "classic" {
		return name + ".classic"
	}
	return name
}

// foreignDelay makes a delay queue that is somebody else's and lets a message pass through it: its
// first death is not in the work queue.
func (w *world) foreignDelay(tb testing.TB, m amqp.Publishing) {
	tb.Helper()
	_, err := w.admin.QueueDeclare("foreign.delay", true, false, false, false, amqp.Table{
		"x-message-ttl": int64(50), "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key,
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.publish(tb, "", "foreign.delay", m)
}

// crashes lets whoever has a message of the work queue die, again and again, until done says that it is
// enough, and returns the number of deliveries.
func (w *world) crashes(tb testing.TB, done func(deliveries int) bool) int {
	tb.Helper()
	conn, err := amqp.Dial(w.url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	n := 0
	eventually(tb, 30*time.Second, func() error {
		for {
			ch, err := conn.Channel()
			if err != nil {
				return err
			}
			_, ok, err := ch.Get(work, false)
			if err := errors.Join(err, ch.Close()); err != nil {
				return err
			}
			if !ok {
				break
			}
			if n++; n >= 40 {
				break
			}
		}
		if !done(n) {
			return fmt.Errorf("%d deliveries", n)
		}
		return nil
	})
	return n
}

// A message that is rejected every time climbs the whole ladder and ends in the DLQ.
func TestRejectedToTheEnd(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		deliveries := w.consume(t, work, 10)
		w.publish(t, exchange, key, amqp.Publishing{MessageId: "m"})
		rejectToTheEnd(t, w, deliveries)
		got := deaths(t, w.take(t, dlq, 1, 5*time.Second)[0])
		want := map[string]int64{
			work + "/rejected": 3, tierName(tier1, queueType) + "/expired": 1, tierName(tier2, queueType) + "/expired": 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("deaths mismatch (-want +got):\n%s", diff)
		}
	})
}

// rejectToTheEnd rejects three times, at attempts 1 to 3.
func rejectToTheEnd(t *testing.T, w *world, deliveries <-chan amqp.Delivery) {
	t.Helper()
	for attempt := 1; attempt <= 3; attempt++ {
		d := next(t, deliveries, 5*time.Second)
		if got := w.ladder.Attempt(d.Exchange, d.RoutingKey); got != attempt {
			t.Errorf("delivery %d is attempt %d (exchange %q, key %q)", attempt, got, d.Exchange, d.RoutingKey)
		}
		if err := d.Nack(false, false); err != nil {
			t.Fatal(err)
		}
	}
}

// A message that expires in the work queue must not climb: coming back it would be dropped as a cycle.
func TestExpiresInTheWorkQueue(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		w.publish(t, exchange, key, amqp.Publishing{MessageId: "m", Expiration: "50"})
		got := deaths(t, w.take(t, dlq, 1, 5*time.Second)[0])
		if diff := cmp.Diff(map[string]int64{work + "/expired": 1}, got); diff != "" {
			t.Errorf("deaths mismatch (-want +got):\n%s", diff)
		}
	})
}

// A message that came through somebody else's delay queue climbs the whole ladder like any other.
func TestRejectedAfterAnotherDelayQueue(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		deliveries := w.consume(t, work, 10)
		w.foreignDelay(t, amqp.Publishing{MessageId: "m"})
		rejectToTheEnd(t, w, deliveries)
		got := deaths(t, w.take(t, dlq, 1, 5*time.Second)[0])
		if got[work+"/rejected"] != 3 {
			t.Errorf("deaths = %v, want 3 rejections", got)
		}
	})
}

// eachQuorum runs a test on quorum queues of every version: classic queues count no deliveries.
func eachQuorum(t *testing.T, test func(t *testing.T, b *brokertest.Broker)) {
	t.Helper()
	brokertest.EachVersion(t, test)
}

// limited declares a ladder whose work queue somebody has given a delivery limit, or none at all.
func limited(t *testing.T, b *brokertest.Broker, limit any) *world {
	t.Helper()
	w := emptyWorld(t, b, yaml("quorum", twoTiers))
	w.declare(t, map[string]any{"x-delivery-limit": limit})
	return w
}

func (w *world) inDLQ(tb testing.TB) func(int) bool {
	return func(int) bool { return w.depth(tb, dlq) == 1 }
}

// A crash loop ends in the DLQ when the limit is reached, without a climb.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	eachQuorum(t, func(t *testing.T, b *brokertest.Broker) {
		w := limited(t, b, int64(3))
		w.publish(t, exchange, key, amqp.Publishing{MessageId: "m"})
		if n := w.crashes(t, w.inDLQ(t)); n != 4 {
			t.Errorf("%d deliveries, want 4", n)
		}
		got := deaths(t, w.take(t, dlq, 1, 5*time.Second)[0])
		if diff := cmp.Diff(map[string]int64{work + "/delivery_limit": 1}, got); diff != "" {
			t.Errorf("deaths mismatch (-want +got):\n%s", diff)
		}
	})
}

// A crash loop after a rejection: RabbitMQ 4 tells the last death, and the message is parked; 3.x tells
// only the first, which was a rejection, and it goes on climbing.
func TestCrashLoopAfterARejection(t *testing.T) {
	t.Parallel()
	eachQuorum(t, func(t *testing.T, b *brokertest.Broker) {
		w := limited(t, b, int64(3))
		w.publish(t, exchange, key, amqp.Publishing{MessageId: "m"})
		d, ok, err := w.admin.Get(work, false)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := d.Nack(false, false); err != nil {
			t.Fatal(err)
		}
		want := 5
		if !b.AtLeast(4, 0) {
			want = 9
		}
		if n := 1 + w.crashes(t, w.inDLQ(t)); n != want {
			t.Errorf("%d deliveries, want %d", n, want)
		}
		w.take(t, dlq, 1, 5*time.Second)
	})
}

// A crash loop of a message whose first death was elsewhere is parked by RabbitMQ 4. On 3.x no binding
// can tell it from a rejection: it climbs, and at-least-once dead-lettering keeps it in the tier for
// ever, since coming back it would be a cycle. The consumer has to prevent that: see
// TestTheConsumerParksACrashLoop.
func TestCrashLoopAfterAnotherDelayQueue(t *testing.T) {
	t.Parallel()
	eachQuorum(t, func(t *testing.T, b *brokertest.Broker) {
		w := limited(t, b, int64(3))
		w.foreignDelay(t, amqp.Publishing{MessageId: "m"})
		if b.AtLeast(4, 0) {
			if n := w.crashes(t, w.inDLQ(t)); n != 4 {
				t.Errorf("%d deliveries, want 4", n)
			}
			w.take(t, dlq, 1, 5*time.Second)
			return
		}
		w.crashes(t, func(n int) bool { return n == 4 })
		vhost := brokertest.VHostName(t, w.url)
		eventually(t, 20*time.Second, func() error {
			q, err := b.Management(t).Queue(t.Context(), vhost, tier1)
			if err != nil {
				return err
			}
			if q.DeadLettering != 1 {
				return fmt.Errorf("%d messages wait for their target in %q, want 1", q.DeadLettering, tier1)
			}
			return nil
		})
		if n := w.depth(t, work) + w.depth(t, dlq); n != 0 {
			t.Errorf("%d messages came out of the tier; BROKER-FACTS says none does", n)
		}
	})
}

// Without a limit of anybody's, RabbitMQ 4 parks a crash loop by its default limit of 20; 3.x goes on for
// ever.
func TestCrashLoopWithoutALimit(t *testing.T) {
	t.Parallel()
	eachQuorum(t, func(t *testing.T, b *brokertest.Broker) {
		w := limited(t, b, nil)
		w.publish(t, exchange, key, amqp.Publishing{MessageId: "m"})
		if b.AtLeast(4, 0) {
			if n := w.crashes(t, w.inDLQ(t)); n != 21 {
				t.Errorf("%d deliveries, want 21", n)
			}
			w.take(t, dlq, 1, 5*time.Second)
			return
		}
		w.crashes(t, func(n int) bool { return n >= 40 })
		w.awaitDepth(t, work, 1, 5*time.Second)
	})
}

// The limit that apply sets is never reached: not by looks at the work queue, not by looks at the DLQ.
func TestLooksDoNotEmptyQueues(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		w.publish(t, exchange, key, amqp.Publishing{MessageId: "work"})
		w.publish(t, w.ladder.ParkExchange(), "", amqp.Publishing{MessageId: "dead"})
		for _, q := range []string{work, dlq} {
			for looks := 0; looks < 60; {
				d, ok, err := w.admin.Get(q, false)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					continue // given back, and not ready yet
				}
				looks++
				if err := d.Reject(true); err != nil {
					t.Fatal(err)
				}
			}
			w.awaitDepth(t, q, 1, 5*time.Second)
		}
	})
}
