package main

import (
	"context"
	"encoding/json"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publish sends messages and returns nil when a queue has every one of them: they are persistent, the
// broker has confirmed each, and none came back as unroutable. After an error, send them again.
func publish(ctx context.Context, url string, messages []amqp.Publishing) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("ask for confirms: %w", err)
	}
	// Room for all: the library drops a return that nobody takes, and the broker confirms what it returned.
	returns := ch.NotifyReturn(make(chan amqp.Return, len(messages)))
	confirms := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		m.DeliveryMode = amqp.Persistent
		// mandatory: a message that no queue is bound for comes back instead of being dropped.
		confirms[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, "orders", "order.created", true, false, m)
		if err != nil {
			return fmt.Errorf("publish order %s: %w", m.MessageId, err)
		}
	}
	for i, c := range confirms {
		confirmed, err := c.WaitContext(ctx)
		if err != nil {
			return fmt.Errorf("publish order %s: %w", messages[i].MessageId, err)
		}
		if !confirmed {
			return fmt.Errorf("publish order %s: the broker did not take it", messages[i].MessageId)
		}
	}
	// A return comes before its confirm, so all that there are have come.
	select {
	case r := <-returns:
		return fmt.Errorf("publish order %s: no queue is bound for it", r.MessageId)
	default:
		return nil
	}
}

// message makes an order a message. Its message_id is the producer's own and stays the same if it is sent
// again: that is what lets a handler see that it has handled it.
func message(o Order) (amqp.Publishing, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return amqp.Publishing{}, fmt.Errorf("encode order %s: %w", o.ID, err)
	}
	return amqp.Publishing{MessageId: o.ID, ContentType: "application/json", Body: body}, nil
}
