package topology

import (
	"errors"
	"fmt"
)

func (f *follower) isStream(queue string) bool {
	return f.queues[queue].Arguments[argQueueType] == "stream"
}

func (f *follower) isQuorum(queue string) bool {
	return f.queues[queue].Arguments[argQueueType] == "quorum"
}

// canDie reports why messages of the queue cannot die for the reason that the question is about.
func (f *follower) canDie(queue string, s state) error {
	args := f.queues[queue].Arguments
	switch f.Reason {
	case DeathExpired:
		if _, ok := args[argMessageTTL]; !ok && s.expiration == 0 {
			return fmt.Errorf("nothing expires in queue %q: it has no TTL, and neither has the message", queue)
		}
	case DeathMaxLen:
		_, length := args[argMaxLength]
		_, bytes := args[argMaxLengthBytes]
		if !length && !bytes {
			return fmt.Errorf("queue %q has no length limit", queue)
		}
		if args[argOverflow] == rejectPublish {
			return fmt.Errorf("queue %q is of overflow %q: when it is full, publishers are refused and nothing dies", queue, rejectPublish)
		}
	case DeathDeliveryLimit:
		limit, ok := args[argDeliveryLimit].(int64)
		if !f.isQuorum(queue) || !ok && !f.dialect.limited || ok && limit < 0 && f.dialect.limited {
			return fmt.Errorf("queue %q has no delivery limit on RabbitMQ %s", queue, f.dialect.version)
		}
	}
	return nil
}

// die dead-letters a copy and follows what comes of it.
func (f *follower) die(c *Copy, s state, reason DeathReason, wait Span) error {
	args := f.queues[c.Queue].Arguments
	c.Reason = reason
	if reason == DeathExpired {
		c.Wait = &wait
	}
	exchange, ok := args[argDLX].(string)
	if !ok {
		c.Fate, c.Note = FateDiscarded, "the queue has no dead-letter exchange"
		return nil
	}
	var key *string
	if k, ok := args[argDLRK].(string); ok {
		key = &k
	}
	s.message = s.message.die(death{queue: c.Queue, slots: c.Slots, reason: reason}, exchange, key, f.dialect)
	s.expiration = 0
	s.after = s.after.plus(wait)
	c.DeadLetter = &DeadLetter{Exchange: exchange, RoutingKeys: s.keys, Delivery: f.delivery(c.Queue)}
	if c.DeadLetter.Delivery == AtMostOnce {
		f.weak[c.Queue] = true
	}
	if _, ok := f.exchanges[exchange]; !ok && exchange != "" {
		f.unroutable(c, fmt.Sprintf("the dead-letter exchange %q does not exist", exchange))
		return nil
	}
	routing, err := f.route(s.message, f.dialect)
	if err != nil {
		return fmt.Errorf("dead letters of queue %q: %w", c.Queue, err)
	}
	f.note(routing.Notes...)
	targets, err := f.acyclic(c, s, routing.Targets)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		f.unroutable(c, nowhere(c.DeadLetter))
		return nil
	}
	if routing.MayReachNone {
		f.note(fmt.Sprintf("what dies in queue %q reaches a queue only if an exchange picks a way that leads to one", c.Queue))
	}
	c.Fate = FateDies
	c.Next, err = f.arrive(targets, s)
	return err
}

// delivery returns what the broker promises for dead letters of a queue: at-least-once needs more than
// to be asked for, or it is silently at-most-once.
func (f *follower) delivery(queue string) Delivery {
	args := f.queues[queue].Arguments
	if f.isQuorum(queue) && args[argStrategy] == atLeastOnce && args[argOverflow] == rejectPublish {
		return AtLeastOnce
	}
	return AtMostOnce
}

// errApart says that it matters in which of the slots a message was; they are told apart from then on.
var errApart = errors.New("slots are told apart")

// acyclic leaves out the targets that the broker leaves out.
func (f *follower) acyclic(c *Copy, s state, targets []Target) ([]Target, error) {
	var out []Target
	for _, t := range targets {
		e := s.cycle(t.Queue)
		switch {
		case e != nil && len(e.slots) > 0:
			for _, q := range e.slots {
				f.apart[q] = true
			}
			return nil, errApart
		case e != nil:
			c.DeadLetter.Cycles = append(c.DeadLetter.Cycles, t.Queue)
		case f.isStream(t.Queue) && !f.dialect.containers:
			f.note(fmt.Sprintf("RabbitMQ 3.x loses what is dead-lettered into stream %q", t.Queue))
		default:
			out = append(out, t)
		}
	}
	return out, nil
}

func nowhere(d *DeadLetter) string {
	if len(d.Cycles) > 0 {
		return fmt.Sprintf("the broker takes the way back to %q for a cycle, since nothing was rejected on it", d.Cycles[0])
	}
	return fmt.Sprintf("no queue is bound to exchange %q for it", d.Exchange)
}

// unroutable ends a copy that no queue takes.
func (f *follower) unroutable(c *Copy, why string) {
	c.Fate, c.Note = FateLost, why
	if c.DeadLetter.Delivery == AtLeastOnce {
		c.Fate = FateHeld
	}
}
