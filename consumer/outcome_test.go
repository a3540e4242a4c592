package consumer_test

import (
	"context"
	"errors"
	"fmt"
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

type order struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

var errDown = errors.New("the warehouse is down")

// outcome is what a test compares of a Settled.
type outcome struct {
	ID       string
	Attempt  int
	Verdict  consumer.Verdict
	Reason   retry.Reason
	Category retry.Category
	Delay    time.Duration
}

// everyOutcome fails as the order's id says.
func everyOutcome(_ context.Context, o order, m *consumer.Message) error {
	if m.Exchange != "shop" || m.RoutingKey != "order.created" || m.Attempts != 3 {
		return consumer.Permanent(fmt.Errorf("message is %+v", m))
	}
	switch o.ID {
	case "refused":
		return fmt.Errorf("reserve: %w", errDown)
	case "flaky":
		if m.Attempt < 3 {
			return consumer.Categorize(errDown, retry.CategoryDependency)
		}
	case "never":
		return consumer.Permanent(consumer.Categorize(errors.New("no such customer"), retry.CategoryValidation))
	case "old":
		return consumer.Discard("superseded")
	case "panics":
		panic("no stock table")
	}
	return nil
}

// TestEveryOutcome has one message for each way a handler can end.
func TestEveryOutcome(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		f := newFixture(t, b, queueType, "50ms, 100ms")
		r := f.run(f.config(consumer.JSON(everyOutcome)))
		for _, id := range []string{"good", "refused", "flaky", "never", "old", "panics"} {
			f.publish(amqp.Publishing{MessageId: id, Body: []byte(`{"id":"` + id + `"}`)})
		}
		f.publish(amqp.Publishing{MessageId: "broken", Body: []byte(`{"id":`)})
		got := map[outcome]int{}
		for _, s := range r.outcomes(13) {
			if s.Queue != "work" || s.Exchange != "shop" || s.RoutingKey != "order.created" {
				t.Errorf("settled %+v", s)
			}
			if (s.Verdict == consumer.Parked) != (s.DeadLetterID != "") {
				t.Errorf("dead letter id %q of %+v", s.DeadLetterID, s)
			}
			got[outcome{s.MessageID, s.Attempt, s.Verdict, s.Reason, s.Category, s.Delay}]++
		}
		first, second := 50*time.Millisecond, 100*time.Millisecond
		want := map[outcome]int{
			{"good", 1, consumer.Acked, "", "", 0}:                                                  1,
			{"refused", 1, consumer.Retried, "", retry.CategoryUnknown, first}:                      1,
			{"refused", 2, consumer.Retried, "", retry.CategoryUnknown, second}:                     1,
			{"refused", 3, consumer.Parked, retry.ReasonExhausted, retry.CategoryUnknown, 0}:        1,
			{"flaky", 1, consumer.Retried, "", retry.CategoryDependency, first}:                     1,
			{"flaky", 2, consumer.Retried, "", retry.CategoryDependency, second}:                    1,
			{"flaky", 3, consumer.Acked, "", "", 0}:                                                 1,
			{"never", 1, consumer.Parked, retry.ReasonPermanent, retry.CategoryValidation, 0}:       1,
			{"old", 1, consumer.Discarded, "", "", 0}:                                               1,
			{"panics", 1, consumer.Retried, "", retry.CategoryPanic, first}:                         1,
			{"panics", 2, consumer.Retried, "", retry.CategoryPanic, second}:                        1,
			{"panics", 3, consumer.Parked, retry.ReasonExhausted, retry.CategoryPanic, 0}:           1,
			{"broken", 1, consumer.Parked, retry.ReasonMalformed, retry.CategoryDeserialization, 0}: 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcomes mismatch (-want +got):\n%s", diff)
		}
		everyEvidence(t, f)
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		if n := f.depth("work"); n != 0 {
			t.Errorf("%d messages are left in the work queue", n)
		}
	})
}

// everyEvidence compares the dead letters of TestEveryOutcome.
func everyEvidence(t *testing.T, f *fixture) {
	t.Helper()
	got := map[string]retry.Failure{}
	for _, d := range f.dead(4) {
		fail, found, err := retry.ReadFailure(rabbit.Plain(d.Headers))
		if err != nil || !found {
			t.Fatalf("ReadFailure(%v) = %v, %v", d.Headers, found, err)
		}
		if d.Exchange != "work.park" || d.RoutingKey != "order.created" || d.DeliveryMode != amqp.Persistent {
			t.Errorf("%s is dead-lettered as %q %q mode %d", d.MessageId, d.Exchange, d.RoutingKey, d.DeliveryMode)
		}
		if age := time.Since(fail.FirstFailure); age < 0 || age > time.Hour || fail.LastFailure.Before(fail.FirstFailure.Truncate(time.Second)) {
			t.Errorf("%s failed first at %v, last at %v", d.MessageId, fail.FirstFailure, fail.LastFailure)
		}
		if (fail.Category == retry.CategoryPanic) != strings.Contains(fail.Stack, "everyOutcome") {
			t.Errorf("%s has stack %q", d.MessageId, fail.Stack)
		}
		got[d.MessageId] = fail
	}
	common := retry.Failure{
		SourceQueue: "work", SourceExchange: "shop", SourceRoutingKey: "order.created",
		ConsumerName: "worker", ConsumerVersion: "v1.2.3",
	}
	refused, never, panics, broken := common, common, common, common
	refused.Attempts, refused.Reason, refused.Category = 3, retry.ReasonExhausted, retry.CategoryUnknown
	refused.Class, refused.Message = "*errors.errorString", "reserve: the warehouse is down"
	never.Attempts, never.Reason, never.Category = 1, retry.ReasonPermanent, retry.CategoryValidation
	never.Class, never.Message = "*errors.errorString", "no such customer"
	panics.Attempts, panics.Reason, panics.Category = 3, retry.ReasonExhausted, retry.CategoryPanic
	panics.Class, panics.Message = "panic(string)", "panic: no stock table"
	broken.Attempts, broken.Reason, broken.Category = 1, retry.ReasonMalformed, retry.CategoryDeserialization
	broken.Class, broken.Message = "*json.SyntaxError", "decode the body as JSON into consumer_test.order: unexpected end of JSON input"
	want := map[string]retry.Failure{"refused": refused, "never": never, "panics": panics, "broken": broken}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(retry.Failure{}, "ID", "FirstFailure", "LastFailure", "Stack")); diff != "" {
		t.Errorf("dead letters mismatch (-want +got):\n%s", diff)
	}
}
