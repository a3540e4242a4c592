package provision

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// files are what a client needs for TLS, or should not have.
type files struct {
	ca, other                 string
	clientCert, clientKey     string
	strangerCert, strangerKey string
}

// tlsBroker returns a broker that wants client certificates and has no plugin but management, and the
// files of its clients.
func tlsBroker(t testing.TB) (brokertest.PrivateOptions, files) {
	t.Helper()
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	serverCert, serverKey := ca.issue(t, "server", &x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil)
	client := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	f := files{ca: ca.file, other: other.file}
	f.clientCert, f.clientKey = ca.issue(t, "client", client, nil)
	f.strangerCert, f.strangerKey = other.issue(t, "stranger", client, nil)
	return brokertest.PrivateOptions{
		Plugins: []string{"rabbitmq_management"},
		Ports:   []string{"5671/tcp"},
		Files:   map[string]string{"ca.pem": read(t, ca.file), "server.pem": read(t, serverCert), "key.pem": read(t, serverKey)},
		Config: strings.Join([]string{
			"listeners.ssl.default = 5671",
			"ssl_options.cacertfile = /etc/rabbitmq/ca.pem",
			"ssl_options.certfile = /etc/rabbitmq/server.pem",
			"ssl_options.keyfile = /etc/rabbitmq/key.pem",
			"ssl_options.verify = verify_peer",
			"ssl_options.fail_if_no_peer_cert = true",
		}, "\n"),
	}, f
}

// What needs a broker of its own shares one of each version, since starting it takes longest.
func TestOnABrokerOfItsOwn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts brokers")
	}
	o, f := tlsBroker(t)
	brokertest.EachPrivate(t, o, func(t *testing.T, b *brokertest.Broker) {
		t.Run("TLS", func(t *testing.T) { testTLS(t, b, f) })
		t.Run("a missing exchange type", func(t *testing.T) { testMissingType(t, b) })
		t.Run("an alarm", func(t *testing.T) { testAlarm(t, b) })
	})
}

const plain = `
version: 1
name: orders
exchanges:
  orders: {type: topic}
queues:
  q: {bind: [{exchange: orders, key: a}], retry: {delays: [1s, DELAY]}}
`

func testTLS(t *testing.T, b *brokertest.Broker, f files) {
	u, err := url.Parse(b.VHost(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.Host = "amqps", b.HostPort(t, "5671/tcp")
	topo := parse(t, strings.ReplaceAll(plain, "DELAY", "2s"))
	for _, tc := range []struct {
		name          string
		ca, cert, key string
		fine          bool
	}{
		{"authority and client certificate", f.ca, f.clientCert, f.clientKey, true},
		{"no client certificate", f.ca, "", "", false},
		{"a stranger's client certificate", f.ca, f.strangerCert, f.strangerKey, false},
		{"another authority", f.other, f.clientCert, f.clientKey, false},
		{"the system's authorities", "", f.clientCert, f.clientKey, false},
		{"a certificate without its key", f.ca, f.clientCert, "", false},
		{"the key of another", f.ca, f.clientCert, f.strangerKey, false},
	} {
		o := Options{Rabbit: rabbit.Config{URL: u.String(), CAFile: tc.ca, CertFile: tc.cert, KeyFile: tc.key, Timeout: 20 * time.Second}, Wait: time.Minute}
		_, err := Apply(t.Context(), o, topo)
		if tc.fine {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		oneLine(t, err)
		if !errors.Is(err, rabbit.ErrTLS) {
			t.Errorf("%s: Apply() error = %v, want ErrTLS", tc.name, err)
		}
	}
	u.Scheme = "amqp"
	_, err = Apply(t.Context(), Options{Rabbit: rabbit.Config{URL: u.String(), Timeout: 3 * time.Second}}, topo)
	oneLine(t, err, "TLS")
}

// A broker without the plugin refuses to declare the exchange, by when half of the rest is there.
func testMissingType(t *testing.T, b *brokertest.Broker) {
	url := b.VHost(t)
	before := snapshot(t, b, url)
	_, err := Apply(t.Context(), onVHost(url), parse(t, `
version: 1
name: orders
exchanges:
  later: {type: x-delayed-message, arguments: {x-delayed-type: direct}}
queues:
  q: {retry: {delays: [1s, 2s], jitter: 20%}}
  r: {retry: {delays: [1s], jitter: {band: 20%, exchange: x-consistent-hash}}}
`))
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("Apply() error = %v; want ErrRefused", err)
	}
	for _, want := range []string{
		"rabbitmq-plugins enable rabbitmq_random_exchange",
		"rabbitmq-plugins enable rabbitmq_consistent_hash_exchange",
		"rabbitmq-plugins enable rabbitmq_delayed_message_exchange",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s, but %v", want, err)
		}
	}
	if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
		t.Errorf("apply was refused and changed (-before +after):\n%s", diff)
	}
	if _, err := Apply(t.Context(), onVHost(url), parse(t, strings.ReplaceAll(plain, "DELAY", "2s"))); err != nil {
		t.Errorf("without jitter: %v", err)
	}
}

// Under an alarm the broker takes no messages and stops to read what published one: a record cannot be
// written then, and nothing may be changed without.
func testAlarm(t *testing.T, b *brokertest.Broker) {
	url := b.VHost(t)
	if _, err := Apply(t.Context(), onVHost(url), parse(t, strings.ReplaceAll(plain, "DELAY", "2s"))); err != nil {
		t.Fatal(err)
	}
	changed := parse(t, strings.ReplaceAll(plain, "DELAY", "3s"))
	before := snapshot(t, b, url)
	b.Exec(t, "rabbitmqctl", "set_vm_memory_high_watermark", "0.00001")
	o := onVHost(url)
	o.answer = 2 * time.Second
	_, err := Apply(t.Context(), o, changed)
	oneLine(t, err, stepIntent, "under a memory or disk alarm", "apply again")
	b.Exec(t, "rabbitmqctl", "set_vm_memory_high_watermark", "0.6")
	if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
		t.Errorf("apply could not write its record and changed (-before +after):\n%s", diff)
	}
	if _, err := Apply(t.Context(), onVHost(url), changed); err != nil {
		t.Error(err)
	}
	if again, err := Preview(t.Context(), onVHost(url), changed); err != nil || again.Changed() {
		t.Errorf("Preview() after that = %+v, %v; want no changes", again, err)
	}
}
