package provision

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// model is a broker as far as routing goes.
type model struct {
	exists   map[object]bool
	bindings map[string]topology.Binding
	// routes are the destinations by exchange and key; of a fanout, by exchange and "".
	routes map[[2]string][]string
	record record
	last   int64
}

func newModel() *model {
	return &model{exists: map[object]bool{}, bindings: map[string]topology.Binding{}, routes: map[[2]string][]string{}}
}

func (m *model) plan(t target) plan { return newPlan(t, m.record, m.last, m.exists) }

func (m *model) do(t *testing.T, o op) {
	t.Helper()
	switch {
	case o.exchange != nil:
		m.exists[object{topology.KindExchange, o.exchange.Name}] = true
	case o.queue != nil:
		m.exists[object{topology.KindQueue, o.queue.Name}] = true
	case o.action == ActionUnbind:
		if key := bindingKey(*o.binding); m.bindings[key].Source != "" {
			delete(m.bindings, key)
			at := [2]string{o.binding.Source, o.binding.RoutingKey}
			i := slices.Index(m.routes[at], o.binding.Destination)
			m.routes[at] = slices.Delete(m.routes[at], i, i+1)
		}
	default:
		for _, end := range []object{{topology.KindExchange, o.binding.Source}, {topology.Kind(o.binding.DestinationKind), o.binding.Destination}} {
			if !m.exists[end] {
				t.Fatalf("binding %v before there is %v", *o.binding, end)
			}
		}
		if key := bindingKey(*o.binding); m.bindings[key].Source == "" {
			m.bindings[key] = *o.binding
			at := [2]string{o.binding.Source, o.binding.RoutingKey}
			m.routes[at] = append(m.routes[at], o.binding.Destination)
		}
	}
}

// leads returns where the ladder of queue takes a rejected message with a routing key, as alternate
// exchanges do: to wherever the first exchange that has any binding for it leads.
func (m *model) leads(queue, key string) []string {
	l := retry.Ladder{Queue: queue}
	for _, at := range [][2]string{
		{l.LadderExchange(retry.SetA), key},
		{l.LadderExchange(retry.SetB), key},
		{l.FirstExchange(retry.SetA), ""},
		{l.FirstExchange(retry.SetB), ""},
	} {
		if to := m.routes[at]; len(to) > 0 {
			return to
		}
	}
	return nil
}

// rungs returns where a ladder takes each key.
func rungs(l retry.Ladder) map[string]string {
	tier := func(i int) string {
		if i > len(l.Tiers) {
			return l.ParkExchange()
		}
		if x := l.SpreadExchange(i); x != "" {
			return x
		}
		return l.TierQueues(i)[0].Name
	}
	out := map[string]string{"business.key": tier(1)}
	for k := 2; k <= retry.MaxTiers+1; k++ {
		out[l.Stamp(k)] = tier(k)
	}
	return out
}

// randomTopology returns a topology with up to three queues of random ladders.
func randomTopology(t *testing.T, r *rand.Rand) target {
	t.Helper()
	text := "version: 1\nname: model\ndefaults: {type: classic}\nexchanges:\n  in: {type: topic}\nqueues:\n  plain: {}\n"
	for _, q := range []string{"one", "two", "three"} {
		if r.IntN(4) == 0 {
			continue
		}
		delays := make([]string, 1+r.IntN(4))
		for i := range delays {
			delays[i] = fmt.Sprintf("%dms", 100*(1+r.IntN(3)))
		}
		jitter := []string{"none", "20%", "{band: 20%, slots: 3}", "{band: 20%, exchange: x-consistent-hash}"}[r.IntN(4)]
		text += fmt.Sprintf("  %s:\n    bind: [{exchange: in, key: k%d}]\n", q, r.IntN(3))
		if r.IntN(5) == 0 {
			text += "    dead_letter: {}\n"
			continue
		}
		text += fmt.Sprintf("    retry: {delays: [%s], jitter: \"%s\"}\n", strings.Join(delays, ", "), jitter)
		text = strings.ReplaceAll(text, `jitter: "{band: 20%, slots: 3}"`, `jitter: {band: 20%, slots: 3}`)
		text = strings.ReplaceAll(text, `jitter: "{band: 20%, exchange: x-consistent-hash}"`, `jitter: {band: 20%, exchange: x-consistent-hash}`)
	}
	return newTarget(parse(t, text))
}

// However often applies of whatever topologies are interrupted, wherever: from the moment a ladder is
// whole, every rejected message goes to exactly one place, and to one that some ladder in play means
// for it. No fork, no second start, nothing lost.
func TestInterruptedAppliesKeepOneSetWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := newModel()
		// inPlay are the rungs of the ladders that a message may meet, by queue; whole those that once were complete.
		inPlay := map[string][]map[string]string{}
		whole := map[string]bool{}
		check := func(q, when string) {
			t.Helper()
			if whole[q] {
				for key := range inPlay[q][0] {
					var right []string
					for _, rungs := range inPlay[q] {
						right = append(right, rungs[key])
					}
					if to := m.leads(q, key); len(to) != 1 || !slices.Contains(right, to[0]) {
						t.Fatalf("seed %d, %s: queue %q: %q leads to %v, want one of %v", seed, when, q, key, to, right)
					}
				}
			}
		}
		next := randomTopology(t, r)
		for range 15 {
			if r.IntN(3) > 0 { // else the same once more
				next = randomTopology(t, r)
			}
			for _, l := range next.ladders {
				inPlay[l.Queue] = append(inPlay[l.Queue], rungs(l))
			}
			p := m.plan(next)
			crash := -1
			if r.IntN(3) > 0 {
				crash = r.IntN(40 + 10*len(p.steps))
			}
			if !runModel(t, r, m, p, crash, check) {
				continue
			}
			if again := m.plan(next); !harmless(again) {
				t.Fatalf("seed %d: after a complete apply another one would do %+v", seed, again.steps)
			}
			for _, l := range next.ladders {
				inPlay[l.Queue], whole[l.Queue] = []map[string]string{rungs(l)}, true
				check(l.Queue, "complete")
			}
			checkComplete(t, seed, m, next)
		}
	}
}

// runModel does a plan in some order that the steps allow and reports whether it came to the end:
// crash says after how many things it does not.
func runModel(t *testing.T, r *rand.Rand, m *model, p plan, crash int, check func(queue, when string)) bool {
	t.Helper()
	for _, s := range p.steps {
		if s.write != nil {
			if crash--; crash == 0 {
				return false
			}
			m.record, m.last = *s.write, s.write.Serial
		}
		for _, i := range r.Perm(len(s.ops)) {
			if crash--; crash == 0 {
				return false
			}
			m.do(t, s.ops[i])
			if b := s.ops[i].binding; b != nil && check != nil {
				check(queueOf(b.Source), s.name)
			}
		}
	}
	return true
}

// queueOf returns the work queue that an exchange of a ladder is named after.
func queueOf(exchange string) string {
	q, _, _ := strings.Cut(exchange, ".")
	return q
}

// harmless reports whether a plan changes nothing.
func harmless(p plan) bool {
	for _, s := range p.steps {
		if s.write != nil {
			return false
		}
		for _, o := range s.ops {
			if !o.known {
				return false
			}
		}
	}
	return true
}

// checkComplete looks for bindings that should not be there, or are not.
func checkComplete(t *testing.T, seed uint64, m *model, is target) {
	t.Helper()
	want := map[string]bool{bindingKey(stateObjects(is.name).Bindings[0]): true}
	for _, b := range is.manifest.Bindings {
		want[bindingKey(b)] = true
	}
	live := placesOf(is.laddered())
	for k, b := range m.bindings {
		if _, inLive := live[b.Source]; (inLive || b.Source == "in") && !want[k] {
			t.Errorf("seed %d: a binding is left: %v", seed, b)
		}
	}
	for k := range want {
		if _, ok := m.bindings[k]; !ok {
			t.Errorf("seed %d: a binding is missing: %s", seed, k)
		}
	}
}

const twoTiers = `
version: 1
name: orders
exchanges:
  orders: {type: topic}
queues:
  q:
    bind: [{exchange: orders, key: KEY}]
    retry: {delays: [DELAYS]}
`

func ladderOf(t *testing.T, key, delays string) target {
	t.Helper()
	return newTarget(parse(t, strings.NewReplacer("KEY", key, "DELAYS", delays).Replace(twoTiers)))
}

// describe lists a plan; the bindings of the steps that make things are only counted.
func describe(p plan) []string {
	var out []string
	for _, s := range p.steps {
		if s.write != nil {
			out = append(out, fmt.Sprintf("write %s %d", s.write.Phase, s.write.Serial))
			continue
		}
		changes := 0
		for _, o := range s.ops {
			if !o.known {
				changes++
			}
		}
		out = append(out, fmt.Sprintf("%s: %d, %d change", s.name, len(s.ops), changes))
	}
	return out
}

func applied(t *testing.T, is target) *model {
	t.Helper()
	m := newModel()
	runModel(t, rand.New(rand.NewPCG(1, 1)), m, m.plan(is), -1, nil)
	return m
}

func TestPlans(t *testing.T) {
	t.Parallel()
	old := ladderOf(t, "a", "1s, 2s")
	interrupted := applied(t, old)
	for _, s := range interrupted.plan(ladderOf(t, "a", "1s, 3s")).steps {
		if s.name == stepSwitchIn+"a" {
			break
		}
		if s.write != nil {
			interrupted.record, interrupted.last = *s.write, s.write.Serial
		}
		for _, o := range s.ops {
			interrupted.do(t, o)
		}
	}
	lostDLQ := applied(t, old)
	delete(lostDLQ.exists, object{topology.KindQueue, "q.dlq"})
	for _, tc := range []struct {
		name string
		on   *model
		to   target
		want []string
	}{
		{"everything is new", newModel(), old, []string{
			"make a place for the record: 2, 2 change", "make a place for the record: 1, 1 change",
			"write intent 1", "declare exchanges: 9, 9 change", "declare queues: 4, 4 change",
			"bind inside ladders: 9, 9 change", "write switch 2",
			"bind the new ladders in set a: 17, 17 change", "bind the new ladders in set b: 17, 17 change",
			"bind exchanges to queues: 1, 1 change", "write done 3",
		}},
		{"nothing changes", applied(t, old), old, []string{
			"bind inside ladders: 9, 0 change", "bind the new ladders in set a: 17, 0 change",
			"bind the new ladders in set b: 17, 0 change", "bind exchanges to queues: 1, 0 change",
		}},
		{"a queue was deleted by hand", lostDLQ, old, []string{
			"declare queues: 1, 1 change", "bind inside ladders: 9, 1 change", "bind the new ladders in set a: 17, 0 change",
			"bind the new ladders in set b: 17, 0 change", "bind exchanges to queues: 1, 0 change",
		}},
		{"a delay changes", applied(t, old), ladderOf(t, "a", "1s, 3s"), []string{
			"make a place for the record: 1, 0 change", "write intent 4", "declare queues: 1, 1 change",
			"bind inside ladders: 9, 0 change", "write switch 5",
			"unbind the old ladders in set a: 1, 1 change", "bind the new ladders in set a: 17, 1 change",
			"unbind the old ladders in set b: 1, 1 change", "bind the new ladders in set b: 17, 1 change",
			"bind exchanges to queues: 1, 0 change", "write done 6",
		}},
		{"a key changes", applied(t, old), ladderOf(t, "b", "1s, 2s"), []string{
			"make a place for the record: 1, 0 change", "write intent 4", "bind inside ladders: 9, 0 change",
			"bind the new ladders in set a: 17, 0 change", "bind the new ladders in set b: 17, 0 change",
			"bind exchanges to queues: 1, 1 change", "unbind what is no longer wanted: 1, 1 change", "write done 5",
		}},
		{"an interrupted switch goes on", interrupted, ladderOf(t, "a", "1s, 3s"), []string{
			"make a place for the record: 1, 0 change", "write switch 6",
			"bind inside ladders: 9, 9 change",
			"unbind the old ladders in set a: 1, 1 change", "bind the new ladders in set a: 17, 17 change",
			"unbind the old ladders in set b: 1, 1 change", "bind the new ladders in set b: 17, 17 change",
			"bind exchanges to queues: 1, 1 change", "write done 7",
		}},
		{"another ladder comes after an interrupted switch", interrupted, ladderOf(t, "a", "1s, 4s"), []string{
			"finish the interrupted apply: bind inside ladders: 9, 9 change",
			"finish the interrupted apply: unbind the old ladders in set a: 1, 1 change",
			"finish the interrupted apply: bind the new ladders in set a: 17, 17 change",
			"finish the interrupted apply: unbind the old ladders in set b: 1, 1 change",
			"finish the interrupted apply: bind the new ladders in set b: 17, 17 change",
			"make a place for the record: 1, 0 change", "write intent 6", "declare queues: 1, 1 change",
			"bind inside ladders: 9, 9 change", "write switch 7",
			"unbind the old ladders in set a: 1, 1 change", "bind the new ladders in set a: 17, 17 change",
			"unbind the old ladders in set b: 1, 1 change", "bind the new ladders in set b: 17, 17 change",
			"bind exchanges to queues: 1, 1 change", "write done 8",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, describe(tc.on.plan(tc.to))); diff != "" {
				t.Errorf("newPlan() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotWantedAnyMoreIsLeftAndSaid(t *testing.T) {
	t.Parallel()
	m := applied(t, ladderOf(t, "a", "1s, 2s"))
	p := m.plan(ladderOf(t, "a", "1s"))
	want := []Retired{{topology.KindQueue, "q.retry.2.2s", "no tier of q any more; what waits in it still returns, and AMQP cannot tell when it is empty"}}
	if diff := cmp.Diff(want, p.retired); diff != "" {
		t.Errorf("retired mismatch (-want +got):\n%s", diff)
	}
	// A ladder that is in no file any more keeps its bindings, since messages are still on it; only its
	// queue gets no new ones.
	before := maps.Clone(m.bindings)
	gone := target{name: "orders", manifest: topology.Manifest{Exchanges: []topology.Exchange{{Name: "orders", Type: "topic", Durable: true}}}}
	runModel(t, rand.New(rand.NewPCG(1, 1)), m, m.plan(gone), -1, nil)
	for k, b := range before {
		if _, ok := m.bindings[k]; ok != (b.Source != "orders") {
			t.Errorf("after the queue left the topology, binding %v: there = %v", b, ok)
		}
	}
	if want := []string{"q"}; !slices.Equal(m.record.Ladders, want) {
		t.Errorf("the record remembers ladders %v, want %v", m.record.Ladders, want)
	}
	if again := m.plan(gone); !harmless(again) {
		t.Errorf("applying that again would do %v", describe(again))
	}
}
