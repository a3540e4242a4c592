package provision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// bindingKey is the identity of a binding: all of it, arguments with their types.
func bindingKey(b topology.Binding) string {
	if len(b.Arguments) == 0 {
		return fmt.Sprintf("%q %s %q %q", b.Source, b.DestinationKind, b.Destination, b.RoutingKey)
	}
	// JSON orders the keys of maps, and that of a manifest keeps floats apart from integers.
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Sprintf("%#v", b)
	}
	return string(text)
}

// bindingSet is a set of bindings that keeps their order.
type bindingSet struct {
	list []topology.Binding
	has  map[string]bool
}

func newBindingSet(lists ...[]topology.Binding) *bindingSet {
	s := &bindingSet{has: map[string]bool{}}
	for _, l := range lists {
		for _, b := range l {
			s.add(b)
		}
	}
	return s
}

func (s *bindingSet) add(b topology.Binding) {
	if k := bindingKey(b); !s.has[k] {
		s.has[k] = true
		s.list = append(s.list, b)
	}
}

func (s *bindingSet) contains(b topology.Binding) bool { return s.has[bindingKey(b)] }

// without returns the bindings of s that are not in other, in order.
func (s *bindingSet) without(other *bindingSet) []topology.Binding {
	var out []topology.Binding
	for _, b := range s.list {
		if !other.contains(b) {
			out = append(out, b)
		}
	}
	return out
}

// sameManifest reports whether two manifests hold the same in the same order.
func sameManifest(a, b topology.Manifest) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// filter returns those of list that keep says yes to.
func filter[T any](list []T, keep func(T) bool) []T {
	var out []T
	for _, v := range list {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// place says where in a ladder an exchange is.
type place struct {
	// queue is the ladder's work queue, or "" for an exchange that is in no ladder.
	queue string
	// set is the set that the exchange's bindings belong to, or "" for one that serves both.
	set retry.Set
}

// places knows the exchanges of ladders by name.
type places map[string]place

// placesOf returns the exchanges of the ladders of the given work queues, whatever their tiers are.
func placesOf(queues []string) places {
	p := places{}
	for _, q := range queues {
		l := longest(q)
		for _, name := range []string{l.RetryExchange(), l.ReturnExchange(), l.ParkExchange(), l.RedriveExchange()} {
			p[name] = place{queue: q}
		}
		for _, s := range []retry.Set{retry.SetA, retry.SetB} {
			p[l.LadderExchange(s)] = place{queue: q, set: s}
			p[l.FirstExchange(s)] = place{queue: q, set: s}
		}
		for _, spread := range []retry.Spread{retry.SpreadRandom, retry.SpreadHash} {
			for i := range l.Tiers {
				l.Tiers[i].Spread = spread
				p[l.SpreadExchange(i+1)] = place{queue: q}
			}
		}
	}
	return p
}

// longest returns a ladder of queue that has every tier there can be.
func longest(queue string) retry.Ladder {
	l := retry.Ladder{Queue: queue, Tiers: make([]retry.Tier, retry.MaxTiers)}
	for i := range l.Tiers {
		l.Tiers[i].Delay = time.Second
	}
	return l
}

// inSet reports whether a binding belongs to set s of some ladder.
func (p places) inSet(b topology.Binding, s retry.Set) bool { return p[b.Source].set == s }

// switched reports whether a binding belongs to either set.
func (p places) switched(b topology.Binding) bool { return p[b.Source].set != "" }

// inside reports whether a binding starts in a ladder, in neither set.
func (p places) inside(b topology.Binding) bool {
	at := p[b.Source]
	return at.queue != "" && at.set == ""
}

// outside reports whether a binding starts at an exchange that is in no ladder.
func (p places) outside(b topology.Binding) bool { return p[b.Source].queue == "" }
