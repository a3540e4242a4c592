package rabbit

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff makes the waits between tries: exponential with full jitter, so that many clients that lost
// the same broker do not come back together. The zero value starts at 100 ms and never waits longer
// than 10 s. Not safe for concurrent use.
type Backoff struct {
	// Base bounds the first wait. Zero means 100 ms.
	Base time.Duration
	// Max bounds every wait. Zero means 10 s.
	Max time.Duration
	// Rand returns a number in [0, n). Nil means a random one.
	Rand func(n int64) int64

	bound time.Duration
}

// Next returns the next wait: at least 1 ms, at most Base × 2^n after n waits, and never more than Max.
func (b *Backoff) Next() time.Duration {
	limit := max(orDefault(b.Max, 10*time.Second), time.Millisecond)
	if b.bound == 0 {
		b.bound = orDefault(b.Base, 100*time.Millisecond)
	}
	bound := min(max(b.bound, time.Millisecond), limit)
	// Doubling what is at most Max cannot overflow for any Max a person would write.
	b.bound = min(bound, limit/2+1) * 2
	random := b.Rand
	if random == nil {
		random = rand.Int64N
	}
	return time.Millisecond + time.Duration(random(int64(bound-time.Millisecond)+1))
}

// Reset makes the next wait short again.
func (b *Backoff) Reset() { b.bound = 0 }

// Wait waits for the next wait, or until ctx ends and returns its error then.
func (b *Backoff) Wait(ctx context.Context) error {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
