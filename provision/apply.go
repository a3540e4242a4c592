package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/topology"
)

// Apply makes the broker have what t says. Everything is looked at before anything is changed: an error
// that is [ErrRefused] (a [*MismatchError] among them) or [ErrLocked] has changed nothing. Any other
// may have; applying the same again, or another topology of the same name, goes on from there. The
// report is not nil whenever something was, or may have been, changed.
//
// Applies of one topology name in one vhost wait for each other. Cancelling ctx stops between two
// changes.
func Apply(ctx context.Context, o Options, t *topology.Topology) (*Report, error) {
	return apply(ctx, o, newTarget(t), t.CheckBroker, false)
}

// Preview does everything that [Apply] does up to the first change, and reports what Apply would do, in
// order. It waits for a running apply, and needs the same rights.
func Preview(ctx context.Context, o Options, t *topology.Topology) (*Report, error) {
	return apply(ctx, o, newTarget(t), t.CheckBroker, true)
}

func newTarget(t *topology.Topology) target {
	return target{name: t.Name, manifest: t.Expand(), ladders: t.Ladders(), source: t.Source}
}

func apply(ctx context.Context, o Options, t target, checkBroker func(string) topology.Diagnostics, dryRun bool) (*Report, error) {
	o = o.withDefaults()
	if t.name == "" || len(stateName(t.name)) > 255 {
		return nil, refusef("topology name %q: the names of its record and lock need 1 to 242 bytes", t.name)
	}
	vhost, err := resolveVHost(o, t.manifest.VHost)
	if err != nil {
		return nil, err
	}
	t.manifest.VHost = vhost
	s, err := connect(ctx, o, vhost)
	if err != nil {
		return nil, err
	}
	defer s.close()
	report := &Report{
		FormatVersion: ReportFormat, Name: t.name, VHost: vhost, BrokerVersion: s.version(), DryRun: dryRun,
		Changes: []Change{}, Retired: []Retired{}, Warnings: []string{},
	}
	if wrong := checkBroker(report.BrokerVersion); len(wrong) > 0 {
		return nil, refuseBroker(wrong)
	}
	if err := checkTypes(ctx, o, vhost, t); err != nil {
		return nil, err
	}
	if err := lock(ctx, s, o, t.name); err != nil {
		return nil, err
	}
	defer o.done()
	st := newStore(s, t.name)
	p, err := decide(ctx, s, o, t, st, report)
	if err != nil {
		return nil, err
	}
	report.foresee(t, p)
	if dryRun {
		for _, step := range p.steps {
			report.add(step.name, step.ops)
		}
	} else if err := carryOut(ctx, s, o, st, p, report); err != nil {
		return report, err
	}
	return report, st.giveBack()
}

// decide looks at the broker and makes the plan. It changes nothing.
func decide(ctx context.Context, s *session, o Options, t target, st *store, report *Report) (plan, error) {
	sights, err := observe(ctx, s, o, "compare", lookList(t))
	if err != nil {
		return plan{}, err
	}
	warnings, refused := verdict(t, o, sights)
	report.Warnings = append(report.Warnings, warnings...)
	exists := existing(sights)
	var k known
	why := fmt.Sprintf("there is no record of what was applied before (queue %q does not exist)", stateName(t.name))
	if exists[object{topology.KindQueue, stateName(t.name)}] && refused == nil {
		if k, err = st.read(ctx); err != nil {
			return plan{}, err
		}
		why = fmt.Sprintf("there is no record of what was applied before (queue %q is empty)", stateName(t.name))
		if k.note != "" {
			why = fmt.Sprintf("the record of what was applied before is not to be trusted (queue %q: %s; take that message out once you know what it is)", stateName(t.name), k.note)
		}
	}
	if k.newer {
		refused = refusef("%s; use that version, or a newer one", why)
	}
	if refused != nil {
		return plan{}, errors.Join(refused, st.giveBack())
	}
	if !k.sure {
		warnings, refusals := unrecorded(t, exists, why, o.AdoptLadders)
		if len(refusals) > 0 {
			return plan{}, errors.Join(&RefusedError{Reasons: refusals}, st.giveBack())
		}
		report.Warnings = append(report.Warnings, warnings...)
	} else if k.note != "" {
		report.Warnings = append(report.Warnings, fmt.Sprintf("queue %q: %s; it does not count and was left alone", stateName(t.name), k.note))
	}
	again, err := observe(ctx, s, o, "look at what earlier applies left", lookAgain(k.record, existing(sights)))
	if err != nil {
		return plan{}, err
	}
	for _, seen := range again {
		// What cannot be seen is taken for there: it stays in the record.
		exists[seen.look.object] = seen.exists || seen.problem != ""
	}
	return newPlan(t, k.record, k.last, exists), nil
}

// carryOut does the steps of a plan.
func carryOut(ctx context.Context, s *session, o Options, st *store, p plan, report *Report) error {
	for _, step := range p.steps {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before it would %s; apply again to complete it: %w", step.name, context.Cause(ctx))
		}
		done, err := carryOutStep(ctx, s, o, st, step)
		report.add(step.name, done)
		if err != nil {
			return fmt.Errorf("%s: %w; %s", step.name, err, next(err))
		}
	}
	return nil
}

// next says what to do about an error half-way.
func next(err error) string {
	switch {
	case replyCode(err) == amqp.AccessRefused:
		return "give the user that right and apply again to complete it"
	case refusal(err):
		return "the broker will say so again: correct that and apply again to complete it"
	}
	return "apply again to complete it"
}

// carryOutStep returns what it did, in the order of the plan.
func carryOutStep(ctx context.Context, s *session, o Options, st *store, step step) ([]op, error) {
	if step.write != nil {
		if err := o.hook(step.name); err != nil {
			return nil, err
		}
		return nil, st.write(ctx, *step.write)
	}
	indexes := make([]int, len(step.ops))
	for i := range indexes {
		indexes[i] = i
	}
	done := make([]bool, len(step.ops))
	progress := counter(o, step.name, len(step.ops))
	err := each(ctx, s, indexes, func(w *worker, i int) error {
		if err := o.hook(step.name); err != nil {
			return err
		}
		if err := w.perform(step.ops[i]); err != nil {
			return fmt.Errorf("%v: %w", step.ops[i].change(step.name), err)
		}
		done[i] = true
		progress()
		return nil
	})
	var did []op
	for i, o := range step.ops {
		if done[i] {
			did = append(did, o)
		}
	}
	return did, err
}

// perform does one thing that can be done again without harm.
func (w *worker) perform(o op) error {
	return w.do(func(ch *amqp.Channel) error {
		switch {
		case o.exchange != nil:
			return declare(ch, object{topology.KindExchange, o.exchange.Name}, exchangeProperties(*o.exchange))
		case o.queue != nil:
			return declare(ch, object{topology.KindQueue, o.queue.Name}, queueProperties(*o.queue))
		case o.action == ActionUnbind:
			return unbind(ch, *o.binding)
		}
		return bind(ch, *o.binding)
	})
}

func bind(ch *amqp.Channel, b topology.Binding) error {
	if b.DestinationKind == topology.ToExchange {
		return ch.ExchangeBind(b.Destination, b.RoutingKey, b.Source, false, rabbit.Table(b.Arguments))
	}
	return ch.QueueBind(b.Destination, b.RoutingKey, b.Source, false, rabbit.Table(b.Arguments))
}

// unbind removes a binding. The broker does not mind if it, or one of its ends, is not there.
func unbind(ch *amqp.Channel, b topology.Binding) error {
	if b.DestinationKind == topology.ToExchange {
		return ch.ExchangeUnbind(b.Destination, b.RoutingKey, b.Source, false, rabbit.Table(b.Arguments))
	}
	return ch.QueueUnbind(b.Destination, b.RoutingKey, b.Source, rabbit.Table(b.Arguments))
}

func (o op) change(step string) Change {
	return Change{Step: step, Action: o.action, Exchange: o.exchange, Queue: o.queue, Binding: o.binding}
}

// foresee fills in what the plan alone decides.
func (r *Report) foresee(t target, p plan) {
	r.Retired = append(r.Retired, p.retired...)
	r.Resumed = p.resumed
	r.Unchanged = Counts{Exchanges: len(t.manifest.Exchanges), Queues: len(t.manifest.Queues)}
	wanted := objectsOf(t.manifest)
	for _, step := range p.steps {
		for _, o := range step.ops {
			switch {
			case o.exchange != nil && wanted[object{topology.KindExchange, o.exchange.Name}]:
				r.Unchanged.Exchanges--
			case o.queue != nil && wanted[object{topology.KindQueue, o.queue.Name}]:
				r.Unchanged.Queues--
			}
		}
	}
}

// add adds what a step did, or would do.
func (r *Report) add(step string, ops []op) {
	for _, o := range ops {
		switch {
		case step == stepStore:
		case o.exchange != nil:
			r.Created.Exchanges++
		case o.queue != nil:
			r.Created.Queues++
		case o.action == ActionUnbind:
			r.BindingsRemoved++
		case !strings.HasPrefix(step, prefixFinishing):
			r.BindingsEnsured++
		}
		if !o.known {
			r.Changes = append(r.Changes, o.change(step))
		}
	}
}
