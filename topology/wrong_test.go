package topology_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rmqkit/rmqkit/topology"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// environment is what the files in testdata find.
func environment(name string) (string, bool) {
	v, ok := map[string]string{"ORDERS_MAX": "lots", "ORDERS_NUMBER": "100", "ORDERS_DELAY": "3s", "EMPTY": ""}[name]
	return v, ok
}

var parser = topology.Parser{LookupEnv: environment}

// golden compares got with the file, or rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", file, diff)
	}
}

// Each file in testdata/wrong is a way to write a wrong topology.yaml; beside it stands what is said
// about it.
func TestParse_WrongFile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d files in testdata/wrong, %v; want at least 40", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			topo, err := parser.Parse(name+".yaml", data)
			var ds topology.Diagnostics
			if !errors.As(err, &ds) || topo != nil {
				t.Fatalf("Parse() = %v, %v; want no topology and diagnostics", topo, err)
			}
			checkPositions(t, string(data), ds)
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", ds.Error()+"\n")
		})
	}
}
