package provision

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/management"
	"github.com/rmqkit/rmqkit/topology"
)

var errCrash = errors.New("crash")

// crashAt returns a hook that ends a run before its nth change, counted from 0, and forgets nothing.
func crashAt(n int) func(string) error {
	var mu sync.Mutex
	return func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n < 0 {
			return errCrash
		}
		return nil
	}
}

const changing = `
version: 1
name: orders
defaults: {type: TYPE}
exchanges:
  orders: {type: topic}
queues:
  one: {bind: [{exchange: orders, key: KEY}], retry: {delays: [DELAYS], jitter: JITTER}}
  two: {bind: [{exchange: orders, key: two}], retry: {delays: [1s]}}
`

func variant(t testing.TB, typ, key, delays, jitter string) *topology.Topology {
	t.Helper()
	return parse(t, strings.NewReplacer("TYPE", typ, "KEY", key, "DELAYS", delays, "JITTER", jitter).Replace(changing))
}

// Whatever is interrupted, and wherever: an apply that comes to its end makes what one apply makes on an
// empty vhost, plus what was left alone.
func TestAnApplyKilledAnywhereIsCompletedByTheNext(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker, typ string) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		variants := []*topology.Topology{
			variant(t, typ, "a", "1s, 2s, 3s", "none"),
			variant(t, typ, "b", "1s, 4s", "20%"),
			variant(t, typ, "a", "2s", "{band: 50%, slots: 3}"),
			variant(t, typ, "c", "1s, 2s, 3s, 5s", "20%"),
		}
		url := b.VHost(t)
		for round := range 2 {
			next := variants[r.IntN(len(variants))]
			for range 1 + r.IntN(3) {
				o := onVHost(url)
				o.hook = crashAt(r.IntN(150))
				if _, err := Apply(t.Context(), o, variants[r.IntN(len(variants))]); err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
			}
			if _, err := Apply(t.Context(), onVHost(url), next); err != nil {
				t.Fatal(err)
			}
			again, err := Preview(t.Context(), onVHost(url), next)
			if err != nil {
				t.Fatal(err)
			}
			if again.Changed() {
				t.Errorf("round %d: applying again would change %v", round, again.Changes)
			}
			fresh := b.VHost(t)
			if _, err := Apply(t.Context(), onVHost(fresh), next); err != nil {
				t.Fatal(err)
			}
			want, got := snapshot(t, b, fresh), snapshot(t, b, url)
			// Tiers of other variants are left; nothing leads to them.
			retired := func(name string) bool { return strings.Contains(name, ".retry.") }
			opts := []gocmp.Option{
				cmpopts.IgnoreSliceElements(func(q management.Queue) bool { return retired(q.Name) }),
				cmpopts.IgnoreSliceElements(func(x management.Exchange) bool { return strings.HasSuffix(x.Name, ".jitter") }),
			}
			if diff := gocmp.Diff(want, got, opts...); diff != "" {
				t.Errorf("round %d: not what one apply makes (-want +got):\n%s", round, diff)
			}
			if n := recordsIn(t, b, url); n != 1 {
				t.Errorf("round %d: %d records, want 1", round, n)
			}
		}
	})
}

// recordsIn counts the messages of the state queue.
func recordsIn(t testing.TB, b *brokertest.Broker, url string) int {
	t.Helper()
	q, err := brokertest.Dial(t, url).QueueDeclarePassive(stateName("orders"), true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// Four contenders, some of which die: one holds the lock at a time, the newest record is never lost,
// and those that live all succeed.
func TestAppliesOfOneTopologyWaitForEachOther(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		topo := variant(t, "quorum", "a", "1s, 2s", "none")
		var mu sync.Mutex
		holder, overlaps := -1, 0
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for range 4 {
					o := onVHost(url)
					left := 1 << 30
					if r.IntN(5) < 2 {
						left = r.IntN(80)
					}
					crash := crashAt(left)
					o.hook = func(step string) error {
						mu.Lock()
						defer mu.Unlock()
						if holder != i {
							holder = i
						}
						return crash(step)
					}
					o.done = func() {
						mu.Lock()
						defer mu.Unlock()
						if holder >= 0 && holder != i {
							overlaps++
						}
						holder = -1
					}
					if _, err := Apply(t.Context(), o, topo); err != nil && !errors.Is(err, errCrash) {
						errs[i] = errors.Join(errs[i], err)
					}
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		if overlaps > 0 {
			t.Errorf("%d times another one worked while the lock was held", overlaps)
		}
		if _, err := Apply(t.Context(), onVHost(url), topo); err != nil {
			t.Error(err)
		}
		if n := recordsIn(t, b, url); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

func TestALockThatIsHeldIsSaid(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		if _, err := brokertest.Dial(t, url).QueueDeclare(lockName("orders"), false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		topo := parse(t, typed(orders, "classic"))
		before := snapshot(t, b, url)
		for _, wait := range []struct {
			name string
			o    func(*Options)
		}{
			{"one try", func(o *Options) { o.LockWait = NoLockWait }},
			{"a moment", func(o *Options) { o.LockWait = 1 }},
		} {
			o := onVHost(url)
			wait.o(&o)
			if _, err := Apply(t.Context(), o, topo); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "rmqkit.lock.orders") {
				t.Errorf("%s: Apply() error = %v; want ErrLocked and the queue's name", wait.name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Apply(ctx, onVHost(url), topo); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: Apply() error = %v", err)
		}
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("apply was locked out and changed (-before +after):\n%s", diff)
		}
	})
}

func TestACancelledApplyStopsBetweenTwoChanges(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		topo := parse(t, typed(orders, "quorum"))
		for _, at := range []string{stepQueues, stepSwitching, stepSwitchIn + "b"} {
			ctx, cancel := context.WithCancel(t.Context())
			o := onVHost(url)
			o.hook = func(step string) error {
				if step == at {
					cancel()
				}
				return nil
			}
			report, err := Apply(ctx, o, topo)
			cancel()
			if !errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "apply again to complete it") || report == nil {
				t.Errorf("cancelled during %q: Apply() error = %v, report %v", at, err, report != nil)
			}
		}
		report, err := Apply(t.Context(), onVHost(url), topo)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Resumed {
			t.Error("the report does not say that it completed what was interrupted")
		}
	})
}

func TestAConnectionThatIsClosedInTheMiddleIsSaid(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		topo := parse(t, typed(orders, "quorum"))
		var once sync.Once
		o := onVHost(url)
		o.hook = func(step string) error {
			if step == stepInside {
				once.Do(func() { b.CloseAllConnections(t, url) })
			}
			return nil
		}
		_, err := Apply(t.Context(), o, topo)
		if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "apply again to complete it") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Apply() error = %v; want one line that says to apply again", err)
		}
		if _, err := Apply(t.Context(), onVHost(url), topo); err != nil {
			t.Error(err)
		}
	})
}
