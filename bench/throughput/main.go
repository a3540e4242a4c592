// Command throughput compares package consumer with the bare client library, each consuming the same
// messages from the same broker with the same prefetch and the same number of handlers, which do nothing.
// The bare loop acknowledges each message by itself, as its documentation shows.
//
// Both run in turns, and which of them begins changes with each round, so that a machine that gets slower
// is not taken for a library that does. The broker is RMQ_URL.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var p plan
	flag.IntVar(&p.messages, "messages", 20000, "`messages` in each measurement")
	flag.IntVar(&p.rounds, "rounds", 5, "`rounds` of each")
	flag.IntVar(&p.prefetch, "prefetch", 256, "`prefetch` of both")
	flag.Parse()
	if err := run(ctx, os.Getenv("RMQ_URL"), p); err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

type plan struct{ messages, rounds, prefetch int }

// consume takes n messages off a queue and returns how long that took.
type consume func(ctx context.Context, s setting) (time.Duration, error)

// setting is what both have in common in one measurement.
type setting struct {
	broker               *broker
	queue                string
	n, prefetch, handler int
}

func run(ctx context.Context, url string, p plan) error {
	b, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer b.close()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "queue\thandlers\trmqkit/s\tbare/s\tratio\tratios seen\t\n")
	for _, queue := range queues {
		for _, handlers := range []int{1, 16} {
			ours, bare, err := compare(ctx, setting{broker: b, queue: queue, n: p.messages, prefetch: p.prefetch, handler: handlers}, p.rounds)
			if err != nil {
				return err
			}
			ratios := make([]float64, p.rounds)
			for i := range ratios {
				ratios[i] = ours[i] / bare[i]
			}
			fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.2f\t%.2f to %.2f\t\n", queue, handlers,
				median(ours), median(bare), median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
	}
	return t.Flush()
}

// compare returns the messages a second of each round, ours and the bare library's.
func compare(ctx context.Context, s setting, rounds int) (ours, bare []float64, err error) {
	both := []struct {
		consume consume
		rates   *[]float64
	}{{consumeOurs, &ours}, {consumeBare, &bare}}
	for round := range rounds {
		for i := range both {
			c := both[(i+round)%len(both)]
			if err := s.broker.fill(ctx, s.queue, s.n); err != nil {
				return nil, nil, err
			}
			took, err := c.consume(ctx, s)
			if err != nil {
				return nil, nil, err
			}
			*c.rates = append(*c.rates, float64(s.n)/took.Seconds())
		}
	}
	return ours, bare, nil
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
