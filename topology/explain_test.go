package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// path spells what becomes of the copies: a queue with the time and, after a slash, how it ends; what
// follows a death after an arrow, and parted copies in brackets.
func path(cs []Copy) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		s := c.Queue
		if n := len(c.Slots); n > 0 {
			s += fmt.Sprintf("(%d)", n)
		}
		if c.After.Max > 0 {
			s += "@" + c.After.Min.String()
			if c.After.Min != c.After.Max {
				s += "-" + c.After.Max.String()
			}
		}
		if c.Attempt > 0 {
			s += fmt.Sprintf("#%d", c.Attempt)
		}
		if len(c.OneOf) > 0 {
			s += "?"
		}
		if c.Fate == FateDies {
			s += " → " + path(c.Next)
		} else {
			s += "/" + string(c.Fate)
		}
		parts[i] = s
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// laddered is a topology with a ladder. retry is what stands under retry:, or "none".
func laddered(t *testing.T, queueType, retry string) Manifest {
	t.Helper()
	if retry != "none" {
		retry = "retry: " + retry
	} else {
		retry = ""
	}
	topo, err := Parse("t.yaml", fmt.Appendf(nil, `version: 1
name: t
exchanges:
  orders: {type: topic}
queues:
  q:
    type: %s
    bind: [{exchange: orders, key: order.created}]
    %s
    dead_letter: {}
  foreign:
    type: classic
    message_ttl: 50ms
    arguments: {x-dead-letter-exchange: orders, x-dead-letter-routing-key: order.created}
`, queueType, retry))
	if err != nil {
		t.Fatal(err)
	}
	return topo.Expand()
}

const twoTiers = "{delays: [200ms, 1s]}"

var order = Publish{Exchange: "orders", RoutingKey: "order.created"}

// The rows of the guarded ladder in what was measured of the brokers.
func TestExplain_Ladder(t *testing.T) {
	t.Parallel()
	// climbs is what a message does that is rejected to the end, tier by tier.
	const climbs = "q#1 → q.retry.1.200ms → q@200ms#2 → q.retry.2.1s@200ms → q@1.2s#3 → q.dlq@1.2s/rests"
	fromElsewhere := Publish{RoutingKey: "foreign"}
	for name, tt := range map[string]struct {
		retry     string
		queueType string
		question  Question
		// want3 is for 3.10 where it differs.
		want, want3 string
	}{
		"rejected to the end":   {question: Question{Publish: order, Failures: Always}, want: climbs},
		"on classic":            {queueType: "classic", question: Question{Publish: order, Failures: Always}, want: strings.NewReplacer("1.200ms", "1.200ms.classic", "2.1s@200ms", "2.1s.classic@200ms").Replace(climbs)},
		"handled at last":       {question: Question{Publish: order, Failures: 2}, want: "q#1 → q.retry.1.200ms → q@200ms#2 → q.retry.2.1s@200ms → q@1.2s#3/handled"},
		"handled at once":       {question: Question{Publish: order}, want: "q#1/handled"},
		"without tiers":         {retry: "none", question: Question{Publish: order, Failures: Always}, want: "q#1 → q.dlq/rests"},
		"one failure, no tiers": {retry: "none", question: Question{Publish: order, Failures: 1}, want: "q#1 → q.dlq/rests"},
		"expires fresh":         {question: Question{Publish: order, Expiration: 50 * time.Millisecond}, want: "q → q.dlq@50ms/rests"},
		"crashes fresh":         {question: Question{Publish: order, Failures: Always, Reason: DeathDeliveryLimit}, want: "q#1 → q.dlq/rests"},
		"rejected from elsewhere": {
			question: Question{Publish: fromElsewhere, Failures: Always},
			want:     "foreign → q@50ms#1 → q.retry.1.200ms@50ms → q@250ms#2 → q.retry.2.1s@250ms → q@1.25s#3 → q.dlq@1.25s/rests",
		},
		// On 3.10 the consumer has to park it before the limit is reached.
		"crashes from elsewhere": {
			question: Question{Publish: fromElsewhere, Failures: Always, Reason: DeathDeliveryLimit},
			want:     "foreign → q@50ms#1 → q.dlq@50ms/rests",
			want3:    "foreign → q@50ms#1 → q.retry.1.200ms@50ms/held",
		},
		"slots": {
			retry:    "{delays: [2s, 8s], jitter: 20%}",
			question: Question{Publish: order, Failures: Always},
			want:     "q#1 → q.retry.1.1600ms(5) → q@1.6s-2.4s#2 → q.retry.2.6400ms(5)@1.6s-2.4s → q@8s-12s#3 → q.dlq@8s-12s/rests",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.retry == "" {
				tt.retry = twoTiers
			}
			if tt.queueType == "" {
				tt.queueType = "quorum"
			}
			m := laddered(t, tt.queueType, tt.retry)
			for _, version := range []string{"3.10.8", "4.0.5", "4.3"} {
				want := tt.want
				if tt.want3 != "" && version == "3.10.8" {
					want = tt.want3
				}
				tt.question.Version = version
				e, err := Explain(m, tt.question)
				if err != nil {
					t.Fatal(err)
				}
				if got := path(e.Copies); got != want {
					t.Errorf("on %s:\n got %s\nwant %s", version, got, want)
				}
			}
		})
	}
}

// Slots whose names matter are told apart.
func TestExplain_SlotsByName(t *testing.T) {
	t.Parallel()
	m := sketch(t, "queue q\nqueue a\nqueue b\nqueue c\nexchange x x-random\nexchange h headers\nbind x a\nbind x b\nbind h c")
	m.Queues = []Queue{queue("q", argDLX, "x"), queue("a", argDLX, "h", argMessageTTL, int64(5)), queue("b", argDLX, "h", argMessageTTL, int64(5)), queue("c")}
	m.Bindings[2].Arguments = map[string]any{argMatch: "all-with-x", "x-last-death-queue": "a"}
	e, err := Explain(m, Question{Publish: Publish{RoutingKey: "q"}, Failures: Always})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := path(e.Copies), "q#1 → [a? → c@5ms/rests, b?/lost]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// So are those for which it matters where the message was before.
func TestExplain_SlotsInACycle(t *testing.T) {
	t.Parallel()
	m := sketch(t, "queue q\nqueue a\nqueue b\nexchange x x-random\nbind x a\nbind x b")
	toA := []any{argDLX, "", argDLRK, "a", argMessageTTL, int64(5)}
	m.Queues = []Queue{queue("q", argDLX, "x"), queue("a", toA...), queue("b", toA...)}
	e, err := Explain(m, Question{Publish: Publish{RoutingKey: "q"}, Failures: Always})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := path(e.Copies), "q#1 → [a?/lost, b? → a@5ms/lost]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A ladder whose old bindings stayed forks at each failure.
func TestExplain_Cut(t *testing.T) {
	t.Parallel()
	m := sketch(t, "queue q\nqueue a\nqueue b\nexchange x fanout\nbind x a\nbind x b")
	for i := range m.Queues {
		m.Queues[i] = queue(m.Queues[i].Name, argDLX, "", argDLRK, "q", argMessageTTL, int64(i+1))
	}
	m.Queues[0] = queue("q", argDLX, "x")
	e, err := Explain(m, Question{Publish: Publish{RoutingKey: "q"}, Failures: MaxFailures})
	if err != nil {
		t.Fatal(err)
	}
	ends := e.Ends()
	if ends[len(ends)-1].Fate != FateCut || len(ends) > maxCopies {
		t.Errorf("%d ends, the last is %+v", len(ends), ends[len(ends)-1])
	}
}

func TestExplain_Refused(t *testing.T) {
	t.Parallel()
	m := Manifest{Queues: []Queue{queue("q", argDLX, ""), sure("full", argDLX, "", argMaxLength, int64(1), argDeliveryLimit, int64(-1)), queue("k", argQueueType, "quorum")}}
	for _, tt := range []struct {
		question Question
		want     string
	}{
		{Question{Publish: order}, `publish to exchange "orders": no such exchange`},
		{Question{Queue: "qq"}, `queue "qq": no such queue; did you mean "q"?`},
		{Question{Failures: -1}, "-1 failures; expected 0 to 1000, or always"},
		{Question{Failures: 1001}, "1001 failures"},
		{Question{Reason: "tired"}, `reason "tired"; expected`},
		{Question{Version: "x"}, `broker version "x"`},
		{Question{Expiration: time.Microsecond}, "expiration 1µs; expected whole milliseconds"},
		{Question{Failures: 1, Reason: DeathExpired}, `nothing expires in queue "q"`},
		{Question{Failures: 1, Reason: DeathMaxLen}, `queue "q" has no length limit`},
		{Question{Failures: 1, Reason: DeathDeliveryLimit}, `queue "q" has no delivery limit on RabbitMQ 4.3`},
		{Question{Publish: Publish{RoutingKey: "full"}, Failures: 1, Reason: DeathMaxLen}, `queue "full" is of overflow "reject-publish"`},
		{Question{Publish: Publish{RoutingKey: "full"}, Failures: 1, Reason: DeathDeliveryLimit}, `queue "full" has no delivery limit on RabbitMQ 4.3`},
		{Question{Publish: Publish{RoutingKey: "k"}, Failures: 1, Reason: DeathDeliveryLimit, Version: "3.10"}, `queue "k" has no delivery limit on RabbitMQ 3.10`},
	} {
		if tt.question.Publish.Exchange == "" && tt.question.Publish.RoutingKey == "" {
			tt.question.Publish.RoutingKey = "q"
		}
		_, err := Explain(m, tt.question)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Explain(%+v) = %v, want %q…", tt.question, err, tt.want)
		}
	}
	if _, err := Explain(m, Question{Queue: "none"}); !errors.Is(err, ErrNoQueue) {
		t.Errorf("Explain() = %v, want %v", err, ErrNoQueue)
	}
}

// A version of 3.x takes an x-death that a publisher wrote for its own.
func TestExplain_ForgedDeath(t *testing.T) {
	t.Parallel()
	m := Manifest{Queues: []Queue{queue("q", argDLX, "", argDLRK, "d", argMessageTTL, int64(1)), queue("d")}}
	forged := map[string]any{"x-death": []any{map[string]any{"queue": "d", "reason": "expired"}}}
	for version, want := range map[string]string{"3.10": "q/lost", "4.0": "q → d@1ms#1/handled"} {
		e, err := Explain(m, Question{Publish: Publish{RoutingKey: "q", Headers: forged}, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		if got := path(e.Copies); got != want {
			t.Errorf("on %s: %s, want %s", version, got, want)
		}
	}
}

func TestExplain_Notes(t *testing.T) {
	t.Parallel()
	m := Manifest{Queues: []Queue{queue("q", argDLX, "", argDLRK, "d"), queue("d")}}
	e, err := Explain(m, Question{Publish: Publish{RoutingKey: "q"}, Failures: 1, Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`a broker that stops at the wrong moment loses what dies in "q": at-most-once`}
	if diff := cmp.Diff(want, e.Notes); diff != "" {
		t.Errorf("Notes mismatch (-want +got):\n%s", diff)
	}
	if e, err = Explain(m, Question{Publish: Publish{RoutingKey: "d"}, Failures: 1, Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`the message does not come to queue "q"`}, e.Notes); diff != "" {
		t.Errorf("Notes mismatch (-want +got):\n%s", diff)
	}
}

func TestExplanation_Ends(t *testing.T) {
	t.Parallel()
	e, err := Explain(laddered(t, "quorum", twoTiers), Question{Publish: order, Failures: Always})
	if err != nil {
		t.Fatal(err)
	}
	want := []End{{Queue: "q.dlq", Fate: FateRests, After: Span{1200 * ms, 1200 * ms}, Attempts: 3, Certain: true}}
	if diff := cmp.Diff(want, e.Ends()); diff != "" {
		t.Errorf("Ends() mismatch (-want +got):\n%s", diff)
	}
}

func TestSpan_JSON(t *testing.T) {
	t.Parallel()
	want := Span{1200 * ms, 1500 * ms}
	data, err := json.Marshal(want)
	if err != nil || string(data) != `{"min_ms":1200,"max_ms":1500}` {
		t.Fatalf("Marshal() = %s, %v", data, err)
	}
	var got Span
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("Unmarshal() = %v, %v", got, err)
	}
}
