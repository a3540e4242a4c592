// Command orders is the example: a publisher, a worker on its retry ladder, and a look at what was parked.
// Read order.go, worker.go and publish.go; the rest runs them and shows what happened.
//
//	orders publish   send one order
//	orders work      fulfil orders until interrupted
//	orders look      list the dead letters and leave them where they are
//	orders demo      provision, publish, work, and show what happened
//
// The broker is RMQ_URL, else amqp://guest:guest@localhost:5672/. Flags come before the command:
// -topology FILE.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/retry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	file := flags.String("topology", "topology.yaml", "the topology `FILE`")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "orders [-topology FILE] publish | work | look | demo")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	url := os.Getenv("RMQ_URL")
	if url == "" {
		url = "amqp://guest:guest@localhost:5672/"
	}
	ladder, err := readLadder(*file)
	if err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "publish":
		return publishOne(ctx, url)
	case "work":
		return work(ctx, url, ladder)
	case "look":
		return look(ctx, os.Stdout, url, ladder)
	case "demo":
		return demo(ctx, os.Stdout, url, *file, ladder)
	}
	return errors.New("say what: publish, work, look or demo")
}

func publishOne(ctx context.Context, url string) error {
	m, err := message(Order{ID: rand.Text(), Customer: "Ada", Items: []string{"teapot"}})
	if err != nil {
		return err
	}
	return publish(ctx, url, []amqp.Publishing{m})
}

func work(ctx context.Context, url string, ladder retry.Ladder) error {
	w, err := newWorker(url, ladder, consumer.JSON(fulfil), nil)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
