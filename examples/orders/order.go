package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmqkit/rmqkit/consumer"
)

// Order is the body of a message.
type Order struct {
	ID       string   `json:"id"`
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
}

// fulfil handles one order. It returns an error and nothing else: settling is not its business. An order
// may come twice, so a real one would look first whether this order's ID was fulfilled already.
func fulfil(ctx context.Context, o Order, m *consumer.Message) error {
	if o.Customer == "" {
		// No retry can mend this one: it is parked at once.
		return consumer.Permanent(errors.New("order without a customer"))
	}
	if err := pick(o.Items[0], m.Attempt); err != nil {
		// Any other error waits in the next tier of the ladder, and is parked after the last.
		return fmt.Errorf("pick %q: %w", o.Items[0], err)
	}
	return ctx.Err()
}

// pick plays a warehouse.
func pick(item string, attempt int) error {
	switch {
	case item == "rare book" && attempt < 3:
		return errors.New("the warehouse did not answer")
	case item == "unicorn":
		return errors.New("out of stock")
	}
	return nil
}
