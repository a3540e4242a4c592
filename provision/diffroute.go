package provision

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rmqkit/rmqkit/topology"
)

// exchange makes the changes of an exchange's flow.
func (p *pool) exchange() {
	for _, x := range p.take("", partItself) {
		switch x.action() {
		case ObjectAdded:
			p.exchangeAdded(x)
		case ObjectRemoved:
			p.exchangeRemoved(x)
		default:
			p.changed(CodeExchangeChanged, x)
		}
	}
	p.routes()
}

func (p *pool) exchangeAdded(x pooled) {
	parts := p.take(ObjectAdded, partRoute)
	kind, _ := x.new["type"].(string)
	c := FlowChange{Code: CodeExchangeAdded, Verdict: VerdictSafe, Summary: "is new: type " + strconv.Quote(kind)}
	if p.before.isExternal(p.name) {
		c.Code, c.Summary = CodeExchangeAdopted, "is declared by this topology, as type "+strconv.Quote(kind)
		c.Details = append(c.Details, "apply refuses if the one on the broker has other settings")
	}
	if plugin, ok := plugins[kind]; ok {
		c.Details = append(c.Details, "needs the plugin "+strconv.Quote(plugin))
	}
	if words := p.receives(p.after, parts); len(words) > 0 {
		c.Details = append(c.Details, "receives "+few(words))
	}
	p.place(&c, x.object, "")
	p.add(c, append([]pooled{x}, parts...)...)
}

func (p *pool) exchangeRemoved(x pooled) {
	parts := p.take(ObjectRemoved, partRoute)
	c := FlowChange{
		Code: CodeExchangeRemoved, Verdict: VerdictBreaking, Summary: "is no longer in the topology",
		Details: []string{"apply deletes nothing: it stays on a broker that has it, and a new broker is without it"},
	}
	if p.after.isExternal(p.name) {
		c = FlowChange{
			Code: CodeExchangeDisowned, Verdict: VerdictSafe, Summary: "is external: it is used and no longer declared",
			Details: []string{"apply refuses on a broker that is without it"},
		}
	}
	var led []string
	for _, b := range p.before.bySource(p.name) {
		led = append(led, b.Destination)
	}
	slices.Sort(led)
	if led = slices.Compact(led); len(led) > 0 && c.Verdict == VerdictBreaking {
		c.Details = append(c.Details, "it led to "+few(quoted(led)))
	}
	p.place(&c, x.object, "")
	c.New = p.after.source(topology.KindExchange, p.name, "")
	p.add(c, append([]pooled{x}, parts...)...)
}

// routes makes a change of each binding that someone wrote.
func (p *pool) routes() {
	for _, x := range p.take("", partRoute) {
		if x.action() == ObjectAdded {
			p.routeAdded(x)
		} else {
			p.routeRemoved(x)
		}
	}
}

func (p *pool) routeAdded(x pooled) {
	b := *x.binding
	kind := p.after.exchangeType(b.Source)
	c := FlowChange{Code: CodeRouteAdded, Verdict: VerdictSafe, Summary: "receives " + received(b, kind)}
	if spreading(kind) {
		c.Details = append(c.Details, "the others that are bound there receive less")
	}
	if alternate, ok := p.after.exchanges[b.Source].Arguments["alternate-exchange"].(string); ok {
		c.Details = append(c.Details, "what it takes no longer goes on to "+from(alternate))
	}
	p.into(&c, b)
	c.New = p.after.bindingSource(b)
	p.add(c, x)
}

func (p *pool) routeRemoved(x pooled) {
	b := *x.binding
	kind := p.before.exchangeType(b.Source)
	c := FlowChange{Code: CodeRouteRemoved, Verdict: VerdictBreaking, Summary: "no longer receives " + received(b, kind)}
	if other, ok := p.covering(b); ok {
		c.Code, c.Verdict = CodeRouteCovered, VerdictSafe
		c.Summary = "still receives " + received(b, kind) + ", but by another binding"
		c.Details = append(c.Details, "what remains brings "+received(other, p.after.exchangeType(b.Source)))
	}
	p.into(&c, b)
	c.Old = p.before.bindingSource(b)
	c.New = p.after.source(topology.Kind(b.DestinationKind), b.Destination, "")
	if c.New == nil {
		c.New = p.after.source(topology.KindQueue, p.name, "")
	}
	p.add(c, x)
}

// into says where a binding leads if that is not what the flow is named after.
func (p *pool) into(c *FlowChange, b topology.Binding) {
	if b.Destination != p.name {
		c.Details = append(c.Details, "into "+string(b.DestinationKind)+" "+strconv.Quote(b.Destination))
	}
}

// covering returns a binding that brings everything that b did.
func (p *pool) covering(b topology.Binding) (topology.Binding, bool) {
	kind := p.after.exchangeType(b.Source)
	if kind != p.before.exchangeType(b.Source) {
		return topology.Binding{}, false
	}
	for _, other := range p.after.routes[endsOf(b)] {
		switch {
		case kind == "fanout",
			other.RoutingKey == b.RoutingKey && (kind == "direct" || kind == "topic"),
			kind == "topic" && strings.ContainsAny(other.RoutingKey, "*#") && covers(topicWords(other.RoutingKey), topicWords(b.RoutingKey)):
			return other, true
		}
	}
	return topology.Binding{}, false
}

// topicWords splits a key or a pattern as a topic exchange does: an empty one has no words.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// covers reports whether every routing key that the topic pattern b matches is matched by a too. It may
// say no where it is so after all, never yes where it is not.
func covers(a, b []string) bool {
	// can[j] says whether a from i on covers b from j on; it is filled from the end.
	can := make([]bool, len(b)+1)
	can[len(b)] = true
	for i := len(a) - 1; i >= 0; i-- {
		next := make([]bool, len(b)+1)
		next[len(b)] = a[i] == "#" && can[len(b)]
		for j := len(b) - 1; j >= 0; j-- {
			switch {
			case a[i] == "#":
				next[j] = can[j] || next[j+1]
			case b[j] == "#":
			case a[i] == "*" || a[i] == b[j]:
				next[j] = can[j+1]
			}
		}
		can = next
	}
	return can[0]
}
