package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/retry"
)

// shapes are the ladders that a queue goes through, one after the other.
var shapes = []struct{ name, spec string }{
	{"three tiers", delays("200ms", "800ms", "1500ms")},
	{"five tiers", delays("100ms", "800ms", "400ms", "1200ms", "300ms")},
	{"two tiers", delays("300ms", "900ms")},
	{"two tiers with jitter", "{delays: [300ms, 900ms], jitter: 20%}"},
	{"two tiers without jitter", delays("300ms", "900ms")},
	{"none", ""},
	{"one tier", delays("500ms")},
}

// climb is a consumer that rejects everything, and what it saw: by message id, the attempts.
type climb struct {
	mu       sync.Mutex
	attempts map[string][]int
}

// A ladder is changed under messages in every tier, and the change is killed in the middle: each message
// ends in the DLQ once, and no attempt happens twice or is left out.
func TestALadderIsChangedUnderLoad(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, shapes[0].spec))
		c := &climb{attempts: map[string][]int{}}
		c.start(t, w)
		feed, stop := w.feed(t)
		for i, shape := range shapes[1:] {
			w.awaitEveryTier(t)
			file := yaml(queueType, shape.spec)
			kills := killedApplies(t, w.url, file)
			if r := runProvision(t, w.url, file, "apply"); r.code != 0 {
				t.Fatalf("apply %q: exit %d\n%s", shape.name, r.code, r.stderr)
			}
			t.Logf("from %q to %q: apply was killed after %v", shapes[i].name, shape.name, kills)
			w.topo = parse(t, file)
			var err error
			if w.ladder, err = w.topo.Ladder(work); err != nil {
				t.Fatal(err)
			}
			if report := w.apply(t); report.Changed() {
				t.Errorf("%q: an apply after the apply reports changes: %v", shape.name, report.Changes)
			}
		}
		stop()
		published := <-feed
		c.check(t, w, published)
	})
}

// start rejects everything from the work queue.
func (c *climb) start(tb testing.TB, w *world) {
	tb.Helper()
	deliveries := w.consume(tb, work, 200)
	// Stamps depend on the queue's name only.
	names := retry.Ladder{Queue: work}
	go func() {
		for d := range deliveries {
			c.mu.Lock()
			c.attempts[d.MessageId] = append(c.attempts[d.MessageId], names.Attempt(d.Exchange, d.RoutingKey))
			c.mu.Unlock()
			if d.Nack(false, false) != nil {
				return
			}
		}
	}()
}

// feed publishes orders, a few at a time, until it is stopped; then it sends how many there were.
func (w *world) feed(tb testing.TB) (total <-chan int, stop func()) {
	tb.Helper()
	ch := brokertest.Dial(tb, w.url)
	if err := ch.Confirm(false); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, ended := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		n := 0
		defer func() { out <- n }()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			m := amqp.Publishing{MessageId: fmt.Sprint(n), DeliveryMode: amqp.Persistent}
			confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), exchange, key, true, false, m)
			if err != nil {
				tb.Error(err)
				return
			}
			if !confirm.Wait() {
				tb.Error("an order was not confirmed")
				return
			}
			n++
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	tb.Cleanup(stop)
	return out, stop
}

// awaitEveryTier waits until there are messages in each tier at the same time.
func (w *world) awaitEveryTier(tb testing.TB) {
	tb.Helper()
	eventually(tb, 20*time.Second, func() error {
		for i := range w.ladder.Tiers {
			n := 0
			for _, q := range w.ladder.TierQueues(i + 1) {
				n += w.depth(tb, q.Name)
			}
			if n == 0 {
				return fmt.Errorf("tier %d is empty", i+1)
			}
		}
		return nil
	})
}

// killedApplies runs an apply three times and kills it, each time after another part of the time that it
// takes. It returns the times.
func killedApplies(tb testing.TB, url, file string) []time.Duration {
	tb.Helper()
	var out []time.Duration
	for range 3 {
		after := time.Duration(20+rand.IntN(400)) * time.Millisecond
		ctx, cancel := context.WithTimeout(tb.Context(), after)
		cmd, _, _ := provisionCommand(ctx, tb, url, file, "apply")
		// CommandContext kills with SIGKILL.
		if err := cmd.Run(); err != nil {
			out = append(out, after.Round(time.Millisecond))
		}
		cancel()
	}
	return out
}

// check waits until all messages are in the DLQ and checks what became of each.
func (c *climb) check(t *testing.T, w *world, published int) {
	t.Helper()
	dead := map[string]int{}
	for _, d := range w.take(t, dlq, published, time.Minute) {
		dead[d.MessageId]++
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lengths := map[int]int{}
	for i := range published {
		id := fmt.Sprint(i)
		if dead[id] != 1 {
			t.Errorf("message %s is in the DLQ %d times", id, dead[id])
		}
		got := c.attempts[id]
		lengths[len(got)]++
		want := make([]int, len(got))
		for i := range want {
			want[i] = i + 1
		}
		if !slices.Equal(got, want) || len(got) < 1 || len(got) > 6 {
			t.Errorf("message %s: attempts %v, want 1 to 6 in order", id, got)
		}
	}
	t.Logf("%d messages, by number of attempts: %v", published, lengths)
}
