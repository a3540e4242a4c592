package provision

import (
	"maps"
	"slices"
	"strings"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// diffSide is a [Side] with everything in it by name.
type diffSide struct {
	Side
	exchanges map[string]topology.Exchange
	queues    map[string]topology.Queue
	bindings  map[string]topology.Binding
	// routes are the bindings by source and destination.
	routes  map[routeEnds][]topology.Binding
	ladders map[string]retry.Ladder
	// written are the queues as the file has them.
	written map[string]topology.QueueSpec
	// external are the exchanges that the file uses and does not declare, with their type if it says.
	external map[string]string
}

// routeEnds are what a binding leads from and to.
type routeEnds struct {
	source      string
	kind        topology.DestinationKind
	destination string
}

func endsOf(b topology.Binding) routeEnds {
	return routeEnds{b.Source, b.DestinationKind, b.Destination}
}

func newDiffSide(s Side) *diffSide {
	if s.Topology != nil {
		s.Manifest, s.Ladders = s.Topology.Expand(), s.Topology.Ladders()
	}
	d := &diffSide{
		Side:      s,
		exchanges: make(map[string]topology.Exchange, len(s.Manifest.Exchanges)),
		queues:    make(map[string]topology.Queue, len(s.Manifest.Queues)),
		bindings:  make(map[string]topology.Binding, len(s.Manifest.Bindings)),
		routes:    map[routeEnds][]topology.Binding{},
		ladders:   map[string]retry.Ladder{},
		written:   map[string]topology.QueueSpec{},
		external:  map[string]string{},
	}
	for _, x := range s.Manifest.Exchanges {
		d.exchanges[x.Name] = x
	}
	for _, q := range s.Manifest.Queues {
		d.queues[q.Name] = q
	}
	for _, b := range s.Manifest.Bindings {
		if k := bindingKey(b); !d.has(k) {
			d.bindings[k] = b
			d.routes[endsOf(b)] = append(d.routes[endsOf(b)], b)
		}
	}
	for _, l := range s.Ladders {
		d.ladders[l.Queue] = l
	}
	if s.Topology != nil {
		for _, q := range s.Topology.Queues {
			d.written[q.Name] = q
		}
		for _, x := range s.Topology.Exchanges {
			if x.External {
				d.external[x.Name] = x.Type
			}
		}
	}
	return d
}

func (s *diffSide) has(bindingKey string) bool { _, ok := s.bindings[bindingKey]; return ok }

func (s *diffSide) hasQueue(name string) bool { _, ok := s.queues[name]; return ok }

func (s *diffSide) isExternal(exchange string) bool { _, ok := s.external[exchange]; return ok }

// bySource returns the bindings from an exchange. It looks at all of them.
func (s *diffSide) bySource(exchange string) []topology.Binding {
	return filter(s.Manifest.Bindings, func(b topology.Binding) bool { return b.Source == exchange })
}

func (s *diffSide) planSide() PlanSide {
	out := PlanSide{Name: s.Name, VHost: s.Manifest.VHost}
	if s.Topology != nil {
		out.Topology = s.Topology.Name
	}
	return out
}

// source returns where an object was written, or nil.
func (s *diffSide) source(kind topology.Kind, name, argument string) *topology.Position {
	if s.Topology == nil {
		return nil
	}
	return somewhere(s.Topology.Source(kind, name, argument))
}

// bindingSource returns where a binding was written, or nil.
func (s *diffSide) bindingSource(b topology.Binding) *topology.Position {
	if s.Topology == nil || !s.has(bindingKey(b)) {
		return nil
	}
	return somewhere(s.Topology.BindingSource(b))
}

func somewhere(p topology.Position) *topology.Position {
	if p == (topology.Position{}) {
		return nil
	}
	return &p
}

// exchangeType returns the type of an exchange, or "" if it is not known.
func (s *diffSide) exchangeType(name string) string {
	if x, ok := s.exchanges[name]; ok {
		return x.Type
	}
	if kind := s.external[name]; kind != "" {
		return kind
	}
	switch name {
	case "":
		return "direct"
	case "amq.match":
		return "headers"
	case "amq.direct", "amq.fanout", "amq.headers", "amq.topic":
		return strings.TrimPrefix(name, "amq.")
	}
	return ""
}

// delta is one object that differs. old or new is nil for an object that only one side has.
type delta struct {
	object
	binding  *topology.Binding
	old, new properties
}

func (d *delta) action() ObjectAction {
	switch {
	case d.old == nil:
		return ObjectAdded
	case d.new == nil:
		return ObjectRemoved
	}
	return ObjectChanged
}

// kindBinding stands beside the kinds that have names.
const kindBinding topology.Kind = "binding"

// deltas returns every object that differs between two sides: exchanges, queues, bindings, each by name.
func deltas(before, after *diffSide) []*delta {
	out := namedDeltas(topology.KindExchange, before.exchanges, after.exchanges, exchangeProperties)
	out = append(out, namedDeltas(topology.KindQueue, before.queues, after.queues, queueProperties)...)
	for _, k := range keysOf(before.bindings, after.bindings) {
		old, inOld := before.bindings[k]
		b, inNew := after.bindings[k]
		switch {
		case inOld && inNew:
		case inOld:
			out = append(out, &delta{object: object{kindBinding, k}, binding: &old, old: properties{}})
		default:
			out = append(out, &delta{object: object{kindBinding, k}, binding: &b, new: properties{}})
		}
	}
	return out
}

func namedDeltas[T any](kind topology.Kind, before, after map[string]T, properties func(T) properties) []*delta {
	var out []*delta
	for _, name := range keysOf(before, after) {
		d := &delta{object: object{kind, name}}
		if v, ok := before[name]; ok {
			d.old = properties(v)
		}
		if v, ok := after[name]; ok {
			d.new = properties(v)
		}
		if d.action() != ObjectChanged || len(d.differing()) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// differing returns the names of the properties that differ, sorted.
func (d *delta) differing() []string {
	return filter(keysOf(d.old, d.new), func(k string) bool {
		old, inOld := d.old[k]
		v, inNew := d.new[k]
		return inOld != inNew || !sameValue(old, v)
	})
}

// sameValue reports whether two values are equal, their types included.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// keysOf returns the keys of both maps, sorted.
func keysOf[M ~map[string]T, T any](a, b M) []string {
	keys := slices.AppendSeq(make([]string, 0, len(a)), maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
