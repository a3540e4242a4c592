package rabbit_test

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between a client and a broker and can stop carrying bytes, as a broker under an alarm
// does, or a network that swallows them.
type proxy struct {
	addr string

	mu      sync.Mutex
	stalled chan struct{}
}

// newProxy carries connections to target until the test ends.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l := listen(t)
	open := make(chan struct{})
	close(open)
	p := &proxy{addr: l.Addr().String(), stalled: open}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
	}
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			keep(in)
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			keep(out)
			wg.Go(func() { p.carry(out, in) })
			wg.Go(func() { p.carry(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.resume()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) carry(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		<-stalled
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// stall stops all bytes, both ways, until resume.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
	default:
		close(p.stalled)
	}
}
