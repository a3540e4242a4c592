package consumer_test

import (
	"context"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// TestADeadLetterIsHeldWhileTheDLQIsGone: publishing to it "succeeds", since the broker confirms what
// nobody takes. The message is held, nothing more is handed out, and the worker says so, until the DLQ is
// back.
func TestADeadLetterIsHeldWhileTheDLQIsGone(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "1m")
		if _, err := f.ch.QueueDelete("work.dlq", false, false, false); err != nil {
			t.Fatal(err)
		}
		hands := make(calls, 10)
		c := f.config(hands.handle)
		c.Concurrency, c.Prefetch = 3, 5
		r := f.run(c)
		for i := range 6 {
			f.publishOn(f.ch, amqp.Publishing{MessageId: strconv.Itoa(i)})
		}
		one, two, three := hands.next(t), hands.next(t), hands.next(t)
		one.result <- consumer.Permanent(errDown)
		r.until("not ready", func() bool { ok, _ := r.w.Ready(); return !ok })
		if _, reason := r.w.Ready(); !strings.Contains(reason, "held") || !strings.Contains(reason, "no queue is bound") {
			t.Errorf("Ready() says %q", reason)
		}
		// What runs goes on; what has not begun waits, and is given back after a while.
		two.result <- nil
		three.result <- consumer.Permanent(errDown)
		got := verdicts(r.outcomes(4))
		if got[consumer.Acked] != 1 || got[consumer.GivenBack] != 3 {
			t.Errorf("outcomes %v", got)
		}
		select {
		case more := <-hands:
			t.Errorf("a handler was called with %+v", more.m)
		default:
		}
		until(t, "others are back", func() bool { return f.depth("work") == 3 })

		f.apply()
		for range 3 {
			hands.next(t).result <- nil
		}
		r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
		got = verdicts(r.outcomes(9))
		if got[consumer.Acked] != 4 || got[consumer.Parked] != 2 || got[consumer.GivenBack] != 3 {
			t.Errorf("outcomes %v", got)
		}
		ids := map[string]bool{}
		for _, d := range f.dead(2) {
			ids[d.MessageId] = true
		}
		if len(ids) != 2 {
			t.Errorf("dead are %v", ids)
		}
		if n := r.logs.count("not ready"); n > 2 {
			t.Errorf("%d lines about one change", n)
		}
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAStopWhileADeadLetterIsHeld gives it back: nobody waits for the DLQ.
func TestAStopWhileADeadLetterIsHeld(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "")
		// Without the exchange the channel is closed each time.
		r := f.run(f.config(func(context.Context, *consumer.Message) error { return errDown }))
		if err := f.ch.ExchangeDelete("work.park", false, false); err != nil {
			t.Fatal(err)
		}
		f.publish(amqp.Publishing{MessageId: "A"})
		r.until("not ready", func() bool { ok, _ := r.w.Ready(); return !ok })
		if _, reason := r.w.Ready(); !strings.Contains(reason, "no exchange 'work.park'") {
			t.Errorf("Ready() says %q", reason)
		}
		began := time.Now()
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("stopping took %v", took)
		}
		s := r.outcomes(1)
		if len(s) != 1 || s[0].Verdict != consumer.GivenBack || !contains(s[0].Err, "could not be parked") {
			t.Errorf("outcomes %+v", s)
		}
		until(t, "back in the work queue", func() bool { return f.depth("work") == 1 })
	})
}

// TestAHeldDeadLetterDiesWithItsChannel: the broker delivers the message again, and the copy in hand
// must not be parked beside it.
func TestAHeldDeadLetterDiesWithItsChannel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "quorum", "")
	if _, err := f.ch.QueueDelete("work.dlq", false, false, false); err != nil {
		t.Fatal(err)
	}
	proxy := brokertest.NewProxy(t, f.url)
	c := f.config(func(context.Context, *consumer.Message) error { return errDown })
	c.URL = proxy.URL
	r := f.run(c)
	f.publish(amqp.Publishing{MessageId: "A"})
	r.until("not ready", func() bool { ok, _ := r.w.Ready(); return !ok })
	proxy.Cut()
	if s := r.outcomes(1); s[0].Verdict != consumer.Lost {
		t.Errorf("outcome %+v", s[0])
	}
	f.apply()
	if s := r.outcomes(2); s[1].Verdict != consumer.Parked {
		t.Errorf("outcome %+v", s[1])
	}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if n := f.depth("work.dlq"); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// everyType is a header table with every type that AMQP 0-9-1 and RabbitMQ know, nested.
func everyType() amqp.Table {
	scalars := amqp.Table{
		"true": true, "false": false, "int8": int8(math.MinInt8), "byte": byte(255), "int16": int16(math.MinInt16),
		"int32": int32(math.MinInt32), "int64": int64(math.MinInt64), "float": float32(1.5), "double": math.MaxFloat64,
		"decimal": amqp.Decimal{Scale: 2, Value: 12345}, "string": "a\x00b\xff", "empty": "", "bytes": []byte{0, 1, 255},
		"time": time.Unix(1700000000, 0), "nil": nil,
	}
	t := amqp.Table{"table": amqp.Table{"empty": amqp.Table{}, "in": amqp.Table{}}, "x-opt-own": "kept", "none": []any{}}
	list := []any{}
	for k, v := range scalars {
		t[k] = v
		t["table"].(amqp.Table)["in"].(amqp.Table)[k] = v
		list = append(list, v)
	}
	t["list"] = append(list, amqp.Table{"deep": []any{amqp.Table{"x": int8(1)}}})
	return t
}

// TestAParkedMessageIsAsItWas: body, properties and headers of every type; user_id and expiration, which
// a dead letter cannot keep, are headers.
func TestAParkedMessageIsAsItWas(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "50ms, 50ms")
		u, err := url.Parse(f.url)
		if err != nil {
			t.Fatal(err)
		}
		sent := amqp.Publishing{
			Headers: everyType(), ContentType: "application/x", ContentEncoding: "identity", Priority: 3, CorrelationId: "corr",
			ReplyTo: "reply", MessageId: "id", Timestamp: time.Unix(1600000000, 0), Type: "order", AppId: "app",
			UserId: u.User.Username(), Expiration: "3600000", Body: []byte{0, 1, 2, 0xff},
		}
		seen := make(chan *consumer.Message, 3)
		r := f.run(f.config(func(_ context.Context, m *consumer.Message) error {
			seen <- m
			return errDown
		}))
		f.publish(sent)
		r.outcomes(3)
		for attempt := range 3 {
			m := <-seen
			if m.Exchange != "shop" || m.RoutingKey != "order.created" || m.Attempt != attempt+1 || m.UserID != sent.UserId ||
				m.FirstFailure.IsZero() != (attempt == 0) || m.ID != "id" || m.Type != "order" || m.Priority != 3 {
				t.Errorf("attempt %d is %+v", attempt+1, m)
			}
		}
		d := f.dead(1)[0]
		fail, found, err := retry.ReadFailure(rabbit.Plain(d.Headers))
		if err != nil || !found || fail.UserID != sent.UserId || fail.Expiration != "3600000" || len(fail.Cut) != 0 {
			t.Errorf("ReadFailure() = %+v, %v, %v", fail, found, err)
		}
		got := amqp.Publishing{
			Headers: amqp.Table{}, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority,
			CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type,
			AppId: d.AppId, UserId: sent.UserId, Expiration: sent.Expiration, Body: d.Body,
		}
		for k, v := range d.Headers {
			// What the broker added on the way, and we.
			if !strings.HasPrefix(k, retry.Prefix) && (!strings.HasPrefix(k, "x-") || k == "x-opt-own") {
				got.Headers[k] = v
			}
		}
		if d.UserId != "" || d.Expiration != "" {
			t.Errorf("the dead letter has user_id %q and expiration %q", d.UserId, d.Expiration)
		}
		if d.Headers["x-delivery-count"] != nil && queueType == "quorum" {
			t.Errorf("the work queue's count went along: %v", d.Headers["x-delivery-count"])
		}
		if diff := cmp.Diff(sent, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("dead letter mismatch (-want +got):\n%s", diff)
		}
	})
}

// TestACrashLoopIsParkedUnseen, on quorum queues: they count.
func TestACrashLoopIsParkedUnseen(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		for name, row := range map[string]struct{ rejections, crashes int }{
			"at the first attempt": {0, 2},
			"at the second":        {1, 2},
			"at the last":          {3, 2},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if b.AtLeast(4, 0) && !b.AtLeast(4, 3) {
					row.crashes += row.rejections
				}
				crashLoop(t, newFixture(t, b, queueType, "50ms, 50ms, 50ms"), row.rejections, row.crashes)
			})
		}
	})
}

// crashLoop has a message rejected, and then its consumers die, until it is parked.
func crashLoop(t *testing.T, f *fixture, rejections, crashes int) {
	proxy := brokertest.NewProxy(t, f.url)
	hands := make(calls, 20)
	c := f.config(hands.handle)
	// Handlers of lost deliveries keep their places.
	c.URL, c.CrashLimit, c.Concurrency = proxy.URL, 2, 20
	r := f.run(c)
	f.publish(amqp.Publishing{MessageId: "A"})
	// Rejections are no crashes, though 4.0 counts them.
	for range rejections {
		hands.next(t).result <- errDown
	}
	for range crashes {
		one := hands.next(t)
		defer func() { one.result <- nil }()
		if one.m.Attempt != rejections+1 {
			t.Fatalf("attempt %d after %d rejections", one.m.Attempt, rejections)
		}
		proxy.Cut()
	}
	if f.ladder.QueueType() == retry.Classic {
		hands.next(t).result <- nil
		if got := verdicts(r.outcomes(rejections + 1)); got[consumer.Acked] != 1 {
			t.Errorf("outcomes %v", got)
		}
		return
	}
	s := r.outcomes(rejections + 1)[rejections]
	if s.Verdict != consumer.Parked || s.Reason != retry.ReasonCrashed || s.Duration != 0 || s.Attempt != rejections+1 {
		t.Errorf("outcome %+v", s)
	}
	fail, _, err := retry.ReadFailure(rabbit.Plain(f.dead(1)[0].Headers))
	if err != nil || fail.Reason != retry.ReasonCrashed || !strings.Contains(fail.Message, "2 times") || fail.SourceRoutingKey != "order.created" {
		t.Errorf("ReadFailure() = %+v, %v", fail, err)
	}
}

// TestAnAlarm: while the broker blocks publishers, acks go on, since they come on another connection; a
// dead letter is held until it can be parked, and there is one copy of it.
func TestAnAlarm(t *testing.T) {
	t.Parallel()
	// All versions do the same (RabbitMQ 3.10.8, 4.0.5, 4.3.6; run on each): one broker of its own is enough.
	versions := brokertest.Versions()
	b := brokertest.Private(t, versions[len(versions)-1], brokertest.PrivateOptions{})
	f := newFixture(t, b, "quorum", "1m")
	// The first publish on a connection still passes; then the broker stops reading from it.
	f.publishOn(f.ch, amqp.Publishing{MessageId: "bad"}, amqp.Publishing{MessageId: "bad"},
		amqp.Publishing{MessageId: "1"}, amqp.Publishing{MessageId: "2"})
	b.Exec(t, "rabbitmqctl", "set_vm_memory_high_watermark", "0.00001")
	until(t, "in alarm", func() bool {
		return strings.Contains(b.Exec(t, "rabbitmqctl", "eval", "rabbit_alarm:get_alarms()."), "memory")
	})
	c := f.config(func(_ context.Context, m *consumer.Message) error {
		if m.ID == "bad" {
			return consumer.Permanent(errDown)
		}
		return nil
	})
	c.Concurrency = 2
	r := f.run(c)
	got := verdicts(r.outcomes(3))
	if got[consumer.Acked] != 2 || got[consumer.Parked] != 1 {
		t.Errorf("outcomes %v", got)
	}
	r.until("says so", func() bool {
		ok, reason := r.w.Ready()
		return !ok && strings.Contains(reason, "blocks publishers")
	})
	if n := f.depth("work"); n != 0 {
		t.Errorf("%d messages were not handed out", n)
	}
	b.Exec(t, "rabbitmqctl", "set_vm_memory_high_watermark", "0.6")
	got = verdicts(r.outcomes(4))
	if got[consumer.Parked] != 2 {
		t.Errorf("outcomes %v", got)
	}
	r.until("ready", func() bool { ok, _ := r.w.Ready(); return ok })
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if n := f.depth("work.dlq"); n != 2 {
		t.Errorf("%d dead letters", n)
	}
}

// TestLogs: constant texts, known keys, and each outcome once.
func TestLogs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brokertest.Start(t, brokertest.Versions()[0]), "quorum", "1ms")
	c := f.config(func(context.Context, *consumer.Message) error { return errDown })
	r := f.run(c)
	f.publish(amqp.Publishing{MessageId: "A"})
	r.outcomes(2)
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	allowed := map[string]bool{
		"queue": true, "exchange": true, "routing_key": true, "message_id": true, "attempt": true,
		"verdict": true, "reason": true, "delay_ms": true, "err": true,
	}
	for _, rec := range r.logs.records {
		rec.Attrs(func(a slog.Attr) bool {
			if !allowed[a.Key] {
				t.Errorf("%q has key %q", rec.Message, a.Key)
			}
			return true
		})
		if attr(rec, "queue") != "work" {
			t.Errorf("%q names no queue", rec.Message)
		}
	}
	settled := r.logs.all("message settled")
	if len(settled) != 2 {
		t.Fatalf("%d outcomes are logged", len(settled))
	}
	for i, want := range []string{"retried", "parked"} {
		if attr(settled[i], "verdict") != want || settled[i].Level != slog.LevelInfo || attr(settled[i], "message_id") != "A" {
			t.Errorf("logged %v", settled[i])
		}
	}
	if attr(settled[0], "delay_ms") != "1" || attr(settled[1], "reason") != "exhausted" || attr(settled[1], "err") != errDown.Error() {
		t.Errorf("logged %v", settled)
	}
}
