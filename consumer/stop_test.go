package consumer_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// TestAStopDeadLettersNothing: a client that gives messages back while it still consumes gets them at
// once again, again and again, until the delivery limit throws them away: 369 of 400 were lost so during
// one slow handler. Here each is given back once.
func TestAStopDeadLettersNothing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "1m")
		const n, prefetch = 400, 100
		list := make([]amqp.Publishing, n)
		for i := range list {
			list[i].MessageId = strconv.Itoa(i)
		}
		f.publishOn(f.ch, list...)
		hands := make(calls, 10)
		c := f.config(hands.handle)
		c.Prefetch = prefetch
		r := f.run(c)
		slow := hands.next(t)
		until(t, "the prefetch is out", func() bool { return f.depth("work") == n-prefetch })
		r.stop()
		until(t, "given back", func() bool { return f.depth("work") == n-1 })
		hands.none(t, 100*time.Millisecond)
		if slow.ctx.Err() != nil {
			t.Error("the handler's context has ended before the drain timeout")
		}
		slow.result <- nil
		if err := r.wait(); err != nil {
			t.Errorf("Run() = %v", err)
		}
		got := verdicts(r.outcomes(prefetch))
		if got[consumer.Acked] != 1 || got[consumer.GivenBack] != prefetch-1 || len(got) != 2 {
			t.Errorf("outcomes %v", got)
		}
		if dead := f.depth("work.dlq"); dead != 0 {
			t.Errorf("%d messages are dead", dead)
		}
		for range n - 1 {
			d, ok, err := f.ch.Get("work", true)
			if err != nil || !ok {
				t.Fatalf("Get() = %v, %v", ok, err)
			}
			if k, _ := d.Headers["x-delivery-count"].(int64); k > 1 {
				t.Fatalf("message %s was counted %d times", d.MessageId, k)
			}
		}
	})
}

// TestWorkThatIsCutOffIsNoAttempt: it is given back, and the next worker's first.
func TestWorkThatIsCutOffIsNoAttempt(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "1m")
		f.publish(amqp.Publishing{MessageId: "A"})
		began := make(chan struct{}, 1)
		c := f.config(func(ctx context.Context, _ *consumer.Message) error {
			began <- struct{}{}
			<-ctx.Done()
			return consumer.Permanent(ctx.Err())
		})
		c.DrainTimeout = 50 * time.Millisecond
		r := f.run(c)
		<-began
		if err := r.wait(); err != nil {
			t.Errorf("Run() = %v", err)
		}
		s := r.outcomes(1)
		if len(s) != 1 || s[0].Verdict != consumer.GivenBack || !errors.Is(s[0].Err, context.Canceled) {
			t.Errorf("outcomes %+v", s)
		}
		hands := make(calls, 1)
		f.run(f.config(hands.handle))
		one := hands.next(t)
		if one.m.Attempt != 1 || !one.m.Redelivered {
			t.Errorf("handled %+v", one.m)
		}
		one.result <- nil
	})
}

// TestAHandlerThatDoesNotStop cannot be stopped: Run says so, and the broker has the message again.
func TestAHandlerThatDoesNotStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "quorum", "1m")
	f.publish(amqp.Publishing{MessageId: "A"})
	hands := make(calls, 1)
	c := f.config(hands.handle)
	c.DrainTimeout = 10 * time.Millisecond
	r := f.run(c)
	stuck := hands.next(t)
	err := r.wait()
	if !errors.Is(err, consumer.ErrHandlersRunning) || !contains(err, "1 did not return") {
		t.Errorf("Run() = %v", err)
	}
	if stuck.ctx.Err() == nil || !contains(context.Cause(stuck.ctx), "stopping") {
		t.Errorf("the handler's context has %v", context.Cause(stuck.ctx))
	}
	until(t, "the broker has it", func() bool { return f.depth("work") == 1 })
	stuck.result <- nil
	s := r.outcomes(1)
	if len(s) != 1 || s[0].Verdict != consumer.Lost || !contains(s[0].Err, "ignored") {
		t.Errorf("outcomes %+v", s)
	}
}

// TestHandlersThatEndOddly are failures like others, and the worker lives on.
func TestHandlersThatEndOddly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "quorum", "1m")
	c := f.config(func(ctx context.Context, m *consumer.Message) error {
		switch m.ID {
		case "goexit":
			runtime.Goexit()
		case "slow":
			<-ctx.Done()
			return errDown
		case "mutates":
			m.Body[0], m.Headers["h"] = 'X', "changed"
			return consumer.Permanent(errDown)
		}
		return nil
	})
	c.HandlerTimeout = 50 * time.Millisecond
	r := f.run(c)
	f.publishOn(f.ch,
		amqp.Publishing{MessageId: "goexit"},
		amqp.Publishing{MessageId: "slow"},
		amqp.Publishing{MessageId: "mutates", Body: []byte("body"), Headers: amqp.Table{"h": "as it was"}},
		amqp.Publishing{MessageId: "good"},
	)
	s := r.outcomes(4)
	for i, want := range []struct {
		verdict consumer.Verdict
		err     string
	}{{consumer.Retried, "Goexit"}, {consumer.Retried, "50ms were over: the warehouse"}, {consumer.Parked, "the warehouse"}, {consumer.Acked, ""}} {
		if s[i].Verdict != want.verdict || want.err != "" && !contains(s[i].Err, want.err) || want.err == "" && s[i].Err != nil {
			t.Errorf("outcome %d: %+v, want %+v", i, s[i], want)
		}
	}
	if d := f.dead(1)[0]; string(d.Body) != "body" || d.Headers["h"] != "as it was" {
		t.Errorf("parked with body %q and headers %v", d.Body, d.Headers)
	}
}

// TestAnObserverThatPanics is logged and harms nobody.
func TestAnObserverThatPanics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "classic", "1m")
	r := f.launchObserved(f.config(nothing), func(consumer.Settled) { panic("boom") })
	r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
	f.publish(amqp.Publishing{MessageId: "A"})
	r.until("logged", func() bool { return r.logs.count("Observe panicked") == 1 })
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if n := f.depth("work"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}
