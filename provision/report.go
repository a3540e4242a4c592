package provision

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rmqkit/rmqkit/topology"
)

// ReportFormat is the format_version of a [Report]. Fields may be added to it; it goes up when one
// changes its meaning.
const ReportFormat = 1

// Report says what an apply did, or what one would do.
type Report struct {
	FormatVersion int    `json:"format_version"`
	Name          string `json:"name"`
	VHost         string `json:"vhost"`
	BrokerVersion string `json:"broker_version"`
	// DryRun is true for a preview: Changes are what would be done.
	DryRun bool `json:"dry_run"`
	// Created and Unchanged count the objects of the topology.
	Created   Counts `json:"created"`
	Unchanged Counts `json:"unchanged"`
	// BindingsEnsured counts the bindings of the topology that exist now, whether or not they did before: AMQP
	// cannot tell.
	BindingsEnsured int `json:"bindings_ensured"`
	BindingsRemoved int `json:"bindings_removed"`
	// Changes are in the order in which they are made; those of one step are made side by side. A
	// binding that the last apply recorded is ensured again but is no change.
	Changes []Change `json:"changes"`
	// Retired is what an earlier apply made, the topology does not have any more, and was left alone.
	Retired []Retired `json:"retired"`
	// Resumed is true if an earlier apply was interrupted and this one completes it.
	Resumed bool `json:"resumed"`
	// Warnings are sentences for the operator.
	Warnings []string `json:"warnings"`
}

// Counts counts objects.
type Counts struct {
	Exchanges int `json:"exchanges"`
	Queues    int `json:"queues"`
}

// Changed reports whether anything was, or would be, changed.
func (r *Report) Changed() bool { return len(r.Changes) > 0 }

// Action is what is done to an object.
type Action string

// The actions. Their values are part of the report's format.
const (
	ActionCreate Action = "create"
	ActionBind   Action = "bind"
	ActionUnbind Action = "unbind"
)

// Change is one thing done. Exactly one of Exchange, Queue and Binding is set.
type Change struct {
	Step     string             `json:"step"`
	Action   Action             `json:"action"`
	Exchange *topology.Exchange `json:"exchange,omitempty"`
	Queue    *topology.Queue    `json:"queue,omitempty"`
	Binding  *topology.Binding  `json:"binding,omitempty"`
}

// String returns the change on one line.
func (c Change) String() string {
	switch {
	case c.Exchange != nil:
		return fmt.Sprintf("%s exchange %q (%s)", c.Action, c.Exchange.Name, c.Exchange.Type)
	case c.Queue != nil:
		return fmt.Sprintf("%s queue %q", c.Action, c.Queue.Name)
	case c.Binding != nil:
		return string(c.Action) + " " + describeBinding(*c.Binding)
	}
	return string(c.Action)
}

func describeBinding(b topology.Binding) string {
	text := fmt.Sprintf("exchange %q to %s %q", b.Source, b.DestinationKind, b.Destination)
	if b.RoutingKey != "" {
		text += fmt.Sprintf(" by %q", b.RoutingKey)
	}
	separator := " with "
	for _, name := range slices.Sorted(maps.Keys(b.Arguments)) {
		text += fmt.Sprintf("%s%s: %v", separator, name, b.Arguments[name])
		separator = ", "
	}
	return text
}

// Retired is an object that was left alone.
type Retired struct {
	Kind topology.Kind `json:"kind"`
	Name string        `json:"name"`
	Why  string        `json:"why"`
}
