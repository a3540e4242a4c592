package topology_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// The example at the root of the repository is what a newcomer meets first.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../topology.yaml")
	if err != nil {
		t.Fatal(err)
	}
	topo, err := topology.Parse("topology.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range topo.Ladders() {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
	l, err := topo.Ladder("orders.fulfil")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Tiers) != 3 || l.Type != retry.Quorum {
		t.Errorf("Ladder() = %+v; want three tiers of quorum queues", l)
	}
	m := topo.Expand()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back topology.Manifest
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Errorf("JSON round trip mismatch (-want +got):\n%s", diff)
	}
	for _, version := range []string{"3.10.8", "4.0.5", "4.3.6"} {
		if ds := topo.CheckBroker(version); len(ds) > 0 {
			t.Errorf("CheckBroker(%q) = %v; want nothing", version, ds)
		}
	}
}
