package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
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

// CloseAllConnections ends every connection to the vhost of a URL, as an operator would do it.
func (b *Broker) CloseAllConnections(tb testing.TB, vhostURL string) {
	tb.Helper()
	name := VHostName(tb, vhostURL)
	if b.container != nil {
		b.Exec(tb, "rabbitmqctl", "close_all_connections", "--vhost", name, "closed by a test")
		return
	}
	c := b.Management(tb)
	list, err := c.Connections(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	for _, conn := range list {
		if err := c.CloseConnection(tb.Context(), conn.Name); err != nil && !errors.Is(err, management.ErrNotFound) {
			tb.Fatal(err)
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
