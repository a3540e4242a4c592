package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/management"
)

// result is what a run of a command left.
type result struct {
	code           int
	stdout, stderr string
}

// provisionCommand is rmq-provision with a topology on its standard input.
func provisionCommand(ctx context.Context, tb testing.TB, url, file string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	tb.Helper()
	cmd = exec.CommandContext(ctx, rmqProvision(tb), append(args, "-f", "-")...)
	cmd.Env = append(os.Environ(), "RMQ_URL="+url)
	cmd.Stdin = strings.NewReader(file)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// runProvision runs rmq-provision to its end.
func runProvision(tb testing.TB, url, file string, args ...string) result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	cmd, stdout, stderr := provisionCommand(ctx, tb, url, file, args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// snapshot is everything that is defined in a vhost.
type snapshot struct {
	Exchanges []management.Exchange
	Queues    []management.Queue
	Bindings  []management.Binding
}

func (w *world) snapshot(tb testing.TB) snapshot {
	tb.Helper()
	return takeSnapshot(tb, w.broker, w.url)
}

func takeSnapshot(tb testing.TB, b *brokertest.Broker, url string) snapshot {
	tb.Helper()
	c, vhost := b.Management(tb), brokertest.VHostName(tb, url)
	var (
		s    snapshot
		errs [3]error
	)
	s.Exchanges, errs[0] = c.Exchanges(tb.Context(), vhost)
	s.Queues, errs[1] = c.Queues(tb.Context(), vhost)
	s.Bindings, errs[2] = c.Bindings(tb.Context(), vhost)
	if err := errors.Join(errs[:]...); err != nil {
		tb.Fatal(err)
	}
	for i, q := range s.Queues {
		s.Queues[i] = management.Queue{Name: q.Name, Type: q.Type, Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Arguments: q.Arguments}
	}
	// The lock goes with its connection, a moment after the command has ended.
	s.Queues = slices.DeleteFunc(s.Queues, func(q management.Queue) bool { return strings.HasPrefix(q.Name, "rmqkit.lock.") })
	s.Bindings = slices.DeleteFunc(s.Bindings, func(b management.Binding) bool { return strings.HasPrefix(b.Destination, "rmqkit.lock.") })
	slices.SortFunc(s.Queues, func(a, b management.Queue) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Exchanges, func(a, b management.Exchange) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Bindings, func(a, b management.Binding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return s
}

// A second apply finds everything in place, changes nothing and says so.
func TestASecondApplyChangesNothing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		file := yaml(queueType, "{delays: [2s, 8s, 30s], jitter: 20%}")
		w := emptyWorld(t, b, file)
		first := runProvision(t, w.url, file, "apply")
		if first.code != 0 {
			t.Fatalf("exit %d\n%s", first.code, first.stderr)
		}
		before := w.snapshot(t)
		second := runProvision(t, w.url, file, "apply")
		if second.code != 0 {
			t.Fatalf("second: exit %d\n%s", second.code, second.stderr)
		}
		if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
			t.Errorf("the second apply changed something (-before +after):\n%s", diff)
		}
		if report := w.apply(t); report.Changed() {
			t.Errorf("the third apply reports changes: %v", report.Changes)
		}
		if !strings.Contains(second.stdout, "nothing to change") || strings.Contains(second.stdout, "create") {
			t.Errorf("the second apply does not say that it had nothing to change:\n%s", second.stdout)
		}
	})
}

// Apply over objects that exist with other arguments is refused before anything is changed, and names
// the argument and both values.
func TestApplyOverAnotherTTLIsRefused(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		file := yaml(queueType, "{delays: [2s, 8s, 30s]}")
		w := emptyWorld(t, b, file)
		for i, q := range w.topo.Expand().Queues {
			if i == 0 || q.Arguments["x-message-ttl"] == nil {
				continue
			}
			// Two of three tiers have another TTL, to see that all are told.
			if ttl := q.Arguments["x-message-ttl"].(int64); ttl != 8000 {
				q.Arguments["x-message-ttl"] = ttl + 1
			}
			if _, err := w.admin.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, q.Arguments); err != nil {
				t.Fatal(err)
			}
		}
		before := w.snapshot(t)
		r := runProvision(t, w.url, file, "apply")
		if r.code != 4 {
			t.Errorf("exit %d, want 4", r.code)
		}
		if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
			t.Errorf("a refused apply changed something (-before +after):\n%s", diff)
		}
		out := r.stdout + r.stderr
		for _, want := range []string{"x-message-ttl", "2000", "2001", "30000", "30001", tierName(work+".retry.1.2s", queueType), tierName(work+".retry.3.30s", queueType)} {
			if !strings.Contains(out, want) {
				t.Errorf("the command does not say %q:\n%s", want, out)
			}
		}
		if strings.Contains(out, ".retry.2.8s") {
			t.Errorf("the command complains about a queue that is right:\n%s", out)
		}
	})
}

// Two applies at once both succeed, and everything is there once.
func TestTwoAppliesAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, queueType string) {
		file := yaml(queueType, "{delays: [2s, 8s, 30s], jitter: 20%}")
		w := emptyWorld(t, b, file)
		var commands [2]*exec.Cmd
		var said [2]*bytes.Buffer
		for i := range commands {
			commands[i], _, said[i] = provisionCommand(t.Context(), t, w.url, file, "apply")
			if err := commands[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		for i, cmd := range commands {
			if err := cmd.Wait(); err != nil {
				t.Errorf("apply: %v\n%s", err, said[i])
			}
		}
		if report := w.apply(t); report.Changed() {
			t.Errorf("an apply after both reports changes: %v", report.Changes)
		}
	})
}

// appliesWithoutManagement applies a ladder to a broker without the management plugin and changes it: the
// old bindings are known from the record alone.
func appliesWithoutManagement(t *testing.T, b *brokertest.Broker) {
	t.Helper()
	w := worldAt(t, b, b.URL, yaml("quorum", twoTiers))
	for _, spec := range []string{twoTiers, delays("100ms"), delays("100ms", "50ms", "150ms")} {
		file := yaml("quorum", spec)
		if r := runProvision(t, b.URL, file, "apply"); r.code != 0 {
			t.Fatalf("%s: exit %d\n%s", spec, r.code, r.stderr)
		}
		ladder, err := parse(t, file).Ladder(work)
		if err != nil {
			t.Fatal(err)
		}
		deliveries, stop := w.consumeUntil(t, work, 10)
		w.publish(t, exchange, key, numbered(1)...)
		for range len(ladder.Tiers) + 1 {
			if err := next(t, deliveries, 5*time.Second).Nack(false, false); err != nil {
				t.Fatal(err)
			}
		}
		w.take(t, dlq, 1, 5*time.Second)
		stop()
	}
}

// namesTheMissingPlugin applies ladders with jitter to a broker whose plugins for it are off: apply says
// so, changes nothing and names the command, which then helps.
func namesTheMissingPlugin(t *testing.T, b *brokertest.Broker) {
	t.Helper()
	file := func(jitter string) string { return yaml("quorum", "{delays: [300ms, 600ms], jitter: "+jitter+"}") }
	w := emptyWorld(t, b, file("20%"))
	before := w.snapshot(t)
	for plugin, jitter := range map[string]string{
		"rabbitmq_random_exchange":          "20%",
		"rabbitmq_consistent_hash_exchange": "{band: 20%, slots: 5, exchange: x-consistent-hash}",
	} {
		r := runProvision(t, w.url, file(jitter), "apply")
		command := "rabbitmq-plugins enable " + plugin
		if r.code != 4 || !strings.Contains(r.stderr+r.stdout, command) {
			t.Errorf("exit %d, want 4 and %q:\n%s", r.code, command, r.stderr)
		}
		if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
			t.Errorf("a refused apply changed something (-before +after):\n%s", diff)
		}
	}
	b.Exec(t, "rabbitmq-plugins", "enable", "rabbitmq_random_exchange")
	if r := runProvision(t, w.url, file("20%"), "apply"); r.code != 0 {
		t.Errorf("with the plugin: exit %d\n%s", r.code, r.stderr)
	}
}
