package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

var update = flag.Bool("update", false, "rewrite golden files")

// hostile is a manifest whose names try to be something else.
func hostile() Expansion {
	return Expansion{Name: "true", Manifest: topology.Manifest{
		VHost: "/",
		Exchanges: []topology.Exchange{
			{Name: "orders", Type: "topic", Durable: true},
			{Name: "q.retry", Type: "headers", Durable: true, Internal: true, Arguments: map[string]any{"alternate-exchange": "orders"}},
			{Name: `a"] --> b; click <script>`, Type: "x-random", Durable: true},
		},
		Queues: []topology.Queue{
			{Name: "orders", Durable: true, Arguments: map[string]any{
				"x-queue-type": "quorum", "x-dead-letter-exchange": "q.retry", "x-message-ttl": int64(2000),
			}},
			{Name: "123", Durable: true, Arguments: map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "no", "x-single-active-consumer": true}},
			{Name: "null", AutoDelete: true},
		},
		Bindings: []topology.Binding{
			{Source: "orders", Destination: "orders", DestinationKind: topology.ToQueue, RoutingKey: "#"},
			{Source: "amq.topic", Destination: "orders", DestinationKind: topology.ToExchange, RoutingKey: "1e3"},
			{Source: "q.retry", Destination: "123", DestinationKind: topology.ToQueue, Arguments: map[string]any{"x-match": "all-with-x", "x-a": int64(1)}},
		},
	}}
}

func TestExpansion(t *testing.T) {
	t.Parallel()
	for _, f := range []Format{YAML, JSON, Mermaid} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			golden(t, "expansion."+string(f), render(t, f, false, hostile()))
		})
	}
}

// YAML and JSON hold the same, types included.
func TestYAMLEqualsJSON(t *testing.T) {
	t.Parallel()
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal([]byte(render(t, YAML, false, hostile())), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(render(t, JSON, false, hostile())), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("mismatch (-json +yaml):\n%s", diff)
	}
}

func TestEveryJSONHasAVersion(t *testing.T) {
	t.Parallel()
	for _, v := range []any{hostile(), Validation{}, Version{}, struct{}{}, Applied{Report: &provision.Report{FormatVersion: 1}}} {
		var got struct {
			FormatVersion int `json:"format_version"`
		}
		if err := json.Unmarshal([]byte(render(t, JSON, false, v)), &got); err != nil || got.FormatVersion != 1 {
			t.Errorf("%T: format_version %d, error %v", v, got.FormatVersion, err)
		}
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	good := Validation{File: "topology.yaml", Valid: true}
	good.Count(hostile().Manifest)
	good.Exchanges = 1
	bad := Validation{File: "topology.yaml", Diagnostics: topology.Diagnostics{
		{Position: topology.Position{File: "topology.yaml", Line: 3, Column: 5}, Code: "unknown-key", Message: `unknown key "quues"`, Expected: "queues", Hint: "did you mean queues?"},
		{Position: topology.Position{File: "topology.yaml", Line: 9, Column: 1}, Code: "x", Message: "bad"},
	}}
	golden(t, "validation.txt", render(t, Text, false, good)+render(t, Text, false, bad)+render(t, JSON, false, bad))
	// Without colour a diagnostic has its one spelling.
	for _, d := range bad.Diagnostics {
		if text := render(t, Text, false, bad); !strings.Contains(text, d.String()+"\n") {
			t.Errorf("%q is not in %q", d, text)
		}
	}
	if text := render(t, Text, true, bad); !strings.Contains(text, "\x1b[1mtopology.yaml:3:5\x1b[0m: unknown key") {
		t.Errorf("coloured: %q", text)
	}
}

func TestApplied(t *testing.T) {
	t.Parallel()
	r := provision.Report{
		FormatVersion: 1, Name: "orders", VHost: `o"1`, BrokerVersion: "4.0.5",
		Created: provision.Counts{Exchanges: 1}, Unchanged: provision.Counts{Exchanges: 2, Queues: 1},
		Changes: []provision.Change{
			{Step: "declare exchanges", Action: provision.ActionCreate, Exchange: &hostile().Exchanges[0]},
			{Step: "declare exchanges", Action: provision.ActionCreate, Exchange: &hostile().Exchanges[2]},
			{Step: "bind", Action: provision.ActionBind, Binding: &hostile().Bindings[2]},
		},
		Retired: []provision.Retired{{Kind: topology.KindQueue, Name: "q.retry.1.2s", Why: "no tier any more"}},
		Resumed: true, Warnings: []string{"the DLQ is full"},
	}
	dry, none := r, r
	dry.DryRun, dry.Resumed, dry.Retired, dry.Warnings = true, false, nil, nil
	none.Changes, none.Resumed, none.Retired, none.Warnings = nil, false, nil, nil
	var text string
	for _, a := range []Applied{{Report: &r}, {Report: &dry}, {Report: &none}, {Report: &dry, Incomplete: true}} {
		text += render(t, Text, false, a) + "\n"
	}
	golden(t, "applied.txt", text)
	golden(t, "applied.json", render(t, JSON, false, Applied{Report: &r, Incomplete: true}))
}

func TestWriteRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for f, v := range map[Format]any{Text: hostile(), Mermaid: Version{}, "xml": Version{}, JSON: func() {}, YAML: func() {}} {
		var b bytes.Buffer
		if err := Write(&b, f, false, v); err == nil || b.Len() > 0 {
			t.Errorf("Write(%s, %T) = %v, %q", f, v, err, b.String())
		}
	}
}

func render(t *testing.T, f Format, colour bool, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, f, colour, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", name, diff)
	}
}
