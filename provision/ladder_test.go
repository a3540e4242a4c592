package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

const live = `
version: 1
name: orders
defaults: {type: TYPE}
queues:
  q: {retry: {delays: [DELAYS], jitter: JITTER}}
`

func liveLadder(t testing.TB, typ, delays, jitter string) *topology.Topology {
	t.Helper()
	return parse(t, strings.NewReplacer("TYPE", typ, "DELAYS", delays, "JITTER", jitter).Replace(live))
}

// traffic rejects everything that comes to the work queue, and remembers.
type traffic struct {
	mu sync.Mutex
	// attempts are those that the stamps say, in order, by message.
	attempts map[string][]int
	parked   map[string]int
	// arrived gets a value when a message arrives in the dead-letter queue.
	arrived chan struct{}
}

// rejectAll consumes from q and q.dlq until the test ends.
func rejectAll(t testing.TB, url string) *traffic {
	t.Helper()
	tr := &traffic{attempts: map[string][]int{}, parked: map[string]int{}, arrived: make(chan struct{}, 1<<14)}
	work, dead := brokertest.Dial(t, url), brokertest.Dial(t, url)
	if err := work.Qos(50, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := work.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	parked, err := dead.Consume("q.dlq", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := retry.Ladder{Queue: "q"}
	go func() {
		for d := range deliveries {
			tr.mu.Lock()
			tr.attempts[d.MessageId] = append(tr.attempts[d.MessageId], names.Attempt(d.Exchange, d.RoutingKey))
			tr.mu.Unlock()
			_ = d.Nack(false, false) // the channel's end is the test's end
		}
	}()
	go func() {
		for d := range parked {
			tr.mu.Lock()
			tr.parked[d.MessageId]++
			tr.mu.Unlock()
			tr.arrived <- struct{}{}
		}
	}()
	return tr
}

// feed publishes a message every few milliseconds, so that there are some in every tier, until stop is
// closed; then it sends how many there were.
func feed(t testing.TB, url string, stop <-chan struct{}) <-chan int {
	t.Helper()
	ch := brokertest.Dial(t, url)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	published := make(chan int, 1)
	go func() {
		tick := time.NewTicker(6 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				published <- i
				return
			case <-tick.C:
			}
			c, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp.Publishing{MessageId: fmt.Sprint(i), DeliveryMode: amqp.Persistent})
			if err != nil || !c.Wait() {
				t.Errorf("message %d is not confirmed: %v", i, err)
			}
		}
	}()
	return published
}

// One set of bindings alone, changed under load, made up to 831 copies of 60 messages, or up to 20
// handler calls instead of 6.
func TestALadderIsChangedUnderItsMessages(t *testing.T) {
	t.Parallel()
	const first = "200ms, 300ms, 400ms"
	changes := []struct {
		delays, jitter string
		// crash is the step in which that apply is killed, or "", and at before which of its changes.
		crash string
		at    int
	}{
		{"200ms, 250ms, 300ms, 350ms, 400ms", "none", "", 0},
		{"250ms, 350ms", "none", "", 0},
		{first, "20%", "", 0},
		// Slots change behind an exchange that stays.
		{"210ms, 330ms, 440ms", "{band: 30%, slots: 3}", "", 0},
		{first, "none", "", 0},
		// Killed in either set, and again the same.
		{"210ms, 250ms, 300ms, 350ms", "none", stepSwitchIn + "a", 3},
		{"210ms, 250ms, 300ms, 350ms", "none", stepSwitchOut + "b", 1},
		{"210ms, 250ms, 300ms, 350ms", "none", "", 0},
		// Killed, then another, killed while it finishes the first, then a third.
		{"220ms, 310ms, 410ms, 420ms, 430ms", "none", stepSwitchIn + "b", 2},
		{"230ms, 320ms", "none", prefixFinishing + stepSwitchIn + "b", 5},
		{"240ms, 330ms, 430ms", "20%", "", 0},
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, typ string) {
		url := b.VHost(t)
		if _, err := Apply(t.Context(), onVHost(url), liveLadder(t, typ, first, "none")); err != nil {
			t.Fatal(err)
		}
		tr := rejectAll(t, url)
		stop := make(chan struct{})
		published := feed(t, url, stop)
		seen := 0
		for _, c := range changes {
			seen = tr.awaitMessages(t, seen+50)
			o := onVHost(url)
			o.hook = killIn(c.crash, c.at)
			_, err := Apply(t.Context(), o, liveLadder(t, typ, c.delays, c.jitter))
			if err != nil && !errors.Is(err, errCrash) || (err != nil) != (c.crash != "") {
				t.Fatalf("apply %s: %v", c.delays, err)
			}
		}
		tr.awaitMessages(t, seen+50)
		close(stop)
		tr.check(t, <-published)
	})
}

// killIn returns a hook that ends a run before the nth change in a step, and never for step "".
func killIn(in string, n int) func(string) error {
	var mu sync.Mutex
	return func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if in == "" || step != in {
			return nil
		}
		if n--; n < 0 {
			return errCrash
		}
		return nil
	}
}

// awaitMessages waits until at least n messages have been rejected once, and returns how many have.
func (tr *traffic) awaitMessages(t testing.TB, n int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		tr.mu.Lock()
		seen := len(tr.attempts)
		tr.mu.Unlock()
		if seen >= n {
			return seen
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("only %d of %d messages came", seen, n)
		}
	}
}

// check waits until every message is in the dead-letter queue and then looks for copies and for
// attempts that should not have been.
func (tr *traffic) check(t testing.TB, published int) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for range published {
		select {
		case <-tr.arrived:
		case <-limit:
			tr.mu.Lock()
			defer tr.mu.Unlock()
			t.Fatalf("%d of %d messages are in the dead-letter queue", len(tr.parked), published)
		}
	}
	// A copy would still be on its way: longer than the longest tier.
	select {
	case <-tr.arrived:
		t.Error("one more came than was published")
	case <-time.After(1500 * time.Millisecond):
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	t.Logf("%d messages", published)
	if len(tr.parked) != published {
		t.Errorf("%d of %d messages are in the dead-letter queue", len(tr.parked), published)
	}
	for id, n := range tr.parked {
		if n != 1 {
			t.Errorf("message %s is %d times in the dead-letter queue", id, n)
		}
		// Ladders of two to five tiers.
		attempts := tr.attempts[id]
		if len(attempts) < 3 || len(attempts) > 6 {
			t.Errorf("message %s had attempts %v, want 3 to 6", id, attempts)
		}
		for i, a := range attempts {
			if a != i+1 {
				t.Errorf("message %s had attempts %v, want each once and in order", id, attempts)
				break
			}
		}
	}
}

// The record goes with its messages where definitions are moved to another broker without them, or
// somebody purges the queue.
func TestAChangedLadderNeedsTheRecord(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		const typ = "classic"
		was, is := liveLadder(t, typ, "1s, 2s", "none"), liveLadder(t, typ, "1s, 3s", "20%")
		for _, tc := range []struct {
			name string
			lose func(ch *amqp.Channel) error
			say  string
		}{
			{"no queue", func(ch *amqp.Channel) error {
				_, err := ch.QueueDelete("rmqkit.state.orders", false, false, false)
				return err
			}, `queue "rmqkit.state.orders" does not exist`},
			{"an empty queue", func(ch *amqp.Channel) error {
				_, err := ch.QueuePurge("rmqkit.state.orders", false)
				return err
			}, `queue "rmqkit.state.orders" is empty`},
			{"something else in it", func(ch *amqp.Channel) error {
				return ch.Publish("rmqkit.state.orders", "", true, false, amqp.Publishing{Body: []byte("hello")})
			}, `a message in it cannot be read`},
		} {
			t.Run(tc.name, func(t *testing.T) {
				url := b.VHost(t)
				if _, err := Apply(t.Context(), onVHost(url), was); err != nil {
					t.Fatal(err)
				}
				if err := tc.lose(brokertest.Dial(t, url)); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, b, url)
				_, err := Apply(t.Context(), onVHost(url), is)
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.say) || !strings.Contains(err.Error(), "q.retry.1.jitter") {
					t.Fatalf("Apply() error = %v; want a refusal that says %q", err, tc.say)
				}
				if after := snapshot(t, b, url); len(after.Bindings) != len(before.Bindings) || len(after.Queues) != len(before.Queues) {
					t.Error("apply was refused and changed something")
				}
				// What it says to do: the old one once more, and then the new one.
				if _, err := Apply(t.Context(), onVHost(url), was); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--adopt-ladders") {
					t.Fatalf("Apply() of the old ladder, without saying that it is: error = %v", err)
				}
				o := onVHost(url)
				o.AdoptLadders = true
				report, err := Apply(t.Context(), o, was)
				if err != nil || len(report.Warnings) != 1 {
					t.Fatalf("Apply() of the old ladder = %+v, %v; want one warning", report, err)
				}
				if tc.name == "something else in it" {
					return // it stays until somebody takes it out
				}
				if _, err := Apply(t.Context(), onVHost(url), is); err != nil {
					t.Fatal(err)
				}
				if again, err := Preview(t.Context(), onVHost(url), is); err != nil || again.Changed() {
					t.Errorf("Preview() = %+v, %v; want no changes", again, err)
				}
			})
		}
	})
}

// All tiers of a ladder that was cut short are there, and so are those of an earlier one: with the bindings
// of both, a stamp would lead to a tier and to the DLQ.
func TestALadderCutShortIsNotTakenForTheSame(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		if _, err := Apply(t.Context(), onVHost(url), liveLadder(t, "quorum", "1s, 2s, 3s", "none")); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, b, url)
		renamed := liveLadder(t, "quorum", "1s, 2s", "none")
		renamed.Name = "other"
		if _, err := Apply(t.Context(), onVHost(url), renamed); !errors.Is(err, ErrRefused) {
			t.Fatalf("Apply() error = %v; want a refusal", err)
		}
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("apply was refused and changed (-before +after):\n%s", diff)
		}
	})
}

func TestANewerRecordIsLeftAlone(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		topo := liveLadder(t, string(retry.Quorum), "1s", "none")
		if _, err := Apply(t.Context(), onVHost(url), topo); err != nil {
			t.Fatal(err)
		}
		ch := brokertest.Dial(t, url)
		err := ch.Publish("rmqkit.state.orders", "", true, false, amqp.Publishing{
			Headers: amqp.Table{serialHeader: int64(9)}, Body: []byte(`{"format":2,"serial":9}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err = Apply(t.Context(), onVHost(url), topo)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "was written by a newer version of rmqkit (format 2") {
				t.Errorf("Apply() error = %v", err)
			}
		}
		if n := recordsIn(t, b, url); n != 2 {
			t.Errorf("%d messages in the state queue, want both", n)
		}
	})
}
