package provision

import (
	"maps"
	"slices"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// target is what an apply is to make, as it is needed here.
type target struct {
	name     string
	manifest topology.Manifest
	ladders  []retry.Ladder
	source   func(kind topology.Kind, name, argument string) topology.Position
}

func (t target) laddered() []string {
	out := make([]string, len(t.ladders))
	for i, l := range t.ladders {
		out[i] = l.Queue
	}
	return out
}

// step is work that may be done in any order. A step begins when the one before it is complete.
type step struct {
	name string
	ops  []op
	// write, if not nil, is the record to write instead of doing ops.
	write *record
}

// op is one thing that a step does. It can be done again without harm.
type op struct {
	action   Action
	exchange *topology.Exchange
	queue    *topology.Queue
	binding  *topology.Binding
	// known is true for a binding that the last complete apply recorded: ensuring it is no change.
	known bool
}

// plan is what to do, in order, and what is left alone.
type plan struct {
	steps   []step
	retired []Retired
	resumed bool
}

// The steps of a plan.
const (
	stepStore       = "make a place for the record"
	stepIntent      = "record what will be done"
	stepSwitching   = "record that ladders are being switched"
	stepDone        = "record that it is done"
	stepExchanges   = "declare exchanges"
	stepQueues      = "declare queues"
	stepInside      = "bind inside ladders"
	stepUnbindOld   = "unbind what is no longer wanted"
	stepOutside     = "bind exchanges to queues"
	stepSwitchOut   = "unbind the old ladders in set "
	stepSwitchIn    = "bind the new ladders in set "
	prefixFinishing = "finish the interrupted apply: "
)

// planner holds what decides a plan. Its methods do no I/O.
type planner struct {
	target target
	record record
	// existed is what the broker had, exists what it will have after the steps that are planned.
	existed, exists map[object]bool
	places          places
	// wanted are the target's bindings, owned those of ours that may exist, and complete those of the
	// last apply if that came to its end.
	wanted, owned, complete *bindingSet
	ladders                 []string
	plan                    plan
}

// newPlan decides what to do: last is the record that was found, with serial 0 if there was none,
// exists the objects that the broker has, and serial the highest one seen.
func newPlan(t target, last record, serial int64, exists map[object]bool) plan {
	p := &planner{
		target:   t,
		record:   last,
		existed:  exists,
		exists:   maps.Clone(exists),
		wanted:   newBindingSet(t.manifest.Bindings),
		owned:    newBindingSet(last.Target.Bindings, last.Previous.Bindings),
		complete: newBindingSet(nil),
		ladders:  union(t.laddered(), last.Ladders),
	}
	if last.Phase == phaseDone {
		p.complete = newBindingSet(last.Target.Bindings)
	}
	p.places = placesOf(p.ladders)
	previous := p.previous()
	interrupted := p.interruptedSwitch()
	if interrupted {
		p.finish()
		previous = p.previous()
	}
	p.plan.resumed = last.Serial > 0 && last.Phase != phaseDone

	left, retired := p.left()
	p.plan.retired = retired
	next := record{Name: t.name, Target: t.manifest, Ladders: p.ladders, Previous: previous}
	done := next
	done.Phase, done.Previous, done.Ladders = phaseDone, left, p.remaining(left)
	write := !(last.Phase == phaseDone && sameManifest(last.Target, t.manifest) &&
		sameManifest(last.Previous, left) && slices.Equal(last.Ladders, done.Ladders))

	// A switch that goes on where it was interrupted must not look as if it had not begun.
	switching := last.Phase == phaseSwitch && !interrupted
	if write {
		p.store()
		serial++
		if switching {
			p.writeStep(stepSwitching, next, phaseSwitch, serial)
		} else {
			p.writeStep(stepIntent, next, phaseIntent, serial)
		}
	}
	p.declare("", t.manifest.Exchanges, t.manifest.Queues)
	p.bind(stepInside, p.places.inside)
	if write && !switching && p.switches() {
		serial++
		p.writeStep(stepSwitching, next, phaseSwitch, serial)
	}
	p.switchSets("", p.wanted)
	p.bind(stepOutside, p.places.outside)
	p.unbindOld(left)
	if write {
		p.writeStep(stepDone, done, phaseDone, serial+1)
	}
	return p.plan
}

func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// previous is everything of ours that may exist and is not in the target.
func (p *planner) previous() topology.Manifest {
	target := objectsOf(p.target.manifest)
	m := topology.Manifest{
		VHost:    p.target.manifest.VHost,
		Bindings: p.owned.without(p.wanted),
	}
	seen := map[object]bool{}
	for _, from := range []topology.Manifest{p.record.Target, p.record.Previous} {
		for _, e := range from.Exchanges {
			if o := (object{topology.KindExchange, e.Name}); !target[o] && !seen[o] {
				seen[o] = true
				m.Exchanges = append(m.Exchanges, e)
			}
		}
		for _, q := range from.Queues {
			if o := (object{topology.KindQueue, q.Name}); !target[o] && !seen[o] {
				seen[o] = true
				m.Queues = append(m.Queues, q)
			}
		}
	}
	return m
}

func objectsOf(m topology.Manifest) map[object]bool {
	out := make(map[object]bool, len(m.Exchanges)+len(m.Queues))
	for _, e := range m.Exchanges {
		out[object{topology.KindExchange, e.Name}] = true
	}
	for _, q := range m.Queues {
		out[object{topology.KindQueue, q.Name}] = true
	}
	return out
}

// interruptedSwitch reports whether the sets of bindings are of two targets, and neither is ours. Then
// which set is whole is not known, and only going on in the same order keeps one whole.
func (p *planner) interruptedSwitch() bool {
	if p.record.Phase != phaseSwitch {
		return false
	}
	there := newBindingSet(filter(p.record.Target.Bindings, p.places.switched))
	here := newBindingSet(filter(p.target.manifest.Bindings, p.places.switched))
	return len(there.without(here)) > 0 || len(here.without(there)) > 0
}

// finish brings both sets to the interrupted target, as its own apply would have.
func (p *planner) finish() {
	bindings := filter(p.record.Target.Bindings, func(b topology.Binding) bool { return !p.places.outside(b) })
	needed := map[object]bool{}
	for _, b := range bindings {
		needed[object{topology.KindExchange, b.Source}] = true
		needed[object{topology.Kind(b.DestinationKind), b.Destination}] = true
	}
	p.declare(prefixFinishing,
		filter(p.record.Target.Exchanges, func(e topology.Exchange) bool { return needed[object{topology.KindExchange, e.Name}] }),
		filter(p.record.Target.Queues, func(q topology.Queue) bool { return needed[object{topology.KindQueue, q.Name}] }))
	p.step(prefixFinishing+stepInside, p.bindings(ActionBind, filter(bindings, p.places.inside)))
	to := newBindingSet(bindings)
	p.switchSets(prefixFinishing, to)
	// What was replaced is gone, so both sets are whole again.
	gone := newBindingSet(newBindingSet(p.switchable(p.owned.list, to)).without(to))
	p.owned = newBindingSet(p.owned.without(gone))
}

// declare creates what does not exist.
func (p *planner) declare(prefix string, exchanges []topology.Exchange, queues []topology.Queue) {
	var ops []op
	for _, e := range exchanges {
		if o := (object{topology.KindExchange, e.Name}); !p.exists[o] {
			p.exists[o] = true
			ops = append(ops, op{action: ActionCreate, exchange: &e})
		}
	}
	p.step(prefix+stepExchanges, ops)
	ops = nil
	for _, q := range queues {
		if o := (object{topology.KindQueue, q.Name}); !p.exists[o] {
			p.exists[o] = true
			ops = append(ops, op{action: ActionCreate, queue: &q})
		}
	}
	p.step(prefix+stepQueues, ops)
}

// bind ensures those bindings of the target that of says yes to.
func (p *planner) bind(name string, of func(topology.Binding) bool) {
	p.step(name, p.bindings(ActionBind, filter(p.wanted.list, of)))
}

// switches reports whether any binding of a set comes or goes.
func (p *planner) switches() bool {
	wanted := newBindingSet(filter(p.wanted.list, p.places.switched))
	if p.record.Phase == phaseIntent {
		// Those of the record's target are not there yet, so nothing says which are.
		return len(wanted.list) > 0
	}
	owned := newBindingSet(p.switchable(p.owned.list, p.wanted))
	return len(wanted.without(owned)) > 0 || len(owned.without(wanted)) > 0
}

// switchSets takes set a and then set b of every ladder to the bindings of to. Between the removal of
// the old ones and the arrival of the new, whatever finds no binding falls through to the other set.
func (p *planner) switchSets(prefix string, to *bindingSet) {
	for _, s := range []retry.Set{retry.SetA, retry.SetB} {
		in := func(b topology.Binding) bool { return p.places.inSet(b, s) }
		old := newBindingSet(filter(p.switchable(p.owned.list, to), in))
		p.step(prefix+stepSwitchOut+string(s), p.bindings(ActionUnbind, old.without(to)))
		p.step(prefix+stepSwitchIn+string(s), p.bindings(ActionBind, filter(to.list, in)))
	}
}

// switchable returns those bindings of either set whose ladder to has too. A ladder that is in no file
// any more keeps its bindings: messages are still on it.
func (p *planner) switchable(list []topology.Binding, to *bindingSet) []topology.Binding {
	live := map[string]bool{}
	for _, b := range to.list {
		live[p.places[b.Source].queue] = true
	}
	return filter(list, func(b topology.Binding) bool {
		return p.places.switched(b) && live[p.places[b.Source].queue]
	})
}

// unbindOld removes what is owned and neither wanted nor left.
func (p *planner) unbindOld(left topology.Manifest) {
	keep := newBindingSet(left.Bindings)
	old := filter(p.owned.without(p.wanted), func(b topology.Binding) bool {
		return !p.places.switched(b) && !keep.contains(b)
	})
	p.step(stepUnbindOld, p.bindings(ActionUnbind, old))
}

// left returns what stays without being wanted, and says why.
func (p *planner) left() (topology.Manifest, []Retired) {
	live := map[string]bool{}
	for _, q := range p.target.laddered() {
		live[q] = true
	}
	previous := p.previous()
	left := topology.Manifest{VHost: previous.VHost}
	var retired []Retired
	tiers := map[string]string{}
	for _, b := range p.owned.list {
		if at := p.places[b.Source]; at.queue != "" && b.DestinationKind == topology.ToQueue {
			tiers[b.Destination] = at.queue
		}
	}
	for _, e := range previous.Exchanges {
		if p.exists[object{topology.KindExchange, e.Name}] {
			left.Exchanges = append(left.Exchanges, e)
			retired = append(retired, Retired{topology.KindExchange, e.Name, "not in the topology any more; apply deletes no exchange"})
		}
	}
	for _, q := range previous.Queues {
		if !p.exists[object{topology.KindQueue, q.Name}] {
			continue
		}
		left.Queues = append(left.Queues, q)
		why := "not in the topology any more; apply deletes no queue"
		if work := tiers[q.Name]; live[work] {
			why = "no tier of " + work + " any more; what waits in it still returns, and AMQP cannot tell when it is empty"
		}
		retired = append(retired, Retired{topology.KindQueue, q.Name, why})
	}
	for _, b := range previous.Bindings {
		if at := p.places[b.Source]; at.queue != "" && !live[at.queue] {
			left.Bindings = append(left.Bindings, b)
		}
	}
	return left, retired
}

// remaining returns the ladders of the target and those that left still holds bindings of.
func (p *planner) remaining(left topology.Manifest) []string {
	out := p.target.laddered()
	for _, b := range left.Bindings {
		out = append(out, p.places[b.Source].queue)
	}
	return union(out)
}

// store makes the place for the record.
func (p *planner) store() {
	m := stateObjects(p.target.name)
	var ops []op
	for _, e := range m.Exchanges {
		if !p.exists[object{topology.KindExchange, e.Name}] {
			ops = append(ops, op{action: ActionCreate, exchange: &e})
		}
	}
	for _, q := range m.Queues {
		if !p.exists[object{topology.KindQueue, q.Name}] {
			ops = append(ops, op{action: ActionCreate, queue: &q})
		}
	}
	p.step(stepStore, ops)
	// In a step of its own: it leads from one to the other.
	var bindings []op
	for _, b := range m.Bindings {
		bindings = append(bindings, op{action: ActionBind, binding: &b, known: len(ops) == 0})
	}
	p.step(stepStore, bindings)
}

func (p *planner) bindings(action Action, list []topology.Binding) []op {
	out := make([]op, len(list))
	for i, b := range list {
		out[i] = op{action: action, binding: &b, known: action == ActionBind && p.complete.contains(b) &&
			p.existed[object{topology.KindExchange, b.Source}] &&
			p.existed[object{topology.Kind(b.DestinationKind), b.Destination}]}
	}
	return out
}

func (p *planner) step(name string, ops []op) {
	if len(ops) > 0 {
		p.plan.steps = append(p.plan.steps, step{name: name, ops: ops})
	}
}

func (p *planner) writeStep(name string, r record, ph phase, serial int64) {
	r.Phase, r.Serial = ph, serial
	p.plan.steps = append(p.plan.steps, step{name: name, write: &r})
}
