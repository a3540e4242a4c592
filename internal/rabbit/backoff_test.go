package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

func TestBackoffGrowsToItsBound(t *testing.T) {
	t.Parallel()
	highest := func(n int64) int64 { return n - 1 }
	lowest := func(int64) int64 { return 0 }
	waits := func(b rabbit.Backoff) (out []time.Duration) {
		for range 6 {
			out = append(out, b.Next())
		}
		return out
	}
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		b    rabbit.Backoff
		want []time.Duration
	}{
		"the zero value":        {rabbit.Backoff{Rand: highest}, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms}},
		"full jitter":           {rabbit.Backoff{Rand: lowest}, []time.Duration{ms, ms, ms, ms, ms, ms}},
		"a bound":               {rabbit.Backoff{Base: 100 * ms, Max: 350 * ms, Rand: highest}, []time.Duration{100 * ms, 200 * ms, 350 * ms, 350 * ms, 350 * ms, 350 * ms}},
		"a base over the bound": {rabbit.Backoff{Base: time.Hour, Max: 5 * ms, Rand: highest}, []time.Duration{5 * ms, 5 * ms, 5 * ms, 5 * ms, 5 * ms, 5 * ms}},
		"next to nothing":       {rabbit.Backoff{Base: 1, Max: 1, Rand: highest}, []time.Duration{ms, ms, ms, ms, ms, ms}},
	} {
		if diff := cmp.Diff(row.want, waits(row.b)); diff != "" {
			t.Errorf("%s: waits mismatch (-want +got):\n%s", name, diff)
		}
	}
	b := rabbit.Backoff{Rand: highest}
	waits(b)
	b.Next()
	b.Next()
	b.Reset()
	if got := b.Next(); got != 100*ms {
		t.Errorf("Next() after Reset() = %v", got)
	}
	b = rabbit.Backoff{}
	for range 1000 {
		if d := b.Next(); d < ms || d > 10*time.Second {
			t.Fatalf("Next() = %v", d)
		}
	}
}

func TestBackoffWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := rabbit.Backoff{Base: time.Minute, Max: time.Hour, Rand: func(n int64) int64 { return n - 1 }}
		began := time.Now()
		if err := b.Wait(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Wait() = %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("Wait() = %v after %v", err, time.Since(began))
		}
	})
}
