package topology

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Always is a number of failures that never ends.
const Always = math.MaxInt

// MaxFailures is the largest number of failures that [Router.Explain] follows, [Always] apart.
const MaxFailures = 1000

// Question is what [Router.Explain] answers: what becomes of a message whose handling fails. The zero
// value of all but Publish asks where a message goes that every consumer handles at once.
type Question struct {
	Publish Publish `json:"publish"`
	// Expiration is the message's own TTL. Zero means none.
	Expiration time.Duration `json:"-"`
	// Queue is where handling fails. Empty means, for each copy, the first queue that has no TTL of its
	// own: one with a TTL is taken for a delay that nobody consumes. If Expiration is set, nobody does in the
	// former either, and it runs out there.
	Queue string `json:"queue,omitempty"`
	// Failures is how often handling fails before it succeeds; it may be [Always].
	Failures int `json:"-"`
	// Reason is what failing means. Empty means [DeathRejected].
	Reason DeathReason `json:"reason,omitempty"`
	// Version is the broker's, such as "3.10" or "4". Empty means the newest that is known.
	Version string `json:"version,omitempty"`
}

// Span is a time that lies between two. As JSON it is in whole milliseconds.
type Span struct {
	Min, Max time.Duration
}

type spanJSON struct {
	Min int64 `json:"min_ms"`
	Max int64 `json:"max_ms"`
}

// MarshalJSON writes milliseconds.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(spanJSON{s.Min.Milliseconds(), s.Max.Milliseconds()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Span) UnmarshalJSON(data []byte) error {
	var x spanJSON
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	s.Min, s.Max = time.Duration(x.Min)*time.Millisecond, time.Duration(x.Max)*time.Millisecond
	return nil
}

func (s Span) plus(o Span) Span  { return Span{s.Min + o.Min, s.Max + o.Max} }
func (s Span) minus(o Span) Span { return Span{s.Min - o.Min, s.Max - o.Max} }

// Fate is what becomes of a copy of a message in a queue. The values are wire format.
type Fate string

// The fates.
const (
	// FateRests: nothing moves it; it is there for whoever consumes.
	FateRests Fate = "rests"
	// FateHandled: the consumer that failed before succeeds.
	FateHandled Fate = "handled"
	// FateDies: it is dead-lettered into other queues.
	FateDies Fate = "dead-lettered"
	// FateDiscarded: the queue has no dead-letter exchange, and the broker deletes the message.
	FateDiscarded Fate = "discarded"
	// FateLost: it is dead-lettered to where no queue takes it, and the broker drops it silently.
	FateLost Fate = "lost"
	// FateHeld: the same, but dead-lettering is at-least-once, so that the queue keeps it until there is a
	// route, and what dies behind it waits.
	FateHeld Fate = "held"
	// FateRepeats: all goes on as it did after the copy had come to this queue before, for ever.
	FateRepeats Fate = "repeats"
	// FateCut: the answer has grown too large and ends here.
	FateCut Fate = "cut"
)

// Delivery is what the broker promises about a hop. The values are those of x-dead-letter-strategy.
type Delivery string

// The promises.
const (
	AtLeastOnce Delivery = "at-least-once"
	AtMostOnce  Delivery = "at-most-once"
)

// Copy is one copy of the message in one queue, and what becomes of it.
type Copy struct {
	Queue string `json:"queue"`
	// Slots are queues that differ in their TTL only and of which the message is in one, that of the
	// shortest TTL first. Queue is the first of them. Picker is the exchange that picks.
	Slots  []string `json:"slots,omitempty"`
	Picker string   `json:"picker,omitempty"`
	// OneOf names the exchanges that may have passed this queue over: the copy is possible, not certain.
	OneOf []string `json:"one_of,omitempty"`
	// Exchange and RoutingKeys are what a consumer or the next dead-lettering sees; Via is the way.
	Exchange    string   `json:"exchange"`
	RoutingKeys []string `json:"routing_keys"`
	Via         []Hop    `json:"via"`
	// After is when it arrives, since it was published.
	After Span `json:"after"`
	// Attempt counts the deliveries of this copy to the consumer that fails. 0 means no such consumer.
	Attempt int  `json:"attempt,omitempty"`
	Fate    Fate `json:"fate"`
	// Wait is how long it is in the queue before it expires. Period is that of a copy that repeats.
	Wait   *Span `json:"wait,omitempty"`
	Period *Span `json:"period,omitempty"`
	// Reason is why it dies, DeadLetter where it goes then and Delivery with which promise.
	Reason     DeathReason `json:"reason,omitempty"`
	DeadLetter *DeadLetter `json:"dead_letter,omitempty"`
	// Next are the copies that come of its death.
	Next []Copy `json:"next,omitempty"`
	// Note says why it ends as it does, where that is not plain.
	Note string `json:"note,omitempty"`
}

// DeadLetter is a dead-lettering.
type DeadLetter struct {
	Exchange    string   `json:"exchange"`
	RoutingKeys []string `json:"routing_keys"`
	Delivery    Delivery `json:"delivery"`
	// Cycles are queues that the routing leads to and that the broker leaves out, silently: a copy would
	// have come back to them without a rejection in between.
	Cycles []string `json:"cycles,omitempty"`
}

// Explanation is the answer to a [Question]. As JSON it has a stable form.
type Explanation struct {
	FormatVersion int `json:"format_version"`
	Question
	// ExpirationMS and MaxFailures are the question's, the latter absent for [Always].
	ExpirationMS int64 `json:"expiration_ms,omitempty"`
	FailureCount *int  `json:"failures,omitempty"`
	// Copies are those that the publish makes. None means that the message reaches no queue: the broker
	// returns a mandatory one and drops any other.
	Copies []Copy `json:"copies"`
	// MayReachNone says that it depends on what an exchange picks whether there is a copy at all.
	MayReachNone bool `json:"may_reach_none,omitempty"`
	// Notes are what one should know about the answer as a whole.
	Notes []string `json:"notes,omitempty"`
}

// End is where a copy ends.
type End struct {
	Queue string
	Fate  Fate
	// After is when it arrived there.
	After Span
	// Attempts is how often the consumer that fails has had it.
	Attempts int
	// Certain says that no exchange had a choice that leads elsewhere.
	Certain bool
}

// Ends returns where the copies end, in the order of the tree.
func (e *Explanation) Ends() []End {
	var out []End
	var visit func(cs []Copy, attempts int, certain bool)
	visit = func(cs []Copy, attempts int, certain bool) {
		for _, c := range cs {
			sure, n := certain && len(c.OneOf) == 0, max(attempts, c.Attempt)
			if len(c.Next) > 0 {
				visit(c.Next, n, sure)
				continue
			}
			out = append(out, End{Queue: c.Queue, Fate: c.Fate, After: c.After, Attempts: n, Certain: sure})
		}
	}
	visit(e.Copies, 0, true)
	return out
}

// Explain answers a question about a vhost that holds what m says. See [Router.Explain].
func Explain(m Manifest, q Question) (*Explanation, error) { return NewRouter(m).Explain(q) }

// check fills in what the question leaves open and refuses what has no answer.
func (r *Router) check(q Question) (Question, error) {
	switch q.Reason {
	case "":
		q.Reason = DeathRejected
	case DeathRejected, DeathExpired, DeathMaxLen, DeathDeliveryLimit:
	default:
		return q, fmt.Errorf("reason %q; expected %q, %q, %q or %q", q.Reason, DeathRejected, DeathExpired, DeathMaxLen, DeathDeliveryLimit)
	}
	if q.Version == "" {
		q.Version = newest
	}
	if q.Failures < 0 || q.Failures > MaxFailures && q.Failures != Always {
		return q, fmt.Errorf("%d failures; expected 0 to %d, or always", q.Failures, MaxFailures)
	}
	if q.Expiration < 0 || q.Expiration%time.Millisecond != 0 {
		return q, fmt.Errorf("expiration %v; expected whole milliseconds", q.Expiration)
	}
	if q.Queue == "" {
		return q, nil
	}
	if _, ok := r.queues[q.Queue]; !ok {
		return q, fmt.Errorf("queue %q: %w%s", q.Queue, ErrNoQueue, hint(q.Queue, r.queues))
	}
	return q, nil
}
