package view

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

// reviewed returns one of the reviews that package provision is tested with.
func reviewed(t *testing.T, name string) Diff {
	t.Helper()
	review, err := txtar.ParseFile("../../../provision/testdata/diff/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return diffOf(t, review.Files[0].Data, review.Files[1].Data)
}

func diffOf(t *testing.T, before, after []byte) Diff {
	t.Helper()
	var sides [2]provision.Side
	for i, data := range [][]byte{before, after} {
		name := []string{"git:main:infra/topology.yaml", "infra/topology.yaml"}[i]
		top, err := topology.Parser{LookupEnv: func(string) (string, bool) { return "", false }}.Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		sides[i] = provision.Side{Name: name, Topology: top}
	}
	return Diff{Plan: provision.Diff(sides[0], sides[1]), NewPath: sides[1].Name, Version: "v1.2.3"}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing", "much-at-once", "hostile-names", "type-changed"} {
		for _, f := range []Format{Text, Markdown, JSON, SARIF, GitHub} {
			t.Run(name+" "+string(f), func(t *testing.T) {
				t.Parallel()
				golden(t, "diff-"+name+"."+string(f), render(t, f, false, reviewed(t, name)))
			})
		}
	}
}

func TestDiffExpanded(t *testing.T) {
	t.Parallel()
	d := reviewed(t, "tier-added")
	d.Expand = true
	golden(t, "diff-expanded.text", render(t, Text, true, d))
}

// Nothing that somebody else wrote ends up outside of code, quotes or an escape.
func TestDiffEscapesHostileNames(t *testing.T) {
	t.Parallel()
	d := reviewed(t, "hostile-names")
	for _, f := range []Format{Text, Markdown, GitHub} {
		if out := render(t, f, false, d); strings.ContainsAny(out, "\u202e\t\x1b\r") {
			t.Errorf("%s has control characters", f)
		}
	}
	markdown := render(t, Markdown, false, d)
	for _, code := range []string{"<summary>.*</summary>", "``[^`].*?[^`]``", "`[^`]+`"} {
		markdown = regexp.MustCompile(code).ReplaceAllString(markdown, "")
	}
	for _, bad := range []string{"<img", "@everyone", "evil", "::"} {
		if strings.Contains(markdown, bad) {
			t.Errorf("%q is outside of code in\n%s", bad, markdown)
		}
	}
	for line := range strings.Lines(render(t, GitHub, false, d)) {
		if !regexp.MustCompile(`^::(error|warning|notice) file=[^:,]+,line=\d+,col=\d+,title=[a-z-]+::`).MatchString(line) {
			t.Errorf("no workflow command: %q", line)
		}
	}
}

func TestCodeInMarkdown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`a`: "`a`", "a`b": "``a`b``", "`": "`` ` ``", "``a": "``` ``a ```", " a ": "`  a  `", " a": "` a`", "a|b": "`a|b`", "": "``",
	} {
		if got := fenced(in); got != want {
			t.Errorf("fenced(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := inline(`a_b "c_d" *e*`), "a\\_b `c_d` \\*e\\*"; got != want {
		t.Errorf("inline() = %q, want %q", got, want)
	}
}

func TestWorkflowCommandsAreEscaped(t *testing.T) {
	t.Parallel()
	d := reviewed(t, "tier-added")
	d.NewPath = "a,b:c%d\n.yaml"
	if got := render(t, GitHub, false, d); !strings.HasPrefix(got, "::notice file=a%2Cb%3Ac%25d%0A.yaml,line=") {
		t.Errorf("%q", got)
	}
	d.NewPath = ""
	if got := render(t, GitHub, false, d); !strings.HasPrefix(got, "::notice title=ladder-changed::safe: ") {
		t.Errorf("%q", got)
	}
}

// A comment has at most 60,000 characters, whatever the change, and what is gravest is in it.
func TestMarkdownIsLimited(t *testing.T) {
	t.Parallel()
	var queues strings.Builder
	for i := range 500 {
		fmt.Fprintf(&queues, "  queue.%04d.%s:\n    retry: {delays: [1s, 2s]}\n", i, strings.Repeat("ü", 20))
	}
	const head = "version: 1\nname: many\nqueues:\n"
	d := diffOf(t, []byte(head+"  zz.last: {}\n"), []byte(head+queues.String()))
	out := render(t, Markdown, false, d)
	if n := utf8.RuneCountInString(out); n > maxComment || n < maxComment-1000 {
		t.Errorf("%d characters", n)
	}
	if !strings.Contains(out, "<code>zz.last</code>: 1 breaking") || !regexp.MustCompile(`_\d+ more changes not shown`).MatchString(out) {
		t.Error("the gravest change, or the number of those not shown, is missing")
	}
	if strings.Count(out, "<details") != strings.Count(out, "</details>") {
		t.Error("an element is not closed")
	}
	// One flow alone is too much too.
	var routes strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&routes, "      - {exchange: orders, key: key.%d}\n", i)
	}
	const one = "version: 1\nname: many\nexchanges:\n  orders: {type: topic}\nqueues:\n  q:\n    bind:\n"
	out = render(t, Markdown, false, diffOf(t, []byte(one+routes.String()), []byte(one+"      - {exchange: orders, key: other}\n")))
	if n := utf8.RuneCountInString(out); n > maxComment || strings.Count(out, "<details") != strings.Count(out, "</details>") {
		t.Errorf("%d characters", n)
	}
}

// sarifRead is what is looked at of a SARIF log.
type sarifRead struct {
	Schema  string `json:"$schema"`
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name  string
				Rules []struct {
					ID               string
					ShortDescription struct{ Text string }
				}
			}
		}
		ColumnKind string
		Results    []struct {
			RuleID    string
			RuleIndex int
			Level     string
			Message   struct{ Text string }
			Locations []struct {
				PhysicalLocation struct {
					ArtifactLocation struct{ URI string }
					Region           struct{ StartLine, StartColumn int }
				}
			}
			PartialFingerprints map[string]string
		}
	}
}

// What the SARIF 2.1.0 schema requires, and what code scanning needs on top.
func TestSARIFHasWhatTheSchemaRequires(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing", "much-at-once", "hostile-names", "vhost-changed", "exchange-removed"} {
		d := reviewed(t, name)
		var log sarifRead
		if err := json.Unmarshal([]byte(render(t, SARIF, false, d)), &log); err != nil {
			t.Fatal(err)
		}
		if log.Version != "2.1.0" || log.Schema == "" || len(log.Runs) != 1 {
			t.Fatalf("%+v", log)
		}
		run := log.Runs[0]
		rules := run.Tool.Driver.Rules
		if run.Tool.Driver.Name == "" || run.ColumnKind != "unicodeCodePoints" || run.Results == nil {
			t.Errorf("%+v", run)
		}
		if n := len(d.Flows); (n == 0) != (len(run.Results) == 0) {
			t.Errorf("%d flows, %d results", n, len(run.Results))
		}
		for _, r := range run.Results {
			if r.RuleIndex >= len(rules) || rules[r.RuleIndex].ID != r.RuleID || rules[r.RuleIndex].ShortDescription.Text == "" {
				t.Errorf("rule %q %d", r.RuleID, r.RuleIndex)
			}
			if !slices.Contains([]string{"error", "warning", "note"}, r.Level) || r.Message.Text == "" ||
				len(r.PartialFingerprints) == 0 || len(r.Locations) != 1 {
				t.Fatalf("%+v", r)
			}
			p := r.Locations[0].PhysicalLocation
			if p.ArtifactLocation.URI != "infra/topology.yaml" || p.Region.StartLine < 1 || p.Region.StartColumn < 1 {
				t.Errorf("%+v", p)
			}
		}
	}
}

func TestURIOfFile(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"topology.yaml": "topology.yaml", "./a b/ü.yaml": "a%20b/%C3%BC.yaml", "/srv/t.yaml": "file:///srv/t.yaml", "a:b.yaml": "./a:b.yaml",
	} {
		if got := uri(in); got != want {
			t.Errorf("uri(%q) = %q, want %q", in, got, want)
		}
	}
}
