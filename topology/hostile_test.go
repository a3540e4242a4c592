package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rmqkit/rmqkit/topology"
)

// fill returns at most the largest file, made of head and as many copies of part.
func fill(head, part string) string {
	return head + strings.Repeat(part, (largest-len(head))/len(part))
}

// many is like fill, with a number in each part.
func many(head, format string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; ; i++ {
		part := fmt.Sprintf(format, i)
		if b.Len()+len(part) > largest {
			return b.String()
		}
		b.WriteString(part)
	}
}

func numbered(n int, format string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

const head = "version: 1\nname: x\n"

var hostile = []struct{ name, text, code string }{
	{"ten megabytes", strings.Repeat("a: b\n", 2<<20), "too-large"},
	{"a bomb of aliases", head + bomb(), "alias"},
	{"a long bomb", many(head, "a%d: &a [*a, *a, *a, *a]\n"), "alias"},
	{"lists in lists", fill(head+"queues: ", "["), "too-deep"},
	{"lists in lists, closed", head + "queues: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "too-deep"},
	{"mappings in mappings", fill(head+"queues: ", "{a: "), "too-deep"},
	{"mappings in mappings, closed", head + "queues: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000), "too-deep"},
	{"dashes in a line", fill(head+"queues:\n  ", "- "), "too-deep"},
	{"dashes in a line, few", head + "queues:\n  " + strings.Repeat("- ", 5000) + "a", "too-deep"},
	{"question marks in a line", fill(head+"queues:\n  ", "? "), "too-deep"},
	{"deeper and deeper", head + steps(1300), "too-deep"},
	{"not UTF-8", head + "a: \xff\n", "bad-encoding"},
	{"UTF-16", "\xff\xfev\x00e\x00r\x00", "bad-encoding"},
	{"a byte order mark", "\ufeff" + head, "bad-encoding"},
	{"NUL", head + "a: \x00\n", "bad-character"},
	{"a line separator", head + "a: x\u2028y\n", "bad-character"},
	{"tabs", head + "queues:\n\torders: {}\n", "yaml-syntax"},
	{"only tabs", fill(head, "\t"), "yaml-syntax"},
	{"nothing", "", "empty"},
	{"only comments", fill("", "# x\n"), "empty"},
	{"comments and keys", many(head, "# x\na%d: 1 # y\n"), "unknown-key"},
	{"comments between list items", fill(head+"queues:\n", "- # x\n # y\n"), "wrong-type"},
	{"unknown keys", many(head, "versiom%d: 1\n"), "too-many-mistakes"},
	{"one key over and over", fill(head, "a: 1\n"), "duplicate-key"},
	{"short keys in one line", many(head+"queues: {", "a%d,"), "yaml-syntax"},
	{"one long line", head + "a: " + strings.Repeat("x", 1<<20-30), "unknown-key"},
	{"one long key", head + strings.Repeat("x", 1<<20-30) + ": 1", "yaml-syntax"},
	{"long quoted key", head + `"` + strings.Repeat("x", 1<<20-30) + `": 1`, "yaml-syntax"},
	{"a plain text over many lines", fill(head+"a: x\n", " x\n"), "unknown-key"},
	{"a folded text", fill(head+"a: >\n", "  x\n\n"), "unknown-key"},
	{"an open quote", fill(head+"a: \"", "x "), "yaml-syntax"},
	{"many documents", fill(head, "---\na: 1\n"), "several-documents"},
	{"directives", fill("", "%TAG ! !x\n"), "yaml-syntax"},
	{"millions of jitter slots", "version: 1\nname: x\ndefaults: {retry: {backoff: {base: 1s, attempts: 17}, jitter: {band: 20%, slots: 32}}}\nqueues:\n" + strings.Join(numbered(9_000, "  q%d: {}"), "\n"), "too-large"},
	{"queues with large defaults", "version: 1\nname: x\ndefaults: {arguments: {" + largeDefaults() + "}}\nqueues:\n" + strings.Join(numbered(9_000, "  q%d: {}"), "\n"), "too-large"},
	{"large defaults with a slip", "version: 1\nname: x\ndefaults: {max_length: x, arguments: {" + largeDefaults() + "}}\nqueues:\n" + strings.Join(numbered(9_000, "  q%d: {}"), "\n"), "too-large"},
	{"wrong queues", head + "queues:\n" + strings.Join(numbered(10_001, "  q%d: 1"), "\n"), "too-large"},
	{"wrong ladders", head + "queues:\n" + strings.Join(numbered(9_000, "  q%d: {type: x,retry: {delays: [x]}}"), "\n"), "bad-value"},
	{"bindings to nowhere", many(head+"queues: {q: {bind: [", "{exchange: x%d},"), "yaml-syntax"},
	{"bindings to nowhere, closed", head + "queues: {q: {bind: [" + strings.Repeat("{exchange: xyz},", 50_000) + "]}}", "undeclared-exchange"},
	{"open variables", fill(head+"a: \"", "${"), "yaml-syntax"},
	{"open variables, closed", head + "a: \"" + strings.Repeat("${", 400_000) + "\"", "bad-variable"},
	{"escaped variables", head + "a: \"" + strings.Repeat("$${", 300_000) + "\"", "unknown-key"},
	{"long variables", many(head, "a%d: ${LONG}${LONG}\n"), "too-large"},
	{"many ladders and one mistake", head + "vhosts: /\nqueues:\n" + strings.Join(numbered(10_001, "  q%d: {retry: {delays: [1s]}}"), "\n"), "too-large"},
	{"exchanges round and round", rounds(), "unroutable-dead-letters"},
}

func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.String()
}

func steps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func largeDefaults() string {
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "a%d: 1,", i)
	}
	return b.String()
}

// rounds is a topology in which looking for a route can go in circles.
func rounds() string {
	var b strings.Builder
	b.WriteString(head + "exchanges:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  x%d: {type: fanout, bind: [", i)
		for j := range 100 {
			if i != j {
				fmt.Fprintf(&b, "{exchange: x%d},", j)
			}
		}
		b.WriteString("]}\n")
	}
	b.WriteString("queues:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  q%d: {overflow: reject-publish, arguments: {x-dead-letter-exchange: x%d, x-dead-letter-strategy: at-least-once}}\n", i, i)
	}
	return b.String()
}

// A file may come from anybody who can open a change: it must not hold up or end the program that
// reviews it.
//
// It runs alone, since it measures.
func TestParse_HostileFile(t *testing.T) {
	p := topology.Parser{LookupEnv: func(name string) (string, bool) {
		return strings.Repeat("x", 60<<10), name == "LONG"
	}}
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			var (
				topo *topology.Topology
				err  error
				took time.Duration
			)
			// Three tries, and the processor's time: on a busy machine the clock on the wall proves little.
			for range 3 {
				start := processor(t)
				topo, err = p.Parse("x.yaml", []byte(tt.text))
				if took = processor(t) - start; took < time.Second || raceEnabled {
					break
				}
			}
			var ds topology.Diagnostics
			if !errors.As(err, &ds) {
				t.Fatalf("Parse() = %v, %v; want diagnostics", topo, err)
			}
			t.Logf("%v, %d diagnostics, first %s", took, len(ds), cut(ds[0].String()))
			checkPositions(t, tt.text, ds)
			found := false
			for _, d := range ds {
				found = found || d.Code == tt.code
			}
			if !found {
				t.Errorf("Parse() = %s …; want a diagnostic with code %q", cut(ds[0].String()), tt.code)
			}
			if took > time.Second && !raceEnabled {
				t.Errorf("Parse() took %v; want less than a second", took)
			}
		})
	}
}

// processor returns how much of the processor's time this process has taken.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func cut(s string) string { return s[:min(len(s), 200)] }

// checkPositions fails unless every diagnostic is in order and points into the file.
func checkPositions(t *testing.T, text string, ds topology.Diagnostics) {
	t.Helper()
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
	lengths := make([]int, len(lines))
	for i, l := range lines {
		lengths[i] = utf8.RuneCountInString(l)
	}
	var last topology.Position
	for _, d := range ds {
		if d.Line < 1 || d.Line > len(lines) || d.Column < 1 || d.Column > lengths[d.Line-1]+1 {
			t.Fatalf("%s: %s is not in the file", cut(d.String()), d.Position)
		}
		if d.Line < last.Line || d.Line == last.Line && d.Column < last.Column {
			t.Fatalf("%s comes after %s", cut(d.String()), last)
		}
		last = d.Position
		if d.Code == "" || d.Message == "" || d.File == "" {
			t.Fatalf("%+v has no file, code or message", d)
		}
	}
}
