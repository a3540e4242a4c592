package rabbit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "pa55word"

func TestCheckSaysWhatIsWrongWithoutThePassword(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		c    rabbit.Config
		want error
	}{
		"nothing":                      {rabbit.Config{}, rabbit.ErrBadURL},
		"another scheme":               {rabbit.Config{URL: "http://u:" + secret + "@localhost"}, rabbit.ErrBadURL},
		"no scheme":                    {rabbit.Config{URL: "u:" + secret + "@localhost:5672"}, rabbit.ErrBadURL},
		"a space":                      {rabbit.Config{URL: "amqp://u:" + secret + "@local host"}, rabbit.ErrBadURL},
		"a bad escape":                 {rabbit.Config{URL: "amqp://u:" + secret + "%zz@localhost"}, rabbit.ErrBadURL},
		"a port that is a word":        {rabbit.Config{URL: "amqp://u:" + secret + "@localhost:amqp"}, rabbit.ErrBadURL},
		"a slash in the password":      {rabbit.Config{URL: "amqp://u:a/" + secret + "@localhost"}, rabbit.ErrBadURL},
		"port 0":                       {rabbit.Config{URL: "amqp://u:" + secret + "@localhost:0"}, rabbit.ErrBadURL},
		"port 65536":                   {rabbit.Config{URL: "amqp://u:" + secret + "@localhost:65536"}, rabbit.ErrBadURL},
		"a bad heartbeat":              {rabbit.Config{URL: "amqp://u:" + secret + "@localhost?heartbeat=x"}, rabbit.ErrBadURL},
		"a long vhost":                 {rabbit.Config{URL: "amqp://u:" + secret + "@localhost", VHost: strings.Repeat("v", 256)}, rabbit.ErrBadURL},
		"a control character":          {rabbit.Config{URL: "amqp://u:" + secret + "@localhost\n"}, rabbit.ErrBadURL},
		"half a certificate":           {rabbit.Config{URL: "amqps://u:" + secret + "@localhost", CertFile: "x"}, rabbit.ErrTLS},
		"certificates and no TLS":      {rabbit.Config{URL: "amqp://u:" + secret + "@localhost", CAFile: "x"}, rabbit.ErrTLS},
		"all right":                    {rabbit.Config{URL: "amqp://u:" + secret + "@localhost:5672/%2Fv"}, nil},
		"all right, with TLS and IPv6": {rabbit.Config{URL: "amqps://[::1]/", CAFile: "ca", CertFile: "c", KeyFile: "k"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := row.c.Check()
			if !errors.Is(err, row.want) {
				t.Fatalf("Check() = %v, want %v", err, row.want)
			}
			if err == nil {
				return
			}
			oneLine(t, err)
			if rabbit.Temporary(err) {
				t.Error("it is said to be temporary")
			}
			if _, dialErr := rabbit.Dial(t.Context(), row.c); !errors.Is(dialErr, row.want) {
				t.Errorf("Dial() = %v, want %v", dialErr, row.want)
			}
		})
	}
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if s := err.Error(); strings.Contains(s, secret) || strings.ContainsAny(s, "\r\n") {
		t.Errorf("the error has the password or several lines: %q", s)
	}
}

// dial dials and returns the error, which must be there.
func dial(t *testing.T, ctx context.Context, c rabbit.Config) error {
	t.Helper()
	conn, err := rabbit.Dial(ctx, c)
	if err == nil {
		rabbit.Close(conn, time.Second)
		t.Fatal("Dial() succeeds")
	}
	oneLine(t, err)
	t.Log(err)
	return err
}

func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error does not say %q: %v", p, err)
		}
	}
}

// serve accepts one connection after the other and answers with handle.
func serve(t *testing.T, l net.Listener, handle func(net.Conn)) string {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDialWhereNothingListens(t *testing.T) {
	t.Parallel()
	l := listen(t)
	addr := l.Addr().String()
	_ = l.Close()
	err := dial(t, t.Context(), rabbit.Config{URL: "amqp://u:" + secret + "@" + addr})
	wants(t, err, addr, "nothing listens")
	if !rabbit.Temporary(err) {
		t.Error("a broker that is down is not temporary")
	}
}

// TestDialEndsInTime: a server that accepts and says nothing must not hold a dial.
func TestDialEndsInTime(t *testing.T) {
	t.Parallel()
	for name, scheme := range map[string]string{"amqp": "amqp", "amqps": "amqps"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, listen(t), func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
			began := time.Now()
			err := dial(t, t.Context(), rabbit.Config{URL: scheme + "://u:" + secret + "@" + addr, Timeout: 200 * time.Millisecond})
			wants(t, err, "no answer in time")
			if took := time.Since(began); took > 5*time.Second || !rabbit.Temporary(err) {
				t.Errorf("took %v, temporary %v", took, rabbit.Temporary(err))
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if err := dial(t, ctx, rabbit.Config{URL: scheme + "://u:" + secret + "@" + addr, Timeout: time.Hour}); !errors.Is(err, context.Canceled) {
				t.Errorf("Dial() = %v, want that it was cancelled", err)
			}
		})
	}
}

func TestDialOfWhatIsNoBroker(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ answer, want string }{
		"a closed door": {"", "without a word"},
		"a web server":  {"HTTP/1.1 400 Bad Request\r\n\r\n", "not AMQP"},
		"a broker that dies after connection.start": {
			"\x01\x00\x00\x00\x00\x00\x1c\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00" +
				"\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US\xce", "without a word",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, listen(t), func(c net.Conn) {
				_, _ = io.ReadFull(c, make([]byte, 8))
				_, _ = io.WriteString(c, row.answer)
			})
			err := dial(t, t.Context(), rabbit.Config{URL: "amqp://u:" + secret + "@" + addr})
			wants(t, err, row.want)
			if !rabbit.Temporary(err) {
				t.Error("it is not temporary")
			}
		})
	}
}

// pki is an authority and a certificate for 127.0.0.1 that it has signed, as PEM.
type pki struct {
	ca, cert, key []byte
	caFile        string
	pair          tls.Certificate
}

func newPKI(t *testing.T) pki {
	t.Helper()
	sign := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, signer = template, key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	root, rootKey, caPEM := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	_, key, certPEM := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, root, rootKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := pki{ca: caPEM, cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), caFile: write(t, "ca.pem", caPEM)}
	if p.pair, err = tls.X509KeyPair(p.cert, p.key); err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTLSMismatch(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	cert, ca, otherCA := p.pair, p.caFile, newPKI(t).caFile
	// As Erlang does with what is no TLS; Go's server closes without a word.
	erlang := serve(t, listen(t), func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 8))
		_, _ = c.Write([]byte{0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x0a})
	})
	secure := serve(t, tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 8))
	})
	demanding := serve(t, tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}), func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 8))
	})
	plain := serve(t, listen(t), func(c net.Conn) {
		// As RabbitMQ does with what is no AMQP header.
		_, _ = io.ReadFull(c, make([]byte, 8))
		_, _ = io.WriteString(c, "AMQP\x00\x00\x09\x01")
	})
	_, port, _ := net.SplitHostPort(secure)
	for name, row := range map[string]struct {
		c    rabbit.Config
		want string
	}{
		"plain to a TLS port":            {rabbit.Config{URL: "amqp://u:" + secret + "@" + erlang}, "use amqps://"},
		"TLS to a plain port":            {rabbit.Config{URL: "amqps://u:" + secret + "@" + plain, CAFile: ca}, "does not speak TLS"},
		"an authority nobody knows":      {rabbit.Config{URL: "amqps://u:" + secret + "@" + secure}, "CA file"},
		"another authority":              {rabbit.Config{URL: "amqps://u:" + secret + "@" + secure, CAFile: otherCA}, "CA file"},
		"another host":                   {rabbit.Config{URL: "amqps://u:" + secret + "@localhost:" + port, CAFile: ca}, "localhost"},
		"no CA file there":               {rabbit.Config{URL: "amqps://u:" + secret + "@" + secure, CAFile: ca + "x"}, "no such file"},
		"a CA file without certificates": {rabbit.Config{URL: "amqps://u:" + secret + "@" + secure, CAFile: write(t, "x", []byte("x"))}, "no PEM certificate"},
		"a bad client certificate":       {rabbit.Config{URL: "amqps://u:" + secret + "@" + secure, CertFile: ca, KeyFile: ca}, "private key"},
		"no client certificate":          {rabbit.Config{URL: "amqps://u:" + secret + "@" + demanding, CAFile: ca}, "certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := dial(t, t.Context(), row.c)
			if !errors.Is(err, rabbit.ErrTLS) && name == "no client certificate" {
				wants(t, err, "wants a client certificate")
				return
			}
			wants(t, err, row.want)
			if !errors.Is(err, rabbit.ErrTLS) || rabbit.Temporary(err) {
				t.Errorf("Dial() = %v, want %v", err, rabbit.ErrTLS)
			}
		})
	}
}

func TestTheBrokersRefusals(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		conn, err := rabbit.Dial(t.Context(), rabbit.Config{URL: url, Name: "a name"})
		if err != nil {
			t.Fatal(err)
		}
		rabbit.Close(conn, time.Second)

		c := b.Management(t)
		user := "u-" + brokertest.VHostName(t, url)[2:8]
		if err := c.PutUser(t.Context(), user, secret); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.DeleteUser(context.WithoutCancel(t.Context()), user) })
		addr := url[strings.Index(url, "@")+1:]
		addr = addr[:strings.Index(addr, "/")]
		for name, row := range map[string]struct {
			c    rabbit.Config
			want error
		}{
			"wrong password":         {rabbit.Config{URL: "amqp://" + user + ":" + secret + "x@" + addr}, rabbit.ErrCredentials},
			"unknown user":           {rabbit.Config{URL: "amqp://nobody:" + secret + "@" + addr}, rabbit.ErrCredentials},
			"unknown vhost":          {rabbit.Config{URL: "amqp://" + user + ":" + secret + "@" + addr + "/nope"}, rabbit.ErrVHost},
			"no access to the vhost": {rabbit.Config{URL: "amqp://" + user + ":" + secret + "@" + addr, VHost: brokertest.VHostName(t, url)}, rabbit.ErrVHost},
			"TLS to its plain port":  {rabbit.Config{URL: "amqps://" + user + ":" + secret + "@" + addr}, rabbit.ErrTLS},
		} {
			t.Run(name, func(t *testing.T) {
				err := dial(t, t.Context(), row.c)
				if !errors.Is(err, row.want) || rabbit.Temporary(err) {
					t.Errorf("Dial() = %v, want %v", err, row.want)
				}
			})
		}
	})
}

func TestDialWithTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	ca, certFile, keyFile := p.caFile, write(t, "cert.pem", p.cert), write(t, "key.pem", p.key)
	brokertest.EachPrivate(t, brokertest.PrivateOptions{
		Ports: []string{"5671/tcp"},
		Files: map[string]string{"ca.pem": string(p.ca), "cert.pem": string(p.cert), "key.pem": string(p.key)},
		Config: `listeners.ssl.default = 5671
ssl_options.cacertfile = /etc/rabbitmq/ca.pem
ssl_options.certfile = /etc/rabbitmq/cert.pem
ssl_options.keyfile = /etc/rabbitmq/key.pem
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true`,
	}, func(t *testing.T, b *brokertest.Broker) {
		addr := b.HostPort(t, "5671/tcp")
		for name, c := range map[string]rabbit.Config{
			"by files": {URL: "amqps://guest:guest@" + addr, CAFile: ca, CertFile: certFile, KeyFile: keyFile},
			"by URL":   {URL: "amqps://guest:guest@" + addr + "/?cacertfile=" + ca + "&certfile=" + certFile + "&keyfile=" + keyFile},
		} {
			// The TLS listener comes a little after the other.
			backoff := rabbit.Backoff{Max: time.Second}
			conn, err := rabbit.Dial(t.Context(), c)
			for ; err != nil && rabbit.Temporary(err); conn, err = rabbit.Dial(t.Context(), c) {
				if backoff.Wait(t.Context()) != nil {
					break
				}
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rabbit.Close(conn, time.Second)
		}
		err := dial(t, t.Context(), rabbit.Config{URL: "amqp://guest:" + secret + "@" + addr})
		if !errors.Is(err, rabbit.ErrTLS) {
			t.Errorf("plain to a TLS port: %v", err)
		}
		err = dial(t, t.Context(), rabbit.Config{URL: "amqps://guest:" + secret + "@" + addr, CAFile: ca})
		if !errors.Is(err, rabbit.ErrTLS) {
			// The alert got lost behind the closing socket.
			wants(t, err, "client certificate")
		}
	})
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"amqp://u:" + secret + "@h:1/v": "amqp://u:xxxxx@h:1/v",
		"amqp://u@h":                    "amqp://u@h",
		"u:" + secret + "@h":            "(not a URL)",
		"amqp://u:%zz" + secret + "@h":  "(not a URL)",
	} {
		if got := rabbit.Redacted(in); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", in, got, want)
		}
	}
}
