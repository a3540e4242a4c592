package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/internal/brokertest"
)

const password = "hunter2-secret"

// wantOneLine checks that a command failed with one clear line and told no password.
func wantOneLine(tb testing.TB, r result, want ...string) {
	tb.Helper()
	if r.code != 1 {
		tb.Errorf("exit %d, want 1", r.code)
	}
	if strings.Contains(r.stdout+r.stderr, password) {
		tb.Errorf("the password is in the output:\n%s%s", r.stdout, r.stderr)
	}
	if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		tb.Errorf("want one line on stderr and nothing on stdout; stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
	for _, w := range want {
		if !strings.Contains(r.stderr, w) {
			tb.Errorf("the line does not say %q: %s", w, r.stderr)
		}
	}
	tb.Log(strings.TrimSpace(r.stderr))
}

// withUser returns a broker URL with another user and password.
func withUser(tb testing.TB, brokerURL, user string) string {
	tb.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		tb.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// What keeps apply from working at all is one clear line.
func TestABrokerThatCannotBeUsedIsOneClearLine(t *testing.T) {
	t.Parallel()
	file := yaml("quorum", twoTiers)
	t.Run("nothing listens", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		_ = l.Close()
		url := "amqp://guest:" + password + "@" + address + "/"
		wantOneLine(t, runProvision(t, url, file, "apply"), address)
		// While it waits it says so, and why.
		start := time.Now()
		r := runProvision(t, url, file, "apply", "--wait", "1s")
		took := time.Since(start)
		waiting, rest, _ := strings.Cut(r.stderr, "\n")
		if !strings.Contains(waiting, "waiting for the broker") {
			t.Errorf("it does not say that it waits: %s", waiting)
		}
		r.stderr = rest
		wantOneLine(t, r, address)
		if took < time.Second || took > 10*time.Second {
			t.Errorf("it took %v with --wait 1s", took)
		}
	})
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		start := time.Now()
		r := runProvision(t, "amqp://guest:"+password+"@"+l.Addr().String()+"/", file, "apply", "--wait", "1s")
		wantOneLine(t, r, l.Addr().String())
		if took := time.Since(start); took > 30*time.Second {
			// 1 s, and 10 s for a try that was under way then.
			t.Errorf("it took %v with --wait 1s", took)
		}
	})
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		w := emptyWorld(t, b, file)
		c := b.Management(t)
		if err := c.PutUser(t.Context(), "stranger", password); err != nil {
			t.Fatal(err)
		}
		// They do not get better by waiting, so there is no waiting.
		start := time.Now()
		wantOneLine(t, runProvision(t, withUser(t, w.url, "nobody"), file, "apply"), "nobody")
		wantOneLine(t, runProvision(t, withUser(t, w.url, "stranger"), file, "apply"), "vhost", "stranger")
		missing := brokertest.WithVHost(t, b.URL, "no/such %")
		wantOneLine(t, runProvision(t, missing, file, "apply"), `"no/such %"`)
		wantOneLine(t, runProvision(t, strings.Replace(w.url, "amqp://", "amqps://", 1), file, "apply"), "TLS")
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("four refusals took %v", took)
		}
	})
}

// authority makes certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rmqkit test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	a := &authority{key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	return a
}

// issue makes a certificate for a name, good for server and client, and its key, as PEM.
func (a *authority) issue(tb testing.TB, name string) (certificate, key []byte) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// write puts a file into the test's own directory and returns its path.
func write(tb testing.TB, dir, name string, content []byte) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// A broker that wants TLS and a client's certificate: apply works with both, and every mismatch is one
// clear line. It has no management plugin, which nothing of ours needs.
func TestTLSWithoutManagement(t *testing.T) {
	t.Parallel()
	a, other, dir := newAuthority(t), newAuthority(t), t.TempDir()
	serverCert, serverKey := a.issue(t, "localhost")
	clientCert, clientKey := a.issue(t, "client")
	strangerCert, strangerKey := other.issue(t, "client")
	options := brokertest.PrivateOptions{
		Plugins: []string{},
		Ports:   []string{"5671/tcp"},
		Files:   map[string]string{"ca.pem": string(a.pem), "server.pem": string(serverCert), "server.key": string(serverKey)},
		Config: "listeners.ssl.default = 5671\nssl_options.cacertfile = /etc/rabbitmq/ca.pem\nssl_options.certfile = /etc/rabbitmq/server.pem\n" +
			"ssl_options.keyfile = /etc/rabbitmq/server.key\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
	}
	ca, otherCA := write(t, dir, "ca.pem", a.pem), write(t, dir, "other.pem", other.pem)
	cert, key := write(t, dir, "client.pem", clientCert), write(t, dir, "client.key", clientKey)
	badCert, badKey := write(t, dir, "stranger.pem", strangerCert), write(t, dir, "stranger.key", strangerKey)
	file := yaml("quorum", twoTiers)
	brokertest.EachPrivate(t, options, func(t *testing.T, b *brokertest.Broker) {
		_, port, err := net.SplitHostPort(b.HostPort(t, "5671/tcp"))
		if err != nil {
			t.Fatal(err)
		}
		_, plain, err := net.SplitHostPort(b.HostPort(t, "5672/tcp"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run("without management", func(t *testing.T) { appliesWithoutManagement(t, b) })
		apply := func(url string, args ...string) result {
			return runProvision(t, url, file, append([]string{"apply"}, args...)...)
		}
		secure := "amqps://guest:guest@localhost:" + port + "/"
		with := []string{"--ca-file", ca, "--cert-file", cert, "--key-file", key}
		if r := apply(secure, with...); r.code != 0 {
			t.Errorf("with all that is needed: exit %d\n%s", r.code, r.stderr)
		}
		for name, r := range map[string]result{
			"TLS to a plain port":                  apply("amqps://guest:"+password+"@localhost:"+plain+"/", with...),
			"plain to a TLS port":                  apply("amqp://guest:" + password + "@localhost:" + port + "/"),
			"the system's authorities":             apply(strings.Replace(secure, "guest@", password+"@", 1), "--cert-file", cert, "--key-file", key),
			"another authority":                    apply(strings.Replace(secure, "guest@", password+"@", 1), "--ca-file", otherCA, "--cert-file", cert, "--key-file", key),
			"another name":                         apply(strings.Replace(secure, "localhost", "127.0.0.1", 1), with...),
			"no client certificate":                apply(secure, "--ca-file", ca),
			"a client certificate of someone else": apply(secure, "--ca-file", ca, "--cert-file", badCert, "--key-file", badKey),
			"wrong password":                       apply("amqps://guest:"+password+"@localhost:"+port+"/", with...),
		} {
			t.Run(name, func(t *testing.T) {
				want := "TLS"
				if name == "wrong password" {
					want = `user "guest"`
				}
				wantOneLine(t, r, want)
			})
		}
	})
}
