package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

const queue = "orders.fulfil"

// newWorker returns a worker for the work queue. What the queue's ladder is, it learns from the file that
// the broker was provisioned with.
func newWorker(url string, ladder retry.Ladder, handler consumer.Handler, observe func(consumer.Settled)) (*consumer.Worker, error) {
	return consumer.New(consumer.Config{
		URL:         url,
		Ladder:      ladder,
		Handler:     handler,
		Concurrency: 16,
		Version:     "1.0.0",
		Logger:      slog.Default(),
		Observe:     observe,
	})
}

// readLadder returns the retry ladder of the work queue from a topology file. A service would embed it.
func readLadder(file string) (retry.Ladder, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return retry.Ladder{}, fmt.Errorf("read topology: %w", err)
	}
	t, err := topology.Parse(file, text)
	if err != nil {
		return retry.Ladder{}, err
	}
	return t.Ladder(queue)
}
