package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// ErrHandlersRunning is wrapped by what [Worker.Run] returns if handlers ignored the end of their
// context: their goroutines still run, and the broker delivers their messages again.
var ErrHandlersRunning = errors.New("handlers are still running")

const (
	// rpcTimeout bounds every call that waits for the broker.
	rpcTimeout = 10 * time.Second
	// cutGrace is how long handlers may take to return after their context has ended.
	cutGrace = 2 * time.Second
	// steady is how long a channel must have lived for the next reconnect to start at once again.
	steady = 10 * time.Second
)

// errStopped is the cause of the end of a handler's context when the worker stops.
var errStopped = errors.New("the worker is stopping")

// Worker consumes one work queue. Make it with [New].
type Worker struct {
	cfg     Config
	state   state
	running atomic.Bool
}

// New checks a configuration, reports everything that is wrong with it, joined, and does no I/O.
func New(c Config) (*Worker, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure worker: %w", err)
	}
	w := &Worker{cfg: c.withDefaults()}
	w.state.changed = make(chan struct{}, 1)
	w.state.log = w.log
	return w, nil
}

// Run consumes until ctx ends and then stops cleanly: it takes no more messages, gives back those that
// no handler has begun, lets the others finish for up to DrainTimeout, settles them, closes its
// connections and returns nil; or [ErrHandlersRunning].
//
// At the start it returns an error if the broker refuses the user or the vhost, if TLS does not match,
// or if the work queue or its parking exchange is missing. A broker that cannot be reached is tried
// for ever, and whatever happens later too: see [Worker.Ready]. Run may be called again after it has
// returned, but not twice at the same time.
func (w *Worker) Run(ctx context.Context) error {
	if !w.running.CompareAndSwap(false, true) {
		return fmt.Errorf("run worker of queue %q: it is running", w.cfg.Ladder.Queue)
	}
	defer w.running.Store(false)
	r := newRun(ctx, w)
	defer r.cut(errStopped)
	conn, err := r.first(ctx)
	if err != nil {
		w.state.consuming(text(err), slog.LevelWarn)
		return fmt.Errorf("run worker of queue %q: %w", w.cfg.Ladder.Queue, err)
	}
	if conn == nil {
		w.state.consuming("stopped", slog.LevelInfo)
		return nil
	}
	stopParker := r.startParker()
	last := r.consume(ctx, conn)
	w.state.consuming("stopped", slog.LevelInfo)
	err = r.drain(last)
	stopParker()
	if last != nil {
		last.close()
	}
	if err != nil {
		return fmt.Errorf("stop worker of queue %q: %w", w.cfg.Ladder.Queue, err)
	}
	return nil
}

// run is what lives from the call of Run to its return.
type run struct {
	*Worker
	parker *parker
	// slots holds a token for each running handler.
	slots chan struct{}
	// stopping is closed when Run shall end.
	stopping <-chan struct{}
	// work is the parent of the handlers' contexts; cut ends it.
	work context.Context
	cut  context.CancelCauseFunc

	mu       sync.Mutex
	inFlight map[*delivery]struct{}
}

func newRun(ctx context.Context, w *Worker) *run {
	r := &run{
		Worker:   w,
		slots:    make(chan struct{}, w.cfg.Concurrency),
		stopping: ctx.Done(),
		inFlight: make(map[*delivery]struct{}),
	}
	// A handler's work is not cut off by the end of ctx; see drain.
	r.work, r.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	r.parker = newParker(w.cfg.broker("park"), w.cfg.Ladder.ParkExchange(), &w.state)
	return r
}

// startParker keeps the publishing connection until the returned function is called.
func (r *run) startParker() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.work))
	var wg sync.WaitGroup
	wg.Go(func() { r.parker.run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// first connects and checks what the worker relies on. It returns no connection and no error if ctx
// has ended.
func (r *run) first(ctx context.Context) (*amqp.Connection, error) {
	var backoff rabbit.Backoff
	for {
		conn, err := rabbit.Dial(ctx, r.cfg.broker("consume"))
		if err == nil {
			var ch *amqp.Channel
			if ch, err = r.open(conn); err == nil {
				err = rabbit.Call(conn, rpcTimeout, ch.Close)
			}
			if err == nil {
				return conn, nil
			}
			rabbit.Close(conn, 0)
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case !rabbit.Temporary(err), refused(err):
			return nil, err
		}
		r.state.consuming(text(err), slog.LevelWarn)
		if backoff.Wait(ctx) != nil {
			return nil, nil
		}
	}
}

// refused reports whether the broker answered that something is missing or not allowed.
func refused(err error) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Server && (e.Code == amqp.NotFound || e.Code == amqp.AccessRefused)
}

// open opens a channel on which the work queue and its parking exchange are known to exist.
func (r *run) open(conn *amqp.Connection) (*amqp.Channel, error) {
	var ch *amqp.Channel
	l := r.cfg.Ladder
	err := rabbit.Call(conn, rpcTimeout, func() (err error) {
		if ch, err = conn.Channel(); err != nil {
			return fmt.Errorf("open channel: %w", err)
		}
		// The arguments do not matter for a passive declare.
		if _, err := ch.QueueDeclarePassive(l.Queue, true, false, false, false, nil); err != nil {
			return explain(fmt.Errorf("check queue %q: %w", l.Queue, err))
		}
		if err := ch.ExchangeDeclarePassive(l.ParkExchange(), amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return explain(fmt.Errorf("check exchange %q: %w", l.ParkExchange(), err))
		}
		return nil
	})
	return ch, err
}

// explain says what to do about something that is missing.
func explain(err error) error {
	var e *amqp.Error
	if errors.As(err, &e) && e.Code == amqp.NotFound {
		return fmt.Errorf("%w: apply the topology first (rmq-provision apply)", err)
	}
	return err
}

// consume runs one session after the other until ctx ends. It returns the last one if its channel is
// still open, for the handlers that are running; otherwise it has closed the connection.
func (r *run) consume(ctx context.Context, conn *amqp.Connection) *session {
	var backoff rabbit.Backoff
	for {
		began := time.Now()
		s, err := r.session(ctx, conn)
		if s != nil {
			return s
		}
		if time.Since(began) > steady {
			backoff.Reset()
		}
		for {
			if ctx.Err() == nil {
				r.state.consuming(text(err), slog.LevelWarn)
			}
			if backoff.Wait(ctx) != nil {
				rabbit.Close(conn, rpcTimeout)
				return nil
			}
			if !conn.IsClosed() {
				break
			}
			var next *amqp.Connection
			if next, err = rabbit.Dial(ctx, r.cfg.broker("consume")); err == nil {
				conn = next
				break
			}
		}
	}
}

// drain waits for the running handlers: for DrainTimeout, then it ends their contexts and waits a
// little more. It gives up on those that do not return then. s, which may be nil, is the session that
// the handlers' messages may still be settled in.
func (r *run) drain(s *session) error {
	limit := time.NewTimer(r.cfg.DrainTimeout)
	defer limit.Stop()
	var closed <-chan *amqp.Error
	if s != nil {
		closed = s.closed
	}
	for waiting := cap(r.slots); waiting > 0; {
		select {
		case r.slots <- struct{}{}:
			waiting--
		case <-closed:
			s.end()
			closed = nil
		case <-limit.C:
			if r.work.Err() != nil {
				return r.abandon()
			}
			r.log(slog.LevelWarn, "the drain timeout has passed: ending the handlers' contexts", nil)
			r.cut(errStopped)
			limit.Reset(cutGrace)
		}
	}
	// The places are free again, for a drain that finds nothing to do.
	for range cap(r.slots) {
		<-r.slots
	}
	return nil
}
