package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/retry"
)

// envWorker makes the test binary a worker process; its value is a [workerConfig].
const envWorker = "RMQKIT_INTEGRATION_WORKER"

// workerConfig says what a worker process does. It is a process of its own because it is killed.
type workerConfig struct {
	URL         string
	Ladder      retry.Ladder
	Concurrency int
	CrashLimit  int
}

// What a message asks its handler for, in its type property. Anything else is handled after
// a millisecond.
const (
	kindFlaky   = "flaky"   // fails until the third attempt
	kindPoison  = "poison"  // a permanent failure
	kindRefused = "refused" // fails always
	kindCrash   = "crash"   // kills its process
	kindSlow    = "slow"    // takes a second
)

// workerMain consumes until SIGTERM, and prints a line when a handler begins and when it ends.
func workerMain() int {
	var c workerConfig
	if err := json.Unmarshal([]byte(os.Getenv(envWorker)), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	say := func(words ...any) { _, _ = os.Stdout.WriteString(fmt.Sprintln(words...)) }
	w, err := consumer.New(consumer.Config{
		URL: c.URL, Ladder: c.Ladder, Concurrency: c.Concurrency, CrashLimit: c.CrashLimit,
		Name: "integration", Version: "v0",
		Handler: func(ctx context.Context, m *consumer.Message) error {
			say("begin", m.ID, m.Attempt)
			err := handle(ctx, m)
			say("end", m.ID, err == nil)
			return err
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func handle(ctx context.Context, m *consumer.Message) error {
	switch m.Type {
	case kindCrash:
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), context.Cause(ctx))
	case kindSlow:
		return pause(ctx, time.Second)
	case kindPoison:
		return consumer.Permanent(errors.New("poison"))
	case kindRefused:
		return errors.New("refused")
	case kindFlaky:
		if m.Attempt < 3 {
			return errors.New("flaky")
		}
	}
	return pause(ctx, time.Millisecond)
}

// pause takes a time, as the work of a handler would.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// worker is a running worker process.
type worker struct {
	cmd  *exec.Cmd
	read sync.WaitGroup
	end  func() error
	log  strings.Builder
}

// startWorker starts a worker process and calls on for each line it prints, from one goroutine, in
// words. It is killed when the test ends, if it still runs.
func startWorker(tb testing.TB, c workerConfig, on func(words []string)) *worker {
	tb.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	w := &worker{cmd: exec.Command(self)}
	w.cmd.Env = append(os.Environ(), envWorker+"="+string(config))
	w.cmd.Stderr = &w.log
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	w.read.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			on(strings.Fields(s.Text()))
		}
	})
	w.end = sync.OnceValue(func() error {
		w.read.Wait()
		return w.cmd.Wait()
	})
	tb.Cleanup(func() {
		w.kill()
		if tb.Failed() && w.log.Len() > 0 {
			tb.Logf("the worker said:\n%s", w.log.String())
		}
	})
	return w
}

// kill ends the process at once and returns when it has ended and all its lines were read.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.end()
}

// stop ends the process in good order.
func (w *worker) stop(tb testing.TB) {
	tb.Helper()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.end(); err != nil {
		tb.Errorf("the worker ended with %v", err)
	}
}

// run consumes the work queue in this process until the test ends or the returned function is called.
func (w *world) run(tb testing.TB, c consumer.Config) (running *consumer.Worker, stop func()) {
	tb.Helper()
	c.URL, c.Ladder = w.url, w.ladder
	if c.Name == "" {
		c.Name, c.Version = "integration", "v0"
	}
	c.Logger = slog.New(slog.NewTextHandler(testLog{tb}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	running, err := consumer.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("Run() = %v", err)
		}
	})
	tb.Cleanup(stop)
	return running, stop
}

// testLog writes a log to a test.
type testLog struct{ tb testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.tb.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func awaitReady(tb testing.TB, w *consumer.Worker, within time.Duration) {
	tb.Helper()
	eventually(tb, within, func() error {
		if ok, why := w.Ready(); !ok {
			return fmt.Errorf("not ready: %s", why)
		}
		return nil
	})
}
