package topology_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rmqkit/rmqkit/topology"
)

// To the broker 1 and 1.0 are different arguments: what is recorded in it must come back with its types.
func TestManifest_KeepsTypes(t *testing.T) {
	t.Parallel()
	args := map[string]any{
		"one": int64(1), "float": 1.0, "big": int64(math.MaxInt64), "least": int64(math.MinInt64), "small": 5e-324, "large": 1e300,
		"minus": -0.5, "yes": true, "text": "1", "odd": "<&> \u2028", "list": []any{int64(1), 1.0, "a", []any{}, map[string]any{"a": 2.0}},
		"table": map[string]any{"b": int64(2), "": "empty"},
	}
	want := topology.Manifest{
		VHost:     "/",
		Exchanges: []topology.Exchange{{Name: "x", Type: "direct", Durable: true, Internal: true, AutoDelete: true, Arguments: args}},
		Queues:    []topology.Queue{{Name: "q", Arguments: args}, {Name: "true"}},
		Bindings:  []topology.Binding{{Source: "x", Destination: "q", DestinationKind: topology.ToQueue, Arguments: args}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got topology.Manifest
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON round trip mismatch (-want +got):\n%s", diff)
	}
}

func TestManifest_BadJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"queues": [{"arguments": {"a": null}}]}`,
		`{"queues": [{"arguments": {"a": [null]}}]}`,
		`{"queues": [{"arguments": {"a": {"b": null}}}]}`,
		`{"queues": [{"arguments": {"a": 9223372036854775808}}]}`,
		`{"queues": [{"arguments": {"a": 1e999}}]}`,
		`{"queues": [{"arguments": [1]}]}`,
		`{"queues": [{"name": 1}]}`,
		`{"exchanges": [{"name": 1}]}`,
		`{"bindings": [{"source": 1}]}`,
	} {
		var m topology.Manifest
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("Unmarshal(%s) = %+v; want an error", text, m)
		}
	}
	for _, v := range []any{math.NaN(), []any{math.Inf(1)}, map[string]any{"a": math.Inf(-1)}, make(chan int)} {
		if _, err := json.Marshal(topology.Queue{Arguments: map[string]any{"a": v}}); err == nil {
			t.Errorf("Marshal() of argument %v found nothing wrong", v)
		}
	}
}

func TestDiagnostics_Error(t *testing.T) {
	t.Parallel()
	ds := topology.Diagnostics{
		{Position: topology.Position{File: "a.yaml", Line: 1, Column: 2}, Code: "x", Message: "m"},
		{Position: topology.Position{File: "a.yaml", Line: 3, Column: 4}, Code: "y", Message: "m", Expected: "e", Hint: "h"},
	}
	if got, want := ds.Error(), "a.yaml:1:2: m [x]\na.yaml:3:4: m; expected e; h [y]"; got != want {
		t.Errorf("Error() = %q; want %q", got, want)
	}
}
