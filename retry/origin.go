package retry

import (
	"errors"
	"fmt"
	"time"
)

// ErrOriginUnknown is wrapped by [Ladder.Origin] when nothing says where a message was first
// published.
var ErrOriginUnknown = errors.New("where the message was first published is not known")

// Origin is where a message was first published and when it first failed.
type Origin struct {
	Exchange   string
	RoutingKey string
	// FirstFailure is zero for a message that has not failed yet, or if nothing says when. What the
	// broker remembers has whole seconds.
	FirstFailure time.Time
}

// Origin returns the exchange and the routing key with which a message was first published, whatever
// the ladder has made of them since, from the exchange and key of the delivery and its headers. The
// evidence, in this order:
//
//   - a delivery that came through the redrive exchange: redrive.exchange and redrive.routing_key;
//   - one moved by hand out of a DLQ of this queue, through the default exchange: dlq.source.*;
//   - any other that did not come through the return exchange: its own exchange and key;
//   - one that came back from a tier: the x-death entry of the work queue for rejections, whose
//     exchange and key are judged by the rules above; or, if there is none or it names the return
//     exchange, the headers retry.*, since then a client published a copy into a tier.
//
// So redrive.* and retry.* win over x-death where they belong to this trip through the ladder, and
// are ignored where a handler copied all headers into a new message.
//
// If the evidence is missing or malformed, Origin returns what is known and an error, which wraps
// [ErrOriginUnknown] if the exchange or the key is not known. What has more than 255 bytes is no name
// of AMQP's and counts as malformed, so that whatever Origin returns can be published with.
func (l Ladder) Origin(exchange, routingKey string, headers map[string]any) (Origin, error) {
	if exchange != l.ReturnExchange() {
		return l.arrival(exchange, routingKey, headers)
	}
	deaths, err := Deaths(headers)
	d, found := l.rejected(deaths)
	if !found || d.Exchange == l.ReturnExchange() {
		o, retryErr := retried(headers)
		if o.FirstFailure.IsZero() {
			o.FirstFailure = d.Time
		}
		return o, errors.Join(err, retryErr)
	}
	if len(d.RoutingKeys) == 0 || len(d.RoutingKeys[0]) > maxName || len(d.Exchange) > maxName {
		return Origin{Exchange: bounded(d.Exchange), FirstFailure: d.Time},
			errors.Join(err, fmt.Errorf("%s entry of queue %q has no routing key, or a name of more than %d bytes: %w", headerDeath, l.Queue, maxName, ErrOriginUnknown))
	}
	o, arrivalErr := l.arrival(d.Exchange, d.RoutingKeys[0], headers)
	o.FirstFailure = d.Time
	return o, errors.Join(err, arrivalErr)
}

// arrival returns the origin of a message that came to the work queue from outside the ladder.
func (l Ladder) arrival(exchange, routingKey string, headers map[string]any) (Origin, error) {
	switch {
	case exchange == l.RedriveExchange():
		o, err := originHeaders(headers, HeaderRedriveExchange, HeaderRedriveRoutingKey)
		if err != nil && o.RoutingKey == "" {
			// A fanout keeps the key, and a redrive publishes with the original one.
			o.RoutingKey = routingKey
		}
		return o, err
	case exchange == "" && headers[HeaderSourceQueue] == l.Queue:
		o, err := originHeaders(headers, HeaderSourceExchange, HeaderSourceRoutingKey)
		if err == nil {
			return o, nil
		}
	}
	return Origin{Exchange: exchange, RoutingKey: routingKey}, nil
}

func retried(headers map[string]any) (Origin, error) {
	o, err := originHeaders(headers, HeaderRetryExchange, HeaderRetryRoutingKey)
	f := fields{table: headers}
	if ms, found := f.integer(HeaderRetryFirstFailure); found {
		o.FirstFailure = fromMillis(ms)
	}
	return o, errors.Join(err, f.err())
}

func originHeaders(headers map[string]any, exchange, routingKey string) (Origin, error) {
	var (
		o        Origin
		e, k     bool
		f        = fields{table: headers}
		problems []error
	)
	o.Exchange, e = f.name(exchange)
	o.RoutingKey, k = f.name(routingKey)
	if !e || !k {
		problems = append(problems, fmt.Errorf("headers %s and %s: %w", exchange, routingKey, ErrOriginUnknown))
	}
	return o, errors.Join(append(problems, f.errs...)...)
}

// bounded returns a name, or "" for what cannot be one.
func bounded(name string) string {
	if len(name) > maxName {
		return ""
	}
	return name
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
