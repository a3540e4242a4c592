package retry

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrigin(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: "q"}
	merge := func(maps ...map[string]any) map[string]any {
		out := map[string]any{}
		for _, m := range maps {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	redrive := map[string]any{"redrive.exchange": "orders", "redrive.routing_key": "order.created"}
	copied := map[string]any{
		"retry.exchange": "orders", "retry.routing_key": "order.created", "retry.first_failure": int64(1_600_000_000_123),
	}
	source := map[string]any{
		"dlq.source.queue": "q", "dlq.source.exchange": "orders", "dlq.source.routing_key": "order.created",
	}
	rejected := func(exchange, key string) map[string]any {
		return xdeath(death("q.retry.1.2s", "expired", "q.retry", key, int64(1)), death("q", "rejected", exchange, key, int64(1)))
	}
	noName := strings.Repeat("k", 256)
	fresh := Origin{Exchange: "orders", RoutingKey: "order.created"}
	failed := Origin{Exchange: "orders", RoutingKey: "order.created", FirstFailure: died}
	copyFailed := Origin{Exchange: "orders", RoutingKey: "order.created", FirstFailure: time.UnixMilli(1_600_000_000_123).UTC()}
	for name, tt := range map[string]struct {
		exchange, key string
		headers       map[string]any
		want          Origin
	}{
		"fresh":                           {"orders", "order.created", nil, fresh},
		"fresh, from the default one":     {"", "q", nil, Origin{RoutingKey: "q"}},
		"fresh, from another DLX":         {"orders", "order.created", rejected("other", "k"), fresh},
		"fresh, headers were copied":      {"orders", "order.created", merge(redrive, copied, source), fresh},
		"back from a tier":                {"q.return", "q.attempt.2", rejected("orders", "order.created"), failed},
		"back, from the default exchange": {"q.return", "q.attempt.2", rejected("", "q"), Origin{RoutingKey: "q", FirstFailure: died}},
		"back, headers were copied": {
			"q.return", "q.attempt.2",
			merge(rejected("orders", "order.created"), map[string]any{
				"redrive.exchange": "stale", "redrive.routing_key": "stale", "retry.exchange": "stale", "retry.routing_key": "stale",
			}), failed,
		},
		"redriven":           {"q.redrive", "order.created", redrive, fresh},
		"redriven, and back": {"q.return", "q.attempt.2", merge(rejected("q.redrive", "order.created"), redrive), failed},
		"redriven by the default exchange's name": {
			"q.redrive", "q", map[string]any{"redrive.exchange": "", "redrive.routing_key": "q"}, Origin{RoutingKey: "q"},
		},
		"copied into a tier":                {"q.return", "q.attempt.2", copied, copyFailed},
		"copied into a tier, then rejected": {"q.return", "q.attempt.3", merge(rejected("q.return", "q.attempt.2"), copied), copyFailed},
		"copied, without a time": {
			"q.return", "q.attempt.3", merge(rejected("q.return", "q.attempt.2"), map[string]any{
				"retry.exchange": "orders", "retry.routing_key": "order.created",
			}), failed,
		},
		"copied after a redrive":            {"q.return", "q.attempt.2", merge(copied, redrive), copyFailed},
		"moved by hand out of the DLQ":      {"", "q", source, fresh},
		"moved by hand, and back":           {"q.return", "q.attempt.2", merge(source, rejected("", "q")), failed},
		"moved by hand from another DLQ":    {"", "q", merge(source, map[string]any{"dlq.source.queue": "p"}), Origin{RoutingKey: "q"}},
		"moved by hand, no name":            {"", "q", merge(source, map[string]any{"dlq.source.routing_key": noName}), Origin{RoutingKey: "q"}},
		"moved by hand, origin not known":   {"", "q", map[string]any{"dlq.source.queue": "q"}, Origin{RoutingKey: "q"}},
		"strings that another client wrote": {"q.redrive", "x", map[string]any{"redrive.exchange": []byte("orders"), "redrive.routing_key": []byte("order.created")}, fresh},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := l.Origin(tt.exchange, tt.key, tt.headers)
			if err != nil {
				t.Errorf("Origin() error = %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Origin() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOriginWithoutEvidence(t *testing.T) {
	t.Parallel()
	l := Ladder{Queue: "q"}
	noKey := death("q", "rejected", "orders", "", int64(1))
	noKey["routing-keys"] = []any{}
	long := strings.Repeat("k", 256)
	for name, tt := range map[string]struct {
		exchange, key string
		headers       map[string]any
		want          Origin
		text          string
	}{
		"stamped, and nothing else":        {"q.return", "q.attempt.2", nil, Origin{}, "headers retry.exchange and retry.routing_key"},
		"only the tier's death":            {"q.return", "q.attempt.2", xdeath(death("q.retry.1.2s", "expired", "", "k", int64(1))), Origin{}, "retry.exchange"},
		"a copy without its headers":       {"q.return", "q.attempt.3", xdeath(death("q", "rejected", "q.return", "q.attempt.2", int64(1))), Origin{FirstFailure: died}, "retry.exchange"},
		"an entry without a key":           {"q.return", "q.attempt.2", xdeath(noKey), Origin{Exchange: "orders", FirstFailure: died}, "no routing key"},
		"an entry whose key is none":       {"q.return", "q.attempt.2", xdeath(death("q", "rejected", "orders", long, int64(1))), Origin{Exchange: "orders", FirstFailure: died}, "more than 255 bytes"},
		"an entry whose names are none":    {"q.return", "q.attempt.2", xdeath(death("q", "rejected", long, long, int64(1))), Origin{FirstFailure: died}, "more than 255 bytes"},
		"a copy whose key is none":         {"q.return", "q.attempt.2", map[string]any{"retry.exchange": "orders", "retry.routing_key": long}, Origin{Exchange: "orders"}, "retry.routing_key has 256 bytes"},
		"redriven with a key that is none": {"q.redrive", "k", map[string]any{"redrive.exchange": "orders", "redrive.routing_key": long}, Origin{Exchange: "orders", RoutingKey: "k"}, "redrive.routing_key has 256 bytes"},
		"an x-death of another type":       {"q.return", "q.attempt.2", map[string]any{"x-death": "x"}, Origin{}, "x-death has type string"},
		"redriven without headers":         {"q.redrive", "order.created", nil, Origin{RoutingKey: "order.created"}, "redrive.exchange"},
		"redriven with a wrong header":     {"q.redrive", "k", map[string]any{"redrive.exchange": int64(1), "redrive.routing_key": "k2"}, Origin{RoutingKey: "k2"}, "redrive.exchange has type int64; expected a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := l.Origin(tt.exchange, tt.key, tt.headers)
			if !errors.Is(err, ErrOriginUnknown) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Origin() error = %v; want ErrOriginUnknown with %q", err, tt.text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Origin() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// A time that cannot be read is reported, but the origin is known.
func TestOriginWithAWrongTime(t *testing.T) {
	t.Parallel()
	o, err := Ladder{Queue: "q"}.Origin("q.return", "q.attempt.2", map[string]any{
		"retry.exchange": "orders", "retry.routing_key": "k", "retry.first_failure": "yesterday",
	})
	if err == nil || errors.Is(err, ErrOriginUnknown) || !strings.Contains(err.Error(), "retry.first_failure has type string") {
		t.Errorf("Origin() error = %v", err)
	}
	if want := (Origin{Exchange: "orders", RoutingKey: "k"}); o != want {
		t.Errorf("Origin() = %+v, want %+v", o, want)
	}
}
