package topology_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rmqkit/rmqkit/topology"
)

// FuzzParse: whatever the file holds, Parse returns; what is wrong has a place in the file, and what is
// right expands to a manifest that holds together.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/wrong/*.yaml", "testdata/right/*.yaml", "../topology.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		topo, err := parser.Parse("topology.yaml", data)
		if err != nil {
			var ds topology.Diagnostics
			if !errors.As(err, &ds) || len(ds) == 0 || topo != nil {
				t.Fatalf("Parse() = %v, %v; want no topology and diagnostics", topo, err)
			}
			checkPositions(t, string(data), ds)
			return
		}
		m := topo.Expand()
		checkManifest(t, topo, m)
		for _, version := range []string{"3.10.8", "4.3.6", "x"} {
			topo.CheckBroker(version)
		}
	})
}
