// Package brokertest gives tests a real RabbitMQ broker.
//
// Without settings, brokers of three versions run in Docker: started once, found again by the test
// processes of other packages, and ended by themselves after half an hour. Settings are environment
// variables:
//
//	RMQ_TEST_VERSIONS        which versions, such as "3.10 4.3"; each is an image rabbitmq:VERSION-management
//	RMQ_TEST_IMAGE           another image name, in which %s stands for the version
//	RMQ_TEST_URL             a broker that is already there, instead of Docker
//	RMQ_TEST_MANAGEMENT_URL  its management API; by default port 15672 of the same host
//	RMQ_TEST_SESSION         only containers of one session are shared; by default all of this machine's
//	INTEGRATION=off          tests that need a broker are skipped
//
// Where there is neither Docker nor RMQ_TEST_URL, tests fail and say so: a suite that silently leaves
// out the broker proves nothing.
package brokertest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/management"
)

// Broker is a running broker.
type Broker struct {
	// URL is amqp:// with user, password and the vhost "/", which tests leave alone: see [Broker.VHost].
	URL string
	// ManagementURL is http:// with user and password.
	ManagementURL string
	// Version is what the broker says, such as "4.0.5".
	Version string

	container *container
	// noManagement says that the management API is off.
	noManagement bool
}

// QueueTypes are the types that every test of messages runs on.
var QueueTypes = []string{"classic", "quorum"}

// Versions returns the versions to test, by RMQ_TEST_VERSIONS.
func Versions() []string {
	if list := strings.FieldsFunc(os.Getenv("RMQ_TEST_VERSIONS"), func(r rune) bool { return r == ' ' || r == ',' }); len(list) > 0 {
		return list
	}
	return []string{"3.10", "4.0", "4.3"}
}

// EachVersion runs a test in parallel on a shared broker of every version, or on the one of
// RMQ_TEST_URL.
func EachVersion(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Helper()
	EachVersionInTurn(t, func(t *testing.T, b *Broker) {
		t.Parallel()
		test(t, b)
	})
}

// EachVersionInTurn is [EachVersion] for tests that measure time: one version after the other.
func EachVersionInTurn(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Helper()
	skipIfOff(t)
	versions := Versions()
	if os.Getenv("RMQ_TEST_URL") != "" {
		versions = []string{"RMQ_TEST_URL"}
	}
	for _, v := range versions {
		t.Run(v, func(t *testing.T) { test(t, Start(t, v)) })
	}
}

// Each runs a test in parallel on every version and with every queue type.
func Each(t *testing.T, test func(t *testing.T, b *Broker, queueType string)) {
	t.Helper()
	EachVersion(t, func(t *testing.T, b *Broker) {
		for _, typ := range QueueTypes {
			t.Run(typ, func(t *testing.T) {
				t.Parallel()
				test(t, b, typ)
			})
		}
	})
}

var (
	mu     sync.Mutex
	shared = map[string]func() (*Broker, error){}
)

// Start returns the shared broker of a version, which is started if need be. With RMQ_TEST_URL set it
// is that broker whatever its version. The broker is not for stopping or filling up: use [Private].
func Start(tb testing.TB, version string) *Broker {
	tb.Helper()
	skipIfOff(tb)
	start := func() (*Broker, error) { return startShared(version) }
	if os.Getenv("RMQ_TEST_URL") != "" {
		version, start = "", given
	}
	mu.Lock()
	once, ok := shared[version]
	if !ok {
		once = sync.OnceValues(start)
		shared[version] = once
	}
	mu.Unlock()
	b, err := once()
	if err != nil {
		tb.Fatalf("broker %s: %v", version, err)
	}
	return b
}

func skipIfOff(tb testing.TB) {
	tb.Helper()
	if os.Getenv("INTEGRATION") == "off" {
		tb.Skip("INTEGRATION=off: no broker")
	}
}

// given returns the broker of RMQ_TEST_URL.
func given() (*Broker, error) {
	b := &Broker{URL: os.Getenv("RMQ_TEST_URL"), ManagementURL: os.Getenv("RMQ_TEST_MANAGEMENT_URL")}
	uri, err := amqp.ParseURI(b.URL)
	if err != nil {
		return nil, fmt.Errorf("RMQ_TEST_URL is not amqp://user:password@host:port")
	}
	if b.ManagementURL == "" {
		b.ManagementURL = (&url.URL{
			Scheme: "http", User: url.UserPassword(uri.Username, uri.Password), Host: net.JoinHostPort(uri.Host, "15672"),
		}).String()
	}
	if err := b.wait(); err != nil {
		return nil, fmt.Errorf("RMQ_TEST_URL and RMQ_TEST_MANAGEMENT_URL (the management plugin has to be on, tests make vhosts with it): %w", err)
	}
	return b, nil
}

// AtLeast reports whether the broker's version is major.minor or later.
func (b *Broker) AtLeast(major, minor int) bool {
	parts := strings.SplitN(b.Version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, errX := strconv.Atoi(parts[0])
	y, errY := strconv.Atoi(parts[1])
	return errX == nil && errY == nil && (x > major || x == major && y >= minor)
}

// Management returns a client for the broker's management API.
func (b *Broker) Management(tb testing.TB) *management.Client {
	tb.Helper()
	c, err := management.New(b.ManagementURL)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}
