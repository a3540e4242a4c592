package retry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func fulfil() Ladder {
	return Ladder{Queue: "orders.fulfil", Tiers: []Tier{
		{Delay: 2 * time.Second},
		{Delay: 1500 * time.Millisecond},
		{
			Delay:  30 * time.Second,
			Slots:  []time.Duration{24 * time.Second, 30 * time.Second, 36 * time.Second},
			Spread: SpreadRandom,
		},
	}}
}

// The names are wire format: they are in every broker that a ladder was ever declared on.
func TestLadderNames(t *testing.T) {
	t.Parallel()
	l := fulfil()
	classic := l
	classic.Type = Classic
	got := map[string]string{
		"retry":        l.RetryExchange(),
		"ladder a":     l.LadderExchange(SetA),
		"ladder b":     l.LadderExchange(SetB),
		"first a":      l.FirstExchange(SetA),
		"first b":      l.FirstExchange(SetB),
		"return":       l.ReturnExchange(),
		"park":         l.ParkExchange(),
		"redrive":      l.RedriveExchange(),
		"dlq":          l.DeadLetterQueue(),
		"tier 1":       l.TierQueues(1)[0].Name,
		"tier 2":       l.TierQueues(2)[0].Name,
		"tier 3 slot":  l.TierQueues(3)[2].Name,
		"classic tier": classic.TierQueues(1)[0].Name,
		"one queue":    l.SpreadExchange(1),
		"jitter":       l.SpreadExchange(3),
		"hash":         Ladder{Queue: "q", Tiers: []Tier{{Spread: SpreadHash}}}.SpreadExchange(1),
		"stamp":        l.Stamp(2),
		"own dlq":      Ladder{Queue: "q", DLQ: "graveyard"}.DeadLetterQueue(),
	}
	want := map[string]string{
		"retry":        "orders.fulfil.retry",
		"ladder a":     "orders.fulfil.retry.ladder.a",
		"ladder b":     "orders.fulfil.retry.ladder.b",
		"first a":      "orders.fulfil.retry.first.a",
		"first b":      "orders.fulfil.retry.first.b",
		"return":       "orders.fulfil.return",
		"park":         "orders.fulfil.park",
		"redrive":      "orders.fulfil.redrive",
		"dlq":          "orders.fulfil.dlq",
		"tier 1":       "orders.fulfil.retry.1.2s",
		"tier 2":       "orders.fulfil.retry.2.1500ms",
		"tier 3 slot":  "orders.fulfil.retry.3.36s",
		"classic tier": "orders.fulfil.retry.1.2s.classic",
		"one queue":    "",
		"jitter":       "orders.fulfil.retry.3.jitter",
		"hash":         "q.retry.1.hash",
		"stamp":        "orders.fulfil.attempt.2",
		"own dlq":      "graveyard",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names mismatch (-want +got):\n%s", diff)
	}
}

func TestLadderTierQueues(t *testing.T) {
	t.Parallel()
	l := fulfil()
	want := []TierQueue{
		{Name: "orders.fulfil.retry.3.24s", TTL: 24 * time.Second},
		{Name: "orders.fulfil.retry.3.30s", TTL: 30 * time.Second},
		{Name: "orders.fulfil.retry.3.36s", TTL: 36 * time.Second},
	}
	if diff := cmp.Diff(want, l.TierQueues(3)); diff != "" {
		t.Errorf("TierQueues(3) mismatch (-want +got):\n%s", diff)
	}
	for index, want := range map[int][2]time.Duration{
		1: {2 * time.Second, 2 * time.Second},
		3: {24 * time.Second, 36 * time.Second},
	} {
		if shortest, longest := l.Delays(index); shortest != want[0] || longest != want[1] {
			t.Errorf("Delays(%d) = %v, %v; want %v, %v", index, shortest, longest, want[0], want[1])
		}
	}
}

// The longest name of all fits into the 255 bytes that the broker allows.
func TestLadderLongestName(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: strings.Repeat("q", MaxQueueName), Type: Classic}
	for range MaxTiers {
		l.Tiers = append(l.Tiers, Tier{Delay: MaxDelay})
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.TierQueues(MaxTiers)[0].Name); n > 255 {
		t.Errorf("a tier's name has %d bytes", n)
	}
}

func TestLadderValidate(t *testing.T) {
	t.Parallel()
	slots := []time.Duration{time.Second}
	for name, tt := range map[string]struct {
		ladder Ladder
		want   []string
	}{
		"no tiers":             {Ladder{Queue: "q"}, nil},
		"everything":           {fulfil(), nil},
		"no queue":             {Ladder{}, []string{"has no queue"}},
		"a long name":          {Ladder{Queue: strings.Repeat("q", 226)}, []string{"226 bytes"}},
		"a line break":         {Ladder{Queue: "a\nb"}, []string{"line break"}},
		"an unknown type":      {Ladder{Queue: "q", Type: "stream"}, []string{`queue type "stream"`}},
		"too many tiers":       {Ladder{Queue: "q", Tiers: make([]Tier, 17)}, []string{"17 tiers", "tier 1 waits 0s", "tier 17 waits 0s"}},
		"a delay too long":     {Ladder{Queue: "q", Tiers: []Tier{{Delay: MaxDelay + time.Millisecond}}}, []string{"tier 1 waits"}},
		"a crooked delay":      {Ladder{Queue: "q", Tiers: []Tier{{Delay: time.Millisecond + 1}}}, []string{"tier 1 waits"}},
		"spread without slots": {Ladder{Queue: "q", Tiers: []Tier{{Delay: time.Second, Spread: SpreadHash}}}, []string{"no slots"}},
		"slots without spread": {Ladder{Queue: "q", Tiers: []Tier{{Delay: time.Second, Slots: slots}}}, []string{`spread ""`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tt.ladder.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("Validate() = %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate() = %q; want it to contain %q", err, want)
				}
			}
		})
	}
}

// A message that arrives with another ladder's stamp, or whose publisher's key looks like one, is
// fresh here.
func TestLadderAttempt(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: "q"}
	for _, tt := range []struct {
		exchange, key string
		want          int
	}{
		{"orders", "order.created", 1},
		{"q.return", "q.attempt.2", 2},
		{"q.return", "q.attempt.17", 17},
		{"q.return", "q.attempt.18", 1},
		{"q.return", "q.attempt.1", 1},
		{"q.return", "q.attempt.0", 1},
		{"q.return", "q.attempt.-2", 1},
		{"q.return", "q.attempt.+2", 1},
		{"q.return", "q.attempt.02", 1},
		{"q.return", "q.attempt.2 ", 1},
		{"q.return", "q.attempt.", 1},
		{"q.return", "q.attempt.99999999999999999999", 1},
		{"q.return", "order.created", 1},
		{"q.return", "other.attempt.2", 1},
		{"orders", "q.attempt.2", 1},
		{"", "q.attempt.2", 1},
		{"other.return", "q.attempt.2", 1},
	} {
		if got := l.Attempt(tt.exchange, tt.key); got != tt.want {
			t.Errorf("Attempt(%q, %q) = %d, want %d", tt.exchange, tt.key, got, tt.want)
		}
	}
}

func TestSetOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Set{
		"q.retry.ladder.a": SetA, "q.retry.first.a": SetA, "q.retry.ladder.b": SetB, "q.retry.first.b": SetB,
		"q.retry": "", "q.park": "", "a": "",
	} {
		if got, ok := SetOf(name); got != want || ok != (want != "") {
			t.Errorf("SetOf(%q) = %q, %v", name, got, ok)
		}
	}
}

// FuzzAttempt: an attempt is in range, and only a stamp of this very ladder is more than 1.
func FuzzAttempt(f *testing.F) {
	f.Add("q", "q.return", "q.attempt.2")
	f.Add("q", "q.return", "q.attempt.017")
	f.Add("", ".return", ".attempt.17")
	f.Add("q", "orders", "order.created")
	f.Fuzz(func(t *testing.T, queue, exchange, key string) {
		l := Ladder{Queue: queue}
		k := l.Attempt(exchange, key)
		if k < 1 || k > MaxTiers+1 {
			t.Fatalf("Attempt(%q, %q) = %d", exchange, key, k)
		}
		if k > 1 && (exchange != l.ReturnExchange() || key != l.Stamp(k)) {
			t.Fatalf("Attempt(%q, %q) = %d, but the stamp is %q", exchange, key, k, l.Stamp(k))
		}
		for k := 2; k <= MaxTiers+1; k++ {
			if got := l.Attempt(l.ReturnExchange(), l.Stamp(k)); got != k {
				t.Fatalf("Attempt of stamp %q = %d", l.Stamp(k), got)
			}
		}
	})
}
