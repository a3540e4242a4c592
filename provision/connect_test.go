package provision

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/management"
	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// nobodyThere returns a URL where nothing listens.
func nobodyThere(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "amqp://ann:hunter2@" + l.Addr().String() + "/"
}

// oneLine checks an error that an operator is to read.
func oneLine(t testing.TB, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	text := err.Error()
	if strings.Contains(text, "\n") || strings.Contains(text, "hunter2") {
		t.Errorf("error %q has several lines or a password", text)
	}
	for _, w := range wants {
		if !strings.Contains(text, w) {
			t.Errorf("error %q does not say %q", text, w)
		}
	}
}

func TestABrokerThatIsDownIsWaitedFor(t *testing.T) {
	t.Parallel()
	topo := parse(t, "version: 1\nname: orders\nqueues: {q: {}}\n")
	o := onVHost(nobodyThere(t))
	_, err := Apply(t.Context(), o, topo)
	oneLine(t, err, "127.0.0.1", "refused")
	o.Wait = 300 * time.Millisecond
	_, err = Apply(t.Context(), o, topo)
	oneLine(t, err, "waited 300ms for the broker", "refused")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o.Wait = time.Hour
	_, err = Apply(ctx, o, topo)
	oneLine(t, err, "wait for the broker", "deadline exceeded")
}

func TestABrokerThatComesUpIsUsed(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VHost(t)
		u, err := url.Parse(vhost)
		if err != nil {
			t.Fatal(err)
		}
		gate, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		to, at := u.Host, gate.Addr().String()
		gate.Close()
		u.Host = at
		o := onVHost(u.String())
		o.Wait = 30 * time.Second
		// The first try finds nobody.
		o.Logger = logTo(func() { forward(t, at, to) })
		if _, err := Apply(t.Context(), o, parse(t, typed(orders, "classic"))); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatWaitingDoesNotMendIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		topo := parse(t, "version: 1\nname: orders\nqueues: {q: {}}\n")
		u, err := url.Parse(b.VHost(t))
		if err != nil {
			t.Fatal(err)
		}
		wrong := *u
		wrong.User = url.UserPassword("nobody", "hunter2")
		for _, tc := range []struct {
			name string
			o    Options
			want error
		}{
			{"wrong credentials", Options{Rabbit: rabbit.Config{URL: wrong.String()}}, rabbit.ErrCredentials},
			{"an unknown vhost", Options{Rabbit: rabbit.Config{URL: u.String(), VHost: "there/is no such vhost"}}, rabbit.ErrVHost},
			{"no TLS on that port", Options{Rabbit: rabbit.Config{URL: strings.Replace(u.String(), "amqp:", "amqps:", 1), Timeout: 2 * time.Second}}, rabbit.ErrTLS},
			{"no URL", Options{Rabbit: rabbit.Config{URL: "http://ann:hunter2@h"}}, rabbit.ErrBadURL},
		} {
			tc.o.Wait = time.Hour
			_, err := Apply(t.Context(), tc.o, topo)
			oneLine(t, err)
			if !errors.Is(err, tc.want) {
				t.Errorf("%s: Apply() error = %v, want %v", tc.name, err, tc.want)
			}
		}
	})
}

// A deploy pipeline has no administrator: rights on its own names are enough, and reading where it
// binds.
func TestNoAdministratorIsNeeded(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VHost(t)
		c, name := b.Management(t), "deploy-"+rand.Text()
		if err := c.PutUser(t.Context(), name, "hunter2"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.DeleteUser(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
		may := func(p management.Permissions) {
			t.Helper()
			if err := c.PutPermissions(t.Context(), brokertest.VHostName(t, vhost), name, p); err != nil {
				t.Fatal(err)
			}
		}
		u, err := url.Parse(vhost)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(name, "hunter2")
		own := `^(orders|rmqkit)(\..*)?$`
		may(management.Permissions{Configure: own, Write: own, Read: own})
		ladder := strings.ReplaceAll(orders, "400ms", "500ms")
		for _, text := range []string{orders, ladder} {
			if _, err := Apply(t.Context(), onVHost(u.String()), parse(t, typed(text, "quorum"))); err != nil {
				t.Fatalf("with rights on its own names: %v", err)
			}
		}
		before := snapshot(t, b, vhost)
		may(management.Permissions{Configure: `^rmqkit\..*$`, Write: own, Read: own})
		_, err = Apply(t.Context(), onVHost(u.String()), parse(t, typed(orders, "quorum")))
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), `queue "orders.audit": 403 ACCESS_REFUSED`) {
			t.Errorf("without the right to configure: Apply() error = %v", err)
		}
		may(management.Permissions{Configure: `^orders.*$`, Write: own, Read: own})
		_, err = Apply(t.Context(), onVHost(u.String()), parse(t, typed(orders, "quorum")))
		oneLine(t, err, `take the lock "rmqkit.lock.orders"`, "403")
		if diff := gocmp.Diff(before, snapshot(t, b, vhost)); diff != "" {
			t.Errorf("apply was refused and changed (-before +after):\n%s", diff)
		}
	})
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// file holds the certificate.
	file string
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	a := authority{}
	certFile, _ := a.issue(t, name, &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, &a)
	a.file = certFile
	return a
}

// issue makes a certificate and its key, signed by a, and returns their files. self is for a's own.
func (a authority) issue(t testing.TB, name string, c *x509.Certificate, self *authority) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if self != nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if self != nil {
		if self.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		self.key = key
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts brokers")
	}
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	serverCert, serverKey := ca.issue(t, "server", &x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil)
	client := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	clientCert, clientKey := ca.issue(t, "client", client, nil)
	strangerCert, strangerKey := other.issue(t, "stranger", client, nil)
	o := brokertest.PrivateOptions{
		Ports: []string{"5671/tcp"},
		Files: map[string]string{"ca.pem": read(t, ca.file), "server.pem": read(t, serverCert), "key.pem": read(t, serverKey)},
		Config: strings.Join([]string{
			"listeners.ssl.default = 5671",
			"ssl_options.cacertfile = /etc/rabbitmq/ca.pem",
			"ssl_options.certfile = /etc/rabbitmq/server.pem",
			"ssl_options.keyfile = /etc/rabbitmq/key.pem",
			"ssl_options.verify = verify_peer",
			"ssl_options.fail_if_no_peer_cert = true",
		}, "\n"),
	}
	brokertest.EachPrivate(t, o, func(t *testing.T, b *brokertest.Broker) {
		u, err := url.Parse(b.VHost(t))
		if err != nil {
			t.Fatal(err)
		}
		u.Scheme, u.Host = "amqps", b.HostPort(t, "5671/tcp")
		topo := parse(t, typed(orders, "quorum"))
		for _, tc := range []struct {
			name          string
			ca, cert, key string
			fine          bool
		}{
			{"authority and client certificate", ca.file, clientCert, clientKey, true},
			{"no client certificate", ca.file, "", "", false},
			{"a stranger's client certificate", ca.file, strangerCert, strangerKey, false},
			{"another authority", other.file, clientCert, clientKey, false},
			{"the system's authorities", "", clientCert, clientKey, false},
			{"a certificate without its key", ca.file, clientCert, "", false},
			{"the key of another", ca.file, clientCert, strangerKey, false},
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
		plain := *u
		plain.Scheme = "amqp"
		_, err = Apply(t.Context(), Options{Rabbit: rabbit.Config{URL: plain.String(), Timeout: 3 * time.Second}}, topo)
		oneLine(t, err, "TLS")
	})
}
