package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/management"
)

// A worker may read its queue and write to the exchange that leads to its DLQ, and needs nothing else:
// the ladder is the broker's own work.
func TestAWorkerNeedsFewRights(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		w := newWorld(t, b, yaml(queueType, twoTiers))
		user := "worker-" + rand.Text()
		c := b.Management(t)
		if err := c.PutUser(t.Context(), user, password); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.DeleteUser(context.Background(), user); err != nil {
				t.Error(err)
			}
		})
		rights := management.Permissions{Configure: "^$", Write: `^orders\.fulfil\.park$`, Read: `^orders\.fulfil$`}
		if err := c.PutPermissions(t.Context(), brokertest.VHostName(t, w.url), user, rights); err != nil {
			t.Fatal(err)
		}
		restricted := *w
		restricted.url = withUser(t, w.url, user)
		attempts := make(chan int, 10)
		restricted.run(t, consumer.Config{Handler: func(_ context.Context, m *consumer.Message) error {
			attempts <- m.Attempt
			return errors.New("no")
		}})
		w.publish(t, exchange, key, numbered(1)...)
		w.take(t, dlq, 1, 10*time.Second)
		if n := len(attempts); n != 3 {
			t.Errorf("%d handler calls, want 3", n)
		}
	})
}
