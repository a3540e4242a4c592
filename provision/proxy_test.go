package provision

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
)

// logTo returns a logger that calls f at its first record.
func logTo(f func()) *slog.Logger { return slog.New(&onLog{f: sync.OnceFunc(f)}) }

type onLog struct{ f func() }

func (h *onLog) Enabled(context.Context, slog.Level) bool { return true }
func (h *onLog) Handle(context.Context, slog.Record) error {
	h.f()
	return nil
}
func (h *onLog) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *onLog) WithGroup(string) slog.Handler      { return h }

// forward listens at one address and hands every connection on to another, until the test ends.
func forward(t testing.TB, at, to string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Error(err)
		return
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				wg.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
}
