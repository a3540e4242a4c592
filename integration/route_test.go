package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/topology"
)

const (
	randomTopologies = 200
	messagesEach     = 6
)

// routed is one message of the property test: what was asked, and in which topology.
type routed struct {
	manifest topology.Manifest
	publish  topology.Publish
	// headers are those that really went out, with the client's types.
	headers amqp.Table
}

// For random topologies and messages, the queues that topology.Router names are those that get a copy, one
// each, and the broker returns exactly what it says reaches none. Where an exchange picks, the broker's
// choice is one of those that are possible.
func TestRoutesAreTheBrokers(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		const seed = 7
		t.Logf("seed %d", seed)
		g := gen{Rand: rand.New(rand.NewPCG(seed, 0)), fewHashes: b.AtLeast(4, 3)}
		queues := []string{"q0", "q1", "q2", "q3", "q4"}
		url := b.VHost(t)
		declareAll(t, url, []topology.Manifest{{Queues: declared(queues)}})
		var sent []routed
		var all []topology.Manifest
		for i := range randomTopologies {
			g.theme = pick(g, themes)
			m := g.manifest(fmt.Sprintf("t%d.", i), queues)
			all = append(all, topology.Manifest{Exchanges: m.Exchanges, Bindings: m.Bindings})
			for range messagesEach {
				sent = append(sent, g.message(m))
			}
		}
		declareAll(t, url, all)
		returned := publishAll(t, url, sent)
		got := takeAll(t, url, queues)
		picked := 0
		for i, s := range sent {
			id := fmt.Sprint(i)
			slices.Sort(got[id])
			if checkRouting(t, b.Version, s, got[id], returned[id]) {
				picked++
			}
			if t.Failed() {
				t.Fatalf("message %d of %d: publish %+v\nin %s", i, len(sent), s.publish, dump(s.manifest))
			}
		}
		t.Logf("%d messages, %d of them through an exchange that picks", len(sent), picked)
	})
}

// Every topic pattern of the pool against every key, and every pair of values that a headers exchange may
// compare.
func TestMatchesAreTheBrokers(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		var sent []routed
		var all []topology.Manifest
		one := func(exchangeType, key string, args map[string]any) topology.Manifest {
			x := fmt.Sprintf("x%d", len(all))
			all = append(all, topology.Manifest{
				Queues:    declared([]string{"q"}),
				Exchanges: []topology.Exchange{{Name: x, Type: exchangeType}},
				Bindings:  []topology.Binding{{Source: x, DestinationKind: topology.ToQueue, Destination: "q", RoutingKey: key, Arguments: args}},
			})
			return all[len(all)-1]
		}
		publish := func(m topology.Manifest, key string, headers map[string]any) {
			p := topology.Publish{Exchange: m.Exchanges[0].Name, RoutingKey: key, Headers: headers}
			sent = append(sent, routed{manifest: m, publish: p, headers: rabbit.Table(headers)})
		}
		for _, pattern := range patterns {
			if b.AtLeast(4, 3) && strings.Count(pattern, "#") > 2 {
				continue
			}
			m := one("topic", pattern, nil)
			for _, k := range routingKeys {
				publish(m, k, nil)
			}
		}
		values := slices.Concat(themes...)
		for _, want := range values {
			if !inManifest(want) {
				continue
			}
			m := one("headers", "", map[string]any{"h": want})
			for _, got := range values {
				publish(m, "", map[string]any{"h": got})
			}
		}
		url := b.VHost(t)
		declareAll(t, url, all)
		returned := publishAll(t, url, sent)
		got := takeAll(t, url, []string{"q"})
		for i, s := range sent {
			checkRouting(t, b.Version, s, got[fmt.Sprint(i)], returned[fmt.Sprint(i)])
			if t.Failed() {
				t.Fatalf("publish %+v to %+v", s.publish, s.manifest.Bindings)
			}
		}
		t.Logf("%d pairs", len(sent))
	})
}

// checkRouting compares the broker's answer with the router's and with every choice that is possible, and
// reports whether there was a choice.
func checkRouting(t *testing.T, version string, s routed, got []string, returned bool) bool {
	t.Helper()
	r, err := topology.NewRouter(s.manifest).Route(s.publish, version)
	if err != nil {
		t.Errorf("Route() = %v", err)
		return false
	}
	var certain, possible []string
	for _, target := range r.Targets {
		possible = append(possible, target.Queue)
		if len(target.OneOf) == 0 {
			certain = append(certain, target.Queue)
		}
	}
	choices := worlds(t, version, s)
	every, some, none := choices[0], []string(nil), false
	for _, w := range choices {
		every = slices.DeleteFunc(slices.Clone(every), func(q string) bool { return !slices.Contains(w, q) })
		some = append(some, w...)
		none = none || len(w) == 0
	}
	slices.Sort(some)
	if diff := cmp.Diff([][]string{every, slices.Compact(some)}, [][]string{certain, possible}, equateEmpty); diff != "" {
		t.Errorf("certain and possible queues, by trying every choice and by Route() (-tried +got):\n%s", diff)
	}
	if none != r.MayReachNone {
		t.Errorf("MayReachNone = %v; trying every choice: %v", r.MayReachNone, none)
	}
	if !slices.ContainsFunc(choices, func(w []string) bool { return cmp.Equal(w, got, equateEmpty) }) {
		t.Errorf("the broker routed to %q; Route(): for certain %q, possibly %q", got, certain, possible)
	}
	if returned != (len(got) == 0) {
		t.Errorf("the broker returned the message: %v; it has %d copies", returned, len(got))
	}
	return len(choices) > 1
}

var equateEmpty = cmp.Transformer("empty", func(s []string) string { return strings.Join(s, " ") })

// worlds returns the queues that a message reaches for every combination of what exchanges can pick, found
// by making each such exchange a fanout with one binding.
func worlds(t *testing.T, version string, s routed) [][]string {
	t.Helper()
	for i, x := range s.manifest.Exchanges {
		if x.Type != "x-random" && x.Type != "x-consistent-hash" {
			continue
		}
		var own, rest []topology.Binding
		for _, b := range s.manifest.Bindings {
			if b.Source == x.Name {
				own = append(own, b)
			} else {
				rest = append(rest, b)
			}
		}
		fixed := s
		fixed.manifest.Exchanges = slices.Clone(s.manifest.Exchanges)
		fixed.manifest.Exchanges[i].Type = "fanout"
		if len(own) == 0 {
			return worlds(t, version, fixed)
		}
		var out [][]string
		for _, b := range own {
			fixed.manifest.Bindings = append(slices.Clone(rest), b)
			out = append(out, worlds(t, version, fixed)...)
		}
		return out
	}
	r, err := topology.NewRouter(s.manifest).Route(s.publish, version)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, target := range r.Targets {
		out = append(out, target.Queue)
	}
	return [][]string{out}
}

// declareAll declares what the manifests hold, on a few channels.
func declareAll(t *testing.T, url string, all []topology.Manifest) {
	t.Helper()
	const parallel = 4
	var wg sync.WaitGroup
	for part := range parallel {
		ch := brokertest.Dial(t, url)
		wg.Go(func() {
			for i := part; i < len(all); i += parallel {
				if err := declare(ch, all[i]); err != nil {
					t.Errorf("declare %s: %v", dump(all[i]), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// declare declares queues, exchanges and bindings.
func declare(ch *amqp.Channel, m topology.Manifest) error {
	for _, q := range m.Queues {
		if _, err := ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, rabbit.Table(q.Arguments)); err != nil {
			return err
		}
	}
	for _, x := range m.Exchanges {
		if err := ch.ExchangeDeclare(x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, false, rabbit.Table(x.Arguments)); err != nil {
			return err
		}
	}
	for _, b := range m.Bindings {
		bind := ch.QueueBind
		if b.DestinationKind == topology.ToExchange {
			bind = ch.ExchangeBind
		}
		if err := bind(b.Destination, b.RoutingKey, b.Source, false, rabbit.Table(b.Arguments)); err != nil {
			return fmt.Errorf("%+v: %w", b, err)
		}
	}
	return nil
}

// publishAll publishes each message mandatory, with its index as its id, and returns the ids of those that
// came back.
func publishAll(t *testing.T, url string, sent []routed) map[string]bool {
	t.Helper()
	ch := brokertest.Dial(t, url)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, len(sent)))
	var confirms []*amqp.DeferredConfirmation
	for i, s := range sent {
		c, err := ch.PublishWithDeferredConfirm(s.publish.Exchange, s.publish.RoutingKey, true, false, amqp.Publishing{
			MessageId: fmt.Sprint(i), Headers: s.headers,
		})
		if err != nil {
			t.Fatal(err)
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		if ok, err := c.WaitContext(t.Context()); err != nil || !ok {
			t.Fatalf("publish: confirmed %v, %v", ok, err)
		}
	}
	out := map[string]bool{}
	for len(returns) > 0 {
		out[(<-returns).MessageId] = true
	}
	return out
}

// takeAll empties the queues and returns by message id in which queues it was, once for each copy.
func takeAll(t *testing.T, url string, queues []string) map[string][]string {
	t.Helper()
	ch := brokertest.Dial(t, url)
	out := map[string][]string{}
	for _, q := range queues {
		// Confirmed messages are in their queues, so that the counts are final.
		state, err := ch.QueueDeclarePassive(q, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume(q, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range state.Messages {
			id := next(t, deliveries, 5*time.Second).MessageId
			out[id] = append(out[id], q)
		}
	}
	return out
}

func dump(m topology.Manifest) string {
	var b strings.Builder
	for _, x := range m.Exchanges {
		fmt.Fprintf(&b, "  exchange %+v\n", x)
	}
	for _, q := range m.Queues {
		fmt.Fprintf(&b, "  queue %+v\n", q)
	}
	for _, x := range m.Bindings {
		fmt.Fprintf(&b, "  binding %+v\n", x)
	}
	return b.String()
}
