package provision

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// lockName returns the name of the exclusive queue that is the lock.
func lockName(topology string) string { return "rmqkit.lock." + topology }

// lock makes s the only one that applies this topology in this vhost, for as long as its connection
// lives. The lock is an exclusive queue: the broker refuses it to every other connection and deletes
// it with ours, however that ends.
func lock(ctx context.Context, s *session, o Options, topology string) error {
	name := lockName(topology)
	deadline := time.Now().Add(o.LockWait)
	backoff := rabbit.Backoff{Base: 50 * time.Millisecond, Max: time.Second}
	for told := false; ; told = true {
		err := s.workers[0].do(func(ch *amqp.Channel) error {
			// The type is said because a vhost's default may be one that cannot be exclusive.
			_, err := ch.QueueDeclare(name, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
			return err
		})
		switch {
		case err == nil:
			return nil
		case replyCode(err) != amqp.ResourceLocked:
			return fmt.Errorf("take the lock %q: %w", name, err)
		case !told && noLock(s, name):
			return refusef("queue %q exists and is no lock, which would be exclusive: rmqkit did not make it; delete it", name)
		case ctx.Err() != nil:
			return fmt.Errorf("wait for the lock %q: %w", name, ctx.Err())
		case !time.Now().Before(deadline):
			return fmt.Errorf("%w: queue %q is held by another connection; waited %v", ErrLocked, name, max(o.LockWait, 0))
		}
		if !told {
			o.Logger.InfoContext(ctx, "waiting for another apply to finish", "queue", name)
		}
		waiting, cancel := context.WithDeadline(ctx, deadline)
		_ = backoff.Wait(waiting) // the loop looks at ctx and at the deadline itself
		cancel()
	}
}

// noLock reports whether the queue that would be the lock is open to everybody. The broker says 405 of it
// as of a lock that is held, and of that also to a passive declare.
func noLock(s *session, name string) bool {
	err := s.workers[0].do(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
		return err
	})
	return err == nil
}
