package retry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page is what clients in other languages are written from: its tables are the constants.
func TestWireContractPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/wire-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, headers, _ := strings.Cut(string(page), "\n## Headers\n")
	inPage := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z._]+)` \\| (\\w+) \\|").FindAllStringSubmatch(headers, -1) {
		inPage[row[1]] = row[2]
	}
	constants := stringConstants(t, "headers.go", "Header")
	written, _ := worst().Write(nans(), 0)
	for _, name := range constants {
		kind, ok := inPage[name]
		if !ok {
			t.Errorf("header %s is missing on the page", name)
			continue
		}
		delete(inPage, name)
		if v, ok := written[name]; ok && kind != kindOf(v) {
			t.Errorf("header %s is %s on the page and %s on the wire", name, kind, kindOf(v))
		} else if !ok && strings.HasPrefix(name, Prefix) {
			t.Errorf("header %s is never written", name)
		}
	}
	for name := range inPage {
		t.Errorf("header %s is on the page only", name)
	}
	for _, name := range append(stringConstants(t, "headers.go", "Category"), stringConstants(t, "headers.go", "Reason")...) {
		if !strings.Contains(headers, "`"+name+"`") {
			t.Errorf("value %s is missing on the page", name)
		}
	}
}

func TestWireContractLimits(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/wire-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(dlq[a-z._]+)` \\| (?:string|array) \\| (\\d+) \\|").FindAllStringSubmatch(string(page), -1) {
		got[row[1]], _ = strconv.Atoi(row[2])
	}
	headers, _ := worst().Write(nil, 0)
	want := map[string]int{HeaderCut: maxNames, HeaderFloats: maxNames}
	for name, v := range headers {
		if s, ok := v.(string); ok {
			want[name] = len(s)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits mismatch (-code +page):\n%s", diff)
	}
	if want := strconv.Itoa(frameOverhead); want[:1]+","+want[1:] != "1,824" || !strings.Contains(string(page), "1,824 bytes") {
		t.Errorf("the page does not say %s bytes", want)
	}
}

// The names of a ladder in the page, with Q, k, d and s filled in, are those of the code.
func TestWireContractNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/wire-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Names\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	fill := strings.NewReplacer(".k.d", ".3.24s", ".k.", ".3.", ".ladder.s", ".ladder.a", ".first.s", ".first.a", "Q", "orders.fulfil")
	for _, row := range regexp.MustCompile("(?m)^\\| `(Q[a-z.]*)` \\|").FindAllStringSubmatch(section, -1) {
		got = append(got, fill.Replace(row[1]))
	}
	l, classic, hash := fulfil(), fulfil(), fulfil()
	classic.Type = Classic
	hash.Tiers[2].Spread = SpreadHash
	want := []string{
		l.Queue, l.RetryExchange(), l.LadderExchange(SetA), l.FirstExchange(SetA), l.TierQueues(3)[0].Name,
		classic.TierQueues(3)[0].Name, l.SpreadExchange(3), hash.SpreadExchange(3), l.ReturnExchange(),
		l.RedriveExchange(), l.ParkExchange(), l.DeadLetterQueue(),
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names mismatch (-code +page):\n%s", diff)
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case int64:
		return "integer"
	case []any:
		return "array"
	}
	return "string"
}

// stringConstants returns the values of the constants of a file whose names begin with prefix.
func stringConstants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		base := ""
		value := spec.Values[0]
		if sum, ok := value.(*ast.BinaryExpr); ok {
			base, value = Prefix, sum.Y
		}
		s, err := strconv.Unquote(value.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, base+s)
		return true
	})
	if len(out) == 0 {
		t.Fatalf("no constants %s* in %s", prefix, file)
	}
	return out
}
