package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// pauseGrace is how long messages that no handler has begun may wait while none can be parked. Then
// they are given back: other workers may do better, and the broker's consumer timeout (30 min) runs.
const pauseGrace = 5 * time.Second

// The reasons for which a session ends.
var (
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted, has no leader, or a message was held beyond the consumer timeout")
	errChannel   = errors.New("the channel was closed")
)

// session is the life of one channel. A delivery belongs to the session it came in and is settled
// there or nowhere: tags start anew in every channel, and an old one would settle another message.
type session struct {
	r       *run
	conn    *amqp.Connection
	ch      *amqp.Channel
	version string
	closed  chan *amqp.Error
	// cancels tells of consumers that the broker cancelled.
	cancels chan string

	// tag and deliveries are those of the present consumer; deliveries is nil without one. They wait in
	// the client library until there is a free slot, so what was not begun dies with the channel.
	tag        string
	deliveries <-chan amqp.Delivery
	// taken are deliveries that came when the worker was stopping already.
	taken []amqp.Delivery
	// place says that the loop has a slot for the next delivery; paused, that none is handed out, and
	// pause ends with giving back what waits.
	place, paused bool
	pause         *time.Timer

	// quiet is closed when the session takes no more deliveries: what is given back before would come
	// straight back to it.
	quiet chan struct{}
	// over is closed when nothing can be settled any more.
	over chan struct{}
	once sync.Once
}

// session opens a channel, consumes and returns why it ended; or, when ctx ends, itself, with the
// consumer cancelled and everything given back that was not begun.
func (r *run) session(ctx context.Context, conn *amqp.Connection) (*session, error) {
	ch, err := r.open(conn)
	if err != nil {
		return nil, err
	}
	version, _ := conn.Properties["version"].(string)
	s := &session{
		r: r, conn: conn, ch: ch, version: version,
		quiet: make(chan struct{}), over: make(chan struct{}),
		closed:  ch.NotifyClose(make(chan *amqp.Error, 1)),
		cancels: ch.NotifyCancel(make(chan string, 1)),
	}
	err = s.loop(ctx)
	if err == nil {
		return s, nil
	}
	s.end()
	// Whatever happened, the broker takes back what is unsettled only when the channel is closed.
	_ = rabbit.Call(conn, rpcTimeout, ch.Close)
	return nil, err
}

// alive reports whether a delivery of this session can still be settled.
func (s *session) alive() bool {
	select {
	case <-s.over:
		return false
	default:
		return !s.conn.IsClosed() && !s.ch.IsClosed()
	}
}

// end makes the session over.
func (s *session) end() { s.once.Do(func() { close(s.over) }) }

// close ends the session and its connection. The broker has carried out every acknowledgement when it
// answers that the channel is closed.
func (s *session) close() {
	s.end()
	_ = rabbit.Call(s.conn, rpcTimeout, s.ch.Close)
	rabbit.Close(s.conn, rpcTimeout)
}

// loop hands out deliveries until ctx ends, which is no error, or the session does.
func (s *session) loop(ctx context.Context) error {
	defer close(s.quiet)
	if err := s.subscribe(); err != nil {
		return err
	}
	s.r.state.consuming("", 0)
	s.pause = time.NewTimer(pauseGrace)
	defer s.pause.Stop()
	defer s.leave()
	if err := s.look(); err != nil {
		return err
	}
	for {
		var err error
		slots, in := s.sources()
		select {
		case <-ctx.Done():
			return s.giveBack()
		case err := <-s.closed:
			return closedBecause(err)
		case <-s.cancels:
			return errCancelled
		case slots <- struct{}{}:
			s.place = true
		case d, ok := <-in:
			err = s.take(ctx, d, ok)
		case <-s.r.state.changed:
			err = s.look()
		case <-s.pause.C:
			err = s.giveBack()
		}
		if err != nil {
			return err
		}
	}
}

// sources returns what the loop waits for: a place for a handler, and then a delivery, so that one is
// taken only when a handler can have it; neither while consuming is paused.
func (s *session) sources() (slots chan<- struct{}, in <-chan amqp.Delivery) {
	switch {
	case s.paused || s.deliveries == nil:
		return nil, nil
	case s.place:
		return nil, s.deliveries
	}
	return s.r.slots, nil
}

// leave gives up a place that no handler got.
func (s *session) leave() {
	if s.place {
		<-s.r.slots
		s.place = false
	}
}

// take starts the handler for a delivery.
func (s *session) take(ctx context.Context, d amqp.Delivery, ok bool) error {
	switch {
	case !s.alive():
		// It was buffered when the channel died: the broker delivers it again.
		return closedBecause(<-s.closed)
	case !ok:
		return errCancelled
	case ctx.Err() != nil:
		s.taken = append(s.taken, d)
		return nil
	}
	s.place = false
	s.r.start(s, d)
	return nil
}

// look pauses or resumes consuming as parking fails or works.
func (s *session) look() error {
	if s.paused = s.r.state.paused(); s.paused {
		s.pause.Reset(pauseGrace)
		return nil
	}
	s.pause.Stop()
	if s.deliveries == nil {
		return s.subscribe()
	}
	return nil
}

func closedBecause(err *amqp.Error) error {
	if err == nil {
		return errChannel
	}
	return fmt.Errorf("%w: %w", errChannel, err)
}

// subscribe starts a consumer with a tag that no other ever had.
func (s *session) subscribe() error {
	tag := s.r.cfg.Name + "-" + rand.Text()[:12]
	err := rabbit.Call(s.conn, rpcTimeout, func() error {
		// With each consumer: nothing remembers it for us.
		if err := s.ch.Qos(s.r.cfg.Prefetch, 0, false); err != nil {
			return fmt.Errorf("set prefetch: %w", err)
		}
		deliveries, err := s.ch.Consume(s.r.cfg.Ladder.Queue, tag, false, false, false, false, nil)
		if err != nil {
			return explain(fmt.Errorf("consume queue %q: %w", s.r.cfg.Ladder.Queue, err))
		}
		s.tag, s.deliveries = tag, deliveries
		return nil
	})
	return err
}

// giveBack cancels the consumer and gives back, once, what no handler has begun: those that were taken
// and those that wait. The order matters: a message given back while the consumer exists comes straight
// back and is counted again, up to the delivery limit (measured on RabbitMQ 3.10 and 4.0).
func (s *session) giveBack() error {
	if s.deliveries == nil {
		return nil
	}
	deliveries := s.deliveries
	s.deliveries = nil
	if err := rabbit.Call(s.conn, rpcTimeout, func() error { return s.ch.Cancel(s.tag, false) }); err != nil {
		return fmt.Errorf("cancel consumer: %w", err)
	}
	// The library closes it after the last delivery that came before the broker's answer.
	for d := range deliveries {
		s.taken = append(s.taken, d)
	}
	for _, d := range s.taken {
		s.r.settle(s.r.newDelivery(s, d), Outcome{Verdict: GivenBack}, 0)
	}
	s.taken = nil
	return nil
}
