package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/rmqkit/rmqkit/retry"
)

// Topology is what a topology.yaml says, as written: defaults are filled in, nothing is expanded. It
// is made by [Parse] only, is read-only afterwards and safe for concurrent use.
type Topology struct {
	// Name says whose objects these are.
	Name string
	// VHost is where they live; "/" unless told.
	VHost string
	// Exchanges and Queues are in source order.
	Exchanges []ExchangeSpec
	Queues    []QueueSpec

	sources sources
}

// ExchangeSpec is one exchange as written.
type ExchangeSpec struct {
	Name string
	// Type is the broker's name for it: direct, fanout, topic, headers or a plugin's x- type. It may be
	// empty for an external exchange.
	Type string
	// External exchanges exist without us: they are bound from, and not declared.
	External          bool
	Durable           bool
	AutoDelete        bool
	Internal          bool
	AlternateExchange string
	// Bind leads from other exchanges to this one.
	Bind      []BindSpec
	Arguments map[string]any
}

// BindSpec is one binding as written, from Exchange to what it stands in. The conditions of a headers
// binding are among its Arguments.
type BindSpec struct {
	Exchange  string
	Key       string
	Arguments map[string]any
}

// QueueSpec is one queue as written. Pointers are nil where nothing was said.
type QueueSpec struct {
	Name       string
	Type       retry.QueueType
	Durable    bool
	AutoDelete bool
	Bind       []BindSpec
	// Retry and DeadLetter make it a work queue with a ladder; DeadLetter is set wherever Retry is.
	Retry      *RetrySpec
	DeadLetter *DeadLetterSpec

	Limits
	Expires              *time.Duration
	SingleActiveConsumer *bool
	DeliveryLimit        *int64
	MaxPriority          *int64
	InitialGroupSize     *int64
	LeaderLocator        string
	Arguments            map[string]any
}

// Limits bound what a queue holds. Nil and "" leave it to the broker.
type Limits struct {
	MessageTTL     *time.Duration
	MaxLength      *int64
	MaxLengthBytes *int64
	Overflow       string
}

// RetrySpec says how failures are retried. Backoff and jitter are worked out.
type RetrySpec struct {
	Tiers []retry.Tier
}

// DeadLetterSpec is the end of a ladder.
type DeadLetterSpec struct {
	// Queue is the name of the DLQ; empty means the work queue's with ".dlq".
	Queue string
	// Owner is the team that looks after it.
	Owner  string
	Alerts Alerts
	Limits
}

// Alerts says when someone must hear of a DLQ. Nil is never.
type Alerts struct {
	Notify *Threshold
	Page   *Threshold
	Stale  *Stale
}

// Threshold is a condition on a DLQ: any of its parts that is set and exceeded, for at least For.
type Threshold struct {
	// Depth is exceeded by more messages than this.
	Depth *int64
	// Ratio is exceeded by a larger share of the work queue's flow, 0.01 being 1 %.
	Ratio *float64
	// Rate is exceeded by a faster inflow.
	Rate *Rate
	For  time.Duration
}

// Rate is a number of messages in a time.
type Rate struct {
	Count int64
	Per   time.Duration
}

// Stale is exceeded when the oldest message is older than Age.
type Stale struct {
	Age time.Duration
}

// Laddered reports whether the queue has a ladder, which may be one without tiers.
func (q QueueSpec) Laddered() bool { return q.DeadLetter != nil }

// Ladder returns the ladder of the queue. It is meaningful only if the queue is laddered.
func (q QueueSpec) Ladder() retry.Ladder {
	l := retry.Ladder{Queue: q.Name, Type: q.Type}
	if q.Retry != nil {
		l.Tiers = cloneTiers(q.Retry.Tiers)
	}
	if q.DeadLetter != nil {
		l.DLQ = q.DeadLetter.Queue
	}
	return l
}

// Ladder returns the ladder of the named work queue, for a consumer. It is an error if the file has no
// such queue or the queue has neither retry nor dead_letter.
func (t *Topology) Ladder(queue string) (retry.Ladder, error) {
	names := make([]string, 0, len(t.Queues))
	for _, q := range t.Queues {
		if q.Name == queue {
			if !q.Laddered() {
				return retry.Ladder{}, fmt.Errorf("queue %q has neither retry nor dead_letter, so it has no ladder", queue)
			}
			return q.Ladder(), nil
		}
		names = append(names, q.Name)
	}
	if near := nearest(queue, names); near != "" {
		return retry.Ladder{}, fmt.Errorf("topology %q has no queue %q; did you mean %q?", t.Name, queue, near)
	}
	return retry.Ladder{}, fmt.Errorf("topology %q has no queue %q", t.Name, queue)
}

// Ladders returns every ladder, in source order.
func (t *Topology) Ladders() []retry.Ladder {
	var out []retry.Ladder
	for _, q := range t.Queues {
		if q.Laddered() {
			out = append(out, q.Ladder())
		}
	}
	return out
}

func cloneTiers(tiers []retry.Tier) []retry.Tier {
	out := slices.Clone(tiers)
	for i := range out {
		out[i].Slots = slices.Clone(out[i].Slots)
	}
	return out
}
