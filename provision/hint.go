package provision

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// role is what a queue is to its ladder.
type role string

const (
	roleWork role = "work queue"
	roleTier role = "tier"
	roleDLQ  role = "dead-letter queue"
)

// roles knows the queues of ladders by name.
type roles map[string]role

func newRoles(ladders []retry.Ladder) roles {
	r := roles{}
	for _, l := range ladders {
		for i := range l.Tiers {
			for _, q := range l.TierQueues(i + 1) {
				r[q.Name] = roleTier
			}
		}
		r[l.DeadLetterQueue()] = roleDLQ
	}
	for _, l := range ladders {
		r[l.Queue] = roleWork // a laddered DLQ is both; what it does matters more
	}
	return r
}

const deliveryLimit = "x-delivery-limit"

// keepsLimit reports whether an object is a dead-letter queue that differs in its delivery limit only.
func (r roles) keepsLimit(o object, differs []difference) bool {
	return o.kind == topology.KindQueue && r[o.name] == roleDLQ &&
		len(differs) == 1 && differs[0].argument == deliveryLimit && differs[0].note == ""
}

func (r roles) mismatch(t target, o object, d difference) Mismatch {
	m := Mismatch{
		Kind: o.kind, Name: o.name, Argument: d.argument,
		Wanted: d.wanted, Current: d.current,
		Source: t.source(o.kind, o.name, d.argument),
		Hint:   r.hint(t, o, d),
	}
	if d.argument == "" {
		m.Argument, m.Wanted.Type, m.Current.Type = "something", TypeUnknown, TypeUnknown
	}
	if d.note != "" {
		m.Hint += "; not everything could be compared, the broker said: " + d.note
	}
	return m
}

// hint says what to do about a difference. No argument of a queue or exchange can be changed in place.
func (r roles) hint(t target, o object, d difference) string {
	switch {
	case o.name == stateName(t.name):
		return "rmqkit keeps its record there and did not make this one: delete it if it is not yours"
	case o.kind == topology.KindExchange:
		return "an exchange cannot be changed in place: delete it and apply again, which binds again what this topology binds, " +
			"or write here what the broker has"
	}
	switch r[o.name] {
	case roleTier:
		return "the name of a tier queue holds everything it depends on, so rmqkit did not make this one: delete it once it is empty"
	case roleDLQ:
		if d.argument == deliveryLimit {
			return "keep the queue, and on RabbitMQ 4 lift its limit by policy: " + limitCommand(t.manifest.VHost, o.name) +
				"; then apply with --keep-delivery-limit"
		}
		return "move its messages elsewhere, delete it and apply again, or write here what the broker has"
	}
	return "a queue cannot be changed in place: drain it, delete it and apply again, or write here what the broker has"
}

// limitCommand returns the command that lifts the delivery limit of a queue that exists.
func limitCommand(vhost, queue string) string {
	return fmt.Sprintf(`rabbitmqctl set_policy --vhost %s --priority 10 --apply-to queues %s %s '{"delivery-limit":-1}'`,
		shellQuote(vhost), shellQuote("keep-"+queue), shellQuote("^"+regexp.QuoteMeta(queue)+"$"))
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// plugins names the plugin that brings an exchange type.
var plugins = map[string]string{
	"x-random":          "rabbitmq_random_exchange",
	"x-consistent-hash": "rabbitmq_consistent_hash_exchange",
	"x-delayed-message": "rabbitmq_delayed_message_exchange",
	"x-recent-history":  "rabbitmq_recent_history_exchange",
	"x-modulus-hash":    "rabbitmq_sharding",
	"x-jms-topic":       "rabbitmq_jms_topic_exchange",
	"x-rtopic":          "rabbitmq_rtopic_exchange",
}

// coreTypes are the exchange types of every broker.
var coreTypes = []string{"direct", "fanout", "topic", "headers"}

// pluginTypes returns the exchange types in m that not every broker has, with the first exchange of
// each.
func pluginTypes(m topology.Manifest) []topology.Exchange {
	var out []topology.Exchange
	seen := slices.Clone(coreTypes)
	for _, e := range m.Exchanges {
		if !slices.Contains(seen, e.Type) {
			seen = append(seen, e.Type)
			out = append(out, e)
		}
	}
	return out
}

// unknownType says that the broker does not know the type of an exchange, and what to do.
func unknownType(t target, e topology.Exchange) string {
	text := fmt.Sprintf("%sexchange %q: the broker has no exchange type %q", at(t, object{topology.KindExchange, e.Name}), e.Name, e.Type)
	if p, ok := plugins[e.Type]; ok {
		return text + "; enable it on every node: rabbitmq-plugins enable " + p
	}
	return text + "; if a plugin brings it, enable that on every node"
}
