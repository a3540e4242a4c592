package retry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// QueueType is the type of a work queue, and so of its tiers and its DLQ. The values are the
// broker's own, as in the x-queue-type argument.
type QueueType string

// The queue types a ladder can be built from.
const (
	Quorum  QueueType = "quorum"
	Classic QueueType = "classic"
)

// Spread is the type of the exchange that picks one of a tier's slots. The values are the broker's
// own exchange types.
type Spread string

// The ways a slot can be picked.
const (
	// SpreadRandom picks any slot. It needs the plugin rabbitmq_random_exchange.
	SpreadRandom Spread = "x-random"
	// SpreadHash picks a slot by a hash of message_id: a publisher that sets none gets no jitter. It
	// needs the plugin rabbitmq_consistent_hash_exchange.
	SpreadHash Spread = "x-consistent-hash"
)

// MaxTiers is the largest number of tiers in a ladder: the stamps up to MaxTiers+1 are always
// bound, so that a message in flight in a longer old ladder ends in the DLQ.
const MaxTiers = 16

// MaxQueueName is the longest name of a laddered queue in bytes. The broker allows 255; the longest
// suffix of a generated name is ".retry.16.4294967295ms.classic".
const MaxQueueName = 225

// MaxDelay is the longest delay of a tier: the broker keeps a TTL of at most 2^32-1 milliseconds.
const MaxDelay = (1<<32 - 1) * time.Millisecond

// Set names one of the two complete sets of ladder bindings. A ladder is changed one set at a time:
// what finds no binding in set A falls through to set B.
type Set string

// The two sets, in the order in which a message meets them and in which they are changed.
const (
	SetA Set = "a"
	SetB Set = "b"
)

// Ladder says how failures of one work queue are retried and where they end. It is the contract
// between what declares the queues and what consumes them: all names and stamps derive from it. The
// zero value is not valid; a ladder without tiers is, and parks every failure at once. A Ladder is
// read-only after it is made and safe for concurrent use.
type Ladder struct {
	// Queue is the name of the work queue.
	Queue string `json:"queue"`
	// Type is the type of the queue, its tiers and its DLQ. Empty means [Quorum].
	Type QueueType `json:"type,omitempty"`
	// Tiers are the delays, first retry first. Empty means no retry.
	Tiers []Tier `json:"tiers,omitempty"`
	// DLQ is the name of the dead-letter queue. Empty means Queue + ".dlq".
	DLQ string `json:"dlq,omitempty"`
}

// Tier is one delay of a ladder.
type Tier struct {
	// Delay is how long a message waits, a whole number of milliseconds.
	Delay time.Duration `json:"delay"`
	// Slots are the delays of the queues that one tier is spread over, ascending. Empty means one
	// queue that waits Delay.
	Slots []time.Duration `json:"slots,omitempty"`
	// Spread picks the slot. It is set exactly when Slots is.
	Spread Spread `json:"spread,omitempty"`
}

// TierQueue is one queue of a tier: its name and how long a message waits in it.
type TierQueue struct {
	Name string
	TTL  time.Duration
}

// Validate reports every reason why the ladder cannot be declared or consumed, joined, or nil.
func (l Ladder) Validate() error {
	var errs []error
	switch {
	case l.Queue == "":
		errs = append(errs, errors.New("ladder has no queue"))
	case len(l.Queue) > MaxQueueName:
		errs = append(errs, fmt.Errorf("queue name has %d bytes; a laddered queue has at most %d", len(l.Queue), MaxQueueName))
	case strings.ContainsAny(l.Queue, "\r\n"):
		errs = append(errs, fmt.Errorf("queue name %q contains a line break, which the broker strips", l.Queue))
	}
	if l.Type != "" && l.Type != Quorum && l.Type != Classic {
		errs = append(errs, fmt.Errorf("queue type %q; expected %q or %q", l.Type, Quorum, Classic))
	}
	if len(l.Tiers) > MaxTiers {
		errs = append(errs, fmt.Errorf("%d tiers; a ladder has at most %d", len(l.Tiers), MaxTiers))
	}
	for i, t := range l.Tiers {
		errs = append(errs, t.validate(i+1))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ladder of queue %q: %w", l.Queue, err)
	}
	return nil
}

func (t Tier) validate(index int) error {
	for _, d := range append([]time.Duration{t.Delay}, t.Slots...) {
		if d < time.Millisecond || d > MaxDelay || d%time.Millisecond != 0 {
			return fmt.Errorf("tier %d waits %v; expected whole milliseconds from 1ms to %v", index, d, MaxDelay)
		}
	}
	switch {
	case len(t.Slots) == 0 && t.Spread != "":
		return fmt.Errorf("tier %d has spread %q but no slots", index, t.Spread)
	case len(t.Slots) > 0 && t.Spread != SpreadRandom && t.Spread != SpreadHash:
		return fmt.Errorf("tier %d has slots and spread %q; expected %q or %q", index, t.Spread, SpreadRandom, SpreadHash)
	}
	return nil
}

// QueueType returns the type of the queues of the ladder, never empty.
func (l Ladder) QueueType() QueueType {
	if l.Type == "" {
		return Quorum
	}
	return l.Type
}

// RetryExchange returns the name of the headers exchange that every death in the work queue meets
// first.
func (l Ladder) RetryExchange() string { return l.Queue + ".retry" }

// LadderExchange returns the name of the direct exchange of set s that routes a stamp to its tier.
func (l Ladder) LadderExchange(s Set) string { return l.Queue + ladderInfix + string(s) }

// FirstExchange returns the name of the fanout exchange of set s that takes a first failure to the
// first tier.
func (l Ladder) FirstExchange(s Set) string { return l.Queue + firstInfix + string(s) }

// ReturnExchange returns the name of the fanout exchange through which tiers give messages back.
func (l Ladder) ReturnExchange() string { return l.Queue + ".return" }

// ParkExchange returns the name of the fanout exchange that leads to the DLQ.
func (l Ladder) ParkExchange() string { return l.Queue + ".park" }

// RedriveExchange returns the name of the fanout exchange through which dead letters are given back to
// the work queue with the routing key they had.
func (l Ladder) RedriveExchange() string { return l.Queue + ".redrive" }

// DeadLetterQueue returns the name of the DLQ, never empty.
func (l Ladder) DeadLetterQueue() string {
	if l.DLQ == "" {
		return l.Queue + ".dlq"
	}
	return l.DLQ
}

// TierQueues returns the queues of tier index, which counts from 1: one, or one for each slot. The
// name holds everything that the queue's arguments depend on, since these cannot be changed in place.
func (l Ladder) TierQueues(index int) []TierQueue {
	t := l.Tiers[index-1]
	ttls := t.Slots
	if len(ttls) == 0 {
		ttls = []time.Duration{t.Delay}
	}
	out := make([]TierQueue, len(ttls))
	for i, d := range ttls {
		name := fmt.Sprintf("%s.retry.%d.%s", l.Queue, index, Spell(d))
		if l.QueueType() == Classic {
			name += ".classic"
		}
		out[i] = TierQueue{Name: name, TTL: d}
	}
	return out
}

// SpreadExchange returns the name of the exchange that picks a slot of tier index, which counts from
// 1, or "" for a tier that is one queue.
func (l Ladder) SpreadExchange(index int) string {
	switch l.Tiers[index-1].Spread {
	case SpreadRandom:
		return fmt.Sprintf("%s.retry.%d.jitter", l.Queue, index)
	case SpreadHash:
		return fmt.Sprintf("%s.retry.%d.hash", l.Queue, index)
	}
	return ""
}

// Stamp returns the routing key that a message carries on its given attempt, which is at least 2: the
// first attempt has the publisher's own key.
func (l Ladder) Stamp(attempt int) string {
	return l.Queue + stampInfix + strconv.Itoa(attempt)
}

// Attempt returns which handler call a delivery from the work queue is, counted from 1. Only a
// delivery that came through the ladder's own return exchange carries a stamp; another ladder's stamp,
// or a publisher's key that looks like one, counts as fresh.
func (l Ladder) Attempt(exchange, routingKey string) int {
	if exchange != l.ReturnExchange() {
		return 1
	}
	digits, ok := strings.CutPrefix(routingKey, l.Queue+stampInfix)
	if !ok {
		return 1
	}
	k, err := strconv.Atoi(digits)
	if err != nil || k < 2 || k > MaxTiers+1 || strconv.Itoa(k) != digits {
		return 1
	}
	return k
}

// Delays returns the shortest and the longest wait of tier index, which counts from 1.
func (l Ladder) Delays(index int) (shortest, longest time.Duration) {
	t := l.Tiers[index-1]
	if len(t.Slots) == 0 {
		return t.Delay, t.Delay
	}
	return t.Slots[0], t.Slots[len(t.Slots)-1]
}

// SetOf returns the set that the bindings of an exchange belong to, from its name, and false for an
// exchange that is in neither.
func SetOf(exchange string) (Set, bool) {
	for _, s := range []Set{SetA, SetB} {
		if strings.HasSuffix(exchange, ladderInfix+string(s)) || strings.HasSuffix(exchange, firstInfix+string(s)) {
			return s, true
		}
	}
	return "", false
}

// Spell returns the one spelling of a delay that names use: whole seconds as "90s", else "1500ms".
func Spell(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

const (
	ladderInfix = ".retry.ladder."
	firstInfix  = ".retry.first."
	stampInfix  = ".attempt."
)
