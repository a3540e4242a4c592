// Package rabbit is the one place for AMQP: it dials, explains why dialling did not work, publishes
// with confirms, and converts between the client library's types and plain maps.
package rabbit

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Config says how to reach a broker.
type Config struct {
	// URL is amqp:// or amqps://, with user and vhost.
	URL string
	// VHost replaces the vhost of URL where it is not empty.
	VHost string
	// CAFile is a PEM file with the authorities to trust instead of the system's. For amqps only.
	CAFile string
	// CertFile and KeyFile are PEM files with a client certificate. Both or neither; for amqps only.
	CertFile, KeyFile string
	// Name is shown as the connection's name by the broker's tools.
	Name string
	// Timeout bounds connecting and the handshake together. Zero means 10 s.
	Timeout time.Duration
	// Heartbeat is the interval of heartbeats. Zero means 10 s.
	Heartbeat time.Duration
}

// The reasons why a connection cannot be had that time does not mend. [Dial] wraps them.
var (
	ErrBadURL      = errors.New("not a broker URL")
	ErrCredentials = errors.New("the broker refused user and password")
	ErrVHost       = errors.New("the vhost does not exist or the user has no access to it")
	ErrTLS         = errors.New("TLS does not match")
)

// Temporary reports whether trying the same again later may work: everything but a bad URL, refused
// credentials, an unknown vhost and a TLS mismatch.
func Temporary(err error) bool {
	for _, e := range []error{ErrBadURL, ErrCredentials, ErrVHost, ErrTLS} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// Dial opens a connection. Its errors are one line, name the broker and never hold the password. The
// end of ctx ends a dial, whatever it waits for, and nothing later.
func Dial(ctx context.Context, c Config) (*amqp.Connection, error) {
	uri, err := parse(c)
	if err != nil {
		return nil, err
	}
	where := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
	cfg := amqp.Config{
		Vhost:      uri.Vhost,
		Heartbeat:  orDefault(c.Heartbeat, 10*time.Second),
		Properties: amqp.NewConnectionProperties(),
		Locale:     "en_US",
	}
	if c.Name != "" {
		cfg.Properties.SetClientConnectionName(c.Name)
	}
	if uri.Scheme == "amqps" {
		if cfg.TLSClientConfig, err = tlsConfig(c, uri); err != nil {
			return nil, fmt.Errorf("connect to %s: %w: %w", where, ErrTLS, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(c.Timeout, 10*time.Second), errTimeout)
	defer cancel()
	var (
		socket *sniffer
		stop   = func() bool { return true }
	)
	cfg.Dial = func(network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		socket = &sniffer{Conn: conn}
		// The library knows no context; closing the socket ends whatever it waits for.
		stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
		return socket, nil
	}
	conn, err := amqp.DialConfig(c.URL, cfg)
	if !stop() && err == nil {
		err = net.ErrClosed
	}
	if err != nil {
		if socket != nil {
			// The library leaves it open after some mistakes.
			_ = socket.Close()
		}
		return nil, fmt.Errorf("connect to %s: %w", where, explain(ctx, err, uri, socket))
	}
	return conn, nil
}

// Check reports what is wrong with a Config as far as that shows without I/O. Its errors wrap
// [ErrBadURL] or [ErrTLS] and never hold the password.
func (c Config) Check() error {
	_, err := parse(c)
	return err
}

func parse(c Config) (amqp.URI, error) {
	uri, err := amqp.ParseURI(c.URL)
	if err != nil {
		// The library's own error may quote the URL with its password.
		return amqp.URI{}, fmt.Errorf("%w: expected amqp://host:port/vhost or amqps://…, with user:password@ before the host, and what is not a letter or digit in them percent-encoded", ErrBadURL)
	}
	if uri.Port < 1 || uri.Port > 65535 {
		return amqp.URI{}, fmt.Errorf("%w: port %d; expected 1 to 65535", ErrBadURL, uri.Port)
	}
	if c.VHost != "" {
		uri.Vhost = c.VHost
	}
	if len(uri.Vhost) > 255 {
		return amqp.URI{}, fmt.Errorf("%w: the vhost has %d bytes; expected at most 255", ErrBadURL, len(uri.Vhost))
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return amqp.URI{}, fmt.Errorf("%w: a client certificate needs both the certificate file and the key file", ErrTLS)
	case uri.Scheme != "amqps" && (c.CAFile != "" || c.CertFile != ""):
		return amqp.URI{}, fmt.Errorf("%w: certificates are given, but the URL is amqp://; expected amqps://", ErrTLS)
	}
	return uri, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// tlsConfig returns what TLS needs. What the URL says in its query counts where c says nothing.
func tlsConfig(c Config, uri amqp.URI) (*tls.Config, error) {
	ca, cert, key := cmp.Or(c.CAFile, uri.CACertFile), cmp.Or(c.CertFile, uri.CertFile), cmp.Or(c.KeyFile, uri.KeyFile)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(uri.ServerName, uri.Host)}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// Redacted returns a broker URL without its password, for logs and errors. What is no URL comes back
// as a constant, since nobody knows where the password is in it.
func Redacted(brokerURL string) string {
	u, err := url.Parse(brokerURL)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return u.Redacted()
}
