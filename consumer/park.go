package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

const (
	// slowPark is how long a confirm may take before the worker says that it waits.
	slowPark = 2 * time.Second
	// parkBackoff bounds the waits between tries to park, so that a DLQ that is back is noticed soon.
	parkBackoff = 3 * time.Second
	// parkFarewell is how long the broker may take to agree that the connection ends. Under an alarm it does
	// not read that, and nothing that was published is waited for any more.
	parkFarewell = time.Second
)

var errNoConnection = errors.New("there is no connection to publish on")

// parker keeps a connection of its own for parking: under an alarm the broker stops reading from
// connections that publish, acknowledgements included.
type parker struct {
	broker   rabbit.Config
	exchange string
	state    *state
	// turn is held by the one who tries again; others that are held wait for what comes of it.
	turn chan struct{}

	mu        sync.Mutex
	publisher *rabbit.Publisher
	// changed is closed when there is another publisher.
	changed chan struct{}
	// blocked is why the broker does not read from the connection, or "".
	blocked string
}

func newParker(broker rabbit.Config, exchange string, s *state) *parker {
	return &parker{broker: broker, exchange: exchange, state: s, turn: make(chan struct{}, 1), changed: make(chan struct{})}
}

// run connects, again and again, until ctx ends.
func (p *parker) run(ctx context.Context) {
	var backoff rabbit.Backoff
	for {
		began := time.Now()
		err := p.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		p.state.publishing(text(err))
		if time.Since(began) > steady {
			backoff.Reset()
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}

// connect keeps one connection, with a channel to publish on, until it or ctx ends.
func (p *parker) connect(ctx context.Context) error {
	conn, err := rabbit.Dial(ctx, p.broker)
	if err != nil {
		return err
	}
	defer rabbit.Close(conn, parkFarewell)
	p.block("")
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 4))
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	for {
		publisher, err := openPublisher(conn)
		if err != nil {
			return err
		}
		p.use(publisher)
		p.state.publishing("")
		p.watch(ctx, publisher, blocked)
		p.use(nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// A publish to an exchange that does not exist closes its channel only.
		if conn.IsClosed() {
			return closedBecause(<-closed)
		}
	}
}

func openPublisher(conn *amqp.Connection) (publisher *rabbit.Publisher, err error) {
	err = rabbit.Call(conn, rpcTimeout, func() error {
		ch, err := conn.Channel()
		if err != nil {
			return fmt.Errorf("open channel: %w", err)
		}
		publisher, err = rabbit.NewPublisher(ch)
		return err
	})
	return publisher, err
}

// watch notes what the broker says about the connection until the publisher or ctx ends.
func (p *parker) watch(ctx context.Context, publisher *rabbit.Publisher, blocked <-chan amqp.Blocking) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-publisher.Done():
			return
		case b, ok := <-blocked:
			if !ok {
				blocked = nil
				continue
			}
			why := ""
			if b.Active {
				why = "the broker blocks publishers: " + b.Reason
			}
			p.block(why)
		}
	}
}

// block notes why the broker does not read from the connection; "" is that it does, as far as it has said.
func (p *parker) block(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = why
}

// use makes a publisher the present one, or none.
func (p *parker) use(publisher *rabbit.Publisher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publisher = publisher
	close(p.changed)
	p.changed = make(chan struct{})
}

// park publishes a message until the DLQ has it. It gives up with errLost when over is closed, and
// with errStopped when the worker stops: at once if the message is being held, since stopping must not
// wait for someone to mend the DLQ; otherwise when ctx ends.
func (p *parker) park(ctx context.Context, stopping, over <-chan struct{}, key string, m amqp.Publishing) error {
	ctx, cancel := context.WithCancelCause(ctx)
	held := make(chan struct{})
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel(nil)
	watcher.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-over:
			cancel(errLost)
			return
		case <-held:
		}
		select {
		case <-ctx.Done():
		case <-over:
			cancel(errLost)
		case <-stopping:
			cancel(errStopped)
		}
	})
	h := &hold{s: p.state}
	defer h.release()
	err := p.publish(ctx, h, key, m)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	close(held)
	h.failing(err)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	defer func() { <-p.turn }()
	backoff := rabbit.Backoff{Max: parkBackoff}
	for {
		if err = p.publish(ctx, h, key, m); err == nil {
			return nil
		}
		if ctx.Err() == nil {
			h.failing(err)
		}
		if backoff.Wait(ctx) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// publish tries once. While the connection lives it waits for the confirm as long as it takes: a
// broker under an alarm, or a queue that has lost its majority, confirms later, and publishing again
// would make a duplicate.
func (p *parker) publish(ctx context.Context, h *hold, key string, m amqp.Publishing) error {
	slow := time.AfterFunc(slowPark, func() { h.waiting(p.waitsFor()) })
	defer slow.Stop()
	publisher, err := p.await(ctx)
	if err != nil {
		return err
	}
	return publisher.Publish(ctx, p.exchange, key, m)
}

// await returns the present publisher, or the next one if that does not take long.
func (p *parker) await(ctx context.Context) (*rabbit.Publisher, error) {
	late := time.NewTimer(slowPark)
	defer late.Stop()
	for {
		p.mu.Lock()
		publisher, changed := p.publisher, p.changed
		p.mu.Unlock()
		if publisher != nil {
			return publisher, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, errNoConnection
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// waitsFor says what a publish waits for that takes long.
func (p *parker) waitsFor() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked != "" {
		return p.blocked
	}
	return fmt.Sprintf("no confirm within %v", slowPark)
}
