package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// A broker of its own, without the plugins for jitter at first, is killed and started again while workers
// work: nothing is lost and they go on.
func TestABrokerIsKilledUnderWorkers(t *testing.T) {
	t.Parallel()
	const orders = 2000
	options := brokertest.PrivateOptions{Plugins: []string{"rabbitmq_management"}}
	brokertest.EachPrivate(t, options, func(t *testing.T, b *brokertest.Broker) {
		t.Run("a missing plugin", func(t *testing.T) { namesTheMissingPlugin(t, b) })
		var all []*killed
		for _, queueType := range brokertest.QueueTypes {
			k := &killed{world: newWorld(t, b, yaml(queueType, twoTiers)), queueType: queueType, book: newBook()}
			first := k.book.shut()
			k.worker, k.stop = k.world.run(t, consumer.Config{Concurrency: 16, Handler: k.book.handle})
			k.world.publish(t, exchange, key, numbered(orders)...)
			k.book.awaitAtWork(t, 16)
			// These are handled; the next ones are at work when the broker dies.
			drain(k.book.begins)
			k.release = k.book.shut()
			first()
			for range 16 {
				await(t, k.book.begins, 20*time.Second)
			}
			all = append(all, k)
		}
		start := time.Now()
		b.Kill(t)
		for _, k := range all {
			eventually(t, 20*time.Second, func() error {
				if ok, _ := k.worker.Ready(); ok {
					return errors.New("the worker is ready without a broker")
				}
				return nil
			})
			drain(k.book.begins)
			k.book.open()
			k.release()
		}
		b.Restart(t)
		t.Logf("the broker was away for %v", time.Since(start).Round(time.Millisecond))
		for _, k := range all {
			again := await(t, k.book.begins, time.Minute).Sub(start)
			t.Logf("%s: consuming again %v after the kill", k.queueType, again.Round(time.Millisecond))
			k.world.admin = brokertest.Dial(t, k.world.url)
			k.world.awaitAll(t, k.book, orders)
			k.stop()
			if n := k.world.depth(t, work) + k.world.depth(t, dlq); n != 0 {
				t.Errorf("%s: %d orders are in the work queue or the DLQ", k.queueType, n)
			}
			_, twice := k.book.result()
			t.Logf("%s: %d orders, %d handled again", k.queueType, orders, twice)
		}
	})
}

// killed is a worker whose broker is killed.
type killed struct {
	world     *world
	queueType string
	book      *book
	worker    *consumer.Worker
	stop      func()
	release   func()
}
