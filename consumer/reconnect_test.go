package consumer_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// calls are the handler calls of a test that decides itself when they end.
type calls chan *call

type call struct {
	m      *consumer.Message
	ctx    context.Context
	result chan error
}

func (c calls) handle(ctx context.Context, m *consumer.Message) error {
	one := &call{m: m, ctx: ctx, result: make(chan error, 1)}
	c <- one
	return <-one.result
}

func (c calls) next(t *testing.T) *call {
	t.Helper()
	select {
	case one := <-c:
		return one
	case <-time.After(patience):
		t.Fatal("no handler is called")
		return nil
	}
}

// none fails if a handler is called within a little while.
func (c calls) none(t *testing.T, while time.Duration) {
	t.Helper()
	select {
	case one := <-c:
		t.Fatalf("a handler is called with %+v", one.m)
	case <-time.After(while):
	}
}

func verdicts(list []consumer.Settled) map[consumer.Verdict]int {
	out := map[consumer.Verdict]int{}
	for _, s := range list {
		out[s.Verdict]++
	}
	return out
}

// TestAnOldAckRemovesNothingAfterAReconnect: delivery tags start anew on every channel, so the ack of a
// handler that outlived its connection would settle a message that nobody has handled. amqp091-go with
// its Recovery on does that.
func TestAnOldAckRemovesNothingAfterAReconnect(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "1m")
		proxy := brokertest.NewProxy(t, f.url)
		hands := make(calls, 10)
		c := f.config(hands.handle)
		c.URL, c.Concurrency = proxy.URL, 2
		r := f.run(c)

		f.publish(amqp.Publishing{MessageId: "A"})
		old := hands.next(t)
		proxy.Cut()
		fresh := hands.next(t)
		if !fresh.m.Redelivered || fresh.m.ID != "A" {
			t.Fatalf("after the reconnect came %+v", fresh.m)
		}
		// Both have tag 1. The old verdict must not touch the new delivery, whatever it is.
		old.result <- nil
		if s := r.outcomes(1); s[0].Verdict != consumer.Lost || s[0].Err == nil {
			t.Errorf("the old handler's outcome is %+v", s[0])
		}
		proxy.Cut()
		again := hands.next(t)
		if again.m.ID != "A" {
			t.Fatalf("after the second reconnect came %+v", again.m)
		}
		fresh.result <- consumer.Permanent(errDown)
		r.outcomes(2)
		again.result <- nil
		got := verdicts(r.outcomes(3))
		if got[consumer.Lost] != 2 || got[consumer.Acked] != 1 {
			t.Errorf("outcomes %v", got)
		}
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		if f.depth("work") != 0 || f.depth("work.dlq") != 0 {
			t.Errorf("%d left, %d parked", f.depth("work"), f.depth("work.dlq"))
		}
	})
}

// TestWhatWasBufferedDiesWithItsChannel: deliveries that waited in the client when the connection broke
// come again; handing out the buffered ones too would handle them twice, and ack them nowhere.
func TestWhatWasBufferedDiesWithItsChannel(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "1m")
		proxy := brokertest.NewProxy(t, f.url)
		const n = 20
		var (
			mu      sync.Mutex
			seen    = map[string]int{}
			stale   int
			first   = make(chan struct{})
			release = make(chan struct{})
			once    sync.Once
		)
		c := f.config(func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			seen[m.ID]++
			mu.Unlock()
			waits := false
			once.Do(func() { waits = true })
			if waits {
				close(first)
				<-release
			} else if !m.Redelivered {
				mu.Lock()
				stale++
				mu.Unlock()
			}
			return nil
		})
		c.URL, c.Prefetch = proxy.URL, n
		for i := range n {
			f.publishOn(f.ch, amqp.Publishing{MessageId: strconv.Itoa(i)})
		}
		r := f.run(c)
		<-first
		until(t, "all are buffered", func() bool { return f.depth("work") == 0 })
		proxy.Cut()
		until(t, "the broker has them back", func() bool { ok, _ := r.w.Ready(); return !ok || f.depth("work") > 0 })
		close(release)
		r.outcomes(n + 1)
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		// The first was lost in mid-handling and came again; all others were in nobody's hands.
		if seen["0"] != 2 || len(seen) != n || stale != 0 {
			t.Errorf("calls %v; %d of them with a buffered delivery", seen, stale)
		}
		for id, k := range seen {
			if id != "0" && k != 1 {
				t.Errorf("message %s was handled %d times", id, k)
			}
		}
		if got := verdicts(r.outcomes(n + 1)); got[consumer.Acked] != n || got[consumer.Lost] != 1 {
			t.Errorf("outcomes %v", got)
		}
	})
}

// TestCloseAllConnections while 32 handlers run: nothing is lost, nothing acked that no handler saw,
// and consuming goes on within 2 s.
func TestCloseAllConnections(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "50ms")
		const n, hands = 400, 32
		var (
			mu    sync.Mutex
			seen  = map[string]int{}
			began = make(chan struct{}, 10*n)
			gate  = make(chan struct{})
		)
		c := f.config(func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			seen[m.ID]++
			mu.Unlock()
			began <- struct{}{}
			<-gate
			return nil
		})
		c.Concurrency, c.Prefetch = hands, 2*hands
		list := make([]amqp.Publishing, n)
		for i := range list {
			list[i].MessageId = strconv.Itoa(i)
		}
		f.publishOn(f.ch, list...)
		r := f.run(c)
		for range hands {
			<-began
		}
		f.newConnection("consume", nil)
		b.CloseAllConnections(t, f.url)
		r.until("consuming again", func() bool { return r.logs.count("ready") == 2 })
		if took := r.logs.last("ready").Sub(r.logs.last("not ready")); took > 2*time.Second {
			t.Errorf("consuming again after %v", took)
		}
		// The verdicts of the old handlers come when the new channel has the same tags in use.
		close(gate)
		r.outcomes(n + hands)
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		f.ch = brokertest.Dial(t, f.url)
		if k, dead := f.depth("work"), f.depth("work.dlq"); k != 0 || dead != 0 {
			t.Errorf("%d messages are left, %d are dead", k, dead)
		}
		got := verdicts(r.outcomes(n + hands))
		if got[consumer.Acked] != n || got[consumer.Lost] != hands {
			t.Errorf("outcomes %v", got)
		}
		mu.Lock()
		defer mu.Unlock()
		twice := 0
		for _, k := range seen {
			twice += k - 1
		}
		if len(seen) != n || twice != hands {
			t.Errorf("%d messages of %d were handled, %d of them again", len(seen), n, twice)
		}
	})
}

// TestABrokerThatIsDown at the start and later is tried for ever.
func TestABrokerThatIsDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "quorum", "1m")
	proxy := brokertest.NewProxy(t, f.url)
	proxy.Down()
	hands := make(calls, 10)
	c := f.config(hands.handle)
	c.URL = proxy.URL
	r := f.launch(c)
	until(t, "not ready", func() bool { _, reason := r.w.Ready(); return reason != "" && reason != "not started" })
	proxy.Up()
	r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
	proxy.Down()
	r.until("not ready", func() bool { ok, _ := r.w.Ready(); return !ok })
	proxy.Up()
	r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
	f.publish(amqp.Publishing{MessageId: "A"})
	hands.next(t).result <- nil
	r.outcomes(1)
	proxy.Down()
	r.until("not ready", func() bool { ok, _ := r.w.Ready(); return !ok })
	if err := r.wait(); err != nil {
		t.Errorf("Run() = %v while the broker is down", err)
	}
	if ok, reason := r.w.Ready(); ok || reason != "not consuming: stopped" {
		t.Errorf("Ready() = %v, %q after Run", ok, reason)
	}

	proxy.Down()
	r = f.launch(c)
	until(t, "not ready", func() bool { _, reason := r.w.Ready(); return reason != "" && reason != "not started" })
	if err := r.wait(); err != nil {
		t.Errorf("Run() = %v with a broker that never was there", err)
	}
}

// TestQueuesThatAreMissing: at the start that is an error; later it is waited for.
func TestQueuesThatAreMissing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "1m")
		missing := f.config(nothing)
		missing.Ladder.Queue = "nope"
		wantError(t, f.launch(missing), `check queue "nope"`, "404", "rmq-provision apply")
		if err := f.ch.ExchangeDelete("work.park", false, false); err != nil {
			t.Fatal(err)
		}
		wantError(t, f.launch(f.config(nothing)), `check exchange "work.park"`, "rmq-provision apply")
		refused := f.config(nothing)
		refused.VHost = "nope"
		wantError(t, f.launch(refused), "the vhost does not exist")

		f.apply()
		hands := make(calls, 10)
		r := f.run(f.config(hands.handle))
		f.publish(amqp.Publishing{MessageId: "A"})
		lost := hands.next(t)
		// The broker cancels the consumer: it would look alive and stay silent.
		if _, err := f.ch.QueueDelete("work", false, false, false); err != nil {
			t.Fatal(err)
		}
		r.until("not ready", func() bool { ok, _ := r.w.Ready(); return !ok })
		lost.result <- nil
		if s := r.outcomes(1); s[0].Verdict != consumer.Lost {
			t.Errorf("the outcome of a message of a deleted queue is %+v", s[0])
		}
		f.apply()
		f.publish(amqp.Publishing{MessageId: "B"})
		r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
		one := hands.next(t)
		if one.m.ID != "B" {
			t.Errorf("handled %+v", one.m)
		}
		one.result <- nil
		r.outcomes(2)
	})
}

func wantError(t *testing.T, r *running, parts ...string) {
	t.Helper()
	select {
	case err := <-r.done:
		if err == nil {
			t.Fatal("Run() returns nil")
		}
		for _, p := range parts {
			if !contains(err, p) {
				t.Errorf("Run() = %v, want %q", err, p)
			}
		}
	case <-time.After(patience):
		t.Fatalf("Run does not return; want %q", parts)
	}
}

func contains(err error, part string) bool {
	return err != nil && strings.Contains(err.Error(), part)
}

// TestARunThatRuns cannot be run twice at the same time, but again.
func TestARunThatRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "quorum", "1m")
	r := f.run(f.config(nothing))
	if err := r.w.Run(t.Context()); !contains(err, "it is running") {
		t.Errorf("Run() = %v", err)
	}
	for _, purpose := range []string{"consume", "park"} {
		if got := f.newConnection(purpose, nil); len(got) != 1 {
			t.Errorf("%d connections to %s", len(got), purpose)
		}
	}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.w.Run(ctx) }()
	r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the second Run() = %v", err)
	}
}
