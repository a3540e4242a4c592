package rabbit

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrTimeout is wrapped by [Call] when the broker did not answer in time.
var ErrTimeout = errors.New("the broker did not answer in time")

// Call runs f, a call that waits for the broker, and cuts the connection if f has not returned within
// timeout: the client library knows no deadline for a single call, and heartbeats only tell that the
// broker's socket is alive.
func Call(conn *amqp.Connection, timeout time.Duration, f func() error) error {
	late := make(chan struct{})
	t := time.AfterFunc(timeout, func() {
		defer close(late)
		Close(conn, 0)
	})
	err := f()
	if t.Stop() {
		return err
	}
	<-late
	return fmt.Errorf("%w (%v): %w", ErrTimeout, timeout, errors.Join(err, amqp.ErrClosed))
}

// Close closes a connection, with the broker's consent if it comes within timeout. What was written
// before has then been read by the broker.
func Close(conn *amqp.Connection, timeout time.Duration) {
	// There is nothing to do about an error: the connection is closed in any case.
	_ = conn.CloseDeadline(time.Now().Add(timeout))
}
