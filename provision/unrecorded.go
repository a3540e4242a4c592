package provision

import (
	"fmt"
	"strings"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// unrecorded decides what becomes of ladders that the broker may have and of whose bindings there is no
// sure record. AMQP cannot list bindings, and a changed ladder whose old bindings stay makes copies of
// every failure. What can be seen is which queues exist: where a tier is missing it is another ladder, or
// half of one. Where every tier is there it may still be a longer one, or one that came after: no tier is
// ever deleted. So only an operator can know that it is the same, and says so by adopt. Why says what is
// wrong with the record.
func unrecorded(t target, exists map[object]bool, why string, adopt bool) (warnings, refusals []string) {
	for _, l := range t.ladders {
		if !laddered(l, exists) {
			continue // nothing of it is there yet
		}
		missing := missingTiers(l, exists)
		switch {
		case len(missing) > 0:
			refusals = append(refusals, fmt.Sprintf(
				"queue %q: its ladder on the broker is another one (%s does not exist) and %s, so the bindings to remove are not known; "+
					"apply the topology that was applied last once more with --adopt-ladders, which records them, and then this one",
				l.Queue, strings.Join(missing, ", "), why))
		case adopt:
			warnings = append(warnings, fmt.Sprintf("queue %q: its ladder is taken for unchanged, but %s", l.Queue, why))
		default:
			refusals = append(refusals, fmt.Sprintf(
				"queue %q: the broker has a ladder for it and %s, so its bindings are not known, and with one too many every failure is copied; "+
					"if this topology is the one that was applied last, apply it with --adopt-ladders; if not, do that with the one that was, and then apply this one",
				l.Queue, why))
		}
	}
	return warnings, refusals
}

// laddered reports whether the broker has the beginning of a ladder.
func laddered(l retry.Ladder, exists map[object]bool) bool {
	for _, name := range []string{
		l.RetryExchange(),
		l.LadderExchange(retry.SetA), l.LadderExchange(retry.SetB),
		l.FirstExchange(retry.SetA), l.FirstExchange(retry.SetB),
	} {
		if exists[object{topology.KindExchange, name}] {
			return true
		}
	}
	return false
}

// missingTiers describes what of a ladder's tiers the broker does not have.
func missingTiers(l retry.Ladder, exists map[object]bool) []string {
	var out []string
	look := func(o object) {
		if o.name != "" && !exists[o] {
			out = append(out, o.String())
		}
	}
	for i := range l.Tiers {
		look(object{topology.KindExchange, l.SpreadExchange(i + 1)})
		for _, q := range l.TierQueues(i + 1) {
			look(object{topology.KindQueue, q.Name})
		}
	}
	return out
}
