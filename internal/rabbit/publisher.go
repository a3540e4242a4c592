package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What can become of a publish that did not succeed. [Publisher.Publish] wraps them.
var (
	// ErrUnroutable: the broker returned the message, no queue has it.
	ErrUnroutable = errors.New("no queue is bound for it")
	// ErrNotConfirmed: the broker refused the message, or nobody knows whether it has it.
	ErrNotConfirmed = errors.New("the broker has not confirmed it")
)

// Publisher publishes persistent and mandatory messages on a channel of its own and believes a
// confirm only when it knows that the message was not returned. Safe for concurrent use: publishes
// are pipelined.
type Publisher struct {
	ch     *amqp.Channel
	probes chan chan struct{}
	// ended is closed when the channel is closed and all its returns have been seen.
	ended chan struct{}
	// cause is why; written before ended is closed.
	cause error

	mu       sync.Mutex
	inFlight map[*publish]struct{}
}

// publish is one message on its way.
type publish struct {
	exchange, key, id string
	body              []byte
	// returned is what the broker said when it returned the message, or "". Guarded by Publisher.mu.
	returned string
}

// NewPublisher puts a channel into confirm mode and takes it over: nothing else may publish on it,
// and closing it ends the Publisher.
func NewPublisher(ch *amqp.Channel) (*Publisher, error) {
	p := &Publisher{
		ch:       ch,
		probes:   make(chan chan struct{}),
		ended:    make(chan struct{}),
		inFlight: make(map[*publish]struct{}),
	}
	// The library gives up on a listener that does not take a return within 5 s, and then the confirm
	// of a message that reached nobody looks like success: so one reader that never waits.
	returns := ch.NotifyReturn(make(chan amqp.Return, 64))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("put the channel into confirm mode: %w", err)
	}
	go p.watch(returns, closed)
	return p, nil
}

// Done is closed when the Publisher's channel is closed; from then on every Publish returns an error.
func (p *Publisher) Done() <-chan struct{} { return p.ended }

// Publish sends a message, made persistent and mandatory, and waits until the broker has confirmed
// it. nil means that a queue has it. [ErrUnroutable] means that none has. With [ErrNotConfirmed],
// also when ctx ends first, the message may or may not have arrived: send it again if it must arrive,
// and expect a duplicate.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	m.DeliveryMode = amqp.Persistent
	sent := &publish{exchange: exchange, key: key, id: m.MessageId, body: m.Body}
	p.mu.Lock()
	p.inFlight[sent] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.inFlight, sent)
		p.mu.Unlock()
	}()
	if err := p.send(ctx, exchange, key, m); err != nil {
		return fmt.Errorf("publish to exchange %q: %w", exchange, err)
	}
	// A return comes before its confirm, so it is in the reader's channel or past it: ask the reader.
	probe := make(chan struct{})
	select {
	case p.probes <- probe:
		<-probe
	case <-p.ended:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent.returned != "" {
		return fmt.Errorf("publish to exchange %q: %w (%s)", exchange, ErrUnroutable, sent.returned)
	}
	return nil
}

// send publishes and waits for the confirm.
func (p *Publisher) send(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	if err := m.Headers.Validate(); err != nil {
		return err
	}
	type result struct {
		confirm *amqp.DeferredConfirmation
		err     error
	}
	written := make(chan result, 1)
	// A broker that is short of memory stops reading, and a write to a full socket ends only with the
	// connection, whatever ctx says.
	go func() {
		confirm, err := p.ch.PublishWithDeferredConfirm(exchange, key, true, false, m)
		written <- result{confirm, err}
	}()
	var r result
	select {
	case r = <-written:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotConfirmed, context.Cause(ctx))
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, p.because(r.err))
	}
	select {
	case <-r.confirm.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotConfirmed, context.Cause(ctx))
	}
	if r.confirm.Acked() {
		return nil
	}
	// The library answers every open confirm with a nack when the channel goes.
	if p.ch.IsClosed() {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, p.because(amqp.ErrClosed))
	}
	return fmt.Errorf("%w: the broker refused it (basic.nack): a queue is full or not available", ErrNotConfirmed)
}

// because returns why the channel is closed, or err if it is open.
func (p *Publisher) because(err error) error {
	if !p.ch.IsClosed() {
		return err
	}
	<-p.ended
	return p.cause
}

// watch is the one reader of what the channel reports.
func (p *Publisher) watch(returns <-chan amqp.Return, closed <-chan *amqp.Error) {
	defer close(p.ended)
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				p.cause = amqp.ErrClosed
				if err := <-closed; err != nil {
					p.cause = err
				}
				return
			}
			p.match(r)
		case probe := <-p.probes:
			p.drain(returns)
			close(probe)
		}
	}
}

// drain takes the returns that have arrived.
func (p *Publisher) drain(returns <-chan amqp.Return) {
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				return
			}
			p.match(r)
		default:
			return
		}
	}
}

// match marks the publish that a return belongs to. AMQP does not say which it is; where several in
// flight look the same it counts against each of them, since sending one twice is better than losing
// one.
func (p *Publisher) match(r amqp.Return) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.inFlight {
		if s.exchange == r.Exchange && s.key == r.RoutingKey && s.id == r.MessageId && bytes.Equal(s.body, r.Body) {
			s.returned = fmt.Sprintf("%d %s", r.ReplyCode, r.ReplyText)
		}
	}
}
