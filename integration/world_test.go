package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// What most tests publish to, and the queue that they consume.
const (
	exchange = "orders"
	work     = "orders.fulfil"
	key      = "order.created"
)

// yaml writes a topology with one laddered work queue. retrySpec is what stands under retry:, or "".
func yaml(queueType, retrySpec string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nname: it\nexchanges:\n  %s: {type: topic}\nqueues:\n  %s:\n    type: %s\n", exchange, work, queueType)
	fmt.Fprintf(&b, "    bind:\n      - {exchange: %s, key: \"order.#\"}\n", exchange)
	if retrySpec != "" {
		fmt.Fprintf(&b, "    retry: %s\n", retrySpec)
	}
	b.WriteString("    dead_letter: {owner: team-test}\n")
	return b.String()
}

// delays writes a retry: with these delays.
func delays(list ...string) string { return "{delays: [" + strings.Join(list, ", ") + "]}" }

// world is a vhost for one test with a topology applied to it.
type world struct {
	broker *brokertest.Broker
	url    string
	topo   *topology.Topology
	ladder retry.Ladder
	// admin is a channel for the test's own calls.
	admin *amqp.Channel
}

func parse(tb testing.TB, file string) *topology.Topology {
	tb.Helper()
	topo, err := topology.Parse("topology.yaml", []byte(file))
	if err != nil {
		tb.Fatal(err)
	}
	return topo
}

// newWorld makes a vhost and applies a topology to it.
func newWorld(tb testing.TB, b *brokertest.Broker, file string) *world {
	tb.Helper()
	w := emptyWorld(tb, b, file)
	w.apply(tb)
	return w
}

// emptyWorld makes a vhost and applies nothing.
func emptyWorld(tb testing.TB, b *brokertest.Broker, file string) *world {
	tb.Helper()
	return worldAt(tb, b, b.VHost(tb), file)
}

// worldAt is a world in a vhost that exists.
func worldAt(tb testing.TB, b *brokertest.Broker, url, file string) *world {
	tb.Helper()
	w := &world{broker: b, url: url, topo: parse(tb, file)}
	var err error
	if w.ladder, err = w.topo.Ladder(work); err != nil {
		tb.Fatal(err)
	}
	w.admin = brokertest.Dial(tb, w.url)
	return w
}

func (w *world) apply(tb testing.TB) *provision.Report {
	tb.Helper()
	report, err := provision.Apply(tb.Context(), provision.Options{Rabbit: rabbit.Config{URL: w.url}}, w.topo)
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

// declare declares the topology by hand, with arguments of the work queue changed: what somebody else
// may have made, and apply would refuse. A nil value removes the argument.
func (w *world) declare(tb testing.TB, change map[string]any) {
	tb.Helper()
	m := w.topo.Expand()
	for _, x := range m.Exchanges {
		if err := w.admin.ExchangeDeclare(x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, false, rabbit.Table(x.Arguments)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, q := range m.Queues {
		if q.Name == work {
			for k, v := range change {
				q.Arguments[k] = v
				if v == nil {
					delete(q.Arguments, k)
				}
			}
		}
		if _, err := w.admin.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, rabbit.Table(q.Arguments)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, b := range m.Bindings {
		bind := w.admin.QueueBind
		if b.DestinationKind == topology.ToExchange {
			bind = w.admin.ExchangeBind
		}
		if err := bind(b.Destination, b.RoutingKey, b.Source, false, rabbit.Table(b.Arguments)); err != nil {
			tb.Fatal(err)
		}
	}
}

// publish publishes persistent and mandatory, and waits until the broker has confirmed every message.
func (w *world) publish(tb testing.TB, exchange, key string, messages ...amqp.Publishing) {
	tb.Helper()
	publish(tb, w.url, exchange, key, messages...)
}

func publish(tb testing.TB, url, exchange, key string, messages ...amqp.Publishing) {
	tb.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		tb.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		tb.Fatal(err)
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, len(messages)))
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	var confirms []*amqp.DeferredConfirmation
	for _, m := range messages {
		m.DeliveryMode = amqp.Persistent
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, m)
		if err != nil {
			tb.Fatal(err)
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			tb.Fatalf("publish: confirmed %v, %v", ok, err)
		}
	}
	select {
	case r := <-returns:
		tb.Fatalf("publish: returned: %d %s", r.ReplyCode, r.ReplyText)
	default:
	}
}

// numbered makes n messages with the ids 0 to n-1.
func numbered(n int) []amqp.Publishing {
	out := make([]amqp.Publishing, n)
	for i := range out {
		out[i] = amqp.Publishing{MessageId: fmt.Sprint(i), Body: fmt.Appendf(nil, "order %d", i)}
	}
	return out
}

// eventually calls ok until it returns nil, and fails the test with its last error after a time.
func eventually(tb testing.TB, within time.Duration, ok func() error) {
	tb.Helper()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("after %v: %v", within, err)
		}
	}
}

// quiet waits for a time in which nothing must happen.
func quiet[T any](tb testing.TB, d time.Duration, events <-chan T) {
	tb.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case e, ok := <-events:
		if ok {
			tb.Errorf("unexpected: %+v", e)
		}
	case <-timer.C:
	}
}

// depth returns how many messages of a queue are ready.
func (w *world) depth(tb testing.TB, queue string) int {
	tb.Helper()
	q, err := w.admin.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return q.Messages
}

func (w *world) awaitDepth(tb testing.TB, queue string, want int, within time.Duration) {
	tb.Helper()
	eventually(tb, within, func() error {
		if n := w.depth(tb, queue); n != want {
			return fmt.Errorf("queue %q holds %d messages, want %d", queue, n, want)
		}
		return nil
	})
}

// consume starts a consumer of a queue, which settles by hand. It ends with the test.
func (w *world) consume(tb testing.TB, queue string, prefetch int) <-chan amqp.Delivery {
	tb.Helper()
	deliveries, _ := w.consumeUntil(tb, queue, prefetch)
	return deliveries
}

// consumeUntil is consume, ended by the returned function: what is not settled goes back.
func (w *world) consumeUntil(tb testing.TB, queue string, prefetch int) (<-chan amqp.Delivery, func()) {
	tb.Helper()
	ch := brokertest.Dial(tb, w.url)
	if err := ch.Qos(prefetch, 0, false); err != nil {
		tb.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return deliveries, func() { _ = ch.Close() }
}

// next returns the next delivery.
func next(tb testing.TB, deliveries <-chan amqp.Delivery, within time.Duration) amqp.Delivery {
	tb.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case d, ok := <-deliveries:
		if !ok {
			tb.Fatal("the consumer was ended")
		}
		return d
	case <-timer.C:
		tb.Fatalf("no delivery within %v", within)
	}
	panic("unreachable")
}

// take takes n messages out of a queue and fails if there are fewer, or more.
func (w *world) take(tb testing.TB, queue string, n int, within time.Duration) []amqp.Delivery {
	tb.Helper()
	deliveries, stop := w.consumeUntil(tb, queue, 1000)
	defer stop()
	deadline := time.Now().Add(within)
	var out []amqp.Delivery
	for len(out) < n {
		d := next(tb, deliveries, time.Until(deadline))
		if err := d.Ack(false); err != nil {
			tb.Fatal(err)
		}
		out = append(out, d)
	}
	quiet(tb, 300*time.Millisecond, deliveries)
	return out
}

// deaths returns how often a message died in each queue for each reason, as "queue/reason".
func deaths(tb testing.TB, d amqp.Delivery) map[string]int64 {
	tb.Helper()
	list, err := retry.Deaths(rabbit.Plain(d.Headers))
	if err != nil {
		tb.Fatal(err)
	}
	out := map[string]int64{}
	for _, x := range list {
		out[x.Queue+"/"+x.Reason] += x.Count
	}
	return out
}
