package provision

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/management"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/topology"
)

// parse returns a topology from its text.
func parse(t testing.TB, text string) *topology.Topology {
	t.Helper()
	topo, err := topology.Parse("topology.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// onVHost returns options for a vhost's URL.
func onVHost(url string) Options {
	return Options{Rabbit: rabbit.Config{URL: url}, URLVHost: true}
}

// contents is what a vhost holds, as the management API lists it.
type contents struct {
	Exchanges []management.Exchange
	Queues    []management.Queue
	Bindings  []management.Binding
}

func snapshot(t testing.TB, b *brokertest.Broker, url string) contents {
	t.Helper()
	vhost := brokertest.VHostName(t, url)
	c := b.Management(t)
	var got contents
	var err error
	if got.Exchanges, err = c.Exchanges(t.Context(), vhost); err != nil {
		t.Fatal(err)
	}
	queues, err := c.Queues(t.Context(), vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if q.Exclusive {
			continue // a lock that goes with its connection
		}
		// Counts and states are samples.
		got.Queues = append(got.Queues, management.Queue{
			Name: q.Name, Type: q.Type, Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: q.Arguments, Policy: q.Policy,
		})
	}
	bindings, err := c.Bindings(t.Context(), vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings {
		if b.Source != "" {
			got.Bindings = append(got.Bindings, b)
		}
	}
	slices.SortFunc(got.Exchanges, func(a, b management.Exchange) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(got.Queues, func(a, b management.Queue) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(got.Bindings, func(a, b management.Binding) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.PropertiesKey, b.PropertiesKey))
	})
	return got
}

// typed puts a queue type into the text of a topology.
func typed(text, queueType string) string { return strings.ReplaceAll(text, "TYPE", queueType) }

const orders = `
version: 1
name: orders
defaults: {type: TYPE}
exchanges:
  orders: {type: topic}
queues:
  orders.fulfil:
    bind: [{exchange: orders, key: order.created}]
    retry: {delays: [200ms, 400ms], jitter: 20%}
  orders.audit:
    bind: [{exchange: orders, key: "#"}]
`

func TestASecondApplyChangesNothing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, typ string) {
		url := b.VHost(t)
		topo := parse(t, typed(orders, typ))
		m := topo.Expand()
		first, err := Apply(t.Context(), onVHost(url), topo)
		if err != nil {
			t.Fatal(err)
		}
		want := Counts{Exchanges: len(m.Exchanges), Queues: len(m.Queues)}
		if first.Created != want || first.Unchanged != (Counts{}) || first.BindingsEnsured != len(m.Bindings) {
			t.Errorf("the first apply reports %+v", first)
		}
		if first.BrokerVersion != b.Version {
			t.Errorf("broker version %q, want %q", first.BrokerVersion, b.Version)
		}
		before := snapshot(t, b, url)
		second, err := Apply(t.Context(), onVHost(url), topo)
		if err != nil {
			t.Fatal(err)
		}
		if second.Changed() || second.Created != (Counts{}) || second.Unchanged != want || len(second.Retired)+len(second.Warnings) > 0 || second.Resumed {
			t.Errorf("the second apply reports %+v", second)
		}
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("the second apply changed (-before +after):\n%s", diff)
		}
	})
}
