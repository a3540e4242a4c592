package architecture_test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/rmqkit/rmqkit/"

// TestImportsAreThoseOfTheTable compares what packages import with the tables of docs/architecture.md,
// in both directions: a package that is missing there fails, and so does a row without a package.
func TestImportsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := readTable(string(page), "imports")
	if err != nil {
		t.Fatal(err)
	}
	others, err := readTable(string(page), "modules")
	if err != nil {
		t.Fatal(err)
	}
	imports, err := readImports(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(imports))); diff != "" {
		t.Errorf("packages (-in docs/architecture.md +in the module):\n%s", diff)
	}
	for _, problem := range check(imports, ours, others) {
		t.Error(problem)
	}
}

// check returns every import that the tables do not allow, a line each.
func check(imports, ours, others map[string][]string) []string {
	var problems []string
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		for _, to := range imports[from] {
			allowed := false
			if name, ok := strings.CutPrefix(to, module); ok {
				allowed = slices.Contains(ours[from], name) || slices.Contains(ours[from], "anything")
			} else {
				for m, users := range others {
					allowed = allowed || (to == m || strings.HasPrefix(to, m+"/")) && slices.Contains(users, from)
				}
			}
			if !allowed {
				problems = append(problems, fmt.Sprintf("%s imports %s; docs/architecture.md does not allow it", from, to))
			}
		}
	}
	return problems
}

var code = regexp.MustCompile("`([^`]+)`")

// readTable returns the rows of a table between two comments of the page: first cell, and what is in the
// second.
func readTable(page, name string) (map[string][]string, error) {
	_, rest, begins := strings.Cut(page, "<!-- "+name+": begin -->")
	table, _, ends := strings.Cut(rest, "<!-- "+name+": end -->")
	if !begins || !ends {
		return nil, fmt.Errorf("docs/architecture.md has no table %q", name)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		key := code.FindStringSubmatch(cells[1])[1]
		if _, twice := rows[key]; twice {
			return nil, fmt.Errorf("table %q has two rows for %s", name, key)
		}
		rows[key] = nil
		switch cell := strings.TrimSpace(cells[2]); cell {
		case "nothing":
		case "anything":
			rows[key] = []string{cell}
		default:
			for _, m := range code.FindAllStringSubmatch(cell, -1) {
				rows[key] = append(rows[key], m[1])
			}
			if rows[key] == nil {
				return nil, fmt.Errorf("table %q, row %s: %q is neither nothing, anything nor a list", name, key, cell)
			}
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("table " + strconv.Quote(name) + " is empty")
	}
	return rows, nil
}

// readImports returns what each package of the module imports outside its tests, without the standard
// library. Folders with a go.mod of their own are other modules.
func readImports(root fs.FS) (map[string][]string, error) {
	imports := map[string][]string{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, own := fs.Stat(root, path.Join(name, "go.mod"))
			if name != "." && (strings.ContainsAny(d.Name()[:1], "._") || d.Name() == "testdata" || own == nil) {
				return fs.SkipDir
			}
			return nil
		}
		dir := path.Dir(name)
		if path.Ext(name) != ".go" {
			return nil
		}
		// A package of tests only is a package, too.
		imports[dir] = slices.Clone(imports[dir])
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, s := range f.Imports {
			to, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(to, "/")
			if strings.Contains(first, ".") && !slices.Contains(imports[dir], to) {
				imports[dir] = append(imports[dir], to)
			}
		}
		return nil
	})
	return imports, err
}
