package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// late is by how much the slowest of a hundred retries may be late. On an idle machine it is 50 ms.
const late = 250 * time.Millisecond

// hops is how often a retried message passes through a queue or a consumer, from the end of one handler
// call to the begin of the next: a busy machine makes it late at each. See [world.pulse].
const hops = 4

// call is one handler call.
type call struct {
	attempt, attempts    int
	exchange, routingKey string
	first                time.Time
	begin, end           time.Time
}

// calls records handler calls by message id.
type calls struct {
	mu   sync.Mutex
	byID map[string][]call
}

func (c *calls) add(id string, x call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[id] = append(c.byID[id], x)
}

// This test measures time, so it does not run beside the others (a test that is not parallel comes
// first), and one broker is measured after the other.
//
// A message that is rejected until the end reaches the handler once and once after each tier, never
// early, with its own exchange and routing key, and then lies in the DLQ with all the evidence.
func TestTheLadderKeepsItsTimes(t *testing.T) {
	brokertest.EachVersionInTurn(t, func(t *testing.T, b *brokertest.Broker) {
		for name, spec := range map[string]string{
			"plain":  delays("200ms", "600ms", "900ms"),
			"jitter": "{delays: [200ms, 600ms, 900ms], jitter: 20%}",
			"none":   "",
		} {
			t.Run(name, func(t *testing.T) {
				for _, queueType := range brokertest.QueueTypes {
					t.Run(queueType, func(t *testing.T) {
						t.Parallel()
						keepsItsTimes(t, newWorld(t, b, yaml(queueType, spec)))
					})
				}
			})
		}
	})
}

// keepsItsTimes measures up to three times: other work on the machine delays everything, and a ladder
// that is late by itself is late each time. All else has to hold each time.
func keepsItsTimes(t *testing.T, w *world) {
	t.Helper()
	var late string
	for range 3 {
		if late = keepsItsTimesOnce(t, w); late == "" || t.Failed() {
			return
		}
		t.Logf("measured again: %s", late)
	}
	t.Error(late)
}

// keepsItsTimesOnce returns what was late, or "".
func keepsItsTimesOnce(t *testing.T, w *world) (late string) {
	t.Helper()
	const orders = 100
	seen := calls{byID: map[string][]call{}}
	outcomes := make(chan consumer.Settled, 10*orders)
	_, stop := w.run(t, consumer.Config{
		// Nothing waits for a handler: the first ones are busy with parking when the last ones come back.
		Concurrency: orders,
		Observe:     func(s consumer.Settled) { outcomes <- s },
		Handler: func(_ context.Context, m *consumer.Message) error {
			begin := time.Now()
			seen.add(m.ID, call{m.Attempt, m.Attempts, m.Exchange, m.RoutingKey, m.FirstFailure, begin, time.Now()})
			return consumer.Categorize(fmt.Errorf("charge card: %w", errRefused), retry.CategoryDependency)
		},
	})
	pulse := w.pulse(t)
	defer pulse()
	published := time.Now()
	w.publish(t, exchange, key, numbered(orders)...)
	parked := w.take(t, dlq, orders, 30*time.Second)
	stop()
	slowest := pulse()
	close(outcomes)
	done := time.Now()

	n := len(w.ladder.Tiers) + 1
	waits := make([][]time.Duration, n-1)
	for id, list := range seen.byID {
		for i, c := range list {
			want := call{attempt: i + 1, attempts: n, exchange: exchange, routingKey: key}
			if diff := cmp.Diff(want, c, cmp.AllowUnexported(call{}), cmpopts.IgnoreFields(call{}, "begin", "end", "first")); diff != "" {
				t.Errorf("message %s, call %d mismatch (-want +got):\n%s", id, i+1, diff)
			}
			if i > 0 && i < n {
				waits[i-1] = append(waits[i-1], c.begin.Sub(list[i-1].end))
			}
		}
		if len(list) != n {
			t.Errorf("message %s: %d handler calls, want %d", id, len(list), n)
		}
	}
	for i, list := range waits {
		late += checkWaits(t, w.ladder, i+1, list, hops*slowest)
	}
	ids := map[string]bool{}
	for _, d := range parked {
		calls := seen.byID[d.MessageId]
		if len(calls) == 0 {
			t.Errorf("message %q is in the DLQ and no handler had it", d.MessageId)
			continue
		}
		ids[checkEvidence(t, d, n, published, calls[len(calls)-1].end, done)] = true
	}
	if len(ids) != orders {
		t.Errorf("%d different dlq.id on %d messages", len(ids), orders)
	}
	verdicts := map[consumer.Verdict]int{}
	for s := range outcomes {
		verdicts[s.Verdict]++
	}
	want := map[consumer.Verdict]int{consumer.Parked: orders}
	if n > 1 {
		want[consumer.Retried] = (n - 1) * orders
	}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("outcomes mismatch (-want +got):\n%s", diff)
	}
	return late
}

var errRefused = errors.New("refused")

// pulse sends a message through a plain queue of the same broker, again and again, until the returned
// function is called, which returns the longest time that one was under way: what the machine is busy
// with beside this test shows there, and nothing of the ladder does.
func (w *world) pulse(tb testing.TB) (stop func() (slowest time.Duration)) {
	tb.Helper()
	ch := brokertest.Dial(tb, w.url)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		tb.Fatal(err)
	}
	deliveries, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	slowest := make(chan time.Duration, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var out time.Duration
		for {
			begin := time.Now()
			if err := ch.PublishWithContext(ctx, "", q.Name, false, false, amqp.Publishing{}); err == nil {
				<-deliveries
				out = max(out, time.Since(begin))
			}
			select {
			case <-ctx.Done():
				slowest <- out
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceValue(func() time.Duration {
		cancel()
		return <-slowest
	})
}

// checkWaits checks how long messages were away in a tier, and returns what was late, or "". busy is for
// how much of it the machine accounts.
func checkWaits(t *testing.T, l retry.Ladder, tier int, waits []time.Duration, busy time.Duration) (tooLate string) {
	t.Helper()
	slices.Sort(waits)
	shortest, longest := l.Delays(tier)
	p99 := waits[len(waits)*99/100-1]
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	t.Logf("tier %d, %v to %v: first back after %v, p99 %v, last %v; the machine accounts for %v", tier, shortest, longest,
		ms(waits[0]), ms(p99), ms(waits[len(waits)-1]), ms(busy))
	if waits[0] < shortest {
		t.Errorf("tier %d: a message was back after %v, want %v at least", tier, waits[0], shortest)
	}
	if p99 > longest+late+busy {
		tooLate = fmt.Sprintf("tier %d: p99 is %v, want %v + %v + %v at most. ", tier, p99, longest, late, busy)
	}
	if slots := len(l.Tiers[tier-1].Slots); slots > 1 {
		// A hundred messages over five slots: a slot gets none once in 5e9.
		if spread := waits[len(waits)-1] - waits[0]; spread < (longest-shortest)*3/4 {
			t.Errorf("tier %d: all messages came back within %v of a band of %v", tier, spread, longest-shortest)
		}
	}
	return tooLate
}

// checkEvidence checks every header of a message that was parked after its last attempt, and returns its
// dlq.id.
func checkEvidence(t *testing.T, d amqp.Delivery, attempts int, published, last, done time.Time) string {
	t.Helper()
	headers := rabbit.Plain(d.Headers)
	f, found, err := retry.ReadFailure(headers)
	if err != nil || !found {
		t.Fatalf("ReadFailure() = %v, %v", found, err)
	}
	want := retry.Failure{
		ID: f.ID, SourceQueue: work, SourceExchange: exchange, SourceRoutingKey: key,
		ConsumerName: "integration", ConsumerVersion: "v0", Attempts: int64(attempts),
		FirstFailure: f.FirstFailure, LastFailure: f.LastFailure,
		Category: retry.CategoryDependency, Class: "*errors.errorString", Message: "charge card: refused", Reason: retry.ReasonExhausted,
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("evidence of %q mismatch (-want +got):\n%s", d.MessageId, diff)
	}
	for name, typ := range map[string]any{
		retry.HeaderAttempts: int64(0), retry.HeaderFirstFailure: int64(0), retry.HeaderLastFailure: int64(0),
		retry.HeaderID: "", retry.HeaderSourceExchange: "", retry.HeaderErrorMessage: "",
	} {
		if got := fmt.Sprintf("%T", headers[name]); got != fmt.Sprintf("%T", typ) {
			t.Errorf("header %s has type %s, want %T", name, got, typ)
		}
	}
	if f.ID == "" || d.DeliveryMode != amqp.Persistent {
		t.Errorf("message %q: id %q, delivery mode %d", d.MessageId, f.ID, d.DeliveryMode)
	}
	// The broker tells the time of the first death in whole seconds.
	if f.FirstFailure.Before(published.Add(-time.Second)) || f.FirstFailure.After(f.LastFailure) {
		t.Errorf("message %q: first failure at %v, published at %v, last failure at %v", d.MessageId, f.FirstFailure, published, f.LastFailure)
	}
	if f.LastFailure.Before(last.Truncate(time.Millisecond)) || f.LastFailure.After(done) {
		t.Errorf("message %q: last failure at %v, want %v to %v", d.MessageId, f.LastFailure, last, done)
	}
	return f.ID
}
