package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the generated part of the documentation")

// The page cannot drift from the commands, because this part of it is made from them.
func TestCLIPage(t *testing.T) {
	t.Parallel()
	const (
		path  = "../../docs/cli.md"
		begin = "<!-- generated: begin -->\n"
		end   = "<!-- generated: end -->\n"
	)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(page), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("the page has lost its marks")
	}
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page is not what the commands are (-code +page); run with -update:\n%s", diff)
	}
}

func reference() string {
	var b strings.Builder
	b.WriteString("\n### Commands\n")
	env, _, _ := testEnv(nil)
	root := provisionCommand(env)
	for _, c := range root.Commands() {
		fmt.Fprintf(&b, "\n#### %s\n\n%s.\n", c.CommandPath(), c.Short)
		// That of completion is cobra's, and says nothing more.
		if c.Long != "" && !c.HasSubCommands() {
			fmt.Fprintf(&b, "\n%s\n", c.Long)
		}
		if c.HasSubCommands() {
			fmt.Fprintf(&b, "\nOne of `%s`.\n", strings.Join(names(c), "`, `"))
		}
		flagTable(&b, c)
	}
	b.WriteString("\n### Environment\n\nA flag wins over its variable, a variable over the default. An empty variable counts as none.\n\n")
	b.WriteString("| variable | flag | default | meaning |\n|---|---|---|---|\n")
	var s settings
	for _, f := range s.fields() {
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", f.env, f.flag, code(f.otherwise), f.usage)
	}
	b.WriteString("| `NO_COLOR` | | | no colour, if it is not empty |\n")
	b.WriteString("\nA topology may use any variable as `${NAME}`.\n")
	b.WriteString("\n### Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.meaning)
	}
	b.WriteString("\n")
	return b.String()
}

func flagTable(b *strings.Builder, c *cobra.Command) {
	if !c.HasLocalFlags() {
		return
	}
	b.WriteString("\n| flag | value | default | meaning |\n|---|---|---|---|\n")
	for _, f := range collect(c.LocalFlags().VisitAll) {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		kind, usage := f.Value.Type(), f.Usage
		if before, rest, ok := strings.Cut(usage, "`"); ok {
			// Cobra takes a quoted word for the kind of value.
			var after string
			kind, after, _ = strings.Cut(rest, "`")
			usage = before + kind + after
		}
		if kind == "bool" {
			kind = ""
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, kind, code(f.DefValue), usage)
	}
}

// collect returns what a function visits.
func collect[T any](visit func(func(T))) []T {
	var out []T
	visit(func(v T) { out = append(out, v) })
	return out
}

func code(s string) string {
	if s == "" || s == "false" || s == "0s" {
		return ""
	}
	return "`" + s + "`"
}

// Every exit code that errors can lead to is documented.
func TestExitCodesAreDocumented(t *testing.T) {
	t.Parallel()
	known := map[ExitCode]bool{}
	for _, e := range exitCodes {
		known[e.code] = true
	}
	for _, c := range []ExitCode{ExitDone, ExitFailed, ExitChanges, ExitInvalid, ExitRefused, ExitUsage} {
		if !known[c] {
			t.Errorf("exit code %d is not documented", c)
		}
	}
}
