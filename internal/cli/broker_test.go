package cli

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// TestBrokerScripts runs the scripts that need a broker, each in a vhost of its own.
func TestBrokerScripts(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		runScript(t, b, "testdata/broker/apply.txtar")
	})
}

// TestConnectScript runs on one broker: what the others say is in the tests of internal/rabbit.
func TestConnectScript(t *testing.T) {
	t.Parallel()
	versions := brokertest.Versions()
	runScript(t, brokertest.Start(t, versions[len(versions)-1]), "testdata/broker/connect.txtar")
}

func runScript(t *testing.T, b *brokertest.Broker, script string) {
	t.Helper()
	first, second := b.VHost(t), b.VHost(t)
	testscript.Run(t, testscript.Params{
		Files:               []string{script},
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			u, err := url.Parse(first)
			if err != nil {
				return err
			}
			e.Setenv("RMQ_URL", first)
			e.Setenv("HOST", u.Host)
			e.Setenv("VHOST", vhostOf(first))
			e.Setenv("OTHER_VHOST", vhostOf(second))
			return nil
		},
	})
}

func vhostOf(brokerURL string) string {
	u, err := url.Parse(brokerURL)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

// A broker that cannot be had is one line, exit code 1 and no password.
func TestApplyWithoutABroker(t *testing.T) {
	t.Parallel()
	secure := listenTLS(t)
	file := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nname: orders\nqueues:\n  orders: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ url, want string }{
		"nothing listens":           {"amqp://u:geheim@127.0.0.1:1/", "connect to 127.0.0.1:1: nothing listens there"},
		"no such host":              {"amqp://u:geheim@broker.invalid/", "connect to broker.invalid:5672: "},
		"an unknown authority":      {"amqps://u:geheim@" + secure + "/", "connect to " + secure + ": TLS does not match"},
		"a TLS port without TLS":    {"amqp://u:geheim@" + secure + "/", "a port that wants TLS"},
		"not a URL":                 {"http://u:geheim@127.0.0.1/", "not a broker URL"},
		"not a URL at all":          {"amqp://u:ge%heim@127.0.0.1/", "not a broker URL"},
		"a port that is no number":  {"amqp://u:geheim@127.0.0.1:x/", "not a broker URL"},
		"a password without escape": {"amqp://u:ge/heim@127.0.0.1/", "not a broker URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"apply", "-f", file}, {"apply", "--dry-run", "-f", file}} {
				env, stdout, stderr := testEnv(map[string]string{"RMQ_URL": tt.url}, args...)
				code := Provision(t.Context(), env)
				text := stderr.String()
				if code != 1 || stdout.Len() > 0 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "rmq-provision: ") || !strings.Contains(text, tt.want) {
					t.Errorf("%v: exit code %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, text, tt.want)
				}
				if strings.Contains(text, "heim") {
					t.Errorf("%v: stderr %q holds the password", args, text)
				}
			}
		})
	}
}

// SIGTERM ends a command that waits, with exit code 1.
func TestSignal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nname: orders\nqueues:\n  orders: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "rmq-provision", "apply", "--wait", "10m", "-f", file)
	cmd.Env = append(os.Environ(), "RMQ_URL=amqp://u:geheim@127.0.0.1:1/")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	// The first line says that it waits, so the handler is in place.
	lines.Scan()
	text := lines.Text()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		text += "\n" + lines.Text()
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("Wait() = %v; want exit code 1", err)
	}
	if !strings.Contains(text, "\nrmq-provision: interrupted") || strings.Contains(text, "geheim") {
		t.Errorf("stderr is %q", text)
	}
}

// listenTLS returns the address of a server that speaks TLS with a certificate that nobody trusts.
func listenTLS(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = conn.Read(make([]byte, 1))
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}
