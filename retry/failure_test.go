package retry

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// decimal stands for the client library's type, which this package knows nothing of.
type decimal struct {
	Scale uint8
	Value int32
}

// table stands for the client library's table.
type table map[string]any

// everyType is a header table with every type that AMQP 0.9.1 has, nested.
func everyType() map[string]any {
	return map[string]any{
		"bool": true, "int8": int8(-1), "uint8": uint8(1), "int16": int16(-2), "uint16": uint16(2),
		"int32": int32(-3), "uint32": uint32(3), "int64": int64(-4), "float32": float32(1.5), "float64": 2.5,
		"decimal": decimal{2, 314}, "string": "a\x00\xff", "empty": "", "bytes": []byte{0, 255}, "no bytes": []byte{},
		"time": time.Unix(1, 0), "nil": nil, "no table": map[string]any{}, "no array": []any{},
		"table":     map[string]any{"array": []any{int8(1), map[string]any{"deep": []byte("x")}, nil}},
		"foreign":   table{"x": table{"y": int16(1)}},
		"x-death":   []any{death("q", "rejected", "orders", "order.created", int64(3))},
		"x-retries": int32(7),
	}
}

func full() Failure {
	return Failure{
		ID: "01a22f6d-d998-7650-83a7-b4226dd16774", SourceQueue: "orders.fulfil", SourceExchange: "orders",
		SourceRoutingKey: "order.created", ConsumerName: "fulfil", ConsumerVersion: "v1.2.3", Attempts: 4,
		FirstFailure: time.UnixMilli(1_700_000_000_123).UTC(), LastFailure: time.UnixMilli(1_700_000_040_456).UTC(),
		Category: CategoryDependency, Class: "*net.OpError", Message: "dial tcp: refused", Stack: "goroutine 1",
		Reason: ReasonExhausted, UserID: "shop", Expiration: "60000",
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	own := everyType()
	own["dlq.id"] = "stale"
	own["dlq.error.stack"] = int64(1)
	own["dlq.note"] = "stale too"
	got, cut := full().Write(own, 131072)
	want := everyType()
	maps.Copy(want, map[string]any{
		"dlq.id": "01a22f6d-d998-7650-83a7-b4226dd16774", "dlq.source.queue": "orders.fulfil",
		"dlq.source.exchange": "orders", "dlq.source.routing_key": "order.created", "dlq.consumer.name": "fulfil",
		"dlq.consumer.version": "v1.2.3", "dlq.attempts": int64(4), "dlq.first_failure": int64(1_700_000_000_123),
		"dlq.last_failure": int64(1_700_000_040_456), "dlq.error.category": "dependency",
		"dlq.error.class": "*net.OpError", "dlq.error.message": "dial tcp: refused", "dlq.error.stack": "goroutine 1",
		"dlq.reason": "exhausted", "dlq.user_id": "shop", "dlq.expiration": "60000",
	})
	if diff := cmp.Diff(want, got); diff != "" || cut != nil {
		t.Errorf("Write() cut %v, mismatch (-want +got):\n%s", cut, diff)
	}
}

// What is not known is not written, except what every reader relies on; an empty exchange is a fact.
func TestWriteLeavesOutWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		failure Failure
		want    map[string]any
	}{
		{Failure{}, map[string]any{
			"dlq.id": "", "dlq.source.queue": "", "dlq.source.exchange": "", "dlq.source.routing_key": "",
			"dlq.attempts": int64(0), "dlq.error.category": "", "dlq.reason": "",
		}},
		{Failure{OriginUnknown: true}, map[string]any{
			"dlq.id": "", "dlq.source.queue": "", "dlq.attempts": int64(0), "dlq.error.category": "", "dlq.reason": "",
		}},
	} {
		got, _ := tt.failure.Write(nil, 0)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Write() mismatch (-want +got):\n%s", diff)
		}
		if f, found, err := ReadFailure(got); !found || err != nil || cmp.Diff(tt.failure, f) != "" {
			t.Errorf("ReadFailure() = %+v, %v, %v; want %+v", f, found, err, tt.failure)
		}
	}
}

// The result may be changed and published while the delivery is still being logged.
func TestWriteSharesNothing(t *testing.T) {
	t.Parallel()
	own := everyType()
	got, _ := full().Write(own, 0)
	got["bytes"].([]byte)[0] = 1
	got["table"].(map[string]any)["array"].([]any)[0] = "changed"
	got["table"].(map[string]any)["array"].([]any)[1].(map[string]any)["deep"].([]byte)[0] = 'y'
	got["foreign"].(table)["x"].(table)["y"] = "changed"
	delete(got, "bool")
	if diff := cmp.Diff(everyType(), own); diff != "" {
		t.Errorf("the headers as received were changed (-want +got):\n%s", diff)
	}
}

// A NaN or infinite float makes the broker kill the connection (541), on every version.
func TestWriteCarriesWhatTheBrokerCannot(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	got, cut := full().Write(map[string]any{
		"fine": 1.5, "nan": math.NaN(), "f32": float32(inf),
		"table":   map[string]any{"list": []any{1.5, math.Inf(-1), []any{float32(math.NaN())}}},
		"foreign": table{"inf": inf},
	}, 131072)
	if cut != nil {
		t.Errorf("Write() cut %v", cut)
	}
	for name := range got {
		if strings.HasPrefix(name, Prefix) && name != HeaderFloats {
			delete(got, name)
		}
	}
	want := map[string]any{
		"fine": 1.5, "nan": "NaN", "f32": "+Inf",
		"table":      map[string]any{"list": []any{1.5, "-Inf", []any{"NaN"}}},
		"foreign":    table{"inf": "+Inf"},
		"dlq.floats": []any{"f32", "foreign.inf", "nan", "table.list[1]", "table.list[2][0]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Write() mismatch (-want +got):\n%s", diff)
	}
}

func TestWriteBoundsTheNoteOfFloats(t *testing.T) {
	t.Parallel()
	many := make([]any, 1000)
	for i := range many {
		many[i] = math.NaN()
	}
	got, _ := full().Write(map[string]any{"list": many, strings.Repeat("k", 255): math.NaN()}, 0)
	list := got[HeaderFloats].([]any)
	if size := valueSize(list); size > maxNames || list[len(list)-1] != "…" {
		t.Errorf("%s takes %d bytes and ends with %v", HeaderFloats, size, list[len(list)-1])
	}
	if got["list"].([]any)[999] != "NaN" {
		t.Errorf("the last value is %v", got["list"].([]any)[999])
	}
}

func TestWriteShortensTexts(t *testing.T) {
	t.Parallel()
	f := full()
	f.Message = strings.Repeat("ä€😀", 200)
	f.Stack = "top\n" + strings.Repeat("x", 1<<20)
	f.Class = "\xff\xfe bad"
	got, cut := f.Write(nil, 131072)
	if diff := cmp.Diff([]string{HeaderErrorMessage, HeaderErrorStack}, cut); diff != "" {
		t.Errorf("cut mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{HeaderErrorMessage, HeaderErrorStack}, got[HeaderCut]); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", HeaderCut, diff)
	}
	message, stack := got[HeaderErrorMessage].(string), got[HeaderErrorStack].(string)
	if len(message) > 512 || len(message) < 500 || !utf8.ValidString(message) || !strings.HasSuffix(message, mark) {
		t.Errorf("message of %d bytes: %q", len(message), message)
	}
	if len(stack) != 4096 || !strings.HasPrefix(stack, "top\n") || !strings.HasSuffix(stack, mark) {
		t.Errorf("stack of %d bytes ends in %q", len(stack), stack[len(stack)-10:])
	}
	if got[HeaderErrorClass] != "\uFFFD bad" {
		t.Errorf("class = %q", got[HeaderErrorClass])
	}
}

// A routing key may hold any bytes, and a redrive must find it as it was.
func TestWriteKeepsIdentitiesByteForByte(t *testing.T) {
	t.Parallel()
	f := full()
	f.SourceRoutingKey, f.UserID = "\xff\x00key", "\xfeuser"
	headers, _ := f.Write(nil, 0)
	got, _, err := ReadFailure(headers)
	if diff := cmp.Diff(f, got); diff != "" || err != nil {
		t.Errorf("round trip: %v, mismatch (-want +got):\n%s", err, diff)
	}
}

// worst is a failure all of whose texts are as long as can be.
func worst() Failure {
	long := strings.Repeat("w", 1<<16)
	return Failure{
		ID: long, SourceQueue: long, SourceExchange: long, SourceRoutingKey: long, ConsumerName: long,
		ConsumerVersion: long, Attempts: math.MaxInt64, FirstFailure: time.Now(), LastFailure: time.Now(),
		Category: Category(long), Class: long, Message: long, Stack: long, Reason: Reason(long), UserID: long,
		Expiration: long,
	}
}

// ours returns the size of the headers under the prefix.
func ours(headers map[string]any) int {
	n := 0
	for k, v := range headers {
		if strings.HasPrefix(k, Prefix) {
			n += fieldSize(k, v)
		}
	}
	return n
}

func nans() map[string]any {
	out := map[string]any{}
	for i := range 100 {
		out[fmt.Sprintf("%03d%s", i, strings.Repeat("n", 250))] = math.NaN()
	}
	return out
}

func TestWriteStaysUnder8KiB(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 131072} {
		headers, _ := worst().Write(nans(), limit)
		if n := ours(headers); n >= 8192 {
			t.Errorf("limit %d: our headers take %d bytes", limit, n)
		}
	}
}

// A header frame over frame_max closes the connection, and the poison message loops for ever.
func TestWriteFitsAnyFrame(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 4096, 4097, 6000, 8192, 16384, 131072} {
		for own := 0; own <= 140_000; own = own*4 + 501 {
			for name, headers := range map[string]map[string]any{
				"one":    {"big": strings.Repeat("x", own)},
				"many":   many(own),
				"floats": nans(),
				"deaths": {"x-death": []any{strings.Repeat("x", own)}, "small": "kept"},
			} {
				for _, f := range []Failure{{}, full(), worst()} {
					got, cut := f.Write(headers, limit)
					if n := tableSize(got) + frameOverhead; n > max(limit, 4096) {
						t.Fatalf("limit %d, own %s of %d: the frame has %d bytes, cut %v", limit, name, own, n, cut)
					}
					if again, _ := f.Write(headers, limit); cmp.Diff(got, again) != "" {
						t.Fatalf("limit %d, own %s of %d: not deterministic", limit, name, own)
					}
					for _, must := range []string{HeaderID, HeaderSourceQueue, HeaderAttempts, HeaderReason} {
						if _, ok := got[must]; !ok {
							t.Fatalf("limit %d, own %s of %d: %s is missing", limit, name, own, must)
						}
					}
					for k := range headers {
						if _, ok := got[k]; !ok && !slices.Contains(cut, k) {
							t.Fatalf("limit %d: %q is missing, cut says %v", limit, k, cut)
						}
					}
				}
			}
		}
	}
}

func many(size int) map[string]any {
	out := map[string]any{}
	for i := 0; i < size; i += 100 {
		out[fmt.Sprintf("h%05d", i)] = strings.Repeat("y", 80)
	}
	return out
}

// The order in which things give way is documented.
func TestWriteCutsInOrder(t *testing.T) {
	t.Parallel()
	f := full()
	f.Stack, f.Message = strings.Repeat("s", 4000), strings.Repeat("m", 500)
	size := tableSize(func() map[string]any { h, _ := f.Write(nil, 0); return h }())
	const limit = 16384
	room := limit - frameOverhead - size
	for _, tt := range []struct {
		name string
		own  map[string]any
		want []string
	}{
		{"it fits to the byte", map[string]any{"own": strings.Repeat("x", room-9)}, nil},
		{"one byte more", map[string]any{"own": strings.Repeat("x", room-8)}, []string{HeaderErrorStack}},
		{"no stack", map[string]any{"own": strings.Repeat("x", room+4000)}, []string{HeaderErrorStack, HeaderErrorMessage}},
		{"x-death before a larger one", map[string]any{
			"own": strings.Repeat("x", limit-3000), "x-death": strings.Repeat("x", 2000), "z": "kept",
		}, []string{
			HeaderErrorStack, HeaderErrorMessage, HeaderErrorClass, HeaderConsumerVersion, HeaderConsumerName, "x-death",
		}},
		{"the largest, then by name", map[string]any{
			"c": strings.Repeat("x", 9000), "b": strings.Repeat("x", 9000), "a": strings.Repeat("x", 8000), "d": "kept",
		}, []string{
			HeaderErrorStack, HeaderErrorMessage, HeaderErrorClass, HeaderConsumerVersion, HeaderConsumerName, "b", "c",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			headers, cut := f.Write(tt.own, limit)
			if diff := cmp.Diff(tt.want, cut); diff != "" {
				t.Errorf("cut mismatch (-want +got):\n%s", diff)
			}
			got, _, err := ReadFailure(headers)
			if diff := cmp.Diff(tt.want, got.Cut); diff != "" || err != nil {
				t.Errorf("ReadFailure(): %v, cut mismatch (-want +got):\n%s", err, diff)
			}
		})
	}
	headers, _ := f.Write(map[string]any{"own": strings.Repeat("x", room-8)}, limit)
	if n := tableSize(headers) + frameOverhead; n != limit {
		t.Errorf("the stack was cut to a frame of %d bytes, want %d", n, limit)
	}
}

func TestReadFailure(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string]any{nil, {}, {"x-death": []any{}, "dlq.note": "not ours"}} {
		if f, found, err := ReadFailure(headers); found || err != nil || cmp.Diff(Failure{}, f) != "" {
			t.Errorf("ReadFailure(%v) = %+v, %v, %v", headers, f, found, err)
		}
	}
	headers, _ := full().Write(everyType(), 131072)
	headers[HeaderAttempts] = int32(4)
	headers[HeaderReason] = []byte("exhausted")
	got, found, err := ReadFailure(headers)
	if diff := cmp.Diff(full(), got); diff != "" || !found || err != nil {
		t.Errorf("ReadFailure() = %v, %v, mismatch (-want +got):\n%s", found, err, diff)
	}
}

func TestReadFailureNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	want := full()
	want.Attempts, want.FirstFailure, want.Message = 0, time.Time{}, ""
	headers, _ := full().Write(nil, 0)
	headers[HeaderAttempts] = "four"
	headers[HeaderFirstFailure] = time.Unix(1, 0)
	headers[HeaderErrorMessage] = int64(1)
	headers[HeaderCut] = "x"
	headers[HeaderFloats] = []any{"a", int64(1)}
	got, found, err := ReadFailure(headers)
	if diff := cmp.Diff(want, got); diff != "" || !found {
		t.Errorf("ReadFailure() found %v, mismatch (-want +got):\n%s", found, diff)
	}
	wantErr := strings.Join([]string{
		"dlq.first_failure has type time.Time; expected an integer",
		"dlq.error.message has type int64; expected a string",
		"dlq.attempts has type string; expected an integer",
		"dlq.cut has type string; expected an array of strings",
		"dlq.floats[1] has type int64; expected a string",
	}, "\n")
	if err == nil || err.Error() != wantErr {
		t.Errorf("ReadFailure() error = %v\nwant %s", err, wantErr)
	}
}
