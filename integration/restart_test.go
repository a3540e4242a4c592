package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// A broker of its own, without the plugins for jitter at first, is killed and started again while a worker
// works: nothing is lost and it goes on.
func TestABrokerIsKilledUnderAWorker(t *testing.T) {
	t.Parallel()
	const orders = 2000
	brokertest.EachPrivate(t, brokertest.PrivateOptions{Plugins: []string{"rabbitmq_management"}}, func(t *testing.T, b *brokertest.Broker) {
		t.Run("a missing plugin", func(t *testing.T) { namesTheMissingPlugin(t, b) })
		for _, queueType := range brokertest.QueueTypes {
			w := newWorld(t, b, yaml(queueType, twoTiers))
			book := newBook()
			release := book.shut()
			worker, stop := w.run(t, consumer.Config{Concurrency: 16, Handler: book.handle})
			w.publish(t, exchange, key, numbered(orders)...)
			book.awaitAtWork(t, 16)
			book.open()
			release()
			for range 100 {
				await(t, book.begins, 20*time.Second)
			}
			b.Kill(t)
			eventually(t, 10*time.Second, func() error {
				if ok, _ := worker.Ready(); ok {
					return errors.New("the worker is ready without a broker")
				}
				return nil
			})
			b.Restart(t)
			start := time.Now()
			drain(book.begins)
			await(t, book.begins, time.Minute)
			t.Logf("%s: consuming again %v after the broker was ready", queueType, time.Since(start).Round(time.Millisecond))
			w.admin = brokertest.Dial(t, w.url)
			w.awaitAll(t, book, orders)
			stop()
			if n := w.depth(t, work) + w.depth(t, dlq); n != 0 {
				t.Errorf("%s: %d orders are in the work queue or the DLQ", queueType, n)
			}
			_, again := book.result()
			t.Logf("%s: %d orders, %d handled again", queueType, orders, again)
		}
	})
}
