package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Publish is one message as a publisher sends it.
type Publish struct {
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routing_key"`
	// Headers are the message's own. Integers of any size, floats, bool, string, []byte, time.Time, nil,
	// []any and map[string]any are compared as the broker does. CC and BCC are further routing keys.
	Headers map[string]any `json:"headers,omitempty"`
}

// Hop is one exchange on the way to a queue, and how the message leaves it.
type Hop struct {
	Exchange string `json:"exchange"`
	Type     string `json:"type"`
	// RoutingKey and Arguments are those of the binding that it leaves by.
	RoutingKey string         `json:"routing_key,omitempty"`
	Arguments  map[string]any `json:"arguments,omitempty"`
	// Alternate says that no binding matched and it goes to the alternate exchange.
	Alternate bool `json:"alternate,omitempty"`
}

// Target is a queue that gets a copy of a message.
type Target struct {
	Queue string `json:"queue"`
	// Via is the shortest way there.
	Via []Hop `json:"via"`
	// OneOf names the exchanges that pick one of their bindings and may pass this queue over. Empty
	// means that the queue gets its copy for certain.
	OneOf []string `json:"one_of,omitempty"`
}

// Routing is where one message goes. However many bindings lead to a queue, it gets one copy.
type Routing struct {
	// Targets are sorted by queue.
	Targets []Target `json:"targets"`
	// MayReachNone says that an exchange may pick a way that ends in no queue. It is set as well where
	// there are no targets at all.
	MayReachNone bool `json:"may_reach_none,omitempty"`
	// Notes say what the answer leaves open.
	Notes []string `json:"notes,omitempty"`
}

// The errors of questions that a broker would not answer by routing. [Router] wraps them.
var (
	// ErrNoExchange: publishing to it closes the channel with 404.
	ErrNoExchange = errors.New("no such exchange")
	// ErrNoQueue: a question about a queue that does not exist.
	ErrNoQueue = errors.New("no such queue")
	// ErrInternal: publishing to it closes the channel with 403.
	ErrInternal = errors.New("the exchange is internal: only exchanges and dead letters lead to it")
	// ErrUnknownType: what a plugin's exchange does with a message is not known here.
	ErrUnknownType = errors.New("how this exchange type routes is not known")
)

// Router answers where messages go in a vhost that holds what a [Manifest] says. It is made by
// [NewRouter], is read-only and safe for concurrent use.
type Router struct {
	exchanges map[string]Exchange
	queues    map[string]Queue
	bindings  map[string][]Binding
	// named are all strings that headers bindings compare with: a death may carry the name of a queue.
	named map[string]bool
	// external exchanges may have bindings that nobody told us of.
	external map[string]bool
}

// NewRouter returns a Router for m and the exchanges that every vhost has. Bindings whose source or
// destination is not in m do not count: the broker would have refused them.
func NewRouter(m Manifest) *Router {
	r := &Router{
		exchanges: make(map[string]Exchange, len(m.Exchanges)+len(predeclared)),
		queues:    make(map[string]Queue, len(m.Queues)),
		bindings:  map[string][]Binding{},
		named:     map[string]bool{},
		external:  map[string]bool{},
	}
	for name, typ := range predeclared {
		r.exchanges[name] = Exchange{Name: name, Type: typ, Durable: true, Internal: strings.HasPrefix(name, "amq.rabbitmq.")}
	}
	for _, x := range m.Exchanges {
		r.exchanges[x.Name] = x
	}
	for _, q := range m.Queues {
		r.queues[q.Name] = q
	}
	for _, b := range m.Bindings {
		if !r.exists(b.DestinationKind, b.Destination) {
			continue
		}
		r.bindings[b.Source] = append(r.bindings[b.Source], b)
		for _, v := range b.Arguments {
			if s, ok := v.(string); ok {
				r.named[s] = true
			}
		}
	}
	return r
}

// Router returns a [Router] for what the topology leads to and the external exchanges that it names. One
// whose type it does not tell has no answer.
func (t *Topology) Router() *Router {
	m := t.Expand()
	for _, x := range t.Exchanges {
		if x.External {
			m.Exchanges = append(m.Exchanges, x.expand())
		}
	}
	r := NewRouter(m)
	for _, x := range t.Exchanges {
		r.external[x.Name] = x.External
	}
	return r
}

func (r *Router) exists(kind DestinationKind, name string) bool {
	if kind == ToQueue {
		_, ok := r.queues[name]
		return ok
	}
	_, ok := r.exchanges[name]
	return ok
}

// Route returns which queues get a copy of a message on a broker of a version such as "3.10" or "4";
// empty means the newest that is known.
func (r *Router) Route(p Publish, version string) (Routing, error) {
	d, err := dialectOf(version)
	if err != nil {
		return Routing{}, err
	}
	m, err := r.accept(p, d)
	if err != nil {
		return Routing{}, err
	}
	return r.route(m, d)
}

// accept makes of a publish the message that the broker routes, or says why the broker refuses it.
func (r *Router) accept(p Publish, d dialect) (message, error) {
	if p.Exchange != "" {
		x, ok := r.exchanges[p.Exchange]
		switch {
		case !ok:
			return message{}, fmt.Errorf("publish to exchange %q: %w%s", p.Exchange, ErrNoExchange, hint(p.Exchange, r.exchanges))
		case x.Internal:
			return message{}, fmt.Errorf("publish to exchange %q: %w", p.Exchange, ErrInternal)
		}
	}
	m := message{exchange: p.Exchange, keys: []string{p.RoutingKey}, headers: make(map[string]any, len(p.Headers))}
	for k, v := range p.Headers {
		// The broker takes BCC out before it routes.
		if k != headerBCC {
			m.headers[k] = v
		}
	}
	for _, h := range []string{headerCC, headerBCC} {
		more, err := furtherKeys(h, p.Headers[h])
		if err != nil {
			return message{}, err
		}
		m.keys = append(m.keys, more...)
	}
	if !d.containers {
		m.deaths = ownDeaths(p.Headers[headerDeath])
	}
	return m, nil
}

// hint says which of the names that there are was most likely meant.
func hint[T any](name string, there map[string]T) string {
	if near := nearest(name, slices.Sorted(maps.Keys(there))); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

const (
	headerCC    = "CC"
	headerBCC   = "BCC"
	headerDeath = "x-death"
)

// furtherKeys returns the routing keys in a CC or BCC header.
func furtherKeys(header string, v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []string:
		return v, nil
	case []any:
		var out []string
		for _, k := range v {
			// The broker passes over what is no string.
			if s, ok := k.(string); ok {
				out = append(out, s)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("header %q is a %T; expected an array of strings: the broker refuses the message", header, v)
}

// message is what the broker routes.
type message struct {
	// exchange is where it was published to, or dead-lettered to last.
	exchange string
	keys     []string
	// headers are those that a headers exchange sees, but for what deaths add.
	headers map[string]any
	// deaths are in the order of x-death; it begins with the last one.
	deaths []death
	// first is the first death that the broker itself recorded, if there is one.
	first *death
	// lastExchange is the exchange by which the message had come to where it died last.
	lastExchange string
}

// route walks the exchanges from that of the message.
func (r *Router) route(m message, d dialect) (Routing, error) {
	if m.exchange == "" {
		return r.byName(m), nil
	}
	w, err := r.walk(m, d)
	if err != nil {
		return Routing{}, err
	}
	found, chooses := w.found(), w.chooses()
	out := Routing{MayReachNone: len(found) == 0 || chooses && w.avoids(found...), Notes: w.notes}
	for _, q := range found {
		t := Target{Queue: q, Via: w.way(q)}
		if chooses && w.avoids(q) {
			t.OneOf = w.pickers(q)
		}
		out.Targets = append(out.Targets, t)
	}
	return out, nil
}

// byName is the default exchange: each routing key is the name of a queue.
func (r *Router) byName(m message) Routing {
	keys := slices.Clone(m.keys)
	slices.Sort(keys)
	var out Routing
	for _, k := range slices.Compact(keys) {
		if _, ok := r.queues[k]; ok {
			out.Targets = append(out.Targets, Target{Queue: k, Via: []Hop{{Type: "direct", RoutingKey: k}}})
		}
	}
	out.MayReachNone = len(out.Targets) == 0
	return out
}
