package provision

import "slices"

// Verdict says what it takes to carry out a change.
type Verdict string

// The verdicts. Their values are part of the plan's format.
const (
	// VerdictIgnored: the broker does not compare it, so an existing object keeps its old value silently.
	VerdictIgnored Verdict = "ignored"
	// VerdictSafe: apply does it, and nothing that works stops working.
	VerdictSafe Verdict = "safe"
	// VerdictDrains: apply does it, and a tier that is no longer used empties by itself.
	VerdictDrains Verdict = "drains"
	// VerdictPolicy: arguments cannot be changed in place, but a policy can do the same.
	VerdictPolicy Verdict = "policy"
	// VerdictRecreate: the object must be deleted and declared again.
	VerdictRecreate Verdict = "recreate"
	// VerdictBreaking: a route, a queue or an exchange that others use disappears.
	VerdictBreaking Verdict = "breaking"
)

// Verdicts returns every verdict, the gravest first.
func Verdicts() []Verdict {
	return []Verdict{VerdictBreaking, VerdictRecreate, VerdictPolicy, VerdictDrains, VerdictSafe, VerdictIgnored}
}

// Meaning returns what the verdict says, as a sentence without a full stop.
func (v Verdict) Meaning() string {
	switch v {
	case VerdictIgnored:
		return "the broker does not compare it: an existing object keeps its old value, silently"
	case VerdictSafe:
		return "apply does it, and nothing that works stops working"
	case VerdictDrains:
		return "apply does it, and tiers that are no longer used empty by themselves"
	case VerdictPolicy:
		return "it cannot be changed in place, but a policy can do the same"
	case VerdictRecreate:
		return "the object must be deleted and declared again"
	case VerdictBreaking:
		return "a route, a queue or an exchange that others use disappears"
	}
	return "unknown"
}

// graver returns the graver of two verdicts.
func graver(a, b Verdict) Verdict {
	if slices.Index(Verdicts(), b) < slices.Index(Verdicts(), a) {
		return b
	}
	return a
}

// ChangeCode names a kind of change. Its values never change.
type ChangeCode string

// The kinds of changes.
const (
	CodeVHostChanged     ChangeCode = "vhost-changed"
	CodeNameChanged      ChangeCode = "name-changed"
	CodeQueueAdded       ChangeCode = "queue-added"
	CodeQueueRemoved     ChangeCode = "queue-removed"
	CodeQueueChanged     ChangeCode = "queue-changed"
	CodeLadderAdded      ChangeCode = "ladder-added"
	CodeLadderRemoved    ChangeCode = "ladder-removed"
	CodeLadderChanged    ChangeCode = "ladder-changed"
	CodeDLQMoved         ChangeCode = "dlq-moved"
	CodeDLQChanged       ChangeCode = "dlq-changed"
	CodeRouteAdded       ChangeCode = "route-added"
	CodeRouteRemoved     ChangeCode = "route-removed"
	CodeRouteCovered     ChangeCode = "route-covered"
	CodeOwnerChanged     ChangeCode = "owner-changed"
	CodeAlertsChanged    ChangeCode = "alerts-changed"
	CodeExchangeAdded    ChangeCode = "exchange-added"
	CodeExchangeRemoved  ChangeCode = "exchange-removed"
	CodeExchangeChanged  ChangeCode = "exchange-changed"
	CodeExchangeAdopted  ChangeCode = "exchange-adopted"
	CodeExchangeDisowned ChangeCode = "exchange-disowned"
)

// changeMeanings says what each kind of change is, in the order in which changes of one flow are listed.
var changeMeanings = []struct {
	code    ChangeCode
	meaning string
}{
	{CodeVHostChanged, "The topology moves to another vhost"},
	{CodeNameChanged, "The topology has another name"},
	{CodeQueueAdded, "A queue is new"},
	{CodeQueueRemoved, "A queue is no longer in the topology"},
	{CodeExchangeAdded, "An exchange is new"},
	{CodeExchangeRemoved, "An exchange is no longer in the topology"},
	{CodeExchangeAdopted, "An external exchange is declared by the topology"},
	{CodeExchangeDisowned, "An exchange becomes external"},
	{CodeExchangeChanged, "The settings of an exchange differ"},
	{CodeQueueChanged, "The settings of a queue differ"},
	{CodeLadderAdded, "A queue gains retries or a dead-letter queue"},
	{CodeLadderRemoved, "A queue loses its retries and its dead-letter queue"},
	{CodeLadderChanged, "Failures are retried differently"},
	{CodeDLQMoved, "Another queue is the dead-letter queue"},
	{CodeDLQChanged, "The settings of a dead-letter queue differ"},
	{CodeRouteAdded, "A binding is new"},
	{CodeRouteRemoved, "A binding is gone, and with it messages"},
	{CodeRouteCovered, "A binding is gone, and another one brings the same messages"},
	{CodeOwnerChanged, "A dead-letter queue has another owner"},
	{CodeAlertsChanged, "The alerts of a dead-letter queue differ"},
}

// ChangeCodes returns every kind of change.
func ChangeCodes() []ChangeCode {
	out := make([]ChangeCode, len(changeMeanings))
	for i, m := range changeMeanings {
		out[i] = m.code
	}
	return out
}

// Meaning returns what kind of change it is, as a sentence without a full stop.
func (c ChangeCode) Meaning() string {
	if i := c.rank(); i < len(changeMeanings) {
		return changeMeanings[i].meaning
	}
	return "unknown"
}

func (c ChangeCode) rank() int {
	for i, m := range changeMeanings {
		if m.code == c {
			return i
		}
	}
	return len(changeMeanings)
}
