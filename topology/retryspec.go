package topology

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

const (
	defaultSlots  = 5
	mostSlots     = 32
	defaultFactor = 2
	// mostBand keeps the shortest slot above nothing.
	mostBand = 99
)

// retryText is retry as written.
type retryText struct {
	delays  []time.Duration
	nodes   []*yaml.Node
	backoff *backoff
	jitter  *jitter
}

type backoff struct {
	base     time.Duration
	factor   float64
	max      time.Duration
	attempts int64
	bad      bool
}

type jitter struct {
	full   bool
	band   float64
	slots  int64
	spread retry.Spread
	bad    bool
}

var retryKeys = schema[retryText]{
	{"delays", false, func(d *decoder, r *retryText, n *yaml.Node) { d.delays(r, n) }},
	{"backoff", false, func(d *decoder, r *retryText, n *yaml.Node) {
		b := backoff{factor: defaultFactor, max: retry.MaxDelay}
		mapping(d, n, "backoff", backoffKeys, &b)
		b.bad = !d.clean(n) || b.base == 0 || b.attempts == 0
		r.backoff = &b
	}},
	{"jitter", false, func(d *decoder, r *retryText, n *yaml.Node) { r.jitter = d.jitter(n) }},
}

var backoffKeys = schema[backoff]{
	{"base", true, func(d *decoder, b *backoff, n *yaml.Node) {
		b.base, _ = d.duration(n, "base", time.Millisecond, retry.MaxDelay)
	}},
	{"factor", false, func(d *decoder, b *backoff, n *yaml.Node) { b.factor, _ = d.number(n, "factor", 1, 1000) }},
	{"max", false, func(d *decoder, b *backoff, n *yaml.Node) {
		b.max, _ = d.duration(n, "max", time.Millisecond, retry.MaxDelay)
	}},
	{"attempts", true, func(d *decoder, b *backoff, n *yaml.Node) {
		b.attempts, _ = d.integer(n, "attempts", 2, retry.MaxTiers+1)
	}},
}

var jitterKeys = schema[jitter]{
	{"band", true, func(d *decoder, j *jitter, n *yaml.Node) { d.band(j, n) }},
	{"slots", false, func(d *decoder, j *jitter, n *yaml.Node) { j.slots, _ = d.integer(n, "slots", 2, mostSlots) }},
	{"exchange", false, func(d *decoder, j *jitter, n *yaml.Node) {
		s, _ := d.choice(n, "exchange", string(retry.SpreadRandom), string(retry.SpreadHash))
		j.spread = retry.Spread(s)
	}},
}

// delays reads the list of delays. Those beyond the most a ladder has are reported once and not read.
func (d *decoder) delays(r *retryText, n *yaml.Node) {
	if !d.is(n, yaml.SequenceNode, "delays") {
		return
	}
	switch {
	case len(n.Content) == 0:
		d.refuse(n, Diagnostic{
			Code: codeValue, Message: "delays is empty", Expected: "at least one delay",
			Hint: "for a dead-letter queue without retries leave retry out and write dead_letter",
		})
		return
	case len(n.Content) > retry.MaxTiers:
		d.refuse(n.Content[retry.MaxTiers], d.tooMany(len(n.Content)))
	}
	for _, c := range n.Content[:min(len(n.Content), retry.MaxTiers)] {
		if v, ok := d.duration(c, "delay", time.Millisecond, retry.MaxDelay); ok {
			r.delays = append(r.delays, v)
			r.nodes = append(r.nodes, c)
		}
	}
}

func (d *decoder) tooMany(tiers int) Diagnostic {
	return Diagnostic{
		Code: codeTiers, Message: fmt.Sprintf("%d delays", tiers), Expected: fmt.Sprintf("at most %d", retry.MaxTiers),
		Hint: "let fewer delays grow faster",
	}
}

// jitter reads a percentage, full, none, or a mapping.
func (d *decoder) jitter(n *yaml.Node) *jitter {
	j := &jitter{slots: defaultSlots, spread: retry.SpreadRandom}
	if n.Kind == yaml.MappingNode {
		mapping(d, n, "jitter", jitterKeys, j)
	} else if n.Kind == yaml.ScalarNode && n.Value == none {
		return nil
	} else {
		d.band(j, n)
	}
	j.bad = !d.clean(n) || !j.full && j.band == 0
	return j
}

func (d *decoder) band(j *jitter, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "full" {
		j.full = true
		return
	}
	if n.Kind == yaml.ScalarNode && !percentage.MatchString(n.Value) && kindOf(n) == "text" {
		d.refuse(n, Diagnostic{
			Code: codePercent, Message: "jitter is " + quoted(n), Expected: `a percentage such as 20%, "full" or "none"`,
			Hint: d.didYouMean(n.Value, []string{"full", none}),
		})
		return
	}
	j.band, _ = d.percent(n, "jitter", mostBand)
}

// schedule works out the delays. It computes in float: a factor of 1.5 must not become 1.
func (b backoff) schedule() []time.Duration {
	var out []time.Duration
	for i := range b.attempts - 1 {
		ms := float64(b.base.Milliseconds()) * math.Pow(b.factor, float64(i))
		out = append(out, millis(int64(math.Round(min(ms, float64(b.max.Milliseconds()))))))
	}
	return out
}

// over returns the slots of a tier, ascending and without doubles, over the band around its delay,
// or over (0, delay] for full jitter.
func (j jitter) over(delay time.Duration) []time.Duration {
	ms := float64(delay.Milliseconds())
	low, high := ms*(1-j.band), ms*(1+j.band)
	if j.full {
		low, high = ms/float64(j.slots), ms
	}
	var out []time.Duration
	for i := range j.slots {
		v := low + (high-low)*float64(i)/float64(j.slots-1)
		out = append(out, millis(int64(math.Round(v))))
	}
	return slices.Compact(out)
}

// retrySpec reads retry and returns nil for none. The second result is the nodes that the tiers come
// from.
func (d *decoder) retrySpec(n *yaml.Node) (*RetrySpec, []*yaml.Node) {
	if _, isMapping := d.isNone(n, "retry", "such as retry: {delays: [2s, 8s, 30s]}"); !isMapping {
		return nil, nil
	}
	var r retryText
	values := mapping(d, n, "retry", retryKeys, &r)
	if values == nil {
		return &RetrySpec{}, nil
	}
	switch {
	case values["delays"] != nil && values["backoff"] != nil:
		d.refuse(values["backoff"], Diagnostic{
			Code: codeConflict, Message: "both delays and backoff", Expected: "one of them", Hint: "backoff only works out delays",
		})
	case values["delays"] == nil && values["backoff"] == nil:
		d.refuse(n, Diagnostic{
			Code: codeMissingKey, Message: "retry has neither delays nor backoff", Expected: "one of them",
			Hint: "such as delays: [2s, 8s, 30s]",
		})
	}
	if r.backoff != nil && !r.backoff.bad && r.delays == nil {
		r.delays = r.backoff.schedule()
		r.nodes = slices.Repeat([]*yaml.Node{values["backoff"]}, len(r.delays))
	}
	return &RetrySpec{Tiers: d.tiers(r)}, r.nodes
}

// tiers puts delays and jitter together.
func (d *decoder) tiers(r retryText) []retry.Tier {
	var out []retry.Tier
	for i, delay := range r.delays {
		t := retry.Tier{Delay: delay}
		if r.jitter != nil && !r.jitter.bad {
			t.Slots, t.Spread = r.jitter.over(delay), r.jitter.spread
			if len(t.Slots) < 2 || t.Slots[0] < time.Millisecond || t.Slots[len(t.Slots)-1] > retry.MaxDelay {
				d.refuse(r.nodes[i], Diagnostic{
					Code: codeJitter, Message: fmt.Sprintf("a delay of %s cannot be spread over whole milliseconds", retry.Spell(delay)),
					Expected: fmt.Sprintf("a delay whose band lies between 1ms and %s", retry.Spell(retry.MaxDelay)),
				})
				continue
			}
		}
		out = append(out, t)
	}
	return out
}
