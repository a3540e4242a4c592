package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

const ms = time.Millisecond

// A multiplier of 1.5 never grew in another tool: a duration times a truncated 1.5 is a duration times
// 1. TTLs are whole milliseconds and one spelling each.
func TestParse_Schedule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, retry string
		want        []time.Duration
	}{
		{"delays as written", "{delays: [500ms, 2s, 1m30s, 1d, 1.5d, 1d12h, 1h]}", []time.Duration{
			500 * ms, 2 * time.Second, 90 * time.Second, 24 * time.Hour, 36 * time.Hour, 36 * time.Hour, time.Hour,
		}},
		{"a factor that is not whole", "{backoff: {base: 1s, factor: 1.5, attempts: 6}}", []time.Duration{
			1000 * ms, 1500 * ms, 2250 * ms, 3375 * ms, 5063 * ms,
		}},
		{"a small base is rounded at the end only", "{backoff: {base: 1ms, factor: 1.3, attempts: 8}}", []time.Duration{
			1 * ms, 1 * ms, 2 * ms, 2 * ms, 3 * ms, 4 * ms, 5 * ms,
		}},
		{"factor 2 unless told", "{backoff: {base: 3s, attempts: 4}}", []time.Duration{3000 * ms, 6000 * ms, 12000 * ms}},
		{"factor 1 stays", "{backoff: {base: 3s, factor: 1, attempts: 3}}", []time.Duration{3000 * ms, 3000 * ms}},
		{"max holds", "{backoff: {base: 1s, factor: 4, max: 5m, attempts: 7}}", []time.Duration{
			time.Second, 4 * time.Second, 16 * time.Second, 64 * time.Second, 256 * time.Second, 5 * time.Minute,
		}},
		{"the broker's own limit holds without max", "{backoff: {base: 1d, factor: 1000, attempts: 17}}", append(
			[]time.Duration{24 * time.Hour}, slices.Repeat([]time.Duration{retry.MaxDelay}, 15)...)},
		{"the longest delay", "{delays: [4294967295ms]}", []time.Duration{retry.MaxDelay}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := parse(t, head+"queues: {q: {retry: "+tt.retry+"}}").Ladder("q")
			if err != nil {
				t.Fatal(err)
			}
			var got []time.Duration
			for i, tier := range l.Tiers {
				got = append(got, tier.Delay)
				if ttl := l.TierQueues(i + 1)[0].TTL; ttl != tier.Delay {
					t.Errorf("tier %d waits %v; want %v", i+1, ttl, tier.Delay)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("delays mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_Jitter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		jitter   string
		want     []time.Duration
		spread   retry.Spread
		exchange string
	}{
		{"20%", []time.Duration{6400 * ms, 7200 * ms, 8000 * ms, 8800 * ms, 9600 * ms}, retry.SpreadRandom, "q.retry.1.jitter"},
		{"full", []time.Duration{1600 * ms, 3200 * ms, 4800 * ms, 6400 * ms, 8000 * ms}, retry.SpreadRandom, "q.retry.1.jitter"},
		{"{band: 50%, slots: 2}", []time.Duration{4000 * ms, 12000 * ms}, retry.SpreadRandom, "q.retry.1.jitter"},
		{"{band: full, slots: 3, exchange: x-consistent-hash}", []time.Duration{2667 * ms, 5333 * ms, 8000 * ms}, retry.SpreadHash, "q.retry.1.hash"},
		{"0.01%", []time.Duration{7999 * ms, 8000 * ms, 8001 * ms}, retry.SpreadRandom, "q.retry.1.jitter"},
		{"none", nil, "", ""},
	} {
		t.Run(tt.jitter, func(t *testing.T) {
			t.Parallel()
			l, err := parse(t, head+"queues: {q: {retry: {delays: [8s], jitter: "+tt.jitter+"}}}").Ladder("q")
			if err != nil {
				t.Fatal(err)
			}
			want := []retry.Tier{{Delay: 8 * time.Second, Slots: tt.want, Spread: tt.spread}}
			if diff := cmp.Diff(want, l.Tiers); diff != "" {
				t.Errorf("tiers mismatch (-want +got):\n%s", diff)
			}
			if got := l.SpreadExchange(1); got != tt.exchange {
				t.Errorf("SpreadExchange(1) = %q; want %q", got, tt.exchange)
			}
		})
	}
}

// Variables are filled in whatever the quotes; the environment has no types.
func TestParser_Variables(t *testing.T) {
	t.Parallel()
	p := topology.Parser{LookupEnv: func(name string) (string, bool) {
		v, ok := map[string]string{"N": "100", "D": "3s", "NAME": "a b", "EMPTY": "", "T": "true", "F": "2.5"}[name]
		return v, ok
	}}
	for _, tt := range []struct {
		field, argument string
		want            any
	}{
		{"max_length: ${N}", "x-max-length", int64(100)},
		{`max_length: "${N}"`, "x-max-length", int64(100)},
		{"max_length: ${EMPTY:-5}", "x-max-length", int64(5)},
		{"max_length: ${UNSET:-5}0", "x-max-length", int64(50)},
		{"message_ttl: ${D}", "x-message-ttl", int64(3000)},
		{"message_ttl: ${UNSET:-1}m", "x-message-ttl", int64(60000)},
		{"single_active_consumer: '${T}'", "x-single-active-consumer", true},
		{"arguments: {x-a: 'a $${N} ${NAME} $N ${N}'}", "x-a", "a ${N} a b $N 100"},
		{"arguments:\n      x-a: ${N}", "x-a", int64(100)},
		{"arguments:\n      x-a: ${F}", "x-a", 2.5},
		{"arguments: {x-a: '${N}'}", "x-a", "100"},
		{"arguments:\n      x-a: ${UNSET:-}", "x-a", nil},
	} {
		t.Run(tt.field, func(t *testing.T) {
			t.Parallel()
			topo, err := p.Parse("x.yaml", []byte(head+"queues:\n  q:\n    "+tt.field+"\n"))
			if tt.want == nil {
				if err == nil {
					t.Error("Parse() found nothing wrong with an empty argument")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, topo.Expand().Queues[0].Arguments[tt.argument]); diff != "" {
				t.Errorf("%s mismatch (-want +got):\n%s", tt.argument, diff)
			}
		})
	}
}

func TestTopology_CheckBroker(t *testing.T) {
	t.Parallel()
	const text = head + `queues:
  laddered:
    retry: {delays: [1s]}
    message_ttl: 1h
    max_length: 5
    delivery_limit: 50
  laddered.classic:
    type: classic
    leader_locator: balanced
    dead_letter: {message_ttl: 1d}
    max_length: 5
    max_length_bytes: 500
  plain: {message_ttl: 1h, max_length: 5, delivery_limit: 50}
  old: {type: classic, arguments: {x-queue-version: 1}}
`
	before4 := []string{
		"6:18 broker-message-ttl", "8:21 broker-delivery-limit", "11:21 broker-argument", "13:17 broker-max-length", "14:23 broker-max-length",
	}
	for version, want := range map[string][]string{
		"3.10.8": before4, "3.13.7-rc.1": before4, "v3.12.0": before4, "4.0.5": nil, "4.0.5+2.gabcdef": nil, "4.2": nil,
		"4.3.6": {"16:53 broker-argument"}, "10.0.0": {"16:53 broker-argument"},
		"3.9.29": {"1:1 broker-version"}, "2.8.7": {"1:1 broker-version"}, "": {"1:1 broker-version"}, "LavinMQ 2": {"1:1 broker-version"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, d := range parse(t, text).CheckBroker(version) {
				got = append(got, fmt.Sprintf("%d:%d %s", d.Line, d.Column, d.Code))
				if d.File != "topology.yaml" {
					t.Errorf("%s is in no file", d)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("CheckBroker() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// An operator who is told that an argument differs must find the line that makes it.
func TestTopology_Source(t *testing.T) {
	t.Parallel()
	topo := parse(t, head+`exchanges:
  x: {type: topic, alternate_exchange: y, durable: true, arguments: {x-a: 1}}
  y: {type: fanout}
queues:
  q:
    type: quorum
    retry:
      delays: [2s, 8s]
      jitter: 20%
    dead_letter:
      max_length: 5
    arguments: {x-b: 1}
    bind:
      - {exchange: x, key: a}
  r: {retry: {backoff: {base: 1s, attempts: 3}}}
`)
	for _, tt := range []struct {
		kind           topology.Kind
		name, argument string
		want           string
	}{
		{topology.KindExchange, "x", "", "4:3"},
		{topology.KindExchange, "x", "type", "4:13"},
		{topology.KindExchange, "x", "alternate-exchange", "4:40"},
		{topology.KindExchange, "x", "durable", "4:52"},
		{topology.KindExchange, "x", "x-a", "4:75"},
		{topology.KindExchange, "x", "internal", "4:3"},
		{topology.KindExchange, "q.retry.ladder.a", "alternate-exchange", "10:7"},
		{topology.KindExchange, "q.retry.2.jitter", "type", "10:20"},
		{topology.KindQueue, "q", "", "7:3"},
		{topology.KindQueue, "q", "x-queue-type", "8:11"},
		{topology.KindQueue, "q", "x-dead-letter-exchange", "10:7"},
		{topology.KindQueue, "q", "x-b", "14:22"},
		{topology.KindQueue, "q", "x-expires", "7:3"},
		{topology.KindQueue, "q.retry.1.1600ms", "x-message-ttl", "10:16"},
		{topology.KindQueue, "q.dlq", "", "13:7"},
		{topology.KindQueue, "q.dlq", "x-max-length", "13:19"},
		{topology.KindQueue, "r.retry.2.2s", "x-message-ttl", "17:24"},
		{topology.KindQueue, "x", "", "0:0"},
	} {
		p := topo.Source(tt.kind, tt.name, tt.argument)
		if got := fmt.Sprintf("%d:%d", p.Line, p.Column); got != tt.want {
			t.Errorf("Source(%s, %q, %q) = %s; want %s", tt.kind, tt.name, tt.argument, got, tt.want)
		}
	}
	b := topology.Binding{Source: "x", DestinationKind: topology.ToQueue, Destination: "q", RoutingKey: "a"}
	if p := topo.BindingSource(b); p.Line != 16 {
		t.Errorf("BindingSource() = %s; want line 16", p)
	}
	b.Arguments = map[string]any{"x-a": 1 + 2i}
	if p := topo.BindingSource(b); p.Line != 7 {
		t.Errorf("BindingSource() of a binding that nobody wrote = %s; want its queue's line 7", p)
	}
	if p := topo.BindingSource(topology.Binding{DestinationKind: topology.ToExchange, Destination: "y"}); p.Line != 5 {
		t.Errorf("BindingSource() to an exchange = %s; want line 5", p)
	}
}

func TestTopology_Ladder(t *testing.T) {
	t.Parallel()
	topo := parse(t, head+"queues: {orders.fulfil: {dead_letter: {}}, plain: {}}")
	for name, want := range map[string]string{
		"plain":          "neither retry nor dead_letter",
		"orders.fulfill": `did you mean "orders.fulfil"?`,
		"elsewhere":      `topology "x" has no queue "elsewhere"`,
	} {
		if _, err := topo.Ladder(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Ladder(%q) = %v; want an error with %q", name, err, want)
		}
	}
	if diff := cmp.Diff([]retry.Ladder{{Queue: "orders.fulfil", Type: retry.Quorum}}, topo.Ladders()); diff != "" {
		t.Errorf("Ladders() mismatch (-want +got):\n%s", diff)
	}
}

// What one caller does to a manifest or a ladder, another must not see.
func TestTopology_SharesNothing(t *testing.T) {
	t.Parallel()
	topo := parse(t, head+"exchanges: {x: {type: headers, arguments: {a: [1]}}}\n"+
		"queues: {q: {retry: {delays: [1s], jitter: 20%}, arguments: {a: {b: 1}}, bind: [{exchange: x, headers: {a: 1}}]}}")
	want := topo.Expand()
	m := topo.Expand()
	m.Queues[0].Arguments["a"].(map[string]any)["b"] = 2
	m.Exchanges[0].Arguments["a"].([]any)[0] = 2
	m.Bindings[len(m.Bindings)-1].Arguments["a"] = 2
	topo.Ladders()[0].Tiers[0].Slots[0] = time.Hour
	if diff := cmp.Diff(want, topo.Expand()); diff != "" {
		t.Errorf("Expand() mismatch after a caller changed its copy (-want +got):\n%s", diff)
	}
}

func TestAVariableThatIsNotUTF8IsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	p := topology.Parser{LookupEnv: func(string) (string, bool) { return "hidden\xff", true }}
	_, err := p.Parse("f", []byte("version: 1\nname: x\nexchanges: {e: {type: topic}}\nqueues: {q: {bind: [{exchange: e, key: \"${KEY}\"}]}}\n"))
	var wrong topology.Diagnostics
	if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Code != "bad-encoding" || strings.Contains(err.Error(), "hidden") {
		t.Errorf("Parse() error = %v", err)
	}
}
