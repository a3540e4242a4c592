package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// tally counts what handlers did, by message id, over the lives of several workers.
type tally struct {
	mu      sync.Mutex
	begun   map[string]int
	handled map[string]int
	// open is how many handlers of the living worker have begun and not ended.
	open   int
	begins int
	// at signals once when a handler begins with a slow order and begins has reached mark.
	mark int
	at   chan struct{}
}

func newTally() *tally {
	return &tally{begun: map[string]int{}, handled: map[string]int{}, at: make(chan struct{}, 1)}
}

// line takes a line of a worker process.
func (t *tally) line(words []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(words) == 3 && words[0] == "begin":
		t.begun[words[1]]++
		t.open++
		t.begins++
		if i, err := strconv.Atoi(words[1]); err == nil && kindOf(i) == kindSlow && t.mark > 0 && t.begins >= t.mark {
			t.mark = 0
			t.at <- struct{}{}
		}
	case len(words) == 3 && words[0] == "end":
		t.open--
		if words[2] == "true" {
			t.handled[words[1]]++
		}
	}
}

// after signals when n more handlers have begun and one is in the middle of a slow order.
func (t *tally) after(n int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mark = t.begins + n
	return t.at
}

// died returns how many handlers were cut off, when a worker was killed.
func (t *tally) died() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.open
	t.open = 0
	return open
}

// missing returns the ids, of 0 to n-1, that were neither handled nor are in dead.
func (t *tally) missing(n int, dead map[string]int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for i := range n {
		if id := fmt.Sprint(i); t.handled[id] == 0 && dead[id] == 0 {
			out = append(out, id)
		}
	}
	return out
}

// A worker that is killed in mid-handling loses nothing: what it had comes again.
func TestKilledWorkersLoseNothing(t *testing.T) {
	t.Parallel()
	orders := 10_000
	if testing.Short() {
		orders = 1_000
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		w.publish(t, exchange, key, mixedOrders(orders)...)
		tally := newTally()
		config := workerConfig{URL: w.url, Ladder: w.ladder, Concurrency: 32}
		cut := 0
		for kill := range 5 {
			at := tally.after(orders / 8)
			p := startWorker(t, config, tally.line)
			await(t, at, time.Minute)
			p.kill()
			n := tally.died()
			if n == 0 {
				t.Errorf("kill %d: no handler was at work", kill+1)
			}
			cut += n
		}
		p := startWorker(t, config, tally.line)
		dead := map[string]int{}
		deliveries := w.consume(t, dlq, 1000)
		eventually(t, 3*time.Minute, func() error {
			drainInto(t, deliveries, dead)
			if missing := tally.missing(orders, dead); len(missing) > 0 {
				return fmt.Errorf("%d of %d orders were neither handled nor parked: %s …", len(missing), orders, strings.Join(missing[:min(10, len(missing))], " "))
			}
			if n := w.depth(t, work); n > 0 {
				return fmt.Errorf("%d orders are left", n)
			}
			return nil
		})
		p.stop(t)
		drainInto(t, deliveries, dead)
		handledTwice, parkedTwice := 0, 0
		for i := range orders {
			id := fmt.Sprint(i)
			handledTwice += max(0, tally.handled[id]-1)
			parkedTwice += max(0, dead[id]-1)
			if kind := kindOf(i); (kind == kindPoison || kind == kindRefused) != (dead[id] > 0) {
				t.Errorf("order %s (%q): %d copies in the DLQ, handled %d times", id, kind, dead[id], tally.handled[id])
			}
		}
		t.Logf("%d orders, 5 kills, %d handlers cut off: %d handled again, %d parked again", orders, cut, handledTwice, parkedTwice)
	})
}

// kindOf says what is special about an order: some are slow, poison, refused or flaky.
func kindOf(i int) string {
	switch i % 300 {
	case 0, 100, 200:
		return kindSlow
	case 50:
		return kindPoison
	case 150:
		return kindRefused
	case 250:
		return kindFlaky
	}
	return ""
}

func mixedOrders(n int) []amqp.Publishing {
	out := numbered(n)
	for i := range out {
		out[i].Type = kindOf(i)
	}
	return out
}

// drainInto takes what is there and counts it by message id.
func drainInto(tb testing.TB, deliveries <-chan amqp.Delivery, count map[string]int) {
	tb.Helper()
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				tb.Fatal("the consumer was ended")
			}
			count[d.MessageId]++
			if err := d.Ack(false); err != nil {
				tb.Fatal(err)
			}
		default:
			return
		}
	}
}

func await[T any](tb testing.TB, signal <-chan T, within time.Duration) T {
	tb.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case v := <-signal:
		return v
	case <-timer.C:
		tb.Fatalf("nothing within %v", within)
	}
	panic("unreachable")
}

// The consumer parks a message that kills its workers before the broker's limit is reached: also the one
// that gets stuck for ever on RabbitMQ 3.x, and also where no limit was ever set.
func TestTheConsumerParksACrashLoop(t *testing.T) {
	t.Parallel()
	eachQuorum(t, func(t *testing.T, b *brokertest.Broker) {
		for name, limit := range map[string]any{"limit 3 of somebody else": int64(3), "no limit": int64(1_000_000_000)} {
			for _, foreign := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, through another delay queue %v", name, foreign), func(t *testing.T) {
					t.Parallel()
					w := limited(t, b, limit)
					m := amqp.Publishing{MessageId: "m", Type: kindCrash}
					if foreign {
						w.foreignDelay(t, m)
					} else {
						w.publish(t, exchange, key, m)
					}
					crashUntilParked(t, w, 3)
				})
			}
		}
	})
}

// crashUntilParked starts workers until one of them does not die, and checks what is in the DLQ then.
func crashUntilParked(t *testing.T, w *world, limit int) {
	t.Helper()
	tally := newTally()
	deliveries := w.consume(t, dlq, 10)
	for range limit {
		p := startWorker(t, workerConfig{URL: w.url, Ladder: w.ladder, Concurrency: 1, CrashLimit: limit}, tally.line)
		if err := p.end(); err == nil {
			t.Fatal("the worker ended without a crash")
		}
	}
	p := startWorker(t, workerConfig{URL: w.url, Ladder: w.ladder, Concurrency: 1, CrashLimit: limit}, tally.line)
	parked := next(t, deliveries, 20*time.Second)
	p.stop(t)
	quiet(t, 500*time.Millisecond, deliveries)
	if n := tally.begun["m"]; n != limit {
		t.Errorf("%d handler calls, want %d", n, limit)
	}
	f, found, err := retry.ReadFailure(rabbit.Plain(parked.Headers))
	if err != nil || !found || f.Reason != retry.ReasonCrashed || f.SourceQueue != work || f.SourceRoutingKey != key {
		t.Errorf("ReadFailure() = %+v, %v, %v; want one that crashed", f, found, err)
	}
	if w.depth(t, work) != 0 {
		t.Error("the message is in the work queue, too")
	}
}
