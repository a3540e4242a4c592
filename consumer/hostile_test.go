package consumer_test

import (
	"context"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// TestAKeyThatDoesNotFitIsParked: headers that say where a message came from are anyone's to write, and
// a routing key of more than 255 bytes cannot be published: the library ends the connection.
func TestAKeyThatDoesNotFitIsParked(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		f := newFixture(t, b, "quorum", "")
		r := f.run(f.config(func(context.Context, *consumer.Message) error { return errDown }))
		for header, exchange := range map[string]string{"dlq.source.routing_key": "", "redrive.routing_key": "work.redrive"} {
			headers := amqp.Table{
				"dlq.source.queue": "work", "dlq.source.exchange": "shop", "redrive.exchange": "shop",
				header: strings.Repeat("k", 300),
			}
			m := amqp.Publishing{Headers: headers, DeliveryMode: amqp.Persistent}
			if err := f.ch.PublishWithContext(t.Context(), exchange, "work", true, false, m); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range r.outcomes(2) {
			if s.Verdict != consumer.Parked {
				t.Errorf("outcome %+v", s)
			}
		}
		for _, d := range f.dead(2) {
			if d.RoutingKey != "work" {
				t.Errorf("routing key %q", d.RoutingKey)
			}
		}
	})
}

// TestACountOfThePublisherIsNoCrash: a message that was moved by a client carries the count of the queue
// that it came from, and where a give-back does not count it is still there on the next delivery.
func TestACountOfThePublisherIsNoCrash(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		f := newFixture(t, b, "quorum", "1s")
		f.publish(amqp.Publishing{MessageId: "A", Headers: amqp.Table{"x-delivery-count": int64(99)}})
		var d amqp.Delivery
		until(t, "delivered", func() (ok bool) {
			var err error
			if d, ok, err = f.ch.Get("work", false); err != nil {
				t.Fatal(err)
			}
			return ok
		})
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		hands := make(calls, 10)
		r := f.run(f.config(hands.handle))
		for _, result := range []error{errDown, nil} {
			h := hands.next(t)
			h.result <- result
		}
		if s := r.outcomes(2); s[0].Verdict != consumer.Retried || s[1].Verdict != consumer.Acked {
			t.Errorf("outcomes %+v", s)
		}
	})
}
