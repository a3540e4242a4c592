package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/retry"
)

// lookAt is how many dead letters are listed at most.
const lookAt = 1000

// look lists what was parked, and why, and leaves it where it is.
func look(ctx context.Context, w io.Writer, url string, ladder retry.Ladder) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// What was got and not acknowledged goes back to its place when the connection ends.
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "order\treason\tattempts\terror\tbody")
	n, more := 0, true
	for ; n < lookAt && ctx.Err() == nil; n++ {
		var m amqp.Delivery
		if m, more, err = ch.Get(ladder.DeadLetterQueue(), false); err != nil || !more {
			break
		}
		// Headers that cannot be read are left out; what the broker parked by itself has none.
		f, _, _ := retry.ReadFailure(m.Headers)
		fmt.Fprintf(t, "%q\t%s\t%d\t%.60q\t%.60q\n", m.MessageId, f.Reason, f.Attempts, f.Message, m.Body)
	}
	if err != nil {
		return fmt.Errorf("look into %q: %w", ladder.DeadLetterQueue(), err)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(w, "… and perhaps more: only the first %d are listed\n", n)
	}
	return ctx.Err()
}
