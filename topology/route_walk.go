package topology

import (
	"fmt"
	"maps"
	"slices"
)

// walk is what one message finds on its way through the exchanges. The broker visits each exchange once.
type walk struct {
	start string
	nodes map[string]*node
	// order is that in which the exchanges were first met.
	order []string
	// queues holds how each queue was first met.
	queues map[string]wayOut
	// toQueue and toExchange are the ways by their destination.
	toQueue, toExchange map[string][]wayOut
	notes               []string
}

// node is a visited exchange.
type node struct {
	Exchange
	edges []wayOut
	// picks says that the message takes one of the edges and not all.
	picks bool
	// from is how the exchange was first met; nil for the first.
	from *wayOut
}

// wayOut leads from an exchange to a destination.
type wayOut struct {
	source, destination string
	kind                DestinationKind
	hop                 Hop
}

// walk visits every exchange that the message can come to, breadth first, so that the first way found to
// a queue is the shortest.
func (r *Router) walk(m message, d dialect) (*walk, error) {
	w := &walk{
		start: m.exchange, nodes: map[string]*node{}, queues: map[string]wayOut{},
		toQueue: map[string][]wayOut{}, toExchange: map[string][]wayOut{},
	}
	visible := m.visible(d)
	w.meet(r, m.exchange, nil)
	for i := 0; i < len(w.order); i++ {
		n := w.nodes[w.order[i]]
		if err := r.leave(n, m.keys, visible, d); err != nil {
			return nil, err
		}
		for _, e := range n.edges {
			if e.kind == ToExchange {
				w.toExchange[e.destination] = append(w.toExchange[e.destination], e)
				w.meet(r, e.destination, &e)
				continue
			}
			w.toQueue[e.destination] = append(w.toQueue[e.destination], e)
			if _, ok := w.queues[e.destination]; !ok {
				w.queues[e.destination] = e
			}
		}
		w.notes = append(w.notes, limits(n, d)...)
		if r.external[n.Name] {
			w.notes = append(w.notes, fmt.Sprintf("exchange %q is external: it may lead to queues that are not known here", n.Name))
		}
	}
	return w, nil
}

// meet adds an exchange unless it was met already, or does not exist, as an alternate exchange may.
func (w *walk) meet(r *Router, exchange string, from *wayOut) {
	x, exists := r.exchanges[exchange]
	if _, met := w.nodes[exchange]; met || !exists {
		return
	}
	w.nodes[exchange] = &node{Exchange: x, from: from}
	w.order = append(w.order, exchange)
}

// leave finds the ways out of an exchange.
func (r *Router) leave(n *node, keys []string, headers map[string]any, d dialect) error {
	matches, picks, err := matcher(n.Exchange, keys, headers, d)
	if err != nil {
		return err
	}
	n.picks = picks
	for _, b := range r.bindings[n.Name] {
		if matches(b) {
			n.edges = append(n.edges, wayOut{n.Name, b.Destination, b.DestinationKind, Hop{
				Exchange: n.Name, Type: n.Type, RoutingKey: b.RoutingKey, Arguments: b.Arguments,
			}})
		}
	}
	if len(n.edges) > 0 {
		return nil
	}
	if alternate, ok := n.Arguments[argAlternate].(string); ok {
		n.edges = []wayOut{{n.Name, alternate, ToExchange, Hop{Exchange: n.Name, Type: n.Type, Alternate: true}}}
	}
	return nil
}

// found returns the queues in order of their names.
func (w *walk) found() []string { return slices.Sorted(maps.Keys(w.queues)) }

// way returns the hops to a queue.
func (w *walk) way(queue string) []Hop {
	e := w.queues[queue]
	hops := []Hop{e.hop}
	for n := w.nodes[e.source]; n.from != nil; n = w.nodes[n.from.source] {
		hops = append(hops, n.from.hop)
	}
	slices.Reverse(hops)
	return hops
}

// chooses reports whether any exchange has a choice.
func (w *walk) chooses() bool {
	for _, n := range w.nodes {
		if n.picks && len(n.edges) > 1 {
			return true
		}
	}
	return false
}

// avoids reports whether the message can miss all of these queues, by what exchanges pick. An exchange
// that picks cannot miss them if none of its ways out can, any other if one cannot. Each exchange is
// visited once and picks once, so that what follows from the queues backwards is exact.
func (w *walk) avoids(queues ...string) bool {
	hits := map[string]int{}
	bound := func(exchange string) bool {
		if n := w.nodes[exchange]; n.picks {
			return hits[exchange] == len(n.edges)
		}
		return hits[exchange] > 0
	}
	var next []string
	reach := func(ways []wayOut) {
		for _, e := range ways {
			already := bound(e.source)
			if hits[e.source]++; !already && bound(e.source) {
				next = append(next, e.source)
			}
		}
	}
	for _, q := range queues {
		reach(w.toQueue[q])
	}
	for len(next) > 0 {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		reach(w.toExchange[name])
	}
	return !bound(w.start)
}

// pickers returns the exchanges that pick and from which there is a way to the queue, in order of their
// names.
func (w *walk) pickers(queue string) []string {
	reach := map[string]bool{}
	next := w.toQueue[queue]
	for len(next) > 0 {
		e := next[len(next)-1]
		next = next[:len(next)-1]
		if !reach[e.source] {
			reach[e.source] = true
			next = append(slices.Clip(next), w.toExchange[e.source]...)
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(reach)) {
		if w.nodes[name].picks && len(w.nodes[name].edges) > 1 {
			out = append(out, name)
		}
	}
	return out
}

// limits says what a broker of this version would not have let in, so that the answer is about a vhost
// that cannot be.
func limits(n *node, d dialect) []string {
	if n.Type != "topic" || !d.fewHashes {
		return nil
	}
	var out []string
	for _, e := range n.edges {
		if hashes(e.hop.RoutingKey) > 2 {
			out = append(out, fmt.Sprintf("RabbitMQ 4.3 refuses the binding of exchange %q by key %q: it has more than two #", n.Name, e.hop.RoutingKey))
		}
	}
	return out
}
