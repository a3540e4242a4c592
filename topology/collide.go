package topology

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// generated yields what a ladder makes beside its queue: kind and name, and where each comes from.
func (c *checker) generated(q *queueText, yield func(kind Kind, name string, from *yaml.Node)) {
	l := q.Ladder()
	ladder := q.name
	if n := q.values["retry"]; n != nil && q.Retry != nil {
		ladder = n
	}
	end := ladder
	if n := q.values["dead_letter"]; n != nil {
		end = n
	}
	for _, name := range []string{
		l.RetryExchange(), l.LadderExchange(retry.SetA), l.LadderExchange(retry.SetB),
		l.FirstExchange(retry.SetA), l.FirstExchange(retry.SetB), l.ReturnExchange(), l.ParkExchange(), l.RedriveExchange(),
	} {
		yield(KindExchange, name, ladder)
	}
	for i := range l.Tiers {
		from := ladder
		if i < len(q.tiers) {
			from = q.tiers[i]
		}
		if x := l.SpreadExchange(i + 1); x != "" {
			yield(KindExchange, x, from)
		}
		for _, t := range l.TierQueues(i + 1) {
			yield(KindQueue, t.Name, from)
		}
	}
	if n := q.deadLetter["queue"]; n != nil {
		end = n
	}
	yield(KindQueue, l.DeadLetterQueue(), end)
}

// collisions finds names that are given twice once everything is expanded, and fills in where the
// generated ones come from. An exchange and a queue may have one name.
func (c *checker) collisions() {
	for _, q := range c.file.queues {
		if !q.Laddered() {
			continue
		}
		c.generated(q, func(kind Kind, name string, from *yaml.Node) {
			k := sourceKey{kind, name, ""}
			if other := c.owners[k]; other != nil && other != q {
				c.refuse(from, Diagnostic{
					Code: codeCollision, Message: fmt.Sprintf("%s %q of the ladder of queue %q belongs to the ladder of queue %q too", kind, shown(name), shown(q.Name), shown(other.Name)),
					Expected: "names that differ", Hint: "rename one of the queues",
				})
				return
			}
			c.owners[k] = q
			var declared *yaml.Node
			if x := c.exchanges[name]; kind == KindExchange && x != nil {
				declared = x.name
			}
			if x := c.queues[name]; kind == KindQueue && x != nil {
				declared = x.name
			}
			if declared != nil {
				c.refuse(declared, Diagnostic{
					Code: codeCollision, Message: fmt.Sprintf("%s %q is also made by the ladder of queue %q", kind, shown(name), shown(q.Name)),
					Expected: "another name", Hint: "the ladder makes it; rename this one, or leave it out",
				})
				return
			}
			c.generatedSource(q, kind, name, from)
		})
	}
}

func (c *checker) place(kind Kind, name, argument string, n *yaml.Node) {
	if n != nil {
		c.file.sources.objects[sourceKey{kind, name, argument}] = c.of(n)
	}
}

func (c *checker) generatedSource(q *queueText, kind Kind, name string, from *yaml.Node) {
	c.place(kind, name, "", from)
	if kind != KindQueue {
		return
	}
	c.place(kind, name, argQueueType, q.values["type"])
	if name == q.Ladder().DeadLetterQueue() {
		c.limitSources(name, q.deadLetter)
	}
}

func (c *checker) limitSources(name string, values map[string]*yaml.Node) {
	for arg, field := range queueArguments.fields {
		c.place(KindQueue, name, arg, values[field])
	}
}

func (c *checker) queueSource(q *queueText) {
	c.place(KindQueue, q.Name, "", q.name)
	if n := q.values["arguments"]; n != nil && n.Kind == yaml.MappingNode {
		for k, v := range pairs(n) {
			c.place(KindQueue, q.Name, k.Value, v)
		}
	}
	if q.Laddered() {
		from := q.values["retry"]
		if from == nil {
			from = q.values["dead_letter"]
		}
		for _, arg := range []string{argDLX, argStrategy, argOverflow, argDeliveryLimit} {
			c.place(KindQueue, q.Name, arg, from)
		}
	}
	c.limitSources(q.Name, q.values)
	for _, key := range []string{"durable", "auto_delete"} {
		c.place(KindQueue, q.Name, key, q.values[key])
	}
}

func (c *checker) exchangeSource(x *exchangeText) {
	c.place(KindExchange, x.Name, "", x.name)
	if n := x.values["arguments"]; n != nil && n.Kind == yaml.MappingNode {
		for k, v := range pairs(n) {
			c.place(KindExchange, x.Name, k.Value, v)
		}
	}
	for _, key := range []string{"type", "durable", "auto_delete", "internal"} {
		c.place(KindExchange, x.Name, key, x.values[key])
	}
	c.place(KindExchange, x.Name, argAlternate, x.values["alternate_exchange"])
}

// topology makes the result of what was read without a mistake.
func (f *fileText) topology() *Topology {
	t := &Topology{Name: f.name, VHost: f.vhost, sources: f.sources}
	for _, x := range f.exchanges {
		t.Exchanges = append(t.Exchanges, x.ExchangeSpec)
	}
	for _, q := range f.queues {
		t.Queues = append(t.Queues, q.QueueSpec)
	}
	return t
}
