package provision

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// checkPlan asserts what holds for any two sides: every object that differs is in exactly one change,
// nothing else is in any, sentences quote what they name, and the plan is always the same.
func checkPlan(t testing.TB, before, after Side) {
	t.Helper()
	p := Diff(before, after)
	if diff := cmp.Diff(p, Diff(before, after)); diff != "" {
		t.Errorf("two plans of the same differ:\n%s", diff)
	}
	for _, same := range []Side{before, after} {
		if q := Diff(same, same); q.Changed() || len(q.Counts) > 0 {
			t.Errorf("a topology differs from itself:\n%s", told(q))
		}
	}
	want := map[string]ObjectAction{}
	for _, d := range deltas(newDiffSide(before), newDiffSide(after)) {
		want[string(d.kind)+" "+d.name] = d.action()
	}
	got := map[string]ObjectAction{}
	for _, f := range p.Flows {
		if len(f.Changes) == 0 {
			t.Errorf("flow %q has no change", f.Name)
		}
		for _, c := range f.Changes {
			checkChange(t, c)
			for _, o := range c.Objects {
				k := o.Kind + " " + o.Name
				if o.Binding != nil {
					k += bindingKey(*o.Binding)
				}
				if _, twice := got[k]; twice {
					t.Errorf("%s is in two changes", k)
				}
				got[k] = o.Action
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects that differ, and objects in changes (-want +got):\n%s", diff)
	}
}

func checkChange(t testing.TB, c FlowChange) {
	t.Helper()
	if c.Summary == "" || c.Code.rank() == len(changeMeanings) || c.Verdict.Meaning() == "unknown" {
		t.Errorf("incomplete change: %+v", c)
	}
	for _, s := range append([]string{c.Summary, c.Cost}, c.Details...) {
		for rest := s; rest != ""; {
			if rest[0] != '"' {
				rest = rest[1:]
				continue
			}
			name, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Errorf("quotes in %s do not match", s)
				return
			}
			rest = rest[len(name):]
		}
	}
	if (c.Policy != nil) != (c.Verdict == VerdictPolicy) {
		t.Errorf("verdict %s, policy %v", c.Verdict, c.Policy)
	}
	costs := c.Verdict == VerdictPolicy || c.Verdict == VerdictRecreate || c.Verdict == VerdictDrains
	if costs != (c.Cost != "") {
		t.Errorf("%s: verdict %s, cost %q", c.Summary, c.Verdict, c.Cost)
	}
	if c.Verdict == VerdictPolicy && len(c.Policy.Definition) == 0 {
		t.Errorf("%s: a policy that defines nothing", c.Summary)
	}
}

// names are few, so that random objects meet, and some are those of ladders.
var randomNames = []string{
	"a", "b", "a.dlq", "a.park", "a.retry", "a.return", "a.retry.1.2s", "a.retry.ladder.a", "b.dlq", "b.park",
	"x|y`", "<b>@c</b>\u202e", "\"", "#",
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func randomArguments(r *rand.Rand) map[string]any {
	args := map[string]any{}
	for range r.IntN(4) {
		args[pick(r, "x-message-ttl", "x-queue-type", "x-overflow", "x-foo", "x-dead-letter-exchange", "alternate-exchange", "x-match", `"`)] = pick[any](r,
			int64(1), int64(2000), 1.0, true, "1", "classic", "quorum", []any{int64(1), "a"}, map[string]any{"k": 2.5}, nil)
	}
	return args
}

func randomSide(r *rand.Rand) Side {
	s := Side{Manifest: topology.Manifest{VHost: "/"}}
	seen := map[object]bool{}
	free := func(o object) bool {
		defer func() { seen[o] = true }()
		return !seen[o]
	}
	for range r.IntN(9) {
		if x := pick(r, randomNames...); free(object{topology.KindExchange, x}) {
			s.Manifest.Exchanges = append(s.Manifest.Exchanges, topology.Exchange{
				Name: x, Type: pick(r, "topic", "fanout", "x-random", "direct"), Durable: pick(r, true, false), Arguments: randomArguments(r),
			})
		}
		if q := pick(r, randomNames...); free(object{topology.KindQueue, q}) {
			s.Manifest.Queues = append(s.Manifest.Queues, topology.Queue{Name: q, Durable: pick(r, true, true, false), Arguments: randomArguments(r)})
		}
		s.Manifest.Bindings = append(s.Manifest.Bindings, topology.Binding{
			Source: pick(r, randomNames...), Destination: pick(r, randomNames...), RoutingKey: pick(r, "", "#", "a.*", "a.b"),
			DestinationKind: pick(r, topology.ToQueue, topology.ToExchange), Arguments: randomArguments(r),
		})
	}
	for _, queue := range []string{"a", "b"} {
		if r.IntN(3) == 0 {
			continue
		}
		l := retry.Ladder{Queue: queue, Type: pick(r, retry.Quorum, retry.Classic), DLQ: pick(r, "", "a.dlq", "b")}
		for range r.IntN(3) {
			t := retry.Tier{Delay: pick(r, time.Second, 2*time.Second)}
			if r.IntN(3) == 0 {
				t.Slots, t.Spread = []time.Duration{t.Delay, 2 * t.Delay}, retry.SpreadRandom
			}
			l.Tiers = append(l.Tiers, t)
		}
		s.Ladders = append(s.Ladders, l)
	}
	return s
}

// Whatever the manifests, and whatever ladders they are taken for, nothing is lost and nothing told twice.
func FuzzDiff(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, i+1)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		checkPlan(t, randomSide(rand.New(rand.NewPCG(a, 1))), randomSide(rand.New(rand.NewPCG(b, 2))))
	})
}

func TestDiffOfRandomManifests(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		before, after := randomSide(rand.New(rand.NewPCG(seed, 1))), randomSide(rand.New(rand.NewPCG(seed, 2)))
		checkPlan(t, before, after)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// The order in which a file names things makes no difference.
func TestDiffDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		before, after := randomSide(r), randomSide(r)
		want, err := json.Marshal(Diff(before, after))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*topology.Manifest{&before.Manifest, &after.Manifest} {
			r.Shuffle(len(m.Queues), func(i, j int) { m.Queues[i], m.Queues[j] = m.Queues[j], m.Queues[i] })
			r.Shuffle(len(m.Exchanges), func(i, j int) { m.Exchanges[i], m.Exchanges[j] = m.Exchanges[j], m.Exchanges[i] })
			r.Shuffle(len(m.Bindings), func(i, j int) { m.Bindings[i], m.Bindings[j] = m.Bindings[j], m.Bindings[i] })
		}
		got, err := json.Marshal(Diff(before, after))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatalf("seed %d (-before +after shuffling):\n%s", seed, diff)
		}
	}
}

func manyQueues(n int, delay string) []byte {
	text := []byte("version: 1\nname: many\nexchanges:\n  events: {type: topic}\nqueues:\n")
	for i := range n {
		text = fmt.Appendf(text, "  work.%05d:\n    bind: [{exchange: events, key: work.%05d}]\n    retry: {delays: [%s, 8s, 30s]}\n", i, i, delay)
	}
	return text
}

// 200 laddered queues are 12,000 objects.
func BenchmarkDiff(b *testing.B) {
	parse := func(delay string) Side {
		top, err := topology.Parse("many.yaml", manyQueues(200, delay))
		if err != nil {
			b.Fatal(err)
		}
		return Side{Name: "many.yaml", Topology: top}
	}
	before, after := parse("2s"), parse("3s")
	for b.Loop() {
		if !Diff(before, after).Changed() {
			b.Fatal("no change")
		}
	}
}
