package topology_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rmqkit/rmqkit/topology"
)

func parse(t testing.TB, text string) *topology.Topology {
	t.Helper()
	topo, err := parser.Parse("topology.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// The table of the ladder in the design, written out: a change of it is a change of what every broker
// of every user holds.
func TestExpand_LadderIsTheTable(t *testing.T) {
	t.Parallel()
	got := parse(t, "version: 1\nname: x\nqueues:\n  Q: {retry: {delays: [2s, 8s, 30s]}}\n").Expand()

	exchange := func(name, kind string, internal bool, alternate string) topology.Exchange {
		x := topology.Exchange{Name: name, Type: kind, Durable: true, Internal: internal}
		if alternate != "" {
			x.Arguments = map[string]any{"alternate-exchange": alternate}
		}
		return x
	}
	tier := func(name string, ttl int64, next string) topology.Queue {
		return topology.Queue{Name: name, Durable: true, Arguments: map[string]any{
			"x-queue-type": "quorum", "x-message-ttl": ttl, "x-dead-letter-exchange": "Q.return", "x-dead-letter-routing-key": next,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}}
	}
	want := topology.Manifest{
		VHost: "/",
		Exchanges: []topology.Exchange{
			exchange("Q.retry", "headers", true, "Q.retry.ladder.a"),
			exchange("Q.retry.ladder.a", "direct", true, "Q.retry.ladder.b"),
			exchange("Q.retry.ladder.b", "direct", true, "Q.retry.first.a"),
			exchange("Q.retry.first.a", "fanout", true, "Q.retry.first.b"),
			exchange("Q.retry.first.b", "fanout", true, ""),
			exchange("Q.return", "fanout", true, ""),
			exchange("Q.park", "fanout", false, ""),
			exchange("Q.redrive", "fanout", false, ""),
		},
		Queues: []topology.Queue{
			{Name: "Q", Durable: true, Arguments: map[string]any{
				"x-queue-type": "quorum", "x-dead-letter-exchange": "Q.retry", "x-dead-letter-strategy": "at-least-once",
				"x-overflow": "reject-publish", "x-delivery-limit": int64(1000000000),
			}},
			tier("Q.retry.1.2s", 2000, "Q.attempt.2"),
			tier("Q.retry.2.8s", 8000, "Q.attempt.3"),
			tier("Q.retry.3.30s", 30000, "Q.attempt.4"),
			{Name: "Q.dlq", Durable: true, Arguments: map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(1000000000)}},
		},
		Bindings: []topology.Binding{
			{Source: "Q.park", DestinationKind: topology.ToQueue, Destination: "Q.dlq"},
			{Source: "Q.return", DestinationKind: topology.ToQueue, Destination: "Q"},
			{Source: "Q.redrive", DestinationKind: topology.ToQueue, Destination: "Q"},
		},
	}
	for _, reason := range []string{"delivery_limit", "expired", "maxlen"} {
		want.Bindings = append(want.Bindings,
			topology.Binding{Source: "Q.retry", DestinationKind: topology.ToExchange, Destination: "Q.park", Arguments: map[string]any{
				"x-match": "all-with-x", "x-last-death-reason": reason,
			}},
			topology.Binding{Source: "Q.retry", DestinationKind: topology.ToExchange, Destination: "Q.park", Arguments: map[string]any{
				"x-match": "all-with-x", "x-first-death-queue": "Q", "x-first-death-reason": reason,
			}})
	}
	for _, set := range []string{"a", "b"} {
		want.Bindings = append(want.Bindings,
			topology.Binding{Source: "Q.retry.first." + set, DestinationKind: topology.ToQueue, Destination: "Q.retry.1.2s"},
			topology.Binding{Source: "Q.retry.ladder." + set, DestinationKind: topology.ToQueue, Destination: "Q.retry.2.8s", RoutingKey: "Q.attempt.2"},
			topology.Binding{Source: "Q.retry.ladder." + set, DestinationKind: topology.ToQueue, Destination: "Q.retry.3.30s", RoutingKey: "Q.attempt.3"})
		for k := 4; k <= 17; k++ {
			want.Bindings = append(want.Bindings, topology.Binding{
				Source: "Q.retry.ladder." + set, DestinationKind: topology.ToExchange, Destination: "Q.park", RoutingKey: fmt.Sprintf("Q.attempt.%d", k),
			})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Expand() mismatch (-want +got):\n%s", diff)
	}
}

// Each file in testdata/right expands to what stands beside it.
func TestExpand_Golden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/right/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files in testdata/right, %v", len(files), err)
	}
	for _, file := range append(files, "../topology.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			topo, err := parser.Parse(filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			m := topo.Expand()
			checkManifest(t, topo, m)
			text, err := json.MarshalIndent(m, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/right/"+name+".json", string(text)+"\n")
			// What is recorded in a broker must come back as it was, types too.
			var back topology.Manifest
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, back); diff != "" {
				t.Errorf("JSON round trip mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// checkManifest fails unless what was expanded is deterministic, without doubles and closed.
func checkManifest(t testing.TB, topo *topology.Topology, m topology.Manifest) {
	t.Helper()
	if diff := cmp.Diff(m, topo.Expand()); diff != "" {
		t.Errorf("Expand() differs from itself:\n%s", diff)
	}
	exists := map[string]bool{}
	once := func(kind, name string) {
		if exists[kind+name] {
			t.Errorf("%s %q exists twice", kind, name)
		}
		exists[kind+name] = true
		if name == "" || len(name) > 255 {
			t.Errorf("%s %q has a name that no broker takes", kind, name)
		}
		if topo.Source(topology.Kind(kind), name, "") == (topology.Position{}) {
			t.Errorf("%s %q comes from nowhere", kind, name)
		}
	}
	for _, x := range m.Exchanges {
		once("exchange", x.Name)
	}
	for _, q := range m.Queues {
		once("queue", q.Name)
	}
	external := map[string]bool{}
	for _, x := range topo.Exchanges {
		external[x.Name] = x.External
	}
	seen := map[string]bool{}
	for _, b := range m.Bindings {
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(text)] {
			t.Errorf("binding %s exists twice", text)
		}
		seen[string(text)] = true
		if !exists["exchange"+b.Source] && !external[b.Source] && !strings.HasPrefix(b.Source, "amq.") {
			t.Errorf("binding %s comes from an exchange that does not exist", text)
		}
		if !exists[string(b.DestinationKind)+b.Destination] {
			t.Errorf("binding %s leads to what does not exist", text)
		}
		if topo.BindingSource(b) == (topology.Position{}) {
			t.Errorf("binding %s comes from nowhere", text)
		}
	}
	for _, l := range topo.Ladders() {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
}
