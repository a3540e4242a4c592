package provision

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rmqkit/rmqkit/topology"
)

// inPlace says what a policy can do about an argument of an object that exists, as measured on RabbitMQ
// 3.10.8, 4.0.5 and 4.3.6.
type inPlace int

const (
	// never: no policy knows it, or it is looked at only when the object is made.
	never inPlace = iota
	// unset: the argument wins over a policy.
	unset
	// lower: the lower of the two wins.
	lower
	// always on a quorum queue, where the policy wins over the argument; on a classic queue unset.
	onQuorum
)

// setting is how an argument or property is called and changed.
type setting struct {
	label  string
	policy inPlace
	spoken func(int64) string
}

// milliseconds returns a time that the broker keeps as a number.
func milliseconds(ms int64) string { return spoken(time.Duration(ms) * time.Millisecond) }

// settings are those that the broker compares when an object is declared again: other arguments it does
// not look at (BROKER-FACTS "equivalence"; measured on 3.10.8, 4.0.5 and 4.3.6).
var queueSettings = map[string]setting{
	"durable":                         {label: "durable"},
	"auto_delete":                     {label: "auto-delete"},
	"x-queue-type":                    {label: "type"},
	"x-message-ttl":                   {label: "message TTL", policy: lower, spoken: milliseconds},
	"x-expires":                       {label: "expiry when unused", policy: lower, spoken: milliseconds},
	"x-max-length":                    {label: "length limit", policy: lower},
	"x-max-length-bytes":              {label: "size limit in bytes", policy: lower},
	"x-overflow":                      {label: "overflow", policy: onQuorum},
	"x-dead-letter-exchange":          {label: "dead-letter exchange", policy: unset},
	"x-dead-letter-routing-key":       {label: "dead-letter key", policy: unset},
	"x-dead-letter-strategy":          {label: "dead-letter strategy", policy: unset},
	deliveryLimit:                     {label: "delivery limit", policy: lower},
	"x-max-priority":                  {label: "priorities"},
	"x-single-active-consumer":        {label: "single active consumer"},
	"x-queue-leader-locator":          {label: "leader locator"},
	"x-queue-master-locator":          {label: "master locator"},
	"x-quorum-initial-group-size":     {label: "initial group size"},
	"x-queue-mode":                    {label: "mode"},
	"x-queue-version":                 {label: "version"},
	"x-max-in-memory-length":          {label: "length limit in memory"},
	"x-max-in-memory-bytes":           {label: "size limit in memory"},
	"x-max-age":                       {label: "age limit"},
	"x-stream-max-segment-size-bytes": {label: "segment size in bytes"},
	"x-initial-cluster-size":          {label: "initial cluster size"},
	// These are compared from 4.3 on.
	"x-stream-filter-size-bytes": {label: "filter size in bytes"},
	"x-consumer-timeout":         {label: "consumer timeout", spoken: milliseconds},
	"x-delayed-retry-type":       {label: "delayed retry"},
	"x-delayed-retry-min":        {label: "shortest delayed retry", spoken: milliseconds},
	"x-delayed-retry-max":        {label: "longest delayed retry", spoken: milliseconds},
}

var exchangeSettings = map[string]setting{
	"type":               {label: "type"},
	"durable":            {label: "durable"},
	"auto_delete":        {label: "auto-delete"},
	"internal":           {label: "internal"},
	"alternate-exchange": {label: "alternate exchange", policy: unset},
}

func settingsOf(kind topology.Kind) map[string]setting {
	if kind == topology.KindExchange {
		return exchangeSettings
	}
	return queueSettings
}

// arguments returns what differs in a changed object.
func (d *differ) arguments(x pooled) []ArgumentChange {
	var out []ArgumentChange
	names := x.differing()
	if i := slices.Index(names, queueType); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, queueType) // it explains most of the others
	}
	for _, name := range names {
		old, inOld := x.old[name]
		v, inNew := x.new[name]
		out = append(out, ArgumentChange{
			Name: name, Old: valueOf(old, inOld), New: valueOf(v, inNew), Verdict: argumentVerdict(x.delta, name),
		})
	}
	return out
}

// argumentVerdict says what it takes to change one argument of an object that exists.
func argumentVerdict(x *delta, name string) Verdict {
	s, compared := settingsOf(x.kind)[name]
	if !compared {
		return VerdictIgnored
	}
	old, isSet := x.old[name]
	v, wanted := x.new[name]
	if name == queueType && (old == nil && v == classic || v == nil && old == classic) {
		// No type is classic, but where the vhost has another default (4.x).
		return VerdictIgnored
	}
	if !wanted || s.policy == never {
		return VerdictRecreate
	}
	if !isSet || s.policy == onQuorum && x.old[queueType] == quorum && x.new[queueType] == quorum {
		return VerdictPolicy
	}
	from, isNumber := old.(int64)
	to, isNumberToo := v.(int64)
	if s.policy == lower && isNumber && isNumberToo && 0 <= to && to < from {
		return VerdictPolicy
	}
	return VerdictRecreate
}

const (
	queueType = "x-queue-type"
	classic   = "classic"
	quorum    = "quorum"
)

// settle returns the verdict of a changed object: the gravest of its arguments'.
func settle(args []ArgumentChange) Verdict {
	out := VerdictIgnored
	for _, a := range args {
		out = graver(out, a.Verdict)
	}
	return out
}

// changed adds the change of an object that exists on both sides.
func (p *pool) changed(code ChangeCode, x pooled) {
	args := p.arguments(x)
	c := FlowChange{Code: code, Verdict: settle(args)}
	var words, silent []string
	for _, a := range args {
		words = append(words, settingsOf(x.kind)[a.Name].change(a))
		if a.Verdict == VerdictIgnored {
			silent = append(silent, strconv.Quote(a.Name))
		}
	}
	c.Summary = strings.Join(words, "; ")
	if code == CodeDLQChanged {
		c.Summary = "dead-letter queue " + strconv.Quote(x.name) + ": " + c.Summary
	}
	if len(silent) > 0 {
		c.Details = append(c.Details, "the broker does not compare "+listed(silent)+": what exists keeps what it has, and apply does not notice")
	}
	p.context(&c, x, args)
	switch c.Verdict {
	case VerdictPolicy:
		c.Policy = policyFor(x, args)
		c.Cost = "apply refuses while the broker has the old arguments: keep them in the file, and set a policy or merge this into the one that applies"
	case VerdictRecreate:
		c.Cost = p.costOf(x)
	}
	p.place(&c, x.object, args[0].Name)
	p.add(c, x)
}

// context adds what the arguments alone do not tell.
func (p *pool) context(c *FlowChange, x pooled, args []ArgumentChange) {
	differs := func(name string) bool {
		return slices.ContainsFunc(args, func(a ArgumentChange) bool { return a.Name == name })
	}
	_, had := p.before.ladders[x.name]
	_, has := p.after.ladders[x.name]
	switch {
	case x.kind == topology.KindExchange && differs("type"):
		c.Details = append(c.Details, "its bindings are matched in another way from then on")
	case x.kind == topology.KindQueue && had != has && differs("x-dead-letter-exchange"):
		c.Details = append(c.Details, "dead-lettering, overflow and delivery limit are set by the ladder")
		if c.Verdict == VerdictPolicy {
			// A policy would do on the broker, but a file with a ladder has no way to leave the arguments out.
			c.Verdict = VerdictRecreate
			c.Details = append(c.Details, "a policy can set these too, but apply declares them as arguments")
		}
	}
}

// change says what an argument was and is.
func (s setting) change(a ArgumentChange) string {
	label := s.label
	if label == "" {
		label = strconv.Quote(a.Name)
	}
	if a.Old.Text == a.New.Text && a.Old.Type != a.New.Type && a.Old.Type != TypeNone && a.New.Type != TypeNone {
		return label + " " + arrow(a.Old.quoted()+" ("+string(a.Old.Type)+")", a.New.quoted()+" ("+string(a.New.Type)+")")
	}
	return label + " " + arrow(s.say(a.Old), s.say(a.New))
}

func (s setting) say(v Value) string {
	if v.Type == TypeNone {
		return "none"
	}
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil && v.Type == TypeInteger && s.spoken != nil && n >= 0 {
		return s.spoken(n)
	}
	return v.quoted()
}

// policyFor returns the policy that does what the arguments would.
func policyFor(x pooled, args []ArgumentChange) *PolicyInstead {
	out := &PolicyInstead{
		Pattern: "^" + regexp.QuoteMeta(x.name) + "$", ApplyTo: string(x.kind) + "s", Definition: map[string]any{},
	}
	for _, a := range args {
		if a.Verdict == VerdictPolicy {
			out.Definition[strings.TrimPrefix(a.Name, "x-")] = x.new[a.Name]
		}
	}
	return out
}

// costOf says what deleting an object and declaring it again costs.
func (p *pool) costOf(x pooled) string {
	if x.kind == topology.KindExchange {
		return "apply refuses while the broker has the old one; deleting it deletes every binding to and from it, others' too, " +
			"and until it is back publishers get 404 and lose their channel"
	}
	if x.part == partDLQ {
		out := "apply refuses while the broker has the old one; deleting it deletes the dead letters in it, so move them first"
		if _, ok := p.after.ladders[p.name]; ok {
			out += "; until it is back, workers hold what they would park"
		}
		return out
	}
	out := "apply refuses while the broker has the old one; deleting it deletes the messages in it, so move them first, cuts its consumers off, and until it is back what is published to it is lost"
	l, ok := p.before.ladders[x.name]
	switch {
	case !ok || len(l.Tiers) == 0:
		return out
	case l.QueueType() == classic:
		return out + ", as is what comes back from its tiers"
	}
	return out + "; what comes back from its tiers waits"
}
