package brokertest_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/rmqkit/rmqkit/internal/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAVHostIsThereForOneTest(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		var name string
		t.Run("while it runs", func(t *testing.T) {
			url := b.VHost(t)
			name = brokertest.VHostName(t, url)
			ch := brokertest.Dial(t, url)
			if _, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
				t.Fatal(err)
			}
			q, err := b.Management(t).Queue(t.Context(), name, "q")
			if err != nil || q.Type != "quorum" {
				t.Errorf("Queue() = %+v, %v", q, err)
			}
		})
		if !strings.ContainsAny(name, "/") || !strings.ContainsAny(name, "% ") {
			t.Errorf("vhost %q has a harmless name", name)
		}
		if _, err := amqp.Dial(brokertest.WithVHost(t, b.URL, name)); err == nil {
			t.Error("the vhost is still there")
		}
	})
}

func TestConnectionsAreClosedInOneVHostOnly(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		one, other := b.VHost(t), b.VHost(t)
		closed := brokertest.Dial(t, one).NotifyClose(make(chan *amqp.Error, 1))
		kept := brokertest.Dial(t, other)
		b.CloseAllConnections(t, one)
		if err := <-closed; err == nil || err.Code != amqp.ConnectionForced {
			t.Errorf("the connection ended with %v, want %d", err, amqp.ConnectionForced)
		}
		if _, err := kept.QueueDeclare("q", true, false, false, false, nil); err != nil {
			t.Errorf("the other vhost's connection: %v", err)
		}
	})
}

func TestAPrivateBrokerKeepsItsDataWhenKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a broker")
	}
	b := brokertest.Private(t, brokertest.Versions()[len(brokertest.Versions())-1], brokertest.PrivateOptions{Plugins: []string{}})
	ch := brokertest.Dial(t, b.URL)
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.Kill(t)
	b.Restart(t)
	if _, err := brokertest.Dial(t, b.URL).QueueDeclarePassive("q", true, false, false, false, nil); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}
