package provision

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// session is one connection to the broker and what works on it. The lock, the record and all changes
// share the connection: when it is gone, so is the lock, and nothing of ours can follow.
type session struct {
	conn    *amqp.Connection
	vhost   string
	answer  time.Duration
	closed  chan *amqp.Error
	workers []*worker
	release func() bool

	mu sync.Mutex
	// cause is why we gave the connection up ourselves.
	cause error
}

// connect dials until it works, the error is one that waiting does not mend, or o.Wait is over.
func connect(ctx context.Context, o Options, vhost string) (*session, error) {
	cfg := o.Rabbit
	cfg.VHost = vhost
	deadline := time.Now().Add(o.Wait)
	backoff := rabbit.Backoff{Base: 250 * time.Millisecond, Max: 2 * time.Second}
	for told := false; ; told = true {
		conn, err := rabbit.Dial(ctx, cfg)
		if err == nil {
			return newSession(ctx, o, conn, vhost), nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for the broker: %w: %w", ctx.Err(), err)
		case !rabbit.Temporary(err), o.Wait <= 0:
			return nil, err
		case !time.Now().Before(deadline):
			return nil, fmt.Errorf("waited %v for the broker: %w", o.Wait, err)
		}
		if !told {
			o.Logger.InfoContext(ctx, "waiting for the broker", "err", err)
		}
		waiting, cancel := context.WithDeadline(ctx, deadline)
		_ = backoff.Wait(waiting) // the loop looks at ctx and at the deadline itself
		cancel()
	}
}

func newSession(ctx context.Context, o Options, conn *amqp.Connection, vhost string) *session {
	s := &session{conn: conn, vhost: vhost, answer: o.answer, closed: conn.NotifyClose(make(chan *amqp.Error, 1))}
	// A call that waits for its answer does not see ctx: what is under way may end, then we cut.
	s.release = context.AfterFunc(ctx, func() {
		select {
		case <-s.closed:
		case <-time.After(min(o.answer, 5*time.Second)):
			s.giveUp(context.Cause(ctx))
		}
	})
	for range o.Channels {
		s.workers = append(s.workers, &worker{session: s})
	}
	return s
}

// close ends the connection, and with it the lock. It is not an error if it is gone already.
func (s *session) close() {
	s.release()
	_ = s.conn.CloseDeadline(time.Now().Add(5 * time.Second)) // closed is closed: there is nothing to do about it
}

// giveUp cuts a connection that does not answer.
func (s *session) giveUp(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
	}
	s.mu.Unlock()
	_ = s.conn.CloseDeadline(time.Now().Add(time.Second)) // it does not answer: that is why
}

// lost returns why the connection is gone, or nil if it is there.
func (s *session) lost() error {
	if !s.conn.IsClosed() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = amqp.ErrClosed
		if err := <-s.closed; err != nil {
			s.cause = err
		}
	}
	return s.cause
}

// version returns what the broker says its version is, such as "3.10.8".
func (s *session) version() string {
	v, _ := s.conn.Properties["version"].(string)
	return v
}

// worker is a channel that is opened when it is needed and again after the broker closed it. One
// goroutine uses it at a time.
type worker struct {
	session *session
	ch      *amqp.Channel
}

// do calls f with an open channel and makes sure that it comes back.
func (w *worker) do(f func(ch *amqp.Channel) error) error {
	s := w.session
	late := time.AfterFunc(s.answer, func() { s.giveUp(fmt.Errorf("the broker did not answer for %v", s.answer)) })
	defer late.Stop()
	err := w.open()
	if err == nil {
		err = f(w.ch)
	}
	if err != nil && s.conn.IsClosed() {
		var answer *amqp.Error
		if errors.As(err, &answer) && answer.Code != amqp.ChannelError {
			return err // a connection error says more than that it is gone
		}
		return fmt.Errorf("connection lost: %w", s.lost())
	}
	return err
}

func (w *worker) open() error {
	if w.ch != nil && !w.ch.IsClosed() {
		return nil
	}
	ch, err := w.session.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	w.ch = ch
	return nil
}

// each calls f for every item over all workers, and returns the error of the first call that failed.
// Those under way are let finish; no other is begun, nor after ctx ends.
func each[T any](ctx context.Context, s *session, items []T, f func(*worker, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan T)
	var wg sync.WaitGroup
	for _, w := range s.workers[:min(len(s.workers), len(items))] {
		wg.Go(func() {
			for item := range next {
				if err := f(w, item); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- item:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// replyCode returns the AMQP code of a broker's refusal, or 0 if err is none.
func replyCode(err error) int {
	var answer *amqp.Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// reply returns what the broker said, without the client library's words around it.
func reply(err error) string {
	var answer *amqp.Error
	if errors.As(err, &answer) {
		return fmt.Sprintf("%d %s", answer.Code, answer.Reason)
	}
	return err.Error()
}
