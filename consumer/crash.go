package consumer

import (
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/retry"
)

const (
	// headerDeliveryCount is where a quorum queue says how often a message came back unhandled.
	headerDeliveryCount = "x-delivery-count"
	// headerAcquiredCount is where it says, from RabbitMQ 4.3 on, how often it was handed out before.
	headerAcquiredCount = "x-acquired-count"
)

// crashes returns how often the consumers of a message died while they had it, at least, from what the
// broker of a version counted. It is 0 where the broker does not count: classic queues would show a
// header that a publisher made up.
//
// RabbitMQ 3.10 starts from 0 in each queue. 4.3 counts crashes only, over the message's whole life. 4.0
// counts rejections too; the first delivery after a tier shows those of all attempts before, with their
// crashes, and the next ones count from 1 again. One cannot tell which of the two a number is, so the
// smaller reading holds: on 4.0 a crash loop at attempt k ends k-1 crashes later than elsewhere, and no
// healthy message is parked. What lies between 4.0 and 4.3 is taken for 4.0.
//
// 4.3 does not count what was given back, and as long as it has counted nothing it leaves the header of
// a publisher alone, such as that of a message that was moved here with all its headers. It has written
// how often it handed the message out, which bounds the crashes of this attempt.
func crashes(d amqp.Delivery, t retry.QueueType, version string, attempt int) int64 {
	// Without the flag this is the first delivery, and the header can only be a publisher's.
	if t != retry.Quorum || !d.Redelivered {
		return 0
	}
	n := integer(d.Headers[headerDeliveryCount])
	if major, minor := parseVersion(version); major == 4 && minor < 3 {
		n -= int64(attempt - 1)
	}
	if acquired, ok := d.Headers[headerAcquiredCount]; ok {
		n = min(n, integer(acquired))
	}
	return max(n, 0)
}

// integer returns an integer of any AMQP type, or 0.
func integer(v any) int64 {
	switch n := v.(type) {
	case int8:
		return int64(n)
	case uint8:
		return int64(n)
	case int16:
		return int64(n)
	case uint16:
		return int64(n)
	case int32:
		return int64(n)
	case uint32:
		return int64(n)
	case int:
		return int64(n)
	case int64:
		return n
	}
	return 0
}

// parseVersion returns the first two numbers of a version such as "4.0.5". What cannot be read counts
// as 4.0, whose rule parks the fewest.
func parseVersion(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return 4, 0
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 4, 0
	}
	minor, err = strconv.Atoi(parts[1])
	if err != nil {
		return 4, 0
	}
	return major, minor
}
