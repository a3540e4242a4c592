package brokertest

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/management"
)

// startTime is how long a broker may take to start; a loaded machine with two cores needs half a minute.
const startTime = 2 * time.Minute

// wait returns when AMQP and the management API answer, and learns the version.
func (b *Broker) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.ping(ctx)
		if err == nil {
			return nil
		}
		if b.container != nil && b.container.exited() {
			return fmt.Errorf("the container has ended: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", startTime, err)
		}
	}
}

func (b *Broker) ping(ctx context.Context) error {
	conn, err := amqp.DialConfig(b.URL, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return err
	}
	b.Version, _ = conn.Properties["version"].(string)
	if err := conn.Close(); err != nil {
		return err
	}
	if b.noManagement {
		return nil
	}
	c, err := management.New(b.ManagementURL)
	if err != nil {
		return err
	}
	_, err = c.Overview(ctx)
	return err
}
