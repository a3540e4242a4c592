package brokertest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// PrivateOptions say what is special about a broker of one's own. The zero value is the same as the
// shared brokers.
type PrivateOptions struct {
	// Config is lines for rabbitmq.conf.
	Config string
	// Plugins are those that are on. Nil means all that tests need; empty means none at all.
	Plugins []string
	// Files are the contents of files in /etc/rabbitmq, by name.
	Files map[string]string
	// Ports are published beside those of AMQP and the management API, such as "5671/tcp".
	Ports []string
}

// Private starts a broker for one test, which may kill it, restart it or make it run full. It is
// removed when the test ends.
func Private(tb testing.TB, version string, o PrivateOptions) *Broker {
	tb.Helper()
	skipIfOff(tb)
	if os.Getenv("RMQ_TEST_URL") != "" {
		tb.Skip("needs a broker of its own, and RMQ_TEST_URL gives one that others use")
	}
	pool, err := connect()
	if err != nil {
		tb.Fatalf("broker %s: %v", version, err)
	}
	c, err := run(pool, spec{version: version, options: o, private: true})
	if err != nil {
		tb.Fatalf("broker %s: %v", version, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the log of broker %s ends with:\n%s", version, c.log())
		}
		if err := pool.Purge(c.resource); err != nil {
			tb.Errorf("remove broker %s: %v", version, err)
		}
		pool.Client.HTTPClient.CloseIdleConnections()
	})
	b := c.broker()
	b.noManagement = o.Plugins != nil && !slices.Contains(o.Plugins, "rabbitmq_management")
	if err := b.wait(); err != nil {
		tb.Fatalf("broker %s: %v", version, err)
	}
	return b
}

// EachPrivate runs a test in parallel on a broker of its own of every version.
func EachPrivate(t *testing.T, o PrivateOptions, test func(t *testing.T, b *Broker)) {
	t.Helper()
	skipIfOff(t)
	for _, v := range Versions() {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			test(t, Private(t, v, o))
		})
	}
}

// command returns what a container runs and its environment. The configuration is written by the
// container itself: a mount would need Docker on the same machine.
func (o PrivateOptions) command() (cmd, env []string) {
	plugins := o.Plugins
	if plugins == nil {
		plugins = []string{"rabbitmq_management", "rabbitmq_consistent_hash_exchange", "rabbitmq_random_exchange", "rabbitmq_shovel"}
	}
	files := map[string]string{
		"enabled_plugins": "[" + strings.Join(plugins, ",") + "].\n",
		// Counts in the management API are samples; 5 s is long for a test.
		"rabbitmq.conf": "loopback_users = none\nlog.console = true\nlog.console.level = info\nlog.file = false\ncollect_statistics_interval = 1000\n" + o.Config + "\n",
	}
	maps.Copy(files, o.Files)
	var script strings.Builder
	env = []string{
		"RABBITMQ_NODENAME=rabbit@localhost",
		"RABBITMQ_LOGS=-",
		// Erlang's schedulers spin when idle, and tests of time share the processors with them.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none",
	}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&script, "printf %%s \"$RMQKIT_FILE_%d\" >'/etc/rabbitmq/%s' && ", i, name)
		env = append(env, fmt.Sprintf("RMQKIT_FILE_%d=%s", i, files[name]))
	}
	// The shell stays process 1: timeout(1) of coreutils 9.7 ends its child at once where it is that itself.
	fmt.Fprintf(&script, "{ timeout -s TERM %d rabbitmq-server & pid=$!; trap 'kill -TERM $pid' TERM; wait $pid; wait $pid; }", int(lifetime.Seconds()))
	return []string{"sh", "-c", script.String()}, env
}

// HostPort returns where a published port of the broker's container is reached.
func (b *Broker) HostPort(tb testing.TB, port string) string {
	tb.Helper()
	return b.own(tb).resource.GetHostPort(port)
}

// Exec runs a command in the broker's container and returns what it printed.
func (b *Broker) Exec(tb testing.TB, command ...string) string {
	tb.Helper()
	c := b.own(tb)
	var out bytes.Buffer
	code, err := c.resource.Exec(command, dockertest.ExecOptions{StdOut: &out, StdErr: &out})
	c.pool.Client.HTTPClient.CloseIdleConnections()
	if err != nil || code != 0 {
		tb.Fatalf("%s: exit %d, %v\n%s", strings.Join(command, " "), code, err, &out)
	}
	return out.String()
}

// Kill ends the broker with SIGKILL, as a power cut would.
func (b *Broker) Kill(tb testing.TB) { b.signal(tb, docker.SIGKILL) }

// Stop ends the broker in good order.
func (b *Broker) Stop(tb testing.TB) { b.signal(tb, docker.SIGTERM) }

func (b *Broker) signal(tb testing.TB, s docker.Signal) {
	tb.Helper()
	c := b.own(tb)
	id := c.resource.Container.ID
	if err := c.pool.Client.KillContainer(docker.KillContainerOptions{ID: id, Signal: s}); err != nil {
		tb.Fatal(err)
	}
	if _, err := c.pool.Client.WaitContainer(id); err != nil {
		tb.Fatal(err)
	}
}

// Restart starts the broker after [Broker.Kill] or [Broker.Stop], on the same ports and with the same
// data, and waits until it is ready.
func (b *Broker) Restart(tb testing.TB) {
	tb.Helper()
	c := b.own(tb)
	if err := c.pool.Client.StartContainer(c.resource.Container.ID, nil); err != nil {
		tb.Fatal(err)
	}
	if err := b.wait(); err != nil {
		tb.Fatal(err)
	}
}

func (b *Broker) own(tb testing.TB) *container {
	tb.Helper()
	if b.container == nil {
		tb.Skip("needs a broker in Docker, and RMQ_TEST_URL gives another")
	}
	return b.container
}
