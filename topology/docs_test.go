package topology

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is the reference page, which must say what the decoder knows, no more and no less.
func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../docs/yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)\\|$")

// rows returns the rows after a heading, up to the end of the table.
func rows(t *testing.T, page, heading string) (names []string, cells [][]string) {
	t.Helper()
	_, after, found := strings.Cut(page, heading)
	if !found {
		t.Fatalf("docs/yaml.md has no %q", heading)
	}
	table, _, _ := strings.Cut(strings.TrimSpace(after), "\n\n")
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
		cells = append(cells, strings.Split(m[2], " | "))
	}
	return names, cells
}

func TestDocs_Keys(t *testing.T) {
	t.Parallel()
	text := page(t)
	const (
		file  = "version: 1\nname: x\n"
		queue = file + "exchanges: {orders: {type: direct}, h: {type: headers}}\nqueues: {q: {"
	)
	for _, tt := range []struct {
		table string
		known []string
		// Around an example a whole file is put.
		before, after string
	}{
		{"file", fileKeys.names(), "", ""},
		{"exchange", exchangeKeys.names(), file + "exchanges: {x: {type: x-random, ", "}}"},
		{"binding", bindKeys.names(), queue + "bind: [{exchange: orders, key: a, ", "}]}}"},
		{"queue", queueKeys.names(), queue, "}}"},
		{"retry", retryKeys.names(), queue + "retry: {", "}}}"},
		{"backoff", backoffKeys.names(), queue + "retry: {backoff: {", "}}}}"},
		{"jitter", jitterKeys.names(), queue + "retry: {delays: [8s], jitter: {", "}}}}"},
		{"dead_letter", deadLetterKeys.names(), queue + "dead_letter: {", "}}}"},
		{"alerts", alertsKeys.names(), queue + "dead_letter: {alerts: {", "}}}}"},
		{"threshold", thresholdKeys.names(), queue + "dead_letter: {alerts: {page: {", "}}}}}"},
		{"stale", staleKeys.names(), queue + "dead_letter: {alerts: {stale: {", "}}}}}"},
	} {
		t.Run(tt.table, func(t *testing.T) {
			t.Parallel()
			names, cells := rows(t, text, "<!-- keys: "+tt.table+" -->")
			if diff := cmp.Diff(tt.known, names); diff != "" {
				t.Errorf("keys mismatch (-known +documented):\n%s", diff)
			}
			for i, name := range names {
				if len(cells[i]) != 4 {
					t.Errorf("the row of %q has %d cells; want 4", name, len(cells[i]))
					continue
				}
				example := strings.Trim(strings.TrimSpace(cells[i][2]), "`")
				checkExample(t, tt.table, name, example, tt.before, tt.after)
			}
		})
	}
}

func checkExample(t *testing.T, table, name, example, before, after string) {
	t.Helper()
	if !regexp.MustCompile(`(^|[ ,{])` + name + `: `).MatchString(example) {
		t.Errorf("the example of %q, %s, does not show it", name, example)
	}
	switch table {
	case "file":
		for _, line := range []string{"version: 1", "name: x"} {
			if key, _, _ := strings.Cut(line, ":"); key != name {
				before += line + "\n"
			}
		}
	case "exchange":
		if name == "type" || name == "external" {
			before = strings.Replace(before, "type: x-random, ", "", 1)
		}
	case "binding":
		switch name {
		case "exchange":
			before = strings.Replace(before, "exchange: orders, ", "", 1)
		case "key":
			before = strings.Replace(before, "key: a, ", "", 1)
		case "match", "headers":
			before = strings.Replace(before, "exchange: orders, key: a", "exchange: h", 1)
		}
	}
	if _, err := Parse("example.yaml", []byte(before+example+after)); err != nil {
		t.Errorf("the example of %q does not work:\n%s\n%v", name, before+example+after, err)
	}
}

func TestDocs_WholeFiles(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/yaml.md has no example")
	}
	for _, b := range blocks {
		if _, err := Parse("example.yaml", []byte(b[1])); err != nil {
			t.Errorf("this example does not work:\n%s%v", b[1], err)
		}
	}
}

func TestDocs_Codes(t *testing.T) {
	t.Parallel()
	tree, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok {
			code, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	names, _ := rows(t, page(t), "change their meaning.\n\n")
	if diff := cmp.Diff(codes, names); diff != "" {
		t.Errorf("codes mismatch (-known +documented):\n%s", diff)
	}
}
