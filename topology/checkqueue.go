package topology

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// finish makes a ladder of what has only retry, and refuses one without an end.
func (c *checker) finish(q *queueText) {
	if q.Retry == nil || q.DeadLetter != nil {
		return
	}
	if q.noDLQ {
		c.refuse(q.values["dead_letter"], Diagnostic{
			Code: codeConflict, Message: fmt.Sprintf("queue %q has retry and dead_letter: none", shown(q.Name)),
			Expected: "a dead-letter queue at the end of the retries", Hint: "leave dead_letter out, or write retry: none too",
		})
	}
	q.DeadLetter = &DeadLetterSpec{}
}

// queue checks one queue by itself.
func (c *checker) queue(q *queueText) {
	most := maxName
	if q.Laddered() {
		most = retry.MaxQueueName
	}
	c.name(q.name, KindQueue, q.Name, most)
	switch q.Type {
	case retry.Quorum:
		c.quorum(q)
	case retry.Classic:
		c.classic(q)
	}
	if q.Laddered() {
		c.laddered(q)
	}
}

// field refuses a value that a queue of the type cannot have.
func (c *checker) field(q *queueText, key string, wrong bool, expected, hint string) {
	n := q.values[key]
	if n == nil || !wrong || c.bad[n] {
		return
	}
	c.refuse(n, Diagnostic{
		Code: codeNotForType, Message: fmt.Sprintf("queue %q is %s and has %s", shown(q.Name), q.Type, key), Expected: expected, Hint: hint,
	})
}

func (c *checker) quorum(q *queueText) {
	c.field(q, "durable", !q.Durable, "durable: true", "the broker refuses a quorum queue that is not durable")
	c.field(q, "auto_delete", q.AutoDelete, "auto_delete: false", "the broker refuses it for a quorum queue")
	c.field(q, "max_priority", true, "no max_priority", "quorum queues have priorities without it from RabbitMQ 4.0; else use type: classic")
	if !q.Laddered() {
		c.field(q, "overflow", q.Overflow == rejectPublishDLX, oneOf([]string{dropHead, rejectPublish}), "only classic queues know it")
	}
	for _, arg := range []string{"x-queue-mode", argQueueVersion, "x-queue-master-locator"} {
		if n := c.argumentNode(q, arg); n != nil && !c.bad[n] {
			c.refuse(n, Diagnostic{
				Code: codeNotForType, Message: fmt.Sprintf("queue %q is quorum and has %s", shown(q.Name), arg),
				Expected: "no " + arg, Hint: "the broker refuses it for a quorum queue",
			})
		}
	}
}

func (c *checker) classic(q *queueText) {
	c.field(q, "delivery_limit", true, "no delivery_limit", "only quorum queues count deliveries")
	c.field(q, "initial_group_size", true, "no initial_group_size", "only quorum queues have replicas")
	if n := c.argumentNode(q, argStrategy); n != nil {
		c.refuse(n, Diagnostic{
			Code: codeNotForType, Message: fmt.Sprintf("queue %q is classic and has %s", shown(q.Name), argStrategy),
			Expected: "no " + argStrategy, Hint: "only quorum queues dead-letter at-least-once",
		})
	}
}

// laddered refuses what would make the broker lose messages of a work queue without a word.
func (c *checker) laddered(q *queueText) {
	name := shown(q.Name)
	if n := q.values["expires"]; n != nil && !c.bad[n] {
		c.refuse(n, Diagnostic{
			Code: codeExpires, Message: fmt.Sprintf("queue %q has a ladder and expires", name), Expected: "no expires",
			Hint: "when an unused queue goes, the messages that wait in its ladder have nowhere to return to",
		})
	}
	for _, key := range []string{"durable", "auto_delete"} {
		if n := q.values[key]; n != nil && q.Type == retry.Classic && !c.bad[n] && (key == "durable") != q.Durable {
			c.refuse(n, Diagnostic{
				Code: codeExpires, Message: fmt.Sprintf("queue %q has a ladder and does not stay", name), Expected: "a durable queue that is not deleted by itself",
				Hint: "when the queue goes, the messages that wait in its ladder have nowhere to return to",
			})
		}
	}
	c.ladderOverflow(q)
	for _, arg := range []string{argDLX, argDLRK, argStrategy} {
		if n := c.argumentNode(q, arg); n != nil && !c.bad[n] {
			c.refuse(n, Diagnostic{
				Code: codeLadderOwned, Message: fmt.Sprintf("%s on queue %q, which has a ladder", arg, name), Expected: "no " + arg,
				Hint: "retry and dead_letter set it; for a dead-letter exchange of your own leave them out",
			})
		}
	}
}

func (c *checker) ladderOverflow(q *queueText) {
	name := shown(q.Name)
	n := q.values["overflow"]
	if n == nil {
		n = &yaml.Node{}
	}
	switch {
	case c.bad[n], q.Overflow == "":
	case q.Type == retry.Quorum && q.Overflow != rejectPublish:
		c.refuse(n, Diagnostic{
			Code: codeOverflow, Message: fmt.Sprintf("queue %q dead-letters at-least-once and has overflow %s", name, q.Overflow),
			Expected: "reject-publish, which is the default there", Hint: "with another overflow the broker takes at-least-once for at-most-once, silently",
		})
	case q.Type == retry.Classic && q.Overflow != dropHead:
		c.refuse(n, Diagnostic{
			Code: codeOverflow, Message: fmt.Sprintf("queue %q is classic, has a ladder and overflow %s", name, q.Overflow),
			Expected: "drop-head or type: quorum", Hint: "a message that returns from its tier to a full queue would be lost",
		})
	}
	if n := q.deadLetter["overflow"]; n != nil && q.Type == retry.Classic && q.DeadLetter.Overflow == rejectPublish {
		c.refuse(n, Diagnostic{
			Code: codeOverflow, Message: fmt.Sprintf("the DLQ of queue %q is classic and has overflow reject-publish", name),
			Expected: "drop-head or type: quorum", Hint: "what the broker dead-letters into a full DLQ would be lost",
		})
	}
}

// argumentNode returns the value of an argument of a queue as written, or nil.
func (c *checker) argumentNode(q *queueText, name string) *yaml.Node {
	n := q.values["arguments"]
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for k, v := range pairs(n) {
		if k.Value == name && !c.bad[k] {
			return v
		}
	}
	return nil
}
