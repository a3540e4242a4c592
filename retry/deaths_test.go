package retry

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var died = time.Unix(1_700_000_000, 0)

// death is an entry of x-death as the broker writes it.
func death(queue, reason, exchange, key string, count any) map[string]any {
	return map[string]any{
		"queue": queue, "reason": reason, "exchange": exchange, "routing-keys": []any{key},
		"count": count, "time": died,
	}
}

func xdeath(entries ...any) map[string]any { return map[string]any{"x-death": entries} }

func TestDeaths(t *testing.T) {
	t.Parallel()
	rejected := death("q", "rejected", "orders", "order.created", int64(2))
	expired := death("q.retry.1.2s", "expired", "q.retry.first.a", "order.created", int64(2))
	expired["original-expiration"] = "60000"
	got, err := Deaths(xdeath(expired, rejected))
	if err != nil {
		t.Fatal(err)
	}
	want := []Death{
		{
			Queue: "q.retry.1.2s", Reason: "expired", Exchange: "q.retry.first.a", RoutingKeys: []string{"order.created"},
			Count: 2, Time: died, OriginalExpiration: "60000",
		},
		{Queue: "q", Reason: "rejected", Exchange: "orders", RoutingKeys: []string{"order.created"}, Count: 2, Time: died},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Deaths() mismatch (-want +got):\n%s", diff)
	}
	for _, headers := range []map[string]any{nil, {}, {"x-death": nil}} {
		if got, err := Deaths(headers); got != nil || err != nil {
			t.Errorf("Deaths(%v) = %v, %v; want none", headers, got, err)
		}
	}
}

// A count that is not read because it has another width resets the attempts, so that a message is
// retried for ever.
func TestDeathsTakesEveryInteger(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: "q"}
	for _, count := range []any{
		int(3), int8(3), int16(3), int32(3), int64(3), uint(3), uint8(3), uint16(3), uint32(3), uint64(3),
	} {
		if got := l.Rejections(xdeath(death("q", "rejected", "", "q", count))); got != 3 {
			t.Errorf("Rejections() with %T = %d, want 3", count, got)
		}
	}
}

func TestDeathsNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	with := func(field string, v any) map[string]any {
		d := death("q", "rejected", "orders", "k", int64(1))
		d[field] = v
		return xdeath(death("ok", "rejected", "", "k", int64(1)), d)
	}
	for want, headers := range map[string]map[string]any{
		"x-death has type string; expected an array of tables":            {"x-death": "nonsense"},
		"x-death[0] has type int64; expected a table":                     xdeath(int64(1)),
		"x-death[1].queue has type int64; expected a string":              with("queue", int64(1)),
		"x-death[1].queue is missing":                                     with("queue", nil),
		"x-death[1].reason is missing":                                    with("reason", nil),
		"x-death[1].exchange has type bool; expected a string":            with("exchange", true),
		"x-death[1].count has type string; expected an integer":           with("count", "5"),
		"x-death[1].count has type float64; expected an integer":          with("count", 5.0),
		"x-death[1].count is missing":                                     with("count", nil),
		"x-death[1].count is -1; expected 0 or more":                      with("count", int8(-1)),
		"x-death[1].count is 9223372036854775808; expected at most":       with("count", uint64(math.MaxInt64+1)),
		"x-death[1].time has type int64; expected a timestamp":            with("time", int64(1)),
		"x-death[1].routing-keys has type string; expected an array":      with("routing-keys", "k"),
		"x-death[1].routing-keys[0] has type int64; expected a string":    with("routing-keys", []any{int64(1)}),
		"x-death[1].original-expiration has type int64; expected a strin": with("original-expiration", int64(60)),
	} {
		got, err := Deaths(headers)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Deaths() error = %v; want it to contain %q", err, want)
		}
		if strings.Contains(want, "[1]") && (len(got) != 1 || got[0].Queue != "ok") {
			t.Errorf("%s: Deaths() = %v; want the good entry", want, got)
		}
	}
}

func TestRejections(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: "q"}
	for name, tt := range map[string]struct {
		headers map[string]any
		want    int64
	}{
		"fresh":          {nil, 0},
		"other entries":  {xdeath(death("q", "expired", "", "q", int64(9)), death("p", "rejected", "", "p", int64(9))), 0},
		"some":           {xdeath(death("p", "rejected", "", "p", int64(9)), death("q", "rejected", "", "q", int64(4))), 4},
		"two entries":    {xdeath(death("q", "rejected", "", "q", int64(1)), death("q", "rejected", "", "q", int64(2))), 3},
		"no overflow":    {xdeath(death("q", "rejected", "", "q", int64(math.MaxInt64)), death("q", "rejected", "", "q", int64(2))), math.MaxInt64},
		"malformed":      {map[string]any{"x-death": 1}, 0},
		"half malformed": {xdeath(1, death("q", "rejected", "", "q", int64(4))), 4},
	} {
		if got := l.Rejections(tt.headers); got != tt.want {
			t.Errorf("%s: Rejections() = %d, want %d", name, got, tt.want)
		}
	}
}

// RabbitMQ 3.10 shuffles the list: what is read from it does not depend on the order.
func TestDeathsOrderMeansNothing(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: "q"}
	late := death("q", "rejected", "q.return", "q.attempt.2", int64(1))
	late["time"] = died.Add(time.Minute)
	entries := []any{
		death("q", "rejected", "orders", "order.created", int64(2)), late,
		death("q.retry.1.2s", "expired", "q.retry", "order.created", int64(1)),
		death("q.retry.2.8s", "expired", "q.retry", "q.attempt.2", int64(1)),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		o, err := l.Origin("q.return", "q.attempt.3", xdeath(entries...))
		want := Origin{Exchange: "orders", RoutingKey: "order.created", FirstFailure: died}
		if diff := cmp.Diff(want, o); diff != "" || err != nil {
			t.Fatalf("Origin() error %v, mismatch (-want +got):\n%s", err, diff)
		}
		if n := l.Rejections(xdeath(entries...)); n != 3 {
			t.Fatalf("Rejections() = %d, want 3", n)
		}
	}
}

// FuzzDeaths: whatever a publisher puts into x-death, reading it ends, and gives sane entries or an
// error.
func FuzzDeaths(f *testing.F) {
	f.Add([]byte(`[{"queue":"q","reason":"rejected","exchange":"orders","routing-keys":["k"],"count":2}]`))
	f.Add([]byte(`[{"queue":"q","reason":"rejected","exchange":"q.redrive","routing-keys":[],"count":-2}]`))
	f.Add([]byte(`{"queue":[1,{"a":null}]}`))
	f.Add([]byte(`[[],{},null,"x",{"queue":1,"count":"1","time":7}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if json.Unmarshal(data, &v) != nil {
			return
		}
		headers := map[string]any{"x-death": integers(v)}
		deaths, err := Deaths(headers)
		if list, ok := v.([]any); err == nil && (v != nil && !ok || len(list) != len(deaths)) {
			t.Fatalf("Deaths() read %d entries of %v without an error", len(deaths), v)
		}
		for _, d := range deaths {
			if d.Count < 0 {
				t.Fatalf("Deaths() = %+v", d)
			}
		}
		l := Ladder{Queue: "q"}
		if l.Rejections(headers) < 0 {
			t.Fatal("Rejections() is negative")
		}
		if o, err := l.Origin("q.return", "q.attempt.2", headers); err == nil && o.Exchange == "q.return" {
			t.Fatalf("Origin() = %+v, which is the ladder itself", o)
		}
	})
}

// integers makes integers of whole numbers, as a broker would send them.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	}
	return v
}
