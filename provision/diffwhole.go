package provision

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/rmqkit/rmqkit/topology"
)

// whole returns the changes that concern all of a topology.
func (d *differ) whole() []FlowChange {
	var out []FlowChange
	add := func(code ChangeCode, verdict Verdict, what, from, to, cost string, details ...string) {
		if from == to {
			return
		}
		out = append(out, FlowChange{
			Code: code, Verdict: verdict, Summary: what + " " + arrow(strconv.Quote(from), strconv.Quote(to)),
			Details: details, Cost: cost, New: d.after.start(), Old: d.before.start(), Objects: []ObjectChange{},
		})
	}
	add(CodeVHostChanged, VerdictBreaking, "vhost", d.before.Manifest.VHost, d.after.Manifest.VHost, "",
		"everything is declared anew there; what is in the old vhost stays, with its messages, and this topology no longer looks after it")
	if d.before.Topology != nil && d.after.Topology != nil {
		add(CodeNameChanged, VerdictRecreate, "name", d.before.Topology.Name, d.after.Topology.Name,
			"the record of what was applied is kept under the name: the first apply under the new name begins without one, "+
				"so it removes no binding, and refuses a ladder that has changed")
	}
	return out
}

// start returns the first line of the file, if there is one.
func (s *diffSide) start() *topology.Position {
	if s.Topology == nil {
		return nil
	}
	return &topology.Position{File: s.Name, Line: 1, Column: 1}
}

// people says what changes for those who look after a dead-letter queue. Nothing of it is on the broker.
func (p *pool) people() {
	old, had := p.before.written[p.name]
	q, has := p.after.written[p.name]
	if !had || !has || old.DeadLetter == nil || q.DeadLetter == nil {
		return
	}
	dlq := object{topology.KindQueue, q.Ladder().DeadLetterQueue()}
	add := func(code ChangeCode, summary string) {
		c := FlowChange{Code: code, Verdict: VerdictSafe, Summary: summary}
		p.place(&c, dlq, "")
		c.Old = p.before.source(topology.KindQueue, old.Ladder().DeadLetterQueue(), "")
		p.add(c)
	}
	if old.DeadLetter.Owner != q.DeadLetter.Owner {
		add(CodeOwnerChanged, "owner of the dead-letter queue "+arrow(owner(old), owner(q)))
	}
	if !reflect.DeepEqual(old.DeadLetter.Alerts, q.DeadLetter.Alerts) {
		add(CodeAlertsChanged, "alerts "+arrow(alerts(old.DeadLetter.Alerts), alerts(q.DeadLetter.Alerts)))
	}
}

func owner(q topology.QueueSpec) string {
	if q.DeadLetter.Owner == "" {
		return "none"
	}
	return strconv.Quote(q.DeadLetter.Owner)
}

// alerts says when someone hears of a dead-letter queue.
func alerts(a topology.Alerts) string {
	var out []string
	for _, t := range []struct {
		name string
		*topology.Threshold
	}{{"notify", a.Notify}, {"page", a.Page}} {
		if t.Threshold != nil {
			out = append(out, t.name+" at "+threshold(*t.Threshold))
		}
	}
	if a.Stale != nil {
		out = append(out, "stale after "+spoken(a.Stale.Age))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func threshold(t topology.Threshold) string {
	var words []string
	if t.Depth != nil {
		words = append(words, fmt.Sprintf("more than %s", count(int(*t.Depth), "message")))
	}
	if t.Ratio != nil {
		words = append(words, fmt.Sprintf("more than %s %%", strconv.FormatFloat(*t.Ratio*100, 'g', 6, 64)))
	}
	if t.Rate != nil {
		words = append(words, fmt.Sprintf("more than %d in %s", t.Rate.Count, spoken(t.Rate.Per)))
	}
	out := strings.Join(words, " or ")
	if t.For > 0 {
		out += " for " + spoken(t.For)
	}
	return out
}
