package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// connect opens a connection that is closed when the test ends.
func connect(t *testing.T, brokerURL string) *amqp.Connection {
	t.Helper()
	conn, err := rabbit.Dial(t.Context(), rabbit.Config{URL: brokerURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rabbit.Close(conn, time.Second) })
	return conn
}

func publisher(t *testing.T, conn *amqp.Connection) *rabbit.Publisher {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rabbit.NewPublisher(ch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func queue(t *testing.T, brokerURL, name string, args amqp.Table) *amqp.Channel {
	t.Helper()
	ch := brokertest.Dial(t, brokerURL)
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	return ch
}

// TestAPublishThatReachedNobodyIsNoSuccess: a broker confirms a message that it could not route, and
// tells of it by a return, which other clients lose when they are slow.
func TestAPublishThatReachedNobodyIsNoSuccess(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		u := b.VHost(t)
		ch := queue(t, u, "q", nil)
		p := publisher(t, connect(t, u))
		const n = 400
		var wrong, routed atomic.Int64
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				key := []string{"q", "nobody"}[i%2]
				err := p.Publish(t.Context(), "", key, amqp.Publishing{Body: []byte("same"), DeliveryMode: amqp.Transient})
				switch {
				case key == "q" && err == nil:
					routed.Add(1)
				case key == "nobody" && errors.Is(err, rabbit.ErrUnroutable):
				default:
					wrong.Add(1)
					t.Errorf("Publish(%s) = %v", key, err)
				}
			})
		}
		wg.Wait()
		d, ok, err := ch.Get("q", true)
		if err != nil || !ok || d.DeliveryMode != amqp.Persistent || d.MessageCount != n/2-1 {
			t.Errorf("Get() = mode %d, %d more, %v, %v", d.DeliveryMode, d.MessageCount, ok, err)
		}
	})
}

// TestEqualMessagesInFlight: a return says not which publish it belongs to. None that reached nobody
// may be taken for delivered, even if others that look the same were.
func TestEqualMessagesInFlight(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, brokertest.Versions()[0])
	u := b.VHost(t)
	ch := queue(t, u, "q", nil)
	if err := ch.ExchangeDeclare("x", amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, connect(t, u))
	var ok atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		for range 20 {
			wg.Go(func() {
				switch err := p.Publish(t.Context(), "x", "k", amqp.Publishing{Body: []byte("same")}); {
				case err == nil:
					ok.Add(1)
				case !errors.Is(err, rabbit.ErrUnroutable):
					t.Error(err)
				}
			})
		}
		if err := ch.QueueBind("q", "", "x", false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueUnbind("q", "", "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if int64(q.Messages) < ok.Load() {
		t.Errorf("%d publishes succeeded, %d messages arrived", ok.Load(), q.Messages)
	}
}

func TestPublishesThatFail(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		u := b.VHost(t)
		queue(t, u, "full", amqp.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
		conn := connect(t, u)
		p := publisher(t, conn)
		if err := p.Publish(t.Context(), "", "full", amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		if err := p.Publish(t.Context(), "", "full", amqp.Publishing{}); !errors.Is(err, rabbit.ErrNotConfirmed) || !strings.Contains(err.Error(), "nack") {
			t.Errorf("to a full queue: %v", err)
		}
		if err := p.Publish(t.Context(), "", "full", amqp.Publishing{Headers: amqp.Table{"bad": struct{}{}}}); err == nil {
			t.Error("a header that AMQP does not know is published")
		}
		if err := p.Publish(t.Context(), "nope", "k", amqp.Publishing{}); !errors.Is(err, rabbit.ErrNotConfirmed) || !strings.Contains(err.Error(), "no exchange 'nope'") {
			t.Errorf("to a missing exchange: %v", err)
		}
		<-p.Done()
		if err := p.Publish(t.Context(), "", "full", amqp.Publishing{}); !errors.Is(err, rabbit.ErrNotConfirmed) || !strings.Contains(err.Error(), "no exchange 'nope'") {
			t.Errorf("after the channel has ended: %v", err)
		}

		p = publisher(t, conn)
		rabbit.Close(conn, time.Second)
		if err := p.Publish(t.Context(), "", "full", amqp.Publishing{}); !errors.Is(err, rabbit.ErrNotConfirmed) {
			t.Errorf("after the connection has ended: %v", err)
		}
		ch, err := connect(t, u).Channel()
		if err != nil {
			t.Fatal(err)
		}
		_ = ch.Close()
		if _, err := rabbit.NewPublisher(ch); err == nil {
			t.Error("NewPublisher() takes a closed channel")
		}
	})
}

// TestAPublishEndsWithItsContext also while the broker reads nothing, so that the write itself hangs.
func TestAPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, brokertest.Versions()[0])
	u := b.VHost(t)
	queue(t, u, "q", nil)
	proxy := brokertest.NewProxy(t, u)
	conn := connect(t, proxy.URL)
	p := publisher(t, conn)
	proxy.Stall()
	for _, size := range []int{1, 64 << 20} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, fmt.Errorf("no time"))
		err := p.Publish(ctx, "", "q", amqp.Publishing{Body: make([]byte, size)})
		cancel()
		if !errors.Is(err, rabbit.ErrNotConfirmed) || !strings.Contains(err.Error(), "no time") {
			t.Errorf("Publish(%d bytes) = %v", size, err)
		}
	}
	err := rabbit.Call(conn, 100*time.Millisecond, func() error { _, err := conn.Channel(); return err })
	if !errors.Is(err, rabbit.ErrTimeout) || !conn.IsClosed() {
		t.Errorf("Call() = %v; closed %v", err, conn.IsClosed())
	}
	<-p.Done()
}

func TestCallReturnsWhatTheCallReturns(t *testing.T) {
	t.Parallel()
	want := errors.New("x")
	if err := rabbit.Call(nil, time.Minute, func() error { return want }); err != want {
		t.Errorf("Call() = %v", err)
	}
}
