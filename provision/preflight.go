package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/topology"
)

// look is an object to look at: whether it exists, and, if wanted is not nil, whether it is equal.
type look struct {
	object object
	wanted properties
	// needed objects are not ours, and there is no going on without them.
	needed bool
}

// sight is what was seen of an object.
type sight struct {
	look   look
	exists bool
	// differs is nil if the object is equal or was not compared.
	differs []difference
	// problem is what the broker said if it would not tell.
	problem string
}

// lookList returns everything that an apply has to know about: the target, what it leans on, the place
// of the record, and what earlier applies may have made.
func lookList(t target) []look {
	var out []look
	for _, m := range []topology.Manifest{stateObjects(t.name), t.manifest} {
		for _, e := range m.Exchanges {
			out = append(out, look{object: object{topology.KindExchange, e.Name}, wanted: exchangeProperties(e)})
		}
		for _, q := range m.Queues {
			out = append(out, look{object: object{topology.KindQueue, q.Name}, wanted: queueProperties(q)})
		}
	}
	ours := objectsOf(t.manifest)
	for _, o := range uses(t.manifest) {
		if !ours[o] {
			ours[o] = true
			out = append(out, look{object: o, needed: true})
		}
	}
	return out
}

// uses returns what must exist for m to work: both ends of bindings, and where exchanges and queues send what
// they do not keep. The broker takes an alternate or a dead-letter exchange that does not exist, and then
// loses what goes there without a word.
func uses(m topology.Manifest) []object {
	var out []object
	for _, b := range m.Bindings {
		out = append(out, object{topology.KindExchange, b.Source}, object{topology.Kind(b.DestinationKind), b.Destination})
	}
	for _, e := range m.Exchanges {
		if to, ok := e.Arguments["alternate-exchange"].(string); ok && to != "" {
			out = append(out, object{topology.KindExchange, to})
		}
	}
	for _, q := range m.Queues {
		to, ok := q.Arguments["x-dead-letter-exchange"].(string)
		queue, named := q.Arguments["x-dead-letter-routing-key"].(string)
		switch {
		case ok && to != "":
			out = append(out, object{topology.KindExchange, to})
		case ok && named:
			out = append(out, object{topology.KindQueue, queue})
		}
	}
	return out
}

// lookAgain returns what else the record makes worth knowing about.
func lookAgain(r record, seen map[object]bool) []look {
	var out []look
	for _, m := range []topology.Manifest{r.Target, r.Previous} {
		for _, e := range m.Exchanges {
			if o := (object{topology.KindExchange, e.Name}); !seen[o] {
				seen[o] = true
				out = append(out, look{object: o})
			}
		}
		for _, q := range m.Queues {
			if o := (object{topology.KindQueue, q.Name}); !seen[o] {
				seen[o] = true
				out = append(out, look{object: o})
			}
		}
	}
	return out
}

// observe looks at each object without changing any.
func observe(ctx context.Context, s *session, o Options, name string, looks []look) ([]sight, error) {
	sights := make([]sight, len(looks))
	indexes := make([]int, len(looks))
	for i := range indexes {
		indexes[i] = i
	}
	progress := counter(o, name, len(looks))
	err := each(ctx, s, indexes, func(w *worker, i int) error {
		var err error
		if sights[i], err = w.look(looks[i]); err != nil {
			return fmt.Errorf("look at %v: %w", looks[i].object, err)
		}
		progress()
		return nil
	})
	return sights, err
}

// counter returns a function that tells o.Progress of one more thing done.
func counter(o Options, name string, total int) func() {
	var mu sync.Mutex
	done := 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		o.Progress(name, done, total)
	}
}

func (w *worker) look(l look) (sight, error) {
	seen := sight{look: l}
	err := w.do(func(ch *amqp.Channel) error { return passive(ch, l.object) })
	switch {
	case err == nil:
		seen.exists = true
	case replyCode(err) == amqp.NotFound && absent(err, l.object):
		return seen, nil
	case replyCode(err) == amqp.ResourceLocked:
		seen.exists, seen.problem = true, "it is exclusive to another connection"
		return seen, nil
	case refusal(err):
		// A 404 that does not say "no queue" is a queue that is there and has no leader, for instance.
		seen.problem = reply(err)
		return seen, nil
	default:
		return seen, err
	}
	if l.wanted == nil {
		return seen, nil
	}
	return w.compare(seen)
}

// compare declares an object that exists with what is wanted: if that is equal nothing happens, and
// else the broker names a difference.
func (w *worker) compare(seen sight) (sight, error) {
	c := newComparison(seen.look.object, seen.look.wanted)
	for {
		err := w.do(func(ch *amqp.Channel) error { return declare(ch, c.object, c.ask) })
		switch {
		case err == nil:
			seen.differs = c.found
			return seen, nil
		case replyCode(err) == amqp.PreconditionFailed:
			if !c.differ(reason(err)) {
				seen.differs = c.found
				return seen, nil
			}
		case refusal(err):
			seen.differs, seen.problem = c.found, reply(err)
			return seen, nil
		default:
			return seen, err
		}
	}
}

// passive asks whether an object exists.
func passive(ch *amqp.Channel, o object) error {
	if o.kind == topology.KindExchange {
		// The type is not looked at, but must be one.
		return ch.ExchangeDeclarePassive(o.name, "direct", true, false, false, false, nil)
	}
	_, err := ch.QueueDeclarePassive(o.name, true, false, false, false, nil)
	return err
}

// declare declares an object.
func declare(ch *amqp.Channel, o object, p properties) error {
	if o.kind == topology.KindExchange {
		e := p.exchange(o.name)
		return ch.ExchangeDeclare(e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, false, rabbit.Table(e.Arguments))
	}
	q := p.queue(o.name)
	_, err := ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, rabbit.Table(q.Arguments))
	return err
}

// absent reports whether a 404 says that there is no such object, and nothing else.
func absent(err error, o object) bool {
	return strings.HasPrefix(reason(err), "NOT_FOUND - no "+string(o.kind)+" '")
}

// reason returns the broker's text without its code.
func reason(err error) string {
	var answer *amqp.Error
	if errors.As(err, &answer) {
		return answer.Reason
	}
	return ""
}

// refusal reports whether err is an answer about the object asked for, and the connection is fine.
func refusal(err error) bool {
	return slices.Contains([]int{amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.PreconditionFailed}, replyCode(err))
}

// existing returns which objects exist.
func existing(sights []sight) map[object]bool {
	out := make(map[object]bool, len(sights))
	for _, s := range sights {
		out[s.look.object] = s.exists
	}
	return out
}

// verdict turns what was seen into the reasons not to begin, and what to say otherwise.
func verdict(t target, o Options, sights []sight) (warnings []string, _ error) {
	var mismatches []Mismatch
	var reasons []string
	ladders := newRoles(t.ladders)
	for _, s := range sights {
		// The order in which the broker compares is its own.
		slices.SortStableFunc(s.differs, func(a, b difference) int { return strings.Compare(a.argument, b.argument) })
		if s.problem != "" {
			reasons = append(reasons, fmt.Sprintf("%s%v: %s", at(t, s.look.object), s.look.object, s.problem))
			continue
		}
		if s.look.needed && !s.exists {
			reasons = append(reasons, fmt.Sprintf("%v does not exist: it is used here but not declared here", s.look.object))
		}
		for _, d := range s.differs {
			if o.KeepDeliveryLimit && ladders.keepsLimit(s.look.object, s.differs) {
				warnings = append(warnings, fmt.Sprintf("%v keeps its x-delivery-limit, which is %v and not %v", s.look.object, d.current, d.wanted))
				continue
			}
			mismatches = append(mismatches, ladders.mismatch(t, s.look.object, d))
		}
	}
	var errs []error
	if len(mismatches) > 0 {
		errs = append(errs, &MismatchError{mismatches})
	}
	if len(reasons) > 0 {
		errs = append(errs, &RefusedError{Reasons: reasons})
	}
	return warnings, errors.Join(errs...)
}

// at returns where an object was written, for the beginning of a line.
func at(t target, o object) string {
	if p := t.source(o.kind, o.name, ""); p != (topology.Position{}) {
		return p.String() + ": "
	}
	return ""
}
