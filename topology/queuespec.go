package topology

import (
	"fmt"
	"math"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// none switches off what defaults would switch on.
const none = "none"

// leastRetention is how long a DLQ keeps its messages at least: one that keeps nothing is a way to lose
// them.
const leastRetention = time.Minute

// queueText is a queue as read, with the nodes that checks point at.
type queueText struct {
	QueueSpec
	// name is the key of the queue.
	name *yaml.Node
	// values are its own and those from defaults, by key; deadLetter those of dead_letter.
	values     map[string]*yaml.Node
	deadLetter map[string]*yaml.Node
	tiers      []*yaml.Node
	binds      []bindNode
	noDLQ      bool
}

// queueKeys are the keys of a queue. defaults knows the same but bind.
var queueKeys = schema[queueText]{
	{"type", false, func(d *decoder, q *queueText, n *yaml.Node) { d.queueType(q, n) }},
	{"bind", false, func(d *decoder, q *queueText, n *yaml.Node) { q.Bind, q.binds = d.bindings(n) }},
	{"retry", false, func(d *decoder, q *queueText, n *yaml.Node) { q.Retry, q.tiers = d.retrySpec(n) }},
	{"dead_letter", false, func(d *decoder, q *queueText, n *yaml.Node) { d.deadLetter(q, n) }},
	{"message_ttl", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.MessageTTL = pointer(d.duration(n, "message_ttl", 0, retry.MaxDelay))
	}},
	{"expires", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.Expires = pointer(d.duration(n, "expires", time.Millisecond, retry.MaxDelay))
	}},
	{"max_length", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.MaxLength = pointer(d.integer(n, "max_length", 0, math.MaxInt64))
	}},
	{"max_length_bytes", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.MaxLengthBytes = pointer(d.integer(n, "max_length_bytes", 0, math.MaxInt64))
	}},
	{"overflow", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.Overflow, _ = d.choice(n, "overflow", dropHead, rejectPublish, rejectPublishDLX)
	}},
	{"single_active_consumer", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.SingleActiveConsumer = pointer(d.boolean(n, "single_active_consumer"))
	}},
	{"delivery_limit", false, func(d *decoder, q *queueText, n *yaml.Node) { d.deliveryLimit(q, n) }},
	{"max_priority", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.MaxPriority = pointer(d.integer(n, "max_priority", 1, 255))
	}},
	{"leader_locator", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.LeaderLocator, _ = d.choice(n, "leader_locator", "client-local", "balanced")
	}},
	{"initial_group_size", false, func(d *decoder, q *queueText, n *yaml.Node) {
		q.InitialGroupSize = pointer(d.integer(n, "initial_group_size", 1, 255))
	}},
	{"durable", false, func(d *decoder, q *queueText, n *yaml.Node) {
		if v, ok := d.boolean(n, "durable"); ok {
			q.Durable = v
		}
	}},
	{"auto_delete", false, func(d *decoder, q *queueText, n *yaml.Node) { q.AutoDelete, _ = d.boolean(n, "auto_delete") }},
	{"arguments", false, func(d *decoder, q *queueText, n *yaml.Node) { q.Arguments = d.arguments(n, queueArguments) }},
}

var defaultsKeys = func() schema[queueText] {
	var out schema[queueText]
	for _, k := range queueKeys {
		if k.name != "bind" {
			out = append(out, k)
		}
	}
	return out
}()

var deadLetterKeys = schema[DeadLetterSpec]{
	{"owner", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) {
		if v, ok := d.text(n, "owner"); ok {
			if v == "" {
				d.refuse(n, Diagnostic{Code: codeValue, Message: "owner is empty", Expected: "the team that looks after the dead letters"})
			}
			s.Owner = v
		}
	}},
	{"queue", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) {
		if v, ok := d.text(n, "queue"); ok && d.name(n, KindQueue, v, maxName) {
			s.Queue = v
		}
	}},
	{"alerts", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) { mapping(d, n, "alerts", alertsKeys, &s.Alerts) }},
	{"message_ttl", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) {
		s.MessageTTL = pointer(d.duration(n, "message_ttl", leastRetention, retry.MaxDelay))
	}},
	{"max_length", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) {
		s.MaxLength = pointer(d.integer(n, "max_length", 1, math.MaxInt64))
	}},
	{"max_length_bytes", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) {
		s.MaxLengthBytes = pointer(d.integer(n, "max_length_bytes", 1, math.MaxInt64))
	}},
	{"overflow", false, func(d *decoder, s *DeadLetterSpec, n *yaml.Node) {
		s.Overflow, _ = d.choice(n, "overflow", dropHead, rejectPublish)
	}},
}

var alertsKeys = schema[Alerts]{
	{"notify", false, func(d *decoder, a *Alerts, n *yaml.Node) { a.Notify = d.threshold(n, "notify") }},
	{"page", false, func(d *decoder, a *Alerts, n *yaml.Node) { a.Page = d.threshold(n, "page") }},
	{"stale", false, func(d *decoder, a *Alerts, n *yaml.Node) {
		a.Stale = &Stale{}
		mapping(d, n, "stale", staleKeys, a.Stale)
	}},
}

var thresholdKeys = schema[Threshold]{
	{"depth", false, func(d *decoder, t *Threshold, n *yaml.Node) {
		t.Depth = pointer(d.integer(n, "depth", 0, math.MaxInt64))
	}},
	{"ratio", false, func(d *decoder, t *Threshold, n *yaml.Node) { t.Ratio = pointer(d.percent(n, "ratio", 100)) }},
	{"rate", false, func(d *decoder, t *Threshold, n *yaml.Node) { t.Rate = pointer(d.rate(n, "rate")) }},
	{"for", false, func(d *decoder, t *Threshold, n *yaml.Node) { t.For, _ = d.duration(n, "for", 0, longest) }},
}

var staleKeys = schema[Stale]{
	{"age", true, func(d *decoder, s *Stale, n *yaml.Node) { s.Age, _ = d.duration(n, "age", time.Second, longest) }},
}

func pointer[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

func (d *decoder) queueType(q *queueText, n *yaml.Node) {
	s, ok := d.text(n, "type")
	switch {
	case !ok:
	case s == "stream":
		d.refuse(n, Diagnostic{
			Code: codeValue, Message: `type is "stream"`, Expected: `"quorum" or "classic"`, Hint: "streams are not supported yet",
		})
	default:
		s, _ = d.choice(n, "type", string(retry.Quorum), string(retry.Classic))
		q.Type = retry.QueueType(s)
	}
}

func (d *decoder) deliveryLimit(q *queueText, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "-1" {
		d.refuse(n, Diagnostic{
			Code: codeRange, Message: "delivery_limit is -1", Expected: "a whole number of 0 or more",
			Hint: fmt.Sprintf("RabbitMQ 3.x takes -1 for 0, and the first give-back kills; for no limit write %d", unlimited),
		})
		return
	}
	q.DeliveryLimit = pointer(d.integer(n, "delivery_limit", 0, math.MaxInt64))
}

// threshold reads notify or page, which must say when.
func (d *decoder) threshold(n *yaml.Node, what string) *Threshold {
	t := &Threshold{}
	values := mapping(d, n, what, thresholdKeys, t)
	if values != nil && values["depth"] == nil && values["ratio"] == nil && values["rate"] == nil {
		d.add(Diagnostic{
			Position: d.of(n), Code: codeMissingKey, Message: what + " says nothing to watch", Expected: `"depth", "ratio" or "rate"`,
		})
	}
	return t
}

// isNone reports whether n is the word none; what else stands where a mapping should is reported with
// a hint.
func (d *decoder) isNone(n *yaml.Node, what, hint string) (isNone, isMapping bool) {
	switch {
	case d.bad[n] || n.Kind == yaml.MappingNode:
		return false, !d.bad[n]
	case n.Kind == yaml.ScalarNode && n.Value == none:
		return true, false
	}
	message := fmt.Sprintf("%s is %s", what, article(kindOf(n)))
	if n.Kind == yaml.ScalarNode {
		message += ", " + quoted(n)
	}
	d.refuse(n, Diagnostic{Code: codeWrongType, Message: message, Expected: "a mapping or none", Hint: hint})
	return false, false
}

func (d *decoder) deadLetter(q *queueText, n *yaml.Node) {
	isNone, isMapping := d.isNone(n, "dead_letter", "such as dead_letter: {owner: my-team}")
	if !isMapping {
		q.noDLQ = isNone
		return
	}
	q.DeadLetter = &DeadLetterSpec{}
	q.deadLetter = mapping(d, n, "dead_letter", deadLetterKeys, q.DeadLetter)
}
