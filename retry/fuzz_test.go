package retry

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzFailureRoundTrip: whatever the texts and the limit, the frame fits, what is read is what was
// written but for what was cut, and writing that again changes nothing.
func FuzzFailureRoundTrip(f *testing.F) {
	f.Add("orders", "order.created", "*errors.errorString", "no such order", "goroutine 1", int64(4), int64(1_700_000_000_123), 131072, 1.5, 10)
	f.Add("", "\xff\x00", "\xff", strings.Repeat("€", 300), strings.Repeat("s", 5000), int64(-1), int64(-1), 4096, math.NaN(), 5000)
	f.Add("e", "k", "c", "m", "s", int64(math.MaxInt64), int64(0), 5000, math.Inf(1), 100000)
	f.Fuzz(func(t *testing.T, exchange, key, class, message, stack string, attempts, ms int64, limit int, number float64, own int) {
		// Times beyond this overflow in time.Time itself.
		ms %= 1 << 52
		in := Failure{
			ID: NewID(time.Unix(0, 0)), SourceQueue: "q", SourceExchange: exchange, SourceRoutingKey: key,
			ConsumerName: class, Attempts: attempts, FirstFailure: fromMillis(ms), Category: Category(key), Class: class,
			Message: message, Stack: stack, Reason: ReasonCrashed, UserID: key, Expiration: exchange,
		}
		headers, cut := in.Write(map[string]any{"n": []any{number}, "own": make([]byte, min(max(own, 0), 1<<18))}, limit)
		if n := tableSize(headers) + frameOverhead; limit > 0 && n > max(limit, 4096) {
			t.Fatalf("the frame has %d bytes", n)
		}
		if n := ours(headers); n >= 8192 {
			t.Fatalf("our headers take %d bytes", n)
		}
		out, found, err := ReadFailure(headers)
		if !found || err != nil {
			t.Fatalf("ReadFailure() = %v, %v", found, err)
		}
		if out.Attempts != attempts || !out.FirstFailure.Equal(in.FirstFailure) {
			t.Fatalf("ReadFailure() = %+v", out)
		}
		if len(exchange) <= 255 && out.SourceExchange != exchange || len(key) <= 255 && out.SourceRoutingKey != key {
			t.Fatalf("the origin %q, %q became %q, %q", exchange, key, out.SourceExchange, out.SourceRoutingKey)
		}
		for header, got := range map[string]string{HeaderErrorMessage: out.Message, HeaderErrorStack: out.Stack, HeaderErrorClass: out.Class} {
			want := map[string]string{HeaderErrorMessage: message, HeaderErrorStack: stack, HeaderErrorClass: class}[header]
			if !slices.Contains(cut, header) && got != strings.ToValidUTF8(want, "\uFFFD") {
				t.Fatalf("%s: %q became %q", header, want, got)
			}
			if !utf8.ValidString(got) {
				t.Fatalf("%s is not valid UTF-8: %q", header, got)
			}
		}
		rewritten, _ := out.Write(nil, 0)
		again, _, err := ReadFailure(rewritten)
		out.Cut, again.Cut, out.Floats = nil, nil, nil
		if diff := cmp.Diff(out, again); diff != "" || err != nil {
			t.Fatalf("written again: %v, mismatch (-first +second):\n%s", err, diff)
		}
	})
}
