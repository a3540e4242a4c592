package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/retry"
)

// demo provisions the broker with rmq-provision, publishes orders of every kind, works until each is
// either handled or parked, and shows what happened.
func demo(ctx context.Context, w io.Writer, brokerURL, file string, ladder retry.Ladder) error {
	if err := provision(ctx, brokerURL, file); err != nil {
		return err
	}
	messages, err := someOrders()
	if err != nil {
		return err
	}
	longest := time.Minute
	for i := range ladder.Tiers {
		_, d := ladder.Delays(i + 1)
		longest += d
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("not all orders were handled or parked after %v", longest))
	defer cancel()

	h := newHistory(messages, len(ladder.Tiers))
	worker, err := newWorker(brokerURL, ladder, h.watch(consumer.JSON(fulfil)), h.settled)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(working) }()

	fmt.Fprintf(os.Stderr, "publishing %d orders; the last of them is parked after %v\n", len(messages), longest-time.Minute)
	err = publish(ctx, brokerURL, messages)
	if err == nil {
		select {
		case <-h.done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case err = <-stopped:
			return errors.Join(errors.New("the worker stopped"), err)
		}
	}
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	h.print(w, ladder)
	return nil
}

// provision runs the rmq-provision that lies beside this program, or is in PATH.
func provision(ctx context.Context, brokerURL, file string) error {
	uri, err := amqp.ParseURI(brokerURL)
	if err != nil {
		return errors.New("RMQ_URL is no broker URL: expected amqp://user:password@host:port/vhost")
	}
	program := "rmq-provision"
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), program); exec.Command(beside, "version").Run() == nil {
			program = beside
		}
	}
	args := []string{"apply", "-f", file, "--vhost", uri.Vhost, "--wait", "60s"}
	fmt.Fprintln(os.Stderr, "$ rmq-provision", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "RMQ_URL="+brokerURL)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	// It lists every change; the last line sums up.
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fmt.Fprintln(os.Stderr, lines[len(lines)-1])
	return nil
}

// someOrders returns orders of every kind, with ids that no earlier run had.
func someOrders() ([]amqp.Publishing, error) {
	run := strings.ToLower(rand.Text()[:6])
	var messages []amqp.Publishing
	add := func(n int, o Order) error {
		for range n {
			o.ID = fmt.Sprintf("%s-%02d", run, len(messages)+1)
			m, err := message(o)
			if err != nil {
				return err
			}
			messages = append(messages, m)
		}
		return nil
	}
	err := errors.Join(
		add(20, Order{Customer: "Ada", Items: []string{"teapot"}}),
		add(4, Order{Customer: "Grace", Items: []string{"rare book"}}), // succeeds at the third attempt
		add(2, Order{Customer: "Alan", Items: []string{"unicorn"}}),    // is refused every time
		add(1, Order{Customer: "Edsger"}),                              // has no items: the handler panics
		add(1, Order{Items: []string{"teapot"}}),                       // has no customer
		add(1, Order{Customer: "Barbara", Items: []string{"teapot"}}),
	)
	poison := &messages[len(messages)-1]
	poison.Body = poison.Body[:len(poison.Body)/2]
	return messages, err
}
