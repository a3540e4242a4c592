package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/retry"
)

// history is what became of the messages of one run. Others, left by an earlier run, are none of its
// business.
type history struct {
	// done is closed when every message is handled or parked.
	done chan struct{}

	mu     sync.Mutex
	open   int
	orders map[string]*story
	tiers  []tier
}

// story is one order's.
type story struct {
	attempts int
	// waits is since when it has been in a tier.
	waits time.Time
	// end is what became of it, once that is known.
	end *consumer.Settled
}

// tier is what was seen of one tier: how many waited there, and how long.
type tier struct {
	waited            int
	shortest, longest time.Duration
}

func newHistory(messages []amqp.Publishing, tiers int) *history {
	h := &history{
		done: make(chan struct{}), open: len(messages),
		orders: make(map[string]*story, len(messages)), tiers: make([]tier, tiers),
	}
	for _, m := range messages {
		h.orders[m.MessageId] = &story{}
	}
	return h
}

// watch is a handler that sees when messages come back from a tier.
func (h *history) watch(next consumer.Handler) consumer.Handler {
	return func(ctx context.Context, m *consumer.Message) error {
		h.arrived(m)
		return next(ctx, m)
	}
}

func (h *history) arrived(m *consumer.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.orders[m.ID]
	if s == nil || m.Attempt <= s.attempts {
		return
	}
	s.attempts = m.Attempt
	if i := m.Attempt - 2; !s.waits.IsZero() && i >= 0 && i < len(h.tiers) {
		t, d := &h.tiers[i], time.Since(s.waits)
		if t.waited == 0 || d < t.shortest {
			t.shortest = d
		}
		t.longest = max(t.longest, d)
		t.waited++
	}
}

// settled is the worker's Observe.
func (h *history) settled(o consumer.Settled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.orders[o.MessageID]
	if s == nil || s.end != nil {
		return
	}
	switch o.Verdict {
	case consumer.Retried:
		s.waits = time.Now()
	case consumer.Acked, consumer.Parked, consumer.Discarded:
		s.end = &o
		if h.open--; h.open == 0 {
			close(h.done)
		}
	}
}

// print shows the history as a table.
func (h *history) print(w io.Writer, ladder retry.Ladder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids, parked []string
	handled, later := 0, 0
	for id, s := range h.orders {
		ids = append(ids, id)
		switch {
		case s.end == nil:
		case s.end.Verdict == consumer.Parked:
			parked = append(parked, id)
		default:
			handled++
			if s.attempts > 1 {
				later++
			}
		}
	}
	slices.Sort(parked)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "\nORDERS\npublished\t%d\t\nhandled\t%d\t%d at the first attempt, %d after retries\n", len(ids), handled, handled-later, later)
	for i, seen := range h.tiers {
		shortest, longest := ladder.Delays(i + 1)
		told := retry.Spell(shortest)
		if longest > shortest {
			told += " to " + retry.Spell(longest)
		}
		fmt.Fprintf(t, "retried, tier %d\t%d\twaited %v to %v; the tier is %s\n", i+1, seen.waited,
			seen.shortest.Round(time.Millisecond), seen.longest.Round(time.Millisecond), told)
	}
	fmt.Fprintf(t, "parked\t%d\tin %s\n", len(parked), ladder.DeadLetterQueue())
	_ = t.Flush()

	t = tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\nPARKED\tREASON\tATTEMPTS\tCATEGORY\tERROR")
	for _, id := range parked {
		s := h.orders[id]
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%v\n", id, s.end.Reason, s.end.Attempt, s.end.Category, s.end.Err)
	}
	_ = t.Flush()
}
