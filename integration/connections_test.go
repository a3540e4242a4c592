package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// canary is a connection of the test's own in the same vhost, to learn when connections are closed.
func (w *world) canary(tb testing.TB) <-chan *amqp.Error {
	tb.Helper()
	conn, err := amqp.Dial(w.url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn.NotifyClose(make(chan *amqp.Error, 1))
}

// book counts handler calls in this process.
type book struct {
	mu      sync.Mutex
	begun   map[string]int
	handled map[string]int
	atWork  int
	// gate, while it is not nil, holds every handler until it is closed.
	gate chan struct{}
	// begins gets the time of each begin of a handler, while there is room.
	begins chan time.Time
}

func newBook() *book {
	return &book{begun: map[string]int{}, handled: map[string]int{}, begins: make(chan time.Time, 10_000)}
}

// handle is a handler that succeeds, at the gate if there is one.
func (b *book) handle(ctx context.Context, m *consumer.Message) error {
	b.mu.Lock()
	b.begun[m.ID]++
	b.atWork++
	gate := b.gate
	b.mu.Unlock()
	select {
	case b.begins <- time.Now():
	default:
	}
	err := pause(ctx, time.Millisecond)
	if gate != nil && err == nil {
		select {
		case <-gate:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.atWork--
	if err == nil {
		b.handled[m.ID]++
	}
	return err
}

// shut makes handlers wait that begin from now on; the returned function lets them go on.
func (b *book) shut() (open func()) {
	gate := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

// open makes handlers wait no more that begin from now on.
func (b *book) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = nil
}

// result returns how many messages were handled and how many calls were more than one of a message.
func (b *book) result() (handled, again int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.handled {
		again += n - 1
	}
	return len(b.handled), again
}

func (b *book) awaitAtWork(tb testing.TB, n int) {
	tb.Helper()
	eventually(tb, 30*time.Second, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.atWork != n {
			return fmt.Errorf("%d handlers are at work, want %d", b.atWork, n)
		}
		return nil
	})
}

// awaitAll waits until all orders were handled and none is left.
func (w *world) awaitAll(tb testing.TB, b *book, orders int) {
	tb.Helper()
	eventually(tb, time.Minute, func() error {
		handled, _ := b.result()
		if n := w.depth(tb, work); n > 0 || handled < orders {
			return fmt.Errorf("%d of %d orders were handled, %d are left", handled, orders, n)
		}
		return nil
	})
}

// Every connection is closed while 32 handlers run: what they return afterwards must not acknowledge
// anything, since delivery tags begin anew, and the next handler runs within two seconds.
func TestClosingAllConnectionsLosesNothing(t *testing.T) {
	t.Parallel()
	const handlers, orders, rounds = 32, 1000, 3
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		book := newBook()
		release := book.shut()
		_, stop := w.run(t, consumer.Config{Concurrency: handlers, Prefetch: 2 * handlers, Handler: book.handle})
		w.publish(t, exchange, key, numbered(orders)...)
		for round := range rounds {
			book.awaitAtWork(t, handlers)
			closed, old := w.canary(t), release
			if round < rounds-1 {
				release = book.shut()
			} else {
				book.open()
			}
			start := make(chan time.Time, 1)
			go func() {
				<-closed
				now := time.Now()
				// The worker's own connections are closed a moment before or after the canary's.
				_ = pause(context.Background(), 200*time.Millisecond)
				drain(book.begins)
				old()
				start <- now
			}()
			b.CloseAllConnections(t, w.url)
			begin := await(t, start, 30*time.Second)
			if took := await(t, book.begins, 30*time.Second).Sub(begin); took > 2*time.Second {
				t.Errorf("round %d: the next handler ran after %v, want 2 s at most", round+1, took)
			} else {
				t.Logf("round %d: consuming again after %v", round+1, took.Round(time.Millisecond))
			}
		}
		w.admin = brokertest.Dial(t, w.url) // the old one was closed, too
		w.awaitAll(t, book, orders)
		stop()
		if n := w.depth(t, work) + w.depth(t, dlq); n != 0 {
			t.Errorf("%d orders are in the work queue or the DLQ", n)
		}
		_, again := book.result()
		t.Logf("%d orders, %d closes, %d handled again", orders, rounds, again)
	})
}

func drain[T any](c <-chan T) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// The DLQ is deleted under a running worker. A permanent failure has nowhere to go: it is held, the
// worker says so and is not ready; when apply has made the queue again it is parked.
func TestAMissingDLQHoldsWhatCannotBeParked(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		file := yaml(queueType, twoTiers)
		w := newWorld(t, b, file)
		book := newBook()
		settled := make(chan consumer.Settled, 1000)
		worker, _ := w.run(t, consumer.Config{
			Concurrency: 4,
			Observe:     func(s consumer.Settled) { settled <- s },
			Handler: func(ctx context.Context, m *consumer.Message) error {
				if m.Type == kindPoison {
					return consumer.Permanent(errors.New("poison"))
				}
				return book.handle(ctx, m)
			},
		})
		awaitReady(t, worker, 10*time.Second)
		if _, err := w.admin.QueueDelete(dlq, false, false, false); err != nil {
			t.Fatal(err)
		}
		poison := amqp.Publishing{MessageId: "poison", Type: kindPoison, Body: []byte("poison")}
		w.publish(t, exchange, key, poison)
		eventually(t, 10*time.Second, func() error {
			if ok, _ := worker.Ready(); ok {
				return errors.New("the worker is ready without a DLQ")
			}
			return nil
		})
		_, why := worker.Ready()
		t.Logf("not ready: %s", why)
		if why == "" {
			t.Error("the worker does not say why")
		}
		quiet(t, 500*time.Millisecond, settled)

		w.publish(t, exchange, key, numbered(20)...)
		if r := runProvision(t, w.url, file, "apply"); r.code != 0 {
			t.Fatalf("apply: exit %d\n%s", r.code, r.stderr)
		}
		got := w.take(t, dlq, 1, 60*time.Second)[0]
		if got.MessageId != "poison" || string(got.Body) != "poison" {
			t.Errorf("the DLQ holds %q", got.MessageId)
		}
		awaitReady(t, worker, 10*time.Second)
		w.awaitAll(t, book, 20)
	})
}
