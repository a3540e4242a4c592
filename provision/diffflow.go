package provision

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// part is what an object is in its flow.
type part int

const (
	partItself part = iota // the queue or exchange that the flow is named after
	partLadder             // generated, but for what partDLQ has
	partDLQ                // the dead-letter queue and the binding that leads to it
	partRoute              // a binding that someone wrote
)

// belonging says where an object belongs.
type belonging struct {
	flow flowKey
	part part
}

type flowKey struct {
	kind FlowKind
	name string
}

// owners knows the objects of ladders.
type owners struct {
	parts map[object]belonging
	parks map[string]bool
}

func newOwners(sides ...*diffSide) owners {
	o := owners{parts: map[object]belonging{}, parks: map[string]bool{}}
	for _, s := range sides {
		for _, queue := range keysOf(s.ladders, nil) {
			o.add(s.ladders[queue])
		}
	}
	for _, s := range sides {
		for queue := range s.ladders {
			// A dead-letter queue with a ladder has a flow of its own.
			delete(o.parts, object{topology.KindQueue, queue})
		}
	}
	return o
}

func (o owners) add(l retry.Ladder) {
	put := func(kind topology.Kind, name string, p part) {
		// Two ladders never share an object in a topology that was checked; elsewhere the first one has it.
		if _, taken := o.parts[object{kind, name}]; !taken {
			o.parts[object{kind, name}] = belonging{flowKey{FlowQueue, l.Queue}, p}
		}
	}
	for _, x := range []string{l.RetryExchange(), l.ReturnExchange(), l.ParkExchange(), l.RedriveExchange()} {
		put(topology.KindExchange, x, partLadder)
	}
	for _, s := range []retry.Set{retry.SetA, retry.SetB} {
		put(topology.KindExchange, l.LadderExchange(s), partLadder)
		put(topology.KindExchange, l.FirstExchange(s), partLadder)
	}
	for i := range l.Tiers {
		if x := l.SpreadExchange(i + 1); x != "" {
			put(topology.KindExchange, x, partLadder)
		}
		for _, q := range l.TierQueues(i + 1) {
			put(topology.KindQueue, q.Name, partLadder)
		}
	}
	put(topology.KindQueue, l.DeadLetterQueue(), partDLQ)
	o.parks[l.ParkExchange()] = true
}

// of returns where an object belongs. Each belongs to exactly one flow.
func (o owners) of(d *delta) belonging {
	if d.binding == nil {
		if b, ok := o.parts[d.object]; ok {
			return b
		}
		return belonging{flowOf(d.object), partItself}
	}
	if b, ok := o.parts[object{topology.KindExchange, d.binding.Source}]; ok {
		if o.parks[d.binding.Source] && d.binding.DestinationKind == topology.ToQueue {
			b.part = partDLQ
		}
		return b
	}
	to := object{topology.Kind(d.binding.DestinationKind), d.binding.Destination}
	if b, ok := o.parts[to]; ok {
		return belonging{b.flow, partRoute}
	}
	return belonging{flowOf(to), partRoute}
}

func flowOf(o object) flowKey {
	if o.kind == topology.KindExchange {
		return flowKey{FlowExchange, o.name}
	}
	return flowKey{FlowQueue, o.name}
}

// differ compares two sides.
type differ struct {
	before, after *diffSide
	owners        owners
}

func newDiffer(before, after Side) *differ {
	d := &differ{before: newDiffSide(before), after: newDiffSide(after)}
	d.owners = newOwners(d.after, d.before)
	return d
}

// flows returns every flow that has a change.
func (d *differ) flows() []Flow {
	pools := map[flowKey]*pool{}
	at := func(k flowKey) *pool {
		if pools[k] == nil {
			pools[k] = &pool{differ: d, name: k.name}
		}
		return pools[k]
	}
	for _, x := range deltas(d.before, d.after) {
		b := d.owners.of(x)
		p := at(b.flow)
		p.left = append(p.left, pooled{x, b.part})
	}
	for name := range d.before.written {
		if _, ok := d.after.written[name]; ok {
			at(flowKey{FlowQueue, name})
		}
	}
	var out []Flow
	if changes := d.whole(); len(changes) > 0 {
		out = append(out, Flow{FlowTopology, d.after.planSide().Topology, changes})
	}
	for k, p := range pools {
		switch k.kind {
		case FlowQueue:
			p.queue()
		default:
			p.exchange()
		}
		if len(p.changes) > 0 {
			slices.SortStableFunc(p.changes, func(a, b FlowChange) int { return cmp.Compare(a.Code.rank(), b.Code.rank()) })
			out = append(out, Flow{k.kind, k.name, p.changes})
		}
	}
	order := []FlowKind{FlowTopology, FlowQueue, FlowExchange}
	slices.SortFunc(out, func(a, b Flow) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			strings.Compare(a.Name, b.Name),
		)
	})
	return out
}

// pool holds the differences of one flow until a change takes them. What is taken is gone, so that no
// object is in two changes.
type pool struct {
	*differ
	name    string
	left    []pooled
	changes []FlowChange
}

type pooled struct {
	*delta
	part part
}

// take removes from the pool what is of one of the parts and, if action is not "", has that action.
func (p *pool) take(action ObjectAction, parts ...part) []pooled {
	is := func(x pooled) bool {
		return slices.Contains(parts, x.part) && (action == "" || x.action() == action)
	}
	out := filter(p.left, is)
	p.left = filter(p.left, func(x pooled) bool { return !is(x) })
	return out
}

// add completes a change with its objects and adds it.
func (p *pool) add(c FlowChange, objects ...pooled) {
	c.Objects = make([]ObjectChange, len(objects))
	for i, x := range objects {
		c.Objects[i] = ObjectChange{
			Action: x.action(), Kind: string(x.kind), Name: x.name, Binding: x.binding,
			Generated: x.part == partLadder || x.part == partDLQ,
		}
		if x.binding != nil {
			c.Objects[i].Name = ""
		}
		if x.action() == ObjectChanged {
			c.Objects[i].Arguments = p.arguments(x)
		}
	}
	p.changes = append(p.changes, c)
}

// place sets where a change stands: at the object if it has a place, else at what the flow belongs to.
func (p *pool) place(c *FlowChange, o object, argument string) {
	c.New, c.Old = p.after.source(o.kind, o.name, argument), p.before.source(o.kind, o.name, argument)
	if c.New == nil {
		c.New = p.after.source(topology.KindQueue, p.name, "")
	}
}
