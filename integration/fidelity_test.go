package integration

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// everything is a table with a value of every type that AMQP 0.9.1 knows.
func everything() amqp.Table {
	return amqp.Table{
		"bool": true, "false": false, "byte": byte(200), "int8": int8(-8), "int16": int16(-1600), "int32": int32(-320000),
		"int64": int64(-1 << 62), "float32": float32(1.5), "float64": 1e300, "decimal": amqp.Decimal{Scale: 2, Value: 12345},
		"string": "nul \x00, not UTF-8 \xff, é, \r\n", "bytes": []byte{0, 255, 10}, "time": time.Unix(1_700_000_000, 0).UTC(),
		"nil": nil, "empty string": "", "empty bytes": []byte{}, "empty table": amqp.Table{}, "empty array": []any{},
	}
}

// hostile is a message that uses all that AMQP has.
func hostile() amqp.Publishing {
	headers := everything()
	nested := everything()
	nested["deeper"] = amqp.Table{"array": []any{everything(), []any{int64(1), "two", []any{amqp.Table{"x": nil}}}}}
	headers["table"] = nested
	headers["array"] = []any{true, byte(1), int8(2), int16(3), int32(4), int64(5), float32(6), 7.5, amqp.Decimal{Scale: 1, Value: 8}, "9", []byte("10"), time.Unix(11, 0).UTC(), nil, everything(), []any{}}
	headers["x-own"] = "kept though it begins with x-"
	headers["dlq.id"] = "stale: of an earlier parking"
	headers["dlq.own"] = "in a name space that is ours"
	headers["a/b c%é."+strings.Repeat("n", 200)] = "a long name"
	return amqp.Publishing{
		Headers: headers, ContentType: "application/x-é", ContentEncoding: "gzip", Priority: 7, CorrelationId: "corr/1",
		ReplyTo: "reply.to", MessageId: "id \x00\xff", Timestamp: time.Unix(1_700_000_001, 0).UTC(), Type: "type", AppId: "app",
		Body: []byte("body \x00\xff\r\n" + strings.Repeat("z", 200_000)),
	}
}

// A parked message is, but for our own headers and the broker's, what was published: after a climb and
// after a permanent failure.
func TestAParkedMessageIsWhatWasPublished(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]func(error) error{
		"exhausted": func(err error) error { return err },
		"permanent": consumer.Permanent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
				w := newWorld(t, b, yaml(queueType, twoTiers))
				given := make(chan *consumer.Message, 10)
				w.run(t, consumer.Config{Handler: func(_ context.Context, m *consumer.Message) error {
					given <- m
					return verdict(errors.New("no"))
				}})
				want := hostile()
				w.publish(t, exchange, key, want)
				got := w.take(t, dlq, 1, 10*time.Second)[0]
				compareParked(t, want, got)
				compareGiven(t, want, given, w.ladder)
			})
		})
	}
}

// largeBytes compares large bodies as a whole: one by one takes cmp a minute.
var largeBytes = cmp.FilterValues(func(x, y []byte) bool { return len(x) > 1000 && len(y) > 1000 }, cmp.Comparer(bytes.Equal))

// compareParked compares a parked message with the one that was published.
func compareParked(t *testing.T, want amqp.Publishing, got amqp.Delivery) {
	t.Helper()
	own := rabbit.Plain(got.Headers)
	maps.DeleteFunc(own, func(name string, _ any) bool { return ours(name) })
	wanted := rabbit.Plain(want.Headers)
	maps.DeleteFunc(wanted, func(name string, _ any) bool { return strings.HasPrefix(name, retry.Prefix) })
	if diff := cmp.Diff(wanted, own); diff != "" {
		t.Errorf("headers mismatch (-published +parked):\n%s", diff)
	}
	if _, ok := got.Headers["dlq.own"]; ok {
		t.Error("a header under dlq. that the publisher wrote is still there")
	}
	if f, _, err := retry.ReadFailure(rabbit.Plain(got.Headers)); err != nil || strings.HasPrefix(f.ID, "stale") || f.ID == "" {
		t.Errorf("dlq.id is %q (%v), want a new one", f.ID, err)
	}
	properties := amqp.Publishing{
		ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, Priority: got.Priority, CorrelationId: got.CorrelationId,
		ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId, Timestamp: got.Timestamp.UTC(), Type: got.Type,
		UserId: got.UserId, AppId: got.AppId, Body: got.Body,
	}
	want.Headers, want.UserId, want.Expiration = nil, "", ""
	if diff := cmp.Diff(want, properties, largeBytes); diff != "" {
		t.Errorf("properties mismatch (-published +parked):\n%s", diff)
	}
	if got.DeliveryMode != amqp.Persistent {
		t.Errorf("delivery mode %d, want persistent", got.DeliveryMode)
	}
}

// ours reports whether a header of a parked message is written by us or by the broker.
func ours(name string) bool {
	for _, p := range []string{retry.Prefix, "x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// compareGiven compares what handlers got with what was published.
func compareGiven(t *testing.T, want amqp.Publishing, given <-chan *consumer.Message, l retry.Ladder) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		select {
		case m := <-given:
			maps.DeleteFunc(m.Headers, func(name string, _ any) bool { return ours(name) && !strings.HasPrefix(name, retry.Prefix) })
			expected := &consumer.Message{
				Queue: work, Exchange: exchange, RoutingKey: key, Attempt: attempt, Attempts: len(l.Tiers) + 1,
				FirstFailure: m.FirstFailure, Redelivered: m.Redelivered,
				ID: want.MessageId, Body: want.Body, Headers: rabbit.Plain(want.Headers), ContentType: want.ContentType,
				ContentEncoding: want.ContentEncoding, CorrelationID: want.CorrelationId, ReplyTo: want.ReplyTo, Type: want.Type,
				AppID: want.AppId, Priority: want.Priority, Timestamp: want.Timestamp,
			}
			m.Timestamp = m.Timestamp.UTC()
			if diff := cmp.Diff(expected, m, largeBytes); diff != "" {
				t.Errorf("attempt %d: message mismatch (-published +given):\n%s", attempt, diff)
			}
			if (attempt > 1) == m.FirstFailure.IsZero() {
				t.Errorf("attempt %d: first failure %v", attempt, m.FirstFailure)
			}
		default:
			return
		}
	}
}

// user_id and expiration cannot stay properties of a parked message: one would be refused from another
// user, the other would empty the DLQ.
func TestParkingMovesUserAndExpiration(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		uri, err := amqp.ParseURI(w.url)
		if err != nil {
			t.Fatal(err)
		}
		w.run(t, consumer.Config{Handler: func(context.Context, *consumer.Message) error { return consumer.Permanent(errors.New("no")) }})
		w.publish(t, exchange, key, amqp.Publishing{UserId: uri.Username, Expiration: "60000"})
		got := w.take(t, dlq, 1, 10*time.Second)[0]
		f, _, err := retry.ReadFailure(rabbit.Plain(got.Headers))
		if err != nil || got.UserId != "" || got.Expiration != "" || f.UserID != uri.Username || f.Expiration != "60000" {
			t.Errorf("properties %q, %q; headers %q, %q (%v)", got.UserId, got.Expiration, f.UserID, f.Expiration, err)
		}
	})
}

// A CC header among a message's own must not make copies when the message is parked.
func TestParkingSendsNoCarbonCopies(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		for _, q := range []string{"victim", "blind"} {
			if _, err := w.admin.QueueDeclare(q, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.run(t, consumer.Config{Handler: func(context.Context, *consumer.Message) error { return consumer.Permanent(errors.New("no")) }})
		w.publish(t, exchange, key, amqp.Publishing{Headers: amqp.Table{"CC": []any{"victim"}, "BCC": []any{"blind"}}})
		got := w.take(t, dlq, 1, 10*time.Second)[0]
		if diff := cmp.Diff([]any{"victim"}, got.Headers["CC"]); diff != "" {
			t.Errorf("the CC header mismatch (-published +parked):\n%s", diff)
		}
		if n := w.depth(t, "victim") + w.depth(t, "blind"); n != 0 {
			t.Errorf("%d copies were made", n)
		}
	})
}

// A panic is parked with its stack, and the worker lives on.
func TestAPanicIsEvidence(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, ""))
		w.run(t, consumer.Config{Handler: func(context.Context, *consumer.Message) error { panic("at the disco") }})
		w.publish(t, exchange, key, numbered(3)...)
		for _, d := range w.take(t, dlq, 3, 10*time.Second) {
			f, _, err := retry.ReadFailure(rabbit.Plain(d.Headers))
			if err != nil || f.Category != retry.CategoryPanic || !strings.Contains(f.Message, "at the disco") || !strings.Contains(f.Stack, "fidelity_test.go") {
				t.Errorf("ReadFailure() = %+v, %v; want a panic with its stack", f, err)
			}
		}
	})
}
