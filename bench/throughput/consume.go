package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
)

// consumeOurs is package consumer. The clock runs from the first handler call to the last settlement, so
// that connecting does not count.
func consumeOurs(ctx context.Context, s setting) (time.Duration, error) {
	ladder, err := s.broker.topology.Ladder(s.queue)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newClock(s.n, cancel)
	w, err := consumer.New(consumer.Config{
		URL: s.broker.url, Ladder: ladder, Concurrency: s.handler, Prefetch: s.prefetch,
		Handler: func(context.Context, *consumer.Message) error {
			c.start()
			return nil
		},
		Observe: func(consumer.Settled) { c.settle() },
	})
	if err != nil {
		return 0, err
	}
	return c.took(w.Run(ctx))
}

// consumeBare is the client library's loop, one acknowledgement a message.
func consumeBare(ctx context.Context, s setting) (time.Duration, error) {
	conn, err := amqp.Dial(s.broker.url)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	if err := ch.Qos(s.prefetch, 0, false); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newClock(s.n, cancel)
	deliveries, err := ch.ConsumeWithContext(ctx, s.queue, "", false, false, false, false, nil)
	if err != nil {
		return 0, err
	}
	var handlers sync.WaitGroup
	for range s.handler {
		handlers.Go(func() {
			for d := range deliveries {
				c.start()
				if d.Ack(false) != nil {
					return
				}
				c.settle()
			}
		})
	}
	<-ctx.Done()
	handlers.Wait()
	return c.took(nil)
}

// clock takes the time from the first message to the last.
type clock struct {
	once       sync.Once
	begin, end time.Time
	left       atomic.Int64
	done       func()
}

func newClock(n int, done func()) *clock {
	c := &clock{done: done}
	c.left.Store(int64(n))
	return c
}

func (c *clock) start() { c.once.Do(func() { c.begin = time.Now() }) }

func (c *clock) settle() {
	if c.left.Add(-1) == 0 {
		c.end = time.Now()
		c.done()
	}
}

func (c *clock) took(err error) (time.Duration, error) {
	if err == nil && c.end.IsZero() {
		err = errors.New("interrupted")
	}
	return c.end.Sub(c.begin), err
}
