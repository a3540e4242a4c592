package provision

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rmqkit/rmqkit/topology"
)

var updateDiffs = flag.Bool("update", false, "rewrite golden files")

// Each file in testdata/diff is one change of a topology as a person would make it, and what a reviewer is
// to be told. A new kind of change gets a file there.
func TestDiffReviews(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/diff/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no reviews: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			review, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			const base = 2
			if len(review.Files) < base {
				t.Fatal("a review has an old and a new file")
			}
			before, after := sideOf(t, review.Files[0]), sideOf(t, review.Files[1])
			got := told(Diff(before, after))
			checkPlan(t, before, after)
			checkPlan(t, after, before)
			review.Files = append(review.Files[:base:base], txtar.File{Name: "want", Data: []byte(got)})
			compareGolden(t, path, string(txtar.Format(review)))
		})
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *updateDiffs {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s mismatch (-want +got); run with -update:\n%s", path, diff)
	}
}

func sideOf(t testing.TB, f txtar.File) Side {
	t.Helper()
	top, err := topology.Parser{LookupEnv: func(string) (string, bool) { return "", false }}.Parse(f.Name, f.Data)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Name: f.Name, Topology: top}
}

// told writes all of a plan but for objects that no one wrote: these are counted.
func told(p *Plan) string {
	var b strings.Builder
	for _, f := range p.Flows {
		fmt.Fprintf(&b, "%s %q\n", f.Kind, f.Name)
		for _, c := range f.Changes {
			fmt.Fprintf(&b, "  %s %s: %s\n", c.Verdict, c.Code, c.Summary)
			for _, d := range c.Details {
				fmt.Fprintf(&b, "    - %s\n", d)
			}
			if c.Cost != "" {
				fmt.Fprintf(&b, "    cost: %s\n", c.Cost)
			}
			if c.Policy != nil {
				fmt.Fprintf(&b, "    policy: %s on %s: %v\n", c.Policy.Pattern, c.Policy.ApplyTo, c.Policy.Definition)
			}
			placesTold(&b, c)
			generated := map[string]int{}
			for _, o := range c.Objects {
				if o.Generated {
					generated[fmt.Sprintf("%s %s", o.Kind, o.Action)]++
					continue
				}
				fmt.Fprintf(&b, "    %s\n", o)
			}
			if len(generated) > 0 {
				fmt.Fprintf(&b, "    generated: %v\n", generated)
			}
		}
	}
	if !p.Changed() {
		b.WriteString("nothing\n")
	}
	return b.String()
}

func placesTold(b *strings.Builder, c FlowChange) {
	var words []string
	if c.Old != nil {
		words = append(words, c.Old.String())
	}
	if c.New != nil {
		words = append(words, c.New.String())
	}
	fmt.Fprintf(b, "    at %s\n", strings.Join(words, ", "))
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"#", "", true},
		{"#", "a.b", true},
		{"#", "*.#", true},
		{"*", "", false},
		{"*", "a", true},
		{"*", "#", false},
		{"*", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a.#", false},
		{"a.#", "a", true},
		{"a.#", "a.*.c", true},
		{"a.#", "b", false},
		{"#.c", "a.b.c", true},
		{"#.c", "a.b", false},
		{"#.b.#", "a.b.c", true},
		{"#.#", "#", true},
		{"a", "*", false},
		{"", "", true},
		{"", "#", false},
	} {
		if got := covers(topicWords(tt.a), topicWords(tt.b)); got != tt.want {
			t.Errorf("covers(%q, %q) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestEveryVerdictAndCodeHasAMeaning(t *testing.T) {
	t.Parallel()
	for _, v := range Verdicts() {
		if v.Meaning() == "unknown" {
			t.Errorf("verdict %q has no meaning", v)
		}
	}
	for _, c := range ChangeCodes() {
		if c.Meaning() == "unknown" {
			t.Errorf("code %q has no meaning", c)
		}
	}
	if Verdict("x").Meaning() != "unknown" || ChangeCode("x").Meaning() != "unknown" {
		t.Error("something unknown has a meaning")
	}
}

// The page explains every verdict in the words of the program, and has a heading for every kind of change:
// SARIF leads there.
func TestDiffPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/diff.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Verdicts() {
		if row := fmt.Sprintf("| `%s` | %s |", v, v.Meaning()); !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	for _, c := range ChangeCodes() {
		if heading := fmt.Sprintf("\n### %s\n%s", c, c.Meaning()); !strings.Contains(string(page), heading) {
			t.Errorf("the page has no %q", heading)
		}
	}
}
