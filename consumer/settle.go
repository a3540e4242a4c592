package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

var (
	// errLost is why there is no other outcome.
	errLost = errors.New("the channel was lost before the message was settled")
	// errAbandoned is that of a handler that did not return.
	errAbandoned = errors.New("the handler ignored the end of its context")
	// errHeld is why a message is given back that could not be parked.
	errHeld = errors.New("the worker stopped while the message could not be parked")
)

// delivery is one message in the session it came in.
type delivery struct {
	s *session
	d amqp.Delivery
	// message is the handler's; what is parked is d.
	message   *Message
	origin    retry.Origin
	originErr error
	// claimed is set by who settles it.
	claimed atomic.Bool
}

func (r *run) newDelivery(s *session, d amqp.Delivery) *delivery {
	headers := rabbit.Plain(d.Headers)
	origin, err := r.cfg.Ladder.Origin(d.Exchange, d.RoutingKey, headers)
	return &delivery{s: s, d: d, origin: origin, originErr: err, message: newMessage(r.cfg.Ladder, d, origin, headers)}
}

// start runs the handler for a delivery. The caller has taken a slot for it.
func (r *run) start(s *session, d amqp.Delivery) {
	m := r.newDelivery(s, d)
	r.mu.Lock()
	r.inFlight[m] = struct{}{}
	r.mu.Unlock()
	go func() {
		defer func() {
			r.mu.Lock()
			delete(r.inFlight, m)
			r.mu.Unlock()
			<-r.slots
		}()
		r.process(m)
	}()
}

// process decides about one delivery, by its handler or without, and settles it.
func (r *run) process(m *delivery) {
	attempt := m.message.Attempt
	n := crashes(m.d, r.cfg.Ladder.QueueType(), m.s.version, attempt)
	if o, unseen := decideUnseen(n, r.cfg.CrashLimit); unseen {
		r.settle(m, o, 0)
		return
	}
	err, began := errGoexit, time.Now()
	// Deferred, since a handler can end its goroutine (runtime.Goexit).
	defer func() {
		o := Decide(err, attempt, r.cfg.Ladder.Tiers, r.work.Err() != nil)
		r.settle(m, o, time.Since(began))
	}()
	err = r.call(m.message)
}

// call calls the handler. A panic is an error.
func (r *run) call(m *Message) (err error) {
	ctx := r.work
	if r.cfg.HandlerTimeout != NoHandlerTimeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.cfg.HandlerTimeout)
		defer cancel()
	}
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: trimStack(string(debug.Stack()))}
		}
	}()
	err = r.cfg.Handler(ctx, m)
	if err == nil {
		return nil
	}
	// A nil pointer in an error interface is a common mistake, and its methods may panic: here, where
	// that is caught.
	_, _ = categoryOf(err), classOf(err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = &timeoutError{err: err, after: r.cfg.HandlerTimeout}
	}
	return err
}

// trimStack leaves out the frames between the panic and its report.
func trimStack(stack string) string {
	if _, after, found := strings.Cut(stack, "\npanic("); found {
		if lines := strings.SplitN(after, "\n", 3); len(lines) == 3 {
			return lines[2]
		}
	}
	return stack
}

// facts returns what is known of a delivery whatever becomes of it. Not from its message: that is the
// handler's.
func (r *run) facts(m *delivery) Settled {
	return Settled{
		Queue: r.cfg.Ladder.Queue, MessageID: m.d.MessageId, Exchange: m.origin.Exchange, RoutingKey: m.origin.RoutingKey,
		Attempt: r.cfg.Ladder.Attempt(m.d.Exchange, m.d.RoutingKey),
	}
}

// settle carries out what was decided about a delivery, in its session, and reports it. Nothing else
// acknowledges or rejects; a delivery that is settled already is left alone.
func (r *run) settle(m *delivery, o Outcome, took time.Duration) {
	if !m.claimed.CompareAndSwap(false, true) {
		return
	}
	s := r.facts(m)
	s.Duration = took
	s.Verdict, s.Reason, s.Category, s.Delay, s.Err = o.Verdict, o.Reason, o.Category, o.Delay, o.Err
	err := errLost
	if m.s.alive() {
		err = r.send(m, o, &s)
	}
	if err != nil {
		s.Verdict, s.Reason, s.Delay = Lost, "", 0
		s.Err = errors.Join(err, o.Err)
	}
	r.report(s)
}

// send carries out an outcome. The delivery's own channel takes the answer: it refuses when it is
// closed, and no other channel ever sees the tag.
func (r *run) send(m *delivery, o Outcome, s *Settled) error {
	var err error
	switch o.Verdict {
	case Acked, Discarded:
		err = m.d.Ack(false)
	case Retried:
		err = m.d.Nack(false, false)
	case GivenBack:
		err = m.d.Nack(false, true)
	case Parked:
		return r.park(m, o, s)
	default:
		panic(fmt.Sprintf("consumer: verdict %q is not for sending", o.Verdict))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// park publishes a message with its evidence and acknowledges it when the DLQ has it.
func (r *run) park(m *delivery, o Outcome, s *Settled) error {
	id := retry.NewID(time.Now())
	// The publisher's key; the exchange is a fanout.
	key := m.origin.RoutingKey
	if m.originErr != nil && key == "" {
		key = m.d.RoutingKey
	}
	err := r.parker.park(r.work, r.stopping, m.s.over, key, r.parked(m, o, id))
	if errors.Is(err, errStopped) {
		<-m.s.quiet
	}
	switch {
	case errors.Is(err, errStopped) && m.s.alive():
		if err := m.d.Nack(false, true); err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		s.Verdict, s.Reason = GivenBack, ""
		s.Err = errors.Join(errHeld, err, o.Err)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errLost, err)
	}
	s.DeadLetterID = id
	if err := m.d.Ack(false); err != nil {
		return fmt.Errorf("%w, but after a copy of it was parked as %s: %w", errLost, id, err)
	}
	return nil
}

// abandon reports the messages of handlers that did not return: the broker gets them back when their
// channel is closed.
func (r *run) abandon() error {
	r.mu.Lock()
	left := make([]*delivery, 0, len(r.inFlight))
	for m := range r.inFlight {
		left = append(left, m)
	}
	r.mu.Unlock()
	for _, m := range left {
		if m.claimed.CompareAndSwap(false, true) {
			s := r.facts(m)
			s.Verdict, s.Err = Lost, errAbandoned
			r.report(s)
		}
	}
	return fmt.Errorf("%w: %d did not return within %v after their context had ended; their messages are delivered again",
		ErrHandlersRunning, len(left), cutGrace)
}
