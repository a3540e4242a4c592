package provision

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
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
