package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// TestAParkerEndsWithoutTheBroker: a broker under an alarm does not read that the connection shall be
// closed, and a stop has no time to wait for it.
func TestAParkerEndsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	proxy := brokertest.NewProxy(t, brokertest.Start(t, brokertest.Versions()[0]).VHost(t))
	p, stop := startParker(t, proxy.URL)
	awaitPublisher(t, p, nil)
	proxy.Stall()
	began := time.Now()
	stop()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestANewConnectionIsNotBlocked until the broker says so of that one.
func TestANewConnectionIsNotBlocked(t *testing.T) {
	t.Parallel()
	proxy := brokertest.NewProxy(t, brokertest.Start(t, brokertest.Versions()[0]).VHost(t))
	p, _ := startParker(t, proxy.URL)
	old := awaitPublisher(t, p, nil)
	p.block("the broker blocks publishers: low on memory")
	proxy.Cut()
	awaitPublisher(t, p, old)
	if got, want := p.waitsFor(), "no confirm within 2s"; got != want {
		t.Errorf("waitsFor() = %q, want %q", got, want)
	}
}

// startParker runs a parker until stop or the end of the test.
func startParker(t *testing.T, brokerURL string) (p *parker, stop func()) {
	t.Helper()
	s := &state{changed: make(chan struct{}, 1)}
	w := &Worker{cfg: Config{}.withDefaults()}
	s.log = w.log
	p = newParker(rabbit.Config{URL: brokerURL}, "work.park", s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return p, stop
}

// awaitPublisher returns the present publisher when it is another than the old one.
func awaitPublisher(t *testing.T, p *parker, old *rabbit.Publisher) *rabbit.Publisher {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		publisher, changed := p.publisher, p.changed
		p.mu.Unlock()
		if publisher != nil && publisher != old {
			return publisher
		}
		select {
		case <-changed:
		case <-late:
			t.Fatal("no publisher")
		}
	}
}
