package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/management"
)

// VHost makes a vhost for one test, with a name that breaks whoever does not escape it, and returns
// its URL. It is removed when the test ends, with every connection to it.
func (b *Broker) VHost(tb testing.TB) string {
	tb.Helper()
	name := "t/" + rand.Text()[:10] + " 100%/é"
	c := b.Management(tb)
	uri := b.uri(tb)
	if err := c.PutVHost(tb.Context(), name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.DeleteVHost(ctx, name); err != nil && !errors.Is(err, management.ErrNotFound) {
			tb.Errorf("remove the test's vhost: %v", err)
		}
	})
	if err := c.PutPermissions(tb.Context(), name, uri.Username, management.Permissions{Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
		tb.Fatal(err)
	}
	return WithVHost(tb, b.URL, name)
}

func (b *Broker) uri(tb testing.TB) amqp.URI {
	tb.Helper()
	uri, err := amqp.ParseURI(b.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return uri
}

// WithVHost returns a broker URL with another vhost.
func WithVHost(tb testing.TB, brokerURL, name string) string {
	tb.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		tb.Fatal(err)
	}
	u.Path, u.RawPath = "/"+name, "/"+url.PathEscape(name)
	return u.String()
}

// VHostName returns the vhost of a broker URL.
func VHostName(tb testing.TB, brokerURL string) string {
	tb.Helper()
	uri, err := amqp.ParseURI(brokerURL)
	if err != nil {
		tb.Fatal(err)
	}
	return uri.Vhost
}

// CloseAllConnections ends every connection to the vhost of a URL, as rabbitmqctl close_all_connections
// does, but over the management API: a rabbitmqctl keeps a processor busy for seconds.
func (b *Broker) CloseAllConnections(tb testing.TB, vhostURL string) {
	tb.Helper()
	c := b.Management(tb)
	for _, conn := range b.awaitConnections(tb, c, vhostURL) {
		if err := c.CloseConnection(tb.Context(), conn.Name); err != nil && !errors.Is(err, management.ErrNotFound) {
			tb.Fatal(err)
		}
	}
}

// awaitConnections lists the connections to a vhost. The management API is seconds late, so it opens one
// more and waits for that to appear.
func (b *Broker) awaitConnections(tb testing.TB, c *management.Client, vhostURL string) []management.Connection {
	tb.Helper()
	last := rand.Text()
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(last)
	conn, err := amqp.DialConfig(vhostURL, amqp.Config{Properties: properties})
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		list, err := c.Connections(tb.Context(), VHostName(tb, vhostURL))
		if err != nil {
			tb.Fatal(err)
		}
		if slices.ContainsFunc(list, func(c management.Connection) bool { return c.Properties.ConnectionName == last }) {
			return list
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			tb.Fatalf("the management API does not list a connection that was opened 30 s ago: %v", list)
		}
	}
}

// Dial opens a connection to a vhost's URL and a channel on it; both are closed when the test ends.
func Dial(tb testing.TB, vhostURL string) *amqp.Channel {
	tb.Helper()
	conn, err := amqp.Dial(vhostURL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		tb.Fatal(err)
	}
	return ch
}
