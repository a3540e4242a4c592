package provision

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// checkTypes refuses a broker that lacks an exchange type, and changes nothing: the broker looks at the
// type before it refuses to declare the default exchange. RabbitMQ 3.10 closes the connection over an
// unknown type, so each question has a connection of its own.
func checkTypes(ctx context.Context, o Options, vhost string, t target) error {
	var reasons []string
	for _, e := range pluginTypes(t.manifest) {
		known, err := knowsType(ctx, o, vhost, e.Type)
		if err != nil {
			return fmt.Errorf("ask for exchange type %q: %w", e.Type, err)
		}
		if !known {
			reasons = append(reasons, unknownType(t, e))
		}
	}
	if len(reasons) > 0 {
		return &RefusedError{Reasons: reasons}
	}
	return nil
}

func knowsType(ctx context.Context, o Options, vhost, exchangeType string) (bool, error) {
	o.Channels = 1
	s, err := connect(ctx, o, vhost)
	if err != nil {
		return false, err
	}
	defer s.close()
	err = s.workers[0].do(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare("", exchangeType, true, false, false, false, nil)
	})
	switch replyCode(err) {
	case amqp.AccessRefused:
		return true, nil
	case amqp.CommandInvalid: // RabbitMQ 3.10
		return false, nil
	case amqp.PreconditionFailed: // RabbitMQ 4: unknown, or invalid where the plugin is there and off
		if strings.Contains(reason(err), "exchange type") {
			return false, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("the broker let the default exchange be declared")
	}
	return false, err
}
