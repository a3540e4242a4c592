package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

const file = `
version: 1
name: throughput
queues:
  throughput.quorum:
    retry: {delays: [1s]}
    dead_letter: {owner: bench}
  throughput.classic:
    type: classic
    retry: {delays: [1s]}
    dead_letter: {owner: bench}
`

var queues = []string{"throughput.quorum", "throughput.classic"}

// broker is where all is measured.
type broker struct {
	url      string
	topology *topology.Topology
	conn     *amqp.Connection
	ch       *amqp.Channel
}

func open(ctx context.Context, url string) (*broker, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil {
		return nil, errors.New("RMQ_URL is no broker URL")
	}
	t, err := topology.Parse("bench.yaml", []byte(file))
	if err != nil {
		return nil, err
	}
	_, err = provision.Apply(ctx, provision.Options{
		Rabbit: rabbit.Config{URL: url, VHost: uri.Vhost}, Wait: time.Minute, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, t)
	if err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &broker{url: url, topology: t, conn: conn, ch: ch}, nil
}

func (b *broker) close() { _ = b.conn.Close() }

// fill empties a queue and puts n messages into it.
func (b *broker) fill(ctx context.Context, queue string, n int) error {
	if _, err := b.ch.QueuePurge(queue, false); err != nil {
		return err
	}
	body := make([]byte, 256)
	confirms := make([]*amqp.DeferredConfirmation, 0, n)
	for range n {
		c, err := b.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
		if err != nil {
			return err
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			return fmt.Errorf("fill queue %q: confirmed %v, %w", queue, ok, err)
		}
	}
	return nil
}
