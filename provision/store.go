package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// serialHeader carries a record's serial also outside its body, so that a body that cannot be read
// still has its place in the order.
const serialHeader = "rmqkit.serial"

// stateObjects returns what keeps the record: a durable queue and, so that no right to publish to the
// default exchange is needed, an exchange of its own before it.
func stateObjects(name string) topology.Manifest {
	state := stateName(name)
	return topology.Manifest{
		Exchanges: []topology.Exchange{{Name: state, Type: "fanout", Durable: true}},
		Queues: []topology.Queue{{Name: state, Durable: true, Arguments: map[string]any{
			"x-queue-type": string(retry.Quorum),
			// Looking counts as a delivery, and RabbitMQ 4 drops a message after 20 unless told otherwise.
			"x-delivery-limit": int64(1_000_000_000),
		}}},
		Bindings: []topology.Binding{{Source: state, Destination: state, DestinationKind: topology.ToQueue}},
	}
}

// store keeps the record in the broker. It is used under the lock only.
type store struct {
	session *session
	name    string
	// reader holds the messages that were got and are not settled; a channel of its own, since
	// acknowledgements belong to the channel.
	reader    *worker
	held      []held
	publisher *rabbit.Publisher
}

type held struct {
	tag uint64
	kept
}

func newStore(s *session, name string) *store {
	return &store{session: s, name: name, reader: &worker{session: s}}
}

// maxKept bounds how many messages of the state queue are looked at: it holds one, or two after a
// crash.
const maxKept = 1000

// read gets every message and holds it. A queue that is there and empty is looked at again for a
// while: what a connection that has just died held comes back a moment later, and somebody may be
// looking at it.
func (st *store) read(ctx context.Context) (known, error) {
	backoff := rabbit.Backoff{Base: 400 * time.Millisecond, Max: 400 * time.Millisecond}
	for range 10 {
		if err := st.get(); err != nil {
			return known{}, fmt.Errorf("read the record in queue %q: %w", stateName(st.name), err)
		}
		if len(st.held) > 0 {
			break
		}
		if err := backoff.Wait(ctx); err != nil {
			return known{}, fmt.Errorf("read the record in queue %q: %w", stateName(st.name), err)
		}
	}
	messages := make([]kept, len(st.held))
	for i, h := range st.held {
		messages[i] = h.kept
	}
	return newest(messages), nil
}

func (st *store) get() error {
	return st.reader.do(func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(stateName(st.name), false)
			if err != nil || !ok {
				return err
			}
			if len(st.held) >= maxKept {
				return fmt.Errorf("it holds more than %d messages: they are not all ours", maxKept)
			}
			h := held{tag: d.DeliveryTag}
			h.serial, _ = d.Headers[serialHeader].(int64)
			h.record, h.err = recordOf(st.name, d.Body, d.ContentEncoding)
			st.held = append(st.held, h)
		}
	})
}

// write publishes the record and, once the broker has it, acknowledges the older ones.
func (st *store) write(ctx context.Context, r record) error {
	body, encoding, err := r.encode()
	if err != nil {
		return err
	}
	if err := st.open(); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, st.session.answer, errors.New(
		"no confirm came; under a memory or disk alarm the broker takes no messages"))
	defer cancel()
	err = st.publisher.Publish(waiting, stateName(st.name), "", amqp.Publishing{
		ContentType:     "application/json",
		ContentEncoding: encoding,
		Type:            "rmqkit.state",
		Headers:         amqp.Table{serialHeader: r.Serial},
		Body:            body,
	})
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	if err := st.dropOlder(r.Serial); err != nil {
		return fmt.Errorf("acknowledge the older record: %w", err)
	}
	// The next write acknowledges this one.
	if err := st.get(); err != nil {
		return fmt.Errorf("read the record again: %w", err)
	}
	return nil
}

// open makes the publisher, on the first write.
func (st *store) open() error {
	if st.publisher != nil {
		return nil
	}
	w := &worker{session: st.session}
	return w.do(func(ch *amqp.Channel) (err error) {
		st.publisher, err = rabbit.NewPublisher(ch)
		return err
	})
}

// dropOlder acknowledges the readable records before serial. What cannot be read is never dropped.
func (st *store) dropOlder(serial int64) error {
	return st.reader.do(func(ch *amqp.Channel) error {
		var rest []held
		for _, h := range st.held {
			if h.err != nil || h.record.Serial >= serial {
				rest = append(rest, h)
				continue
			}
			if err := ch.Ack(h.tag, false); err != nil {
				return err
			}
		}
		st.held = rest
		return nil
	})
}

// giveBack returns what is held, all at once.
func (st *store) giveBack() error {
	if len(st.held) == 0 {
		return nil
	}
	last := st.held[len(st.held)-1].tag
	st.held = nil
	return st.reader.do(func(ch *amqp.Channel) error {
		if err := ch.Nack(last, true, true); err != nil {
			return err
		}
		// A nack has no answer: closing the channel has, and comes after it.
		return ch.Close()
	})
}
