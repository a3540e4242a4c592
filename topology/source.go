package topology

import "fmt"

// Kind is a kind of object with a name of its own.
type Kind string

// The kinds. An exchange and a queue of one name are two objects.
const (
	KindExchange Kind = "exchange"
	KindQueue    Kind = "queue"
)

// sourceKey identifies an object, or one of its arguments.
type sourceKey struct {
	kind     Kind
	name     string
	argument string
}

// sources is where things were written. It is a side table: nothing that is compared holds positions.
type sources struct {
	objects  map[sourceKey]Position
	bindings map[string]Position
}

func newSources() sources {
	return sources{objects: map[sourceKey]Position{}, bindings: map[string]Position{}}
}

// Source returns where an object was written, or what it was generated from: a tier's TTL leads to its
// delay, an exchange of a ladder to retry. argument is the broker's own name, such as x-message-ttl,
// alternate-exchange, or type, durable, auto_delete and internal; for "", and for an argument that
// nobody wrote, it is the place of the object. An object that is not of this topology has no place: the
// zero Position.
func (t *Topology) Source(kind Kind, name, argument string) Position {
	if p, ok := t.sources.objects[sourceKey{kind, name, argument}]; ok {
		return p
	}
	return t.sources.objects[sourceKey{kind, name, ""}]
}

// BindingSource returns where a binding was written; for a generated one, the place of what it leads
// to.
func (t *Topology) BindingSource(b Binding) Position {
	if p, ok := t.sources.bindings[b.identity()]; ok {
		return p
	}
	kind := KindQueue
	if b.DestinationKind == ToExchange {
		kind = KindExchange
	}
	return t.Source(kind, b.Destination, "")
}

// identity is equal for equal bindings only.
func (b Binding) identity() string {
	return fmt.Sprintf("%q %s %q %q %s", b.Source, b.DestinationKind, b.Destination, b.RoutingKey, canonical(b.Arguments))
}
