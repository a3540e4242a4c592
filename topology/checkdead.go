package topology

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// deadLetters checks the dead-lettering that a plain queue sets by its arguments.
func (c *checker) deadLetters(q *queueText) {
	if q.Laddered() {
		return
	}
	exchange, key, strategy := c.argumentNode(q, argDLX), c.argumentNode(q, argDLRK), c.argumentNode(q, argStrategy)
	for _, n := range []*yaml.Node{exchange, key, strategy} {
		if n != nil && c.bad[n] {
			return
		}
	}
	if exchange == nil {
		for name, n := range map[string]*yaml.Node{argDLRK: key, argStrategy: strategy} {
			if n != nil {
				c.refuse(n, Diagnostic{
					Code: codeDLRK, Message: fmt.Sprintf("queue %q has %s and no %s", shown(q.Name), name, argDLX), Expected: "both",
					Hint: "dead_letter makes a dead-letter queue with all it needs",
				})
			}
		}
		return
	}
	if key != nil && !c.routingKey(key, key.Value) {
		return
	}
	sure := strategy != nil && c.strategy(q, strategy)
	switch {
	case exchange.Value == "":
		c.toDefault(q, exchange, key, sure)
	case c.deadLetterExchange(exchange) && sure && !c.routes(exchange.Value, key):
		c.refuse(exchange, Diagnostic{
			Code: codeUnroutable, Message: fmt.Sprintf("queue %q dead-letters at-least-once to exchange %q, and no binding takes it on", shown(q.Name), shown(exchange.Value)),
			Expected: "a binding that leads to a queue", Hint: "what has no route is kept for ever and holds up what is behind it",
		})
	}
}

// strategy reports whether a plain queue dead-letters at-least-once.
func (c *checker) strategy(q *queueText, n *yaml.Node) bool {
	switch {
	case n.Value != atLeastOnce && n.Value != "at-most-once":
		c.refuse(n, Diagnostic{
			Code: codeArgument, Message: fmt.Sprintf("%s is %s", argStrategy, quoted(n)), Expected: oneOf([]string{atLeastOnce, "at-most-once"}),
		})
		return false
	case n.Value == atLeastOnce && q.Type == retry.Quorum && q.Overflow != rejectPublish:
		c.refuse(n, Diagnostic{
			Code: codeAtMostOnce, Message: fmt.Sprintf("queue %q dead-letters at-least-once without reject-publish", shown(q.Name)),
			Expected: "overflow: reject-publish", Hint: "without it the broker takes at-least-once for at-most-once, silently",
		})
	}
	return n.Value == atLeastOnce
}

// toDefault checks dead-lettering through the default exchange, where the key is a queue's name.
func (c *checker) toDefault(q *queueText, exchange, key *yaml.Node, sure bool) {
	switch {
	case key == nil:
		c.refuse(exchange, Diagnostic{
			Code: codeUnroutable, Message: fmt.Sprintf("queue %q dead-letters to the default exchange with the keys that messages have", shown(q.Name)),
			Expected: argDLRK + " with the name of a queue", Hint: "only a message whose key is a queue's name would arrive anywhere",
		})
	case key.Value == q.Name:
		c.refuse(key, Diagnostic{
			Code: codeUnroutable, Message: fmt.Sprintf("queue %q dead-letters to itself", shown(q.Name)), Expected: "another queue",
			Hint: "the broker drops what expires or overflows in such a circle, silently; retry makes delays",
		})
	case sure && c.queues[key.Value] == nil && c.owners[sourceKey{KindQueue, key.Value, ""}] == nil:
		c.refuse(key, Diagnostic{
			Code: codeUnroutable, Message: fmt.Sprintf("queue %q dead-letters at-least-once to queue %q, which is not declared", shown(q.Name), shown(key.Value)),
			Expected: "a queue of this file", Hint: "what has no route is kept for ever and holds up what is behind it",
		})
	}
}

// deadLetterExchange reports whether a plain queue may dead-letter there: to an exchange of the file,
// or to the end of a ladder.
func (c *checker) deadLetterExchange(n *yaml.Node) bool {
	if q := c.owners[sourceKey{KindExchange, n.Value, ""}]; q != nil && q.Ladder().ParkExchange() == n.Value {
		return true
	}
	return c.known(n, "dead-letter exchange", n.Value)
}

// edge is a binding of the file.
type edge struct {
	kind DestinationKind
	to   string
	spec BindSpec
}

// routes reports whether something that is dead-lettered to the exchange may reach a queue. Without a
// routing key of its own it may have any.
func (c *checker) routes(exchange string, key *yaml.Node) bool {
	seen := map[string]bool{}
	var reach func(string) bool
	reach = func(name string) bool {
		x := c.exchanges[name]
		if x == nil || x.External {
			// Who binds to what exists elsewhere is not known; a ladder's end leads to its DLQ.
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		for _, e := range c.from[name] {
			if c.matches(e.spec, key) && (e.kind == ToQueue || reach(e.to)) {
				return true
			}
		}
		return x.AlternateExchange != "" && reach(x.AlternateExchange)
	}
	return reach(exchange)
}

func (c *checker) matches(b BindSpec, key *yaml.Node) bool {
	if key == nil {
		return true
	}
	switch c.kind(b.Exchange) {
	case "direct":
		return b.Key == key.Value
	case "topic":
		return topicMatches(topicWords(b.Key), topicWords(key.Value))
	}
	return true
}
