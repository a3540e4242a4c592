package brokertest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between clients and a broker and does what networks do: it cuts connections, swallows
// bytes, lets nobody in.
type Proxy struct {
	// URL is the broker's, through the proxy.
	URL string

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	stalled chan struct{}
	down    bool
	closed  bool
}

// NewProxy carries connections to the broker of a URL until the test ends.
func NewProxy(tb testing.TB, brokerURL string) *Proxy {
	tb.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		tb.Fatal(err)
	}
	target := u.Host
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = l.Addr().String()
	p := &Proxy{URL: u.String(), conns: make(map[net.Conn]struct{}), stalled: make(chan struct{})}
	close(p.stalled)
	var wg sync.WaitGroup
	wg.Go(func() { p.accept(l, target, &wg) })
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Resume()
		p.Cut()
		wg.Wait()
	})
	return p
}

func (p *Proxy) accept(l net.Listener, target string, wg *sync.WaitGroup) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down {
			_ = in.Close()
			continue
		}
		out, err := net.Dial("tcp", target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = struct{}{}, struct{}{}
		// Cut may have come and gone since the connection was let in.
		late := p.down || p.closed
		p.mu.Unlock()
		if late {
			p.drop(in, out)
			continue
		}
		wg.Go(func() { p.carry(out, in) })
		wg.Go(func() { p.carry(in, out) })
	}
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
		_ = c.Close()
	}
}

func (p *Proxy) carry(to, from net.Conn) {
	defer p.drop(to, from)
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

// Cut ends every connection; new ones are let in.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Down ends every connection and lets nobody in until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Cut()
}

// Up lets connections in again.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Stall stops all bytes, both ways, until Resume.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
		p.stalled = make(chan struct{})
	default:
	}
}

// Resume carries bytes again.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
	default:
		close(p.stalled)
	}
}
