package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// fixture is a vhost with the ladder of queue "work", bound to the topic exchange "shop" by "order.#".
type fixture struct {
	tb     testing.TB
	b      *brokertest.Broker
	url    string
	ch     *amqp.Channel
	topo   *topology.Topology
	ladder retry.Ladder
}

func newFixture(tb testing.TB, b *brokertest.Broker, queueType, delays string) *fixture {
	tb.Helper()
	file := fmt.Sprintf(`
version: 1
name: shop
exchanges:
  shop: {type: topic}
queues:
  work:
    type: %s
    bind: [{exchange: shop, key: "order.#"}]
    dead_letter: {}
`, queueType)
	if delays != "" {
		file += fmt.Sprintf("    retry: {delays: [%s]}\n", delays)
	}
	topo, err := topology.Parse("topology.yaml", []byte(file))
	if err != nil {
		tb.Fatal(err)
	}
	ladder, err := topo.Ladder("work")
	if err != nil {
		tb.Fatal(err)
	}
	url := b.VHost(tb)
	f := &fixture{tb: tb, b: b, url: url, ch: brokertest.Dial(tb, url), topo: topo, ladder: ladder}
	f.apply()
	return f
}

// apply declares whatever is missing.
func (f *fixture) apply() {
	f.tb.Helper()
	m := f.topo.Expand()
	for _, x := range m.Exchanges {
		if err := f.ch.ExchangeDeclare(x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, false, rabbit.Table(x.Arguments)); err != nil {
			f.tb.Fatal(err)
		}
	}
	for _, q := range m.Queues {
		if _, err := f.ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, rabbit.Table(q.Arguments)); err != nil {
			f.tb.Fatal(err)
		}
	}
	for _, b := range m.Bindings {
		bind := f.ch.QueueBind
		if b.DestinationKind == topology.ToExchange {
			bind = f.ch.ExchangeBind
		}
		if err := bind(b.Destination, b.RoutingKey, b.Source, false, rabbit.Table(b.Arguments)); err != nil {
			f.tb.Fatal(err)
		}
	}
}

// publish publishes an order and waits until the broker has it.
func (f *fixture) publish(m amqp.Publishing) {
	f.tb.Helper()
	ch := brokertest.Dial(f.tb, f.url)
	f.publishOn(ch, m)
}

func (f *fixture) publishOn(ch *amqp.Channel, list ...amqp.Publishing) {
	f.tb.Helper()
	if err := ch.Confirm(false); err != nil {
		f.tb.Fatal(err)
	}
	for _, m := range list {
		m.DeliveryMode = amqp.Persistent
		dc, err := ch.PublishWithDeferredConfirm("shop", "order.created", true, false, m)
		if err != nil {
			f.tb.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(f.tb.Context(), patience)
		ok, err := dc.WaitContext(ctx)
		cancel()
		if err != nil || !ok {
			f.tb.Fatalf("publish: confirmed %v: %v", ok, err)
		}
	}
}

// config is a worker's, for the fixture.
func (f *fixture) config(h consumer.Handler) consumer.Config {
	return consumer.Config{URL: f.url, Ladder: f.ladder, Handler: h, Name: "worker", Version: "v1.2.3"}
}

// running is a worker at work.
type running struct {
	tb   testing.TB
	w    *consumer.Worker
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	settled []consumer.Settled
	news    chan struct{}
	logs    *logs
}

// run starts a worker and waits until it is ready. It is stopped when the test ends.
func (f *fixture) run(c consumer.Config) *running {
	f.tb.Helper()
	r := f.launch(c)
	r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
	return r
}

func (f *fixture) launch(c consumer.Config) *running {
	f.tb.Helper()
	return f.launchObserved(c, nil)
}

// launchObserved starts a worker with one more observer.
func (f *fixture) launchObserved(c consumer.Config, also func(consumer.Settled)) *running {
	f.tb.Helper()
	r := &running{tb: f.tb, done: make(chan error, 1), news: make(chan struct{}, 1), logs: &logs{}}
	c.Logger = slog.New(r.logs)
	c.Observe = func(s consumer.Settled) {
		r.mu.Lock()
		r.settled = append(r.settled, s)
		r.mu.Unlock()
		select {
		case r.news <- struct{}{}:
		default:
		}
		if also != nil {
			also(s)
		}
	}
	w, err := consumer.New(c)
	if err != nil {
		f.tb.Fatal(err)
	}
	r.w = w
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.tb.Context()))
	r.stop = cancel
	go func() {
		defer close(r.done)
		r.done <- w.Run(ctx)
	}()
	f.tb.Cleanup(func() {
		cancel()
		for range r.done {
		}
	})
	return r
}

// wait stops the worker and returns what Run returned.
func (r *running) wait() error {
	r.tb.Helper()
	r.stop()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.tb.Fatal("Run does not return")
		return nil
	}
}

// outcomes waits for n settled deliveries and returns all there are.
func (r *running) outcomes(n int) []consumer.Settled {
	r.tb.Helper()
	late := time.After(patience)
	for {
		r.mu.Lock()
		list := slices.Clone(r.settled)
		r.mu.Unlock()
		if len(list) >= n {
			return list
		}
		select {
		case <-r.news:
		case <-late:
			_, reason := r.w.Ready()
			r.tb.Fatalf("%d outcomes of %d; not ready: %q", len(list), n, reason)
		}
	}
}

// until waits for a condition.
func (r *running) until(what string, cond func() bool) {
	r.tb.Helper()
	r.tb.Cleanup(func() {
		if r.tb.Failed() {
			_, reason := r.w.Ready()
			r.tb.Logf("at the end not ready: %q", reason)
		}
	})
	until(r.tb, what, cond)
}

func until(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("not %s within %v", what, patience)
		}
	}
}

// dead takes n messages from the DLQ.
func (f *fixture) dead(n int) []amqp.Delivery {
	f.tb.Helper()
	ch := brokertest.Dial(f.tb, f.url)
	in, err := ch.Consume(f.ladder.DeadLetterQueue(), "", true, false, false, false, nil)
	if err != nil {
		f.tb.Fatal(err)
	}
	var out []amqp.Delivery
	late := time.After(patience)
	for len(out) < n {
		select {
		case d, ok := <-in:
			if !ok {
				f.tb.Fatal("the DLQ's consumer ended")
			}
			out = append(out, d)
		case <-late:
			f.tb.Fatalf("%d dead letters of %d", len(out), n)
		}
	}
	return out
}

// depth is how many messages are ready in a queue, by passive declare.
func (f *fixture) depth(queue string) int {
	f.tb.Helper()
	q, err := f.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		f.tb.Fatal(err)
	}
	return q.Messages
}

// connections returns the names of the worker's connections for a purpose, as the management API knows
// them: some seconds late.
func (f *fixture) connections(purpose string) []string {
	f.tb.Helper()
	list, err := f.b.Management(f.tb).Connections(f.tb.Context(), brokertest.VHostName(f.tb, f.url))
	if err != nil {
		f.tb.Fatal(err)
	}
	var out []string
	for _, c := range list {
		if c.Properties.ConnectionName == "worker ("+purpose+")" {
			out = append(out, c.Name)
		}
	}
	return out
}

// newConnection waits until the management API knows a connection that is not among the known ones, and
// returns all.
func (f *fixture) newConnection(purpose string, known []string) []string {
	f.tb.Helper()
	until(f.tb, "listed", func() bool {
		for _, name := range f.connections(purpose) {
			if !slices.Contains(known, name) {
				known = append(known, name)
				return true
			}
		}
		return false
	})
	return known
}

// logs is a slog.Handler that keeps everything.
type logs struct {
	mu      sync.Mutex
	records []slog.Record
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// all returns the records with a message.
func (l *logs) all(message string) (out []slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Message == message {
			out = append(out, r)
		}
	}
	return out
}

func (l *logs) count(message string) int { return len(l.all(message)) }

func (l *logs) last(message string) time.Time {
	all := l.all(message)
	return all[len(all)-1].Time
}

// attr returns an attribute of a record as text.
func attr(r slog.Record, key string) (out string) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			out = a.Value.String()
		}
		return true
	})
	return out
}
