// Package integration tests the whole of rmqkit against real brokers: every version, classic and quorum
// queues. See package brokertest for which brokers and how to choose them.
package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(envWorker) != "" {
		os.Exit(workerMain())
	}
	// Go runs as many tests at once as there are processors, and these mostly wait.
	parallel := flag.Lookup("test.parallel")
	flag.Parse()
	if parallel.Value.String() == parallel.DefValue {
		_ = flag.Set("test.parallel", "8")
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir := binaries.dir; dir != "" {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// binaries are the commands of the module, built once.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// rmqProvision returns the path of the command, built from this tree.
func rmqProvision(tb testing.TB) string {
	tb.Helper()
	binaries.once.Do(func() {
		if binaries.dir, binaries.err = os.MkdirTemp("", "rmqkit-integration-"); binaries.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", binaries.dir+"/", "../cmd/rmq-provision").CombinedOutput()
		if err != nil {
			binaries.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if binaries.err != nil {
		tb.Fatal(binaries.err)
	}
	return filepath.Join(binaries.dir, "rmq-provision")
}
