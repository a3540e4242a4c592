package rabbit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// A header frame over frame_max closes the connection, so a parked message whose headers are too large
// would come back for ever; so would one with a float that is no number. The worst failure with the
// longest properties fits to the byte, whatever the message brings along.
func TestParkedHeadersFitTheFrame(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VHost(t)
		// Less than 8192 is refused by RabbitMQ 4.3.
		for _, frame := range []int{8192, 131072} {
			for _, own := range []int{0, 4000, 8000, 120_000, 131_000} {
				parkHeaders(t, vhost, frame, own)
			}
		}
	})
}

func parkHeaders(t *testing.T, vhost string, frame, own int) {
	t.Helper()
	conn, err := amqp.DialConfig(vhost, amqp.Config{FrameSize: frame})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	long, short := strings.Repeat("w", 1<<16), strings.Repeat("w", 255)
	headers, _ := retry.Failure{
		ID: "id", SourceQueue: long, SourceExchange: long, SourceRoutingKey: long, ConsumerName: long,
		ConsumerVersion: long, Attempts: math.MaxInt64, FirstFailure: time.Now(), LastFailure: time.Now(),
		Category: retry.Category(long), Class: long, Message: long, Stack: long, Reason: retry.Reason(long),
		UserID: long, Expiration: long,
	}.Write(map[string]any{
		"own": strings.Repeat("x", own), "nan": []any{math.NaN(), float32(math.Inf(1))},
		"decimal": amqp.Decimal{Scale: 2, Value: 314}, "x-death": []any{},
	}, conn.Config.FrameSize)
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q.Name, true, false, amqp.Publishing{
		Headers: rabbit.Table(headers), ContentType: short, ContentEncoding: short, DeliveryMode: amqp.Persistent,
		Priority: 9, CorrelationId: short, ReplyTo: short, MessageId: short, Timestamp: time.Now(), Type: short,
		AppId: short, Body: []byte("body"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
		t.Fatalf("frame_max %d, own headers of %d bytes: confirmed %v, %v", frame, own, ok, err)
	}
	d, ok, err := ch.Get(q.Name, true)
	if err != nil || !ok {
		t.Fatalf("get: %v, %v", ok, err)
	}
	if f, found, err := retry.ReadFailure(rabbit.Plain(d.Headers)); f.ID != "id" || !found || err != nil {
		t.Errorf("frame_max %d, own headers of %d bytes: read %q, %v, %v", frame, own, f.ID, found, err)
	}
}
