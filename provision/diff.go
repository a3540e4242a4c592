package provision

import (
	"strconv"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// PlanFormat is the format_version of a [Plan]. Fields may be added to it; it goes up when one changes
// its meaning.
const PlanFormat = 1

// Plan is what a change of a topology means: what differs between an old and a new one, by message
// flow.
type Plan struct {
	FormatVersion int      `json:"format_version"`
	Old           PlanSide `json:"old"`
	New           PlanSide `json:"new"`
	// Counts is how many changes there are of each verdict that occurs.
	Counts map[Verdict]int `json:"counts"`
	// Flows begin with the topology as a whole; then come queues, then exchanges, by name. A flow has at
	// least one change.
	Flows []Flow `json:"flows"`
}

// PlanSide says what was compared.
type PlanSide struct {
	// Name is what the operator calls it, such as topology.yaml or git:main:topology.yaml. It is also the
	// File of positions in it.
	Name     string `json:"name"`
	Topology string `json:"topology,omitempty"`
	VHost    string `json:"vhost"`
}

// Changed reports whether anything differs.
func (p *Plan) Changed() bool { return len(p.Flows) > 0 }

// FlowKind says what a flow belongs to.
type FlowKind string

// The kinds of flows, in their order.
const (
	// FlowTopology is what concerns all of a topology.
	FlowTopology FlowKind = "topology"
	// FlowQueue is a work queue with its ladder and its dead-letter queue.
	FlowQueue FlowKind = "queue"
	// FlowExchange is an exchange that is in no ladder.
	FlowExchange FlowKind = "exchange"
)

// Flow is the changes to one message flow.
type Flow struct {
	Kind    FlowKind     `json:"kind"`
	Name    string       `json:"name"`
	Changes []FlowChange `json:"changes"`
}

// Verdict returns the gravest verdict of the flow's changes.
func (f Flow) Verdict() Verdict {
	out := VerdictIgnored
	for _, c := range f.Changes {
		out = graver(out, c.Verdict)
	}
	return out
}

// FlowChange is one change that a person would name, with all objects that it consists of. In its
// sentences, names and keys are in quotes as Go writes them, and nothing else is.
type FlowChange struct {
	Code    ChangeCode `json:"code"`
	Verdict Verdict    `json:"verdict"`
	// Summary says what it means, without naming the flow where that can be told from context.
	Summary string `json:"summary"`
	// Details are further sentences.
	Details []string `json:"details,omitempty"`
	// Cost says what carrying it out takes. It is set for the verdicts drains, policy and recreate.
	Cost string `json:"cost,omitempty"`
	// Policy does the same without touching the object. It is set exactly for the verdict policy.
	Policy *PolicyInstead `json:"policy,omitempty"`
	// New and Old are the places in the new and in the old file, or nil. What is gone has its place in the
	// old one and, where it was part of something that is still there, that thing's in the new one.
	New *topology.Position `json:"new,omitempty"`
	Old *topology.Position `json:"old,omitempty"`
	// Objects are everything that is added, removed or changed. An object of either side that differs is in
	// exactly one change.
	Objects []ObjectChange `json:"objects"`
}

// ObjectAction is what becomes of an object.
type ObjectAction string

// The things that become of objects.
const (
	ObjectAdded   ObjectAction = "added"
	ObjectRemoved ObjectAction = "removed"
	ObjectChanged ObjectAction = "changed"
)

// ObjectChange is what becomes of one exchange, queue or binding. Binding is set for a binding, which has
// no name of its own.
type ObjectChange struct {
	Action  ObjectAction      `json:"action"`
	Kind    string            `json:"kind"`
	Name    string            `json:"name,omitempty"`
	Binding *topology.Binding `json:"binding,omitempty"`
	// Generated is true for what no one wrote: it comes from the flow's ladder.
	Generated bool `json:"generated,omitempty"`
	// Arguments are what differs in a changed object, by name.
	Arguments []ArgumentChange `json:"arguments,omitempty"`
}

// ArgumentChange is one argument, or one of the properties type, durable, auto_delete and internal, that
// differs.
type ArgumentChange struct {
	Name    string  `json:"name"`
	Old     Value   `json:"old"`
	New     Value   `json:"new"`
	Verdict Verdict `json:"verdict"`
}

// PolicyInstead is a policy that does what a change of arguments would. Only one policy applies to an
// object, so it has to be merged into one that does already.
type PolicyInstead struct {
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply_to"`
	Definition map[string]any `json:"definition"`
}

// Side is one of the two things that [Diff] compares: a topology, or what was read elsewhere.
type Side struct {
	// Name is what the operator calls it.
	Name string
	// Topology is what was read from a file. Where it is set, Manifest and Ladders are not looked at;
	// without it changes have no positions.
	Topology *topology.Topology
	Manifest topology.Manifest
	// Ladders tell which objects of the manifest are generated.
	Ladders []retry.Ladder
}

// Diff says what it means to go from one topology to another. It is pure: the same two give the same plan,
// and nothing is asked of a broker.
func Diff(before, after Side) *Plan {
	d := newDiffer(before, after)
	p := &Plan{
		FormatVersion: PlanFormat,
		Old:           d.before.planSide(),
		New:           d.after.planSide(),
		Counts:        map[Verdict]int{},
		Flows:         d.flows(),
	}
	for _, f := range p.Flows {
		for _, c := range f.Changes {
			p.Counts[c.Verdict]++
		}
	}
	return p
}

// String returns the object and what becomes of it on one line, with names as Go writes them.
func (o ObjectChange) String() string {
	out := string(o.Action) + " " + o.Kind + " " + strconv.Quote(o.Name)
	if b := o.Binding; b != nil {
		out = string(o.Action) + " binding " + arrow(from(b.Source), string(b.DestinationKind)+" "+strconv.Quote(b.Destination))
		if b.RoutingKey != "" {
			out += " by " + strconv.Quote(b.RoutingKey)
		}
		if len(b.Arguments) > 0 {
			out += " where " + condition(b.Arguments)
		}
	}
	for i, a := range o.Arguments {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		out += separator + strconv.Quote(a.Name) + " " + arrow(a.Old.quoted(), a.New.quoted())
	}
	return out
}
