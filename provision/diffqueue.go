package provision

import (
	"slices"
	"strconv"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// queue makes the changes of a queue's flow.
func (p *pool) queue() {
	for _, x := range p.take("", partItself) {
		switch x.action() {
		case ObjectAdded:
			p.queueAdded(x)
		case ObjectRemoved:
			p.queueRemoved(x)
		default:
			p.changed(CodeQueueChanged, x)
		}
	}
	p.ladder()
	p.deadLetters()
	p.routes()
	p.people()
	p.rest()
}

// queueAdded folds everything that comes with a new queue.
func (p *pool) queueAdded(q pooled) {
	c := FlowChange{Code: CodeQueueAdded, Verdict: VerdictSafe, Summary: "is new: " + kindOfQueue(q.new)}
	parts := p.take(ObjectAdded, partLadder, partDLQ, partRoute)
	if words := p.receives(p.after, parts); len(words) > 0 {
		c.Details = append(c.Details, "receives "+few(words))
	}
	if l, ok := p.after.ladders[p.name]; ok {
		c.Details = append(c.Details, "retry "+schedule(l), "dead-letter queue "+strconv.Quote(l.DeadLetterQueue()))
		c.Details = append(c.Details, newPlugins(retry.Ladder{}, l)...)
	} else if dlx, ok := q.new["x-dead-letter-exchange"].(string); ok {
		c.Details = append(c.Details, "dead letters go to "+from(dlx))
	}
	p.place(&c, q.object, "")
	p.add(c, append([]pooled{q}, parts...)...)
}

// kindOfQueue says what sort of queue has these properties.
func kindOfQueue(p properties) string {
	kind, _ := p[queueType].(string)
	switch kind {
	case "":
		kind = "a queue of the vhost's default type"
	case classic, quorum, "stream":
		kind = "a " + kind + " queue"
	default:
		kind = "a queue of type " + strconv.Quote(kind)
	}
	if p["durable"] == false {
		kind += ", gone when the broker restarts"
	}
	return kind
}

// receives says what the routes among parts bring.
func (p *pool) receives(s *diffSide, parts []pooled) []string {
	var out []string
	for _, x := range parts {
		if x.part == partRoute {
			out = append(out, received(*x.binding, s.exchangeType(x.binding.Source)))
		}
	}
	return out
}

// queueRemoved folds everything that goes with a queue.
func (p *pool) queueRemoved(q pooled) {
	c := FlowChange{
		Code: CodeQueueRemoved, Verdict: VerdictBreaking, Summary: "is no longer in the topology",
		Details: []string{"apply removes the bindings that lead to it and deletes nothing: it stays on the broker with the messages in it"},
	}
	parts := p.take(ObjectRemoved, partLadder, partDLQ, partRoute)
	if words := p.receives(p.before, parts); len(words) > 0 {
		c.Details = append(c.Details, "received "+few(words))
	}
	if l, ok := p.before.ladders[p.name]; ok {
		if p.after.hasQueue(l.DeadLetterQueue()) {
			c.Details = append(c.Details, "its dead-letter queue "+strconv.Quote(l.DeadLetterQueue())+" remains as a queue of its own")
		} else {
			c.Details = append(c.Details, "its dead-letter queue "+strconv.Quote(l.DeadLetterQueue())+" and its tiers stay too: what waits in them still comes back")
		}
	}
	p.place(&c, q.object, "")
	p.add(c, append([]pooled{q}, parts...)...)
}

// ladder says what becomes of the retries.
func (p *pool) ladder() {
	old, had := p.before.ladders[p.name]
	l, has := p.after.ladders[p.name]
	switch {
	case has && !had:
		p.ladderAdded(l)
	case had && !has:
		p.ladderRemoved(old)
	case had && has:
		p.ladderChanged(old, l)
	}
}

func (p *pool) ladderAdded(l retry.Ladder) {
	parts := append(p.take("", partLadder), p.take(ObjectAdded, partDLQ)...)
	if len(parts) == 0 {
		return
	}
	c := FlowChange{
		Code: CodeLadderAdded, Verdict: VerdictSafe,
		Summary: "gains a dead-letter queue, " + strconv.Quote(l.DeadLetterQueue()),
	}
	if len(l.Tiers) > 0 {
		c.Summary = "gains retry of " + schedule(l) + " and a dead-letter queue, " + strconv.Quote(l.DeadLetterQueue())
		c.Details = append(c.Details, "delays "+delays(l))
	}
	c.Details = append(c.Details, newPlugins(retry.Ladder{}, l)...)
	if p.inTheWay(parts) == VerdictRecreate {
		c.Verdict, c.Cost = VerdictRecreate, costOfLadder
	}
	p.place(&c, object{topology.KindExchange, l.RetryExchange()}, "")
	p.add(c, parts...)
}

func (p *pool) ladderRemoved(l retry.Ladder) {
	parts := append(p.take("", partLadder), p.take(ObjectRemoved, partDLQ)...)
	if len(parts) == 0 {
		return
	}
	c := FlowChange{Code: CodeLadderRemoved, Verdict: VerdictBreaking, Summary: "loses its DLQ"}
	if len(l.Tiers) > 0 {
		c.Summary = "loses its retry of " + schedule(l) + " and its DLQ"
	}
	if q := p.after.queues[p.name]; q.Arguments["x-dead-letter-exchange"] == nil {
		c.Details = append(c.Details, "what is rejected or expires is dropped")
	}
	if name := l.DeadLetterQueue(); p.after.hasQueue(name) {
		c.Details = append(c.Details, strconv.Quote(name)+" remains as a queue of its own")
	} else {
		c.Details = append(c.Details, strconv.Quote(name)+" stays on the broker with the dead letters in it")
	}
	p.place(&c, object{topology.KindExchange, l.RetryExchange()}, "")
	p.add(c, parts...)
}

func (p *pool) ladderChanged(old, l retry.Ladder) {
	parts := p.take("", partLadder)
	if len(parts) == 0 {
		return
	}
	c := FlowChange{Code: CodeLadderChanged, Verdict: VerdictSafe, Summary: "retry " + schedule(l)}
	switch {
	case schedule(old) != schedule(l):
		c.Summary = "retry " + arrow(schedule(old), schedule(l))
	case old.QueueType() != l.QueueType():
		c.Summary += ", tiers " + arrow(string(old.QueueType()), string(l.QueueType()))
	case delays(old) == delays(l):
		c.Summary += " as before, but objects of the ladder differ"
	}
	if delays(old) != delays(l) {
		c.Details = append(c.Details, "delays "+arrow(delays(old), delays(l)))
	}
	c.Details = append(c.Details, newPlugins(old, l)...)
	if a, b := len(old.Tiers)+1, len(l.Tiers)+1; a != b {
		c.Details = append(c.Details, "a message is handled at most "+arrow(strconv.Itoa(a), count(b, "time")))
	}
	var longest []string
	c.Verdict, longest = p.switchVerdict(parts)
	if c.Verdict == VerdictDrains {
		c.Cost = few(quoted(longest)) + " " + isAre(longest, "is", "are") + " no longer fed and " + isAre(longest, "empties", "empty") +
			" into the work queue by " + isAre(longest, "itself", "themselves") + "; apply leaves " + isAre(longest, "it", "them") + " on the broker"
	}
	if c.Verdict == VerdictRecreate {
		c.Cost = costOfLadder
	}
	p.place(&c, object{topology.KindExchange, l.RetryExchange()}, "")
	p.add(c, parts...)
}

// newPlugins says which plugins the tiers of a ladder need that those of the old one did not.
func newPlugins(old, l retry.Ladder) []string {
	var seen []retry.Spread
	for _, t := range old.Tiers {
		seen = append(seen, t.Spread)
	}
	var out []string
	for _, t := range l.Tiers {
		if t.Spread != "" && !slices.Contains(seen, t.Spread) {
			seen = append(seen, t.Spread)
			out = append(out, "needs the plugin "+strconv.Quote(plugins[string(t.Spread)]))
		}
	}
	return out
}

func isAre(words []string, one, several string) string {
	if len(words) == 1 {
		return one
	}
	return several
}

// switchVerdict judges the differences inside a ladder that there was and is, and returns the tier queues
// that are no longer used. Bindings of the two sets are switched by apply, set by set; any other one that
// goes was a route that the ladder needs.
func (p *pool) switchVerdict(parts []pooled) (Verdict, []string) {
	out := graver(VerdictSafe, p.inTheWay(parts))
	var tiers []string
	for _, x := range parts {
		switch {
		case x.action() != ObjectRemoved:
		case x.kind == topology.KindQueue:
			tiers = append(tiers, x.name)
			out = graver(out, VerdictDrains)
		case x.kind == topology.KindExchange:
			out = graver(out, p.exchangeGone(x.name))
		default:
			out = graver(out, p.bindingGone(*x.binding))
		}
	}
	return out, tiers
}

// exchangeGone judges a ladder's exchange that goes: those that spread a tier go with it.
func (p *pool) exchangeGone(name string) Verdict {
	l := p.before.ladders[p.name]
	for i := range l.Tiers {
		if l.SpreadExchange(i+1) == name {
			return VerdictSafe
		}
	}
	return VerdictBreaking
}

func (p *pool) bindingGone(b topology.Binding) Verdict {
	if _, switched := retry.SetOf(b.Source); switched {
		return VerdictSafe
	}
	return p.exchangeGone(b.Source)
}

const costOfLadder = "apply refuses while the broker has the old ones: delete what is listed as changed once it is empty, and apply again"

// inTheWay judges the objects of a ladder that exist with other settings, which only manifests that no
// topology made have. A policy for a generated object would be one more thing to keep in step.
func (p *pool) inTheWay(parts []pooled) Verdict {
	out := VerdictIgnored
	for _, x := range parts {
		if x.action() == ObjectChanged {
			out = graver(out, settle(p.arguments(x)))
		}
	}
	if out == VerdictPolicy {
		return VerdictRecreate
	}
	return out
}

// deadLetters says what becomes of the dead-letter queue of a ladder that there was and is.
func (p *pool) deadLetters() {
	old, had := p.before.ladders[p.name]
	l, has := p.after.ladders[p.name]
	if had && has && old.DeadLetterQueue() != l.DeadLetterQueue() {
		c := FlowChange{
			Code: CodeDLQMoved, Verdict: VerdictBreaking,
			Summary: "dead-letter queue " + arrow(strconv.Quote(old.DeadLetterQueue()), strconv.Quote(l.DeadLetterQueue())),
			Details: []string{"dead letters that are in " + strconv.Quote(old.DeadLetterQueue()) + " stay there, and whoever watches it sees no new ones"},
		}
		p.place(&c, object{topology.KindQueue, l.DeadLetterQueue()}, "")
		c.Old = p.before.source(topology.KindQueue, old.DeadLetterQueue(), "")
		p.add(c, append(p.take(ObjectAdded, partDLQ), p.take(ObjectRemoved, partDLQ)...)...)
	}
	for _, x := range p.take(ObjectChanged, partDLQ) {
		p.changed(CodeDLQChanged, x)
	}
}

// rest makes a change of each difference that nothing else explains, such as a part of a ladder that is
// missing on one side: only manifests that no topology made have these.
func (p *pool) rest() {
	for _, x := range p.take("", partLadder, partDLQ, partRoute) {
		c := FlowChange{Code: CodeLadderChanged, Verdict: VerdictSafe}
		what := x.String()
		if x.binding != nil {
			what = "binding from " + from(x.binding.Source) + " to " + string(x.binding.DestinationKind) + " " + strconv.Quote(x.binding.Destination)
		}
		switch x.action() {
		case ObjectAdded:
			c.Summary = what + " is added"
		case ObjectRemoved:
			c.Verdict, c.Summary = VerdictBreaking, what+" is gone"
		default:
			c.Verdict, c.Summary = settle(p.arguments(x)), what+" differs"
		}
		if c.Verdict == VerdictPolicy || c.Verdict == VerdictRecreate {
			c.Verdict, c.Cost = VerdictRecreate, p.costOf(x)
		}
		p.place(&c, x.object, "")
		p.add(c, x)
	}
}
