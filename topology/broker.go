package topology

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/rmqkit/rmqkit/retry"
)

// oldestBroker is the oldest version, as major × 1000 + minor, that knows at-least-once.
const oldestBroker = 3*1000 + 10

var brokerVersion = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?$`)

// CheckBroker reports what a broker of this version ("3.10.8") would lose messages by, in source order,
// or nothing. Those are mistakes like any other, but [Parse] cannot know the version.
func (t *Topology) CheckBroker(version string) Diagnostics {
	d := &decoder{seen: map[Diagnostic]bool{}}
	whole := Position{Line: 1, Column: 1}
	for _, p := range t.sources.objects {
		whole.File = p.File
		break
	}
	m := brokerVersion.FindStringSubmatch(version)
	if m == nil {
		d.add(Diagnostic{
			Position: whole, Code: codeBroker, Message: fmt.Sprintf("the broker calls its version %q", shown(version)), Expected: "a version such as 4.0.5",
		})
		return d.diagnostics
	}
	// The pattern leaves nothing that Atoi could refuse.
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major*1000+minor < oldestBroker {
		d.add(Diagnostic{
			Position: whole, Code: codeBroker, Message: "the broker is RabbitMQ " + version, Expected: "3.10 or newer",
			Hint: "older ones dead-letter at-most-once only",
		})
		return d.diagnostics
	}
	for _, q := range t.Queues {
		if major < 4 && q.Laddered() {
			t.checkLadder(d, q, version)
		}
		t.checkArguments(d, q, version, major*1000+minor)
	}
	return d.sorted()
}

// checkArguments reports arguments that the broker refuses, before anything has been changed.
func (t *Topology) checkArguments(d *decoder, q QueueSpec, version string, is int) {
	refuse := func(argument, what, expected string) {
		d.add(Diagnostic{
			Position: t.Source(KindQueue, q.Name, argument), Code: codeBrokerArg,
			Message:  fmt.Sprintf("queue %q is %s and has %s, and the broker is RabbitMQ %s", shown(q.Name), q.Type, what, version),
			Expected: expected, Hint: "that broker refuses the queue",
		})
	}
	if q.Type == retry.Classic && q.LeaderLocator != "" && is < 4000 {
		refuse(argLeaderLocator, "leader_locator", "RabbitMQ 4.0 or newer, or no leader_locator")
	}
	if v, ok := q.Arguments[argQueueVersion].(int64); ok && v == 1 && is >= 4003 {
		refuse(argQueueVersion, argQueueVersion+" 1", "version 2, or no "+argQueueVersion)
	}
}

// checkLadder reports what, on RabbitMQ 3.x, makes deaths that are not rejections; it cannot
// always tell them from those that are, and then drops the message as a dead-letter cycle.
func (t *Topology) checkLadder(d *decoder, q QueueSpec, version string) {
	refuse := func(argument, code, what string) {
		d.add(Diagnostic{
			Position: t.Source(KindQueue, q.Name, argument), Code: code,
			Message:  fmt.Sprintf("queue %q has a ladder and %s, and the broker is RabbitMQ %s", shown(q.Name), what, version),
			Expected: "RabbitMQ 4.0 or newer, or no " + what,
			Hint:     "before 4.0 the broker can lose what dies of it, without a word",
		})
	}
	if q.MessageTTL != nil {
		refuse(argMessageTTL, codeBrokerTTL, "message_ttl")
	}
	// A quorum queue with a ladder rejects publishes instead; a classic one drops the head.
	if q.Type == retry.Classic {
		if q.MaxLength != nil {
			refuse(argMaxLength, codeBrokerLength, "max_length with drop-head")
		}
		if q.MaxLengthBytes != nil {
			refuse(argMaxLengthBytes, codeBrokerLength, "max_length_bytes with drop-head")
		}
	}
	if q.DeliveryLimit != nil {
		refuse(argDeliveryLimit, codeBrokerLimit, "delivery_limit")
	}
}
