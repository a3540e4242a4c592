package architecture_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestAForbiddenImportIsFound(t *testing.T) {
	t.Parallel()
	const page = "" +
		"<!-- imports: begin -->\n| package | may import |\n|---|---|\n| `low` | nothing |\n| `high` | `low` |\n| `free` | anything |\n<!-- imports: end -->\n" +
		"<!-- modules: begin -->\n| module | used by |\n|---|---|\n| `example.com/m` | `high` |\n<!-- modules: end -->\n"
	ours, err := readTable(page, "imports")
	if err != nil {
		t.Fatal(err)
	}
	others, err := readTable(page, "modules")
	if err != nil {
		t.Fatal(err)
	}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	imports, err := readImports(fstest.MapFS{
		"go.mod":            file("module x"),
		"low/a.go":          file("package low\nimport (\n\"fmt\"\n\"" + module + "high\"\n\"example.com/m/sub\"\n)"),
		"low/a_test.go":     file("package low\nimport \"example.com/anything\""),
		"high/a.go":         file("package high\nimport (\n\"" + module + "low\"\n\"example.com/m/sub\"\n\"example.com/mm\"\n)"),
		"free/a.go":         file("package free\nimport (\n\"" + module + "low\"\n\"example.com/m\"\n)"),
		"tests/a_test.go":   file("package tests"),
		"low/testdata/a.go": file("package broken ("),
		"other/go.mod":      file("module y"),
		"other/a.go":        file("package other\nimport \"example.com/other\""),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := imports["tests"]; !ok || len(imports) != 4 {
		t.Errorf("packages = %v", imports)
	}
	want := []string{
		"free imports example.com/m; docs/architecture.md does not allow it",
		"high imports example.com/mm; docs/architecture.md does not allow it",
		"low imports " + module + "high; docs/architecture.md does not allow it",
		"low imports example.com/m/sub; docs/architecture.md does not allow it",
	}
	if diff := cmp.Diff(want, check(imports, ours, others)); diff != "" {
		t.Errorf("check() mismatch (-want +got):\n%s", diff)
	}
}
