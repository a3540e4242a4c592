package topology

import (
	"time"

	"github.com/rmqkit/rmqkit/retry"
)

// unlimited is the delivery limit that never comes into effect: RabbitMQ 4 drops a message after 20
// give-backs unless told, and -1, which it knows as none, acts as 0 on 3.x.
const unlimited int64 = 1_000_000_000

// The broker's names of arguments that have a field of their own here, or that ladders set.
const (
	argQueueType        = "x-queue-type"
	argMessageTTL       = "x-message-ttl"
	argExpires          = "x-expires"
	argMaxLength        = "x-max-length"
	argMaxLengthBytes   = "x-max-length-bytes"
	argOverflow         = "x-overflow"
	argSingleActive     = "x-single-active-consumer"
	argDeliveryLimit    = "x-delivery-limit"
	argMaxPriority      = "x-max-priority"
	argLeaderLocator    = "x-queue-leader-locator"
	argInitialGroupSize = "x-quorum-initial-group-size"
	argDLX              = "x-dead-letter-exchange"
	argDLRK             = "x-dead-letter-routing-key"
	argStrategy         = "x-dead-letter-strategy"
	argAlternate        = "alternate-exchange"
	argMatch            = "x-match"
	argHashProperty     = "hash-property"
	argHashHeader       = "hash-header"
	argQueueVersion     = "x-queue-version"
)

const (
	atLeastOnce      = "at-least-once"
	dropHead         = "drop-head"
	rejectPublish    = "reject-publish"
	rejectPublishDLX = "reject-publish-dlx"
)

// otherDeaths are the reasons for which the broker dead-letters a message that nobody rejected.
var otherDeaths = []string{"delivery_limit", "expired", "maxlen"}

// Expand returns everything that should exist: what the file names, then the ladder of each work
// queue, all in source order; bindings from exchanges of the file come last, so that a queue gets its
// first message when all behind it exists. External exchanges are not among it. The result is the same
// for the same file, valid, and shared with nobody.
func (t *Topology) Expand() Manifest {
	e := expansion{Manifest{VHost: t.VHost}}
	for _, x := range t.Exchanges {
		if !x.External {
			e.Exchanges = append(e.Exchanges, x.expand())
		}
	}
	for _, q := range t.Queues {
		e.Queues = append(e.Queues, q.expand())
		if q.Laddered() {
			e.ladder(q.Ladder(), q.DeadLetter.Limits)
		}
	}
	for _, x := range t.Exchanges {
		for _, b := range x.Bind {
			e.bind(b.Exchange, ToExchange, x.Name, b.Key, b.Arguments)
		}
	}
	for _, q := range t.Queues {
		for _, b := range q.Bind {
			e.bind(b.Exchange, ToQueue, q.Name, b.Key, b.Arguments)
		}
	}
	return e.Manifest
}

func (x ExchangeSpec) expand() Exchange {
	args := cloneArguments(x.Arguments)
	if x.AlternateExchange != "" {
		args = set(args, argAlternate, x.AlternateExchange)
	}
	return Exchange{
		Name: x.Name, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
		Arguments: args,
	}
}

func (q QueueSpec) expand() Queue {
	args := set(cloneArguments(q.Arguments), argQueueType, string(q.Type))
	q.Limits.put(args)
	if q.Expires != nil {
		args[argExpires] = q.Expires.Milliseconds()
	}
	if q.SingleActiveConsumer != nil {
		args[argSingleActive] = *q.SingleActiveConsumer
	}
	for name, n := range map[string]*int64{
		argDeliveryLimit: q.DeliveryLimit, argMaxPriority: q.MaxPriority, argInitialGroupSize: q.InitialGroupSize,
	} {
		if n != nil {
			args[name] = *n
		}
	}
	if q.LeaderLocator != "" {
		args[argLeaderLocator] = q.LeaderLocator
	}
	if q.Laddered() {
		args[argDLX] = q.Ladder().RetryExchange()
		if q.Type == retry.Quorum {
			keepUntilConfirmed(args)
			if q.DeliveryLimit == nil {
				args[argDeliveryLimit] = unlimited
			}
		}
	}
	return Queue{Name: q.Name, Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: args}
}

// put adds the arguments for the limits that are set.
func (l Limits) put(args map[string]any) {
	if l.MessageTTL != nil {
		args[argMessageTTL] = l.MessageTTL.Milliseconds()
	}
	if l.MaxLength != nil {
		args[argMaxLength] = *l.MaxLength
	}
	if l.MaxLengthBytes != nil {
		args[argMaxLengthBytes] = *l.MaxLengthBytes
	}
	if l.Overflow != "" {
		args[argOverflow] = l.Overflow
	}
}

// keepUntilConfirmed makes a quorum queue keep what it dead-letters until the target has it. Without
// reject-publish the broker takes the strategy for at-most-once, silently.
func keepUntilConfirmed(args map[string]any) {
	args[argStrategy] = atLeastOnce
	args[argOverflow] = rejectPublish
}

func set(args map[string]any, name string, v any) map[string]any {
	if args == nil {
		args = map[string]any{}
	}
	args[name] = v
	return args
}

// expansion is a manifest in the making.
type expansion struct{ Manifest }

func (e *expansion) bind(source string, kind DestinationKind, destination, key string, args map[string]any) {
	e.Bindings = append(e.Bindings, Binding{
		Source: source, Destination: destination, DestinationKind: kind, RoutingKey: key,
		Arguments: cloneArguments(args),
	})
}

// exchange adds a durable exchange of a ladder; alternate may be empty.
func (e *expansion) exchange(name, kind string, internal bool, alternate string) {
	x := Exchange{Name: name, Type: kind, Durable: true, Internal: internal}
	if alternate != "" {
		x.Arguments = map[string]any{argAlternate: alternate}
	}
	e.Exchanges = append(e.Exchanges, x)
}

// ladder adds what a work queue with a ladder needs beside itself.
func (e *expansion) ladder(l retry.Ladder, dlq Limits) {
	e.exchange(l.RetryExchange(), "headers", true, l.LadderExchange(retry.SetA))
	e.exchange(l.LadderExchange(retry.SetA), "direct", true, l.LadderExchange(retry.SetB))
	e.exchange(l.LadderExchange(retry.SetB), "direct", true, l.FirstExchange(retry.SetA))
	e.exchange(l.FirstExchange(retry.SetA), "fanout", true, l.FirstExchange(retry.SetB))
	e.exchange(l.FirstExchange(retry.SetB), "fanout", true, "")
	e.exchange(l.ReturnExchange(), "fanout", true, "")
	// Workers publish to park, and redrives to redrive: an internal exchange would refuse them.
	e.exchange(l.ParkExchange(), "fanout", false, "")
	e.exchange(l.RedriveExchange(), "fanout", false, "")
	for i := range l.Tiers {
		e.tier(l, i+1)
	}
	args := map[string]any{argQueueType: string(l.QueueType())}
	if l.QueueType() == retry.Quorum {
		args[argDeliveryLimit] = unlimited
	}
	dlq.put(args)
	e.Queues = append(e.Queues, Queue{Name: l.DeadLetterQueue(), Durable: true, Arguments: args})

	e.bind(l.ParkExchange(), ToQueue, l.DeadLetterQueue(), "", nil)
	e.bind(l.ReturnExchange(), ToQueue, l.Queue, "", nil)
	e.bind(l.RedriveExchange(), ToQueue, l.Queue, "", nil)
	for _, reason := range otherDeaths {
		// RabbitMQ 4 knows the last death; 3.x only the first, which is this one if it was here.
		e.bind(l.RetryExchange(), ToExchange, l.ParkExchange(), "", map[string]any{
			argMatch: "all-with-x", "x-last-death-reason": reason,
		})
		e.bind(l.RetryExchange(), ToExchange, l.ParkExchange(), "", map[string]any{
			argMatch: "all-with-x", "x-first-death-queue": l.Queue, "x-first-death-reason": reason,
		})
	}
	for _, s := range []retry.Set{retry.SetA, retry.SetB} {
		e.set(l, s)
	}
}

// tier adds the queues of one tier and, if there are several, the exchange that picks one.
func (e *expansion) tier(l retry.Ladder, index int) {
	spread := l.SpreadExchange(index)
	// A consistent hash takes the routing key of a binding for its weight.
	key := ""
	if spread != "" {
		x := Exchange{Name: spread, Type: string(l.Tiers[index-1].Spread), Durable: true, Internal: true}
		if l.Tiers[index-1].Spread == retry.SpreadHash {
			x.Arguments = map[string]any{argHashProperty: "message_id"}
			key = "1"
		}
		e.Exchanges = append(e.Exchanges, x)
	}
	for _, q := range l.TierQueues(index) {
		args := map[string]any{
			argQueueType:  string(l.QueueType()),
			argMessageTTL: q.TTL.Milliseconds(),
			argDLX:        l.ReturnExchange(),
			argDLRK:       l.Stamp(index + 1),
		}
		if l.QueueType() == retry.Quorum {
			keepUntilConfirmed(args)
		}
		e.Queues = append(e.Queues, Queue{Name: q.Name, Durable: true, Arguments: args})
		if spread != "" {
			e.bind(spread, ToQueue, q.Name, key, nil)
		}
	}
}

// set adds one of the two complete sets of bindings that lead to the tiers and, after them, to park.
func (e *expansion) set(l retry.Ladder, s retry.Set) {
	to := func(source, key string, tier int) {
		if tier > len(l.Tiers) {
			e.bind(source, ToExchange, l.ParkExchange(), key, nil)
			return
		}
		if x := l.SpreadExchange(tier); x != "" {
			e.bind(source, ToExchange, x, key, nil)
			return
		}
		e.bind(source, ToQueue, l.TierQueues(tier)[0].Name, key, nil)
	}
	to(l.FirstExchange(s), "", 1)
	for attempt := 2; attempt <= retry.MaxTiers+1; attempt++ {
		to(l.LadderExchange(s), l.Stamp(attempt), attempt)
	}
}

// millis is a whole number of milliseconds as a duration.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
