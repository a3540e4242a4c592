package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/retry"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	var (
		fails = errors.New("no")
		tiers = []retry.Tier{{Delay: time.Second}, {Delay: time.Minute, Slots: []time.Duration{50 * time.Second, 70 * time.Second}, Spread: retry.SpreadRandom}}
	)
	const unknown = retry.CategoryUnknown
	for name, row := range map[string]struct {
		err     error
		attempt int
		tiers   []retry.Tier
		cut     bool
		want    Outcome
	}{
		"success":                         {nil, 1, tiers, false, Outcome{Verdict: Acked}},
		"success at the last attempt":     {nil, 3, tiers, false, Outcome{Verdict: Acked}},
		"success after the cut":           {nil, 1, tiers, true, Outcome{Verdict: Acked}},
		"a first failure":                 {fails, 1, tiers, false, Outcome{Verdict: Retried, Category: unknown, Delay: time.Second}},
		"a second failure":                {fails, 2, tiers, false, Outcome{Verdict: Retried, Category: unknown, Delay: time.Minute}},
		"a failure after the last tier":   {fails, 3, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonExhausted, Category: unknown}},
		"one from a longer, older ladder": {fails, 9, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonExhausted, Category: unknown}},
		"a failure without any tier":      {fails, 1, nil, false, Outcome{Verdict: Parked, Reason: retry.ReasonExhausted, Category: unknown}},
		"an attempt that cannot be":       {fails, 0, tiers, false, Outcome{Verdict: Retried, Category: unknown, Delay: time.Second}},
		"a permanent failure":             {Permanent(fails), 1, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonPermanent, Category: unknown}},
		"a permanent failure, wrapped":    {fmt.Errorf("x: %w", Permanent(fails)), 2, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonPermanent, Category: unknown}},
		"permanent after the last tier":   {Permanent(fails), 3, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonPermanent, Category: unknown}},
		"a body that cannot be read":      {Malformed(fails), 1, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonMalformed, Category: retry.CategoryDeserialization}},
		"malformed with its own category": {Categorize(Malformed(fails), "schema"), 1, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonMalformed, Category: "schema"}},
		"discarded":                       {Discard("old"), 1, tiers, false, Outcome{Verdict: Discarded}},
		"discarded, wrapped":              {fmt.Errorf("x: %w", Discard("old")), 3, tiers, false, Outcome{Verdict: Discarded}},
		"a failure after the cut":         {fails, 1, tiers, true, Outcome{Verdict: GivenBack}},
		"the last failure after the cut":  {fails, 3, tiers, true, Outcome{Verdict: GivenBack}},
		"a permanent one after the cut":   {Permanent(context.Canceled), 1, tiers, true, Outcome{Verdict: GivenBack}},
		"discarded after the cut":         {Discard("old"), 1, tiers, true, Outcome{Verdict: GivenBack}},
		"a panic after the cut":           {&panicError{}, 1, tiers, true, Outcome{Verdict: GivenBack}},
		"a panic":                         {&panicError{value: 1}, 1, tiers, false, Outcome{Verdict: Retried, Category: retry.CategoryPanic, Delay: time.Second}},
		"a panic after the last tier":     {&panicError{value: 1}, 3, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonExhausted, Category: retry.CategoryPanic}},
		"a panic with a discard":          {&panicError{value: Discard("old")}, 1, tiers, false, Outcome{Verdict: Retried, Category: retry.CategoryPanic, Delay: time.Second}},
		"a panic with a permanent error":  {&panicError{value: Permanent(fails)}, 1, tiers, false, Outcome{Verdict: Parked, Reason: retry.ReasonPermanent, Category: retry.CategoryPanic}},
		"the end of HandlerTimeout":       {&timeoutError{err: fails}, 1, tiers, false, Outcome{Verdict: Retried, Category: retry.CategoryTimeout, Delay: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.want.Err = row.err
			got := Decide(row.err, row.attempt, row.tiers, row.cut)
			if diff := cmp.Diff(row.want, got, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("Decide() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCategoryAndClass(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	var loop loopError
	for name, row := range map[string]struct {
		err      error
		category retry.Category
		class    string
	}{
		"a plain error":         {errors.New("x"), retry.CategoryUnknown, "*errors.errorString"},
		"wrapped":               {fmt.Errorf("a: %w", fmt.Errorf("b: %w", io.ErrUnexpectedEOF)), retry.CategoryUnknown, "*errors.errorString"},
		"joined":                {errors.Join(nil, &json.SyntaxError{}, refused), retry.CategoryDependency, "*json.SyntaxError"},
		"joined of none":        {joined{}, retry.CategoryUnknown, "consumer.joined"},
		"marked":                {Permanent(Categorize(&json.SyntaxError{}, "own")), "own", "*json.SyntaxError"},
		"the outermost":         {Categorize(fmt.Errorf("x: %w", Categorize(io.EOF, "inner")), "outer"), "outer", "*errors.errorString"},
		"nothing listens":       {fmt.Errorf("x: %w", refused), retry.CategoryDependency, "syscall.Errno"},
		"a broken pipe":         {syscall.EPIPE, retry.CategoryDependency, "syscall.Errno"},
		"no such file":          {syscall.ENOENT, retry.CategoryUnknown, "syscall.Errno"},
		"no such host":          {&net.DNSError{}, retry.CategoryDependency, "*net.DNSError"},
		"a slow name server":    {&net.DNSError{IsTimeout: true}, retry.CategoryTimeout, "*net.DNSError"},
		"a deadline":            {fmt.Errorf("x: %w", context.DeadlineExceeded), retry.CategoryTimeout, "context.deadlineExceededError"},
		"a cancelled context":   {context.Canceled, retry.CategoryUnknown, "*errors.errorString"},
		"a socket's deadline":   {os.ErrDeadlineExceeded, retry.CategoryTimeout, "*poll.DeadlineExceededError"},
		"HandlerTimeout":        {&timeoutError{err: io.EOF}, retry.CategoryTimeout, "*errors.errorString"},
		"a panic with a text":   {&panicError{value: "x"}, retry.CategoryPanic, "panic(string)"},
		"a panic with an error": {&panicError{value: &json.SyntaxError{}}, retry.CategoryPanic, "*json.SyntaxError"},
		"a panic with nil":      {&panicError{}, retry.CategoryPanic, "panic(<nil>)"},
		"a crash":               {&crashError{3}, retry.CategoryUnknown, "*consumer.crashError"},
		"Goexit":                {errGoexit, retry.CategoryUnknown, "*errors.errorString"},
	} {
		if got := categoryOf(row.err); got != row.category {
			t.Errorf("%s: category %q, want %q", name, got, row.category)
		}
		if got := classOf(row.err); got != row.class {
			t.Errorf("%s: class %q, want %q", name, got, row.class)
		}
	}
	if got := classOf(loop); got != "consumer.loopError" {
		t.Errorf("an error that unwraps to itself: class %q", got)
	}
}

type joined []error

func (joined) Error() string     { return "none" }
func (j joined) Unwrap() []error { return j }

type loopError struct{}

func (loopError) Error() string   { return "loop" }
func (e loopError) Unwrap() error { return e }

func TestMarksOfNilAreNil(t *testing.T) {
	t.Parallel()
	if Permanent(nil) != nil || Malformed(nil) != nil || Categorize(nil, "x") != nil {
		t.Error("the mark of nil is an error")
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"x":                             Permanent(Categorize(errors.New("x"), "c")),
		"discarded: old":                Discard("old"),
		"panic: boom":                   &panicError{value: "boom"},
		"the handler's 1s were over: x": &timeoutError{err: errors.New("x"), after: time.Second},
		"its consumers died or lost their connection 7 times while they had it": &crashError{7},
	} {
		if got := text(err); got != want {
			t.Errorf("text is %q, want %q", got, want)
		}
	}
	if got := text(nilPointer()); !strings.Contains(got, "nil") {
		t.Errorf("text of a nil pointer is %q", got)
	}
}

type brittle struct{ why error }

func (b *brittle) Error() string { return b.why.Error() }
func (b *brittle) Unwrap() error { return b.why }

func nilPointer() error {
	var b *brittle
	return b
}

// TestCrashes: what the broker's count means differs by version (measured on 3.10.8, 4.0.5, 4.3.6).
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		header  any
		fresh   bool
		t       retry.QueueType
		version string
		attempt int
		want    int64
	}{
		"3.10, as it is":                         {int64(4), false, retry.Quorum, "3.10.8", 3, 4},
		"4.0, without the nacks before":          {int64(4), false, retry.Quorum, "4.0.5", 3, 2},
		"4.0, never negative":                    {int64(1), false, retry.Quorum, "4.0.5", 3, 0},
		"4.2 as 4.0, to be careful":              {int64(4), false, retry.Quorum, "4.2.0", 3, 2},
		"4.3, as it is":                          {int64(4), false, retry.Quorum, "4.3.6", 3, 4},
		"5.0, as it is":                          {int64(4), false, retry.Quorum, "5.0.0", 3, 4},
		"what cannot be read, to be careful":     {int64(4), false, retry.Quorum, "", 3, 2},
		"what cannot be read either":             {int64(4), false, retry.Quorum, "4.x", 3, 2},
		"nor this":                               {int64(4), false, retry.Quorum, "x.3", 3, 2},
		"a classic queue counts nothing":         {int64(4), false, retry.Classic, "4.3.6", 1, 0},
		"the first delivery has a made-up count": {int64(4), true, retry.Quorum, "4.3.6", 1, 0},
		"no header":                              {nil, false, retry.Quorum, "4.3.6", 1, 0},
		"a byte":                                 {byte(4), false, retry.Quorum, "4.3.6", 1, 4},
		"an int8":                                {int8(4), false, retry.Quorum, "4.3.6", 1, 4},
		"an int16":                               {int16(4), false, retry.Quorum, "4.3.6", 1, 4},
		"a uint16":                               {uint16(4), false, retry.Quorum, "4.3.6", 1, 4},
		"an int32":                               {int32(4), false, retry.Quorum, "4.3.6", 1, 4},
		"a uint32":                               {uint32(4), false, retry.Quorum, "4.3.6", 1, 4},
		"an int":                                 {4, false, retry.Quorum, "4.3.6", 1, 4},
		"a text":                                 {"4", false, retry.Quorum, "4.3.6", 1, 0},
	} {
		d := amqp.Delivery{Redelivered: !row.fresh, Headers: amqp.Table{headerDeliveryCount: row.header}}
		if got := crashes(d, row.t, row.version, row.attempt); got != row.want {
			t.Errorf("%s: %d crashes, want %d", name, got, row.want)
		}
	}
}

// TestCrashesOfAMadeUpCount: RabbitMQ 4.3 leaves a publisher's count alone until it counts itself.
func TestCrashesOfAMadeUpCount(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ count, acquired, want int64 }{{99, 1, 1}, {99, 0, 0}, {99, -1, 0}, {2, 5, 2}, {5, 5, 5}} {
		d := amqp.Delivery{Redelivered: true, Headers: amqp.Table{headerDeliveryCount: row.count, headerAcquiredCount: row.acquired}}
		if got := crashes(d, retry.Quorum, "4.3.6", 1); got != row.want {
			t.Errorf("counted %d, handed out %d: %d crashes, want %d", row.count, row.acquired, got, row.want)
		}
	}
}

func TestDecideUnseen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		crashes int64
		limit   int
		want    bool
	}{{0, 5, false}, {4, 5, false}, {5, 5, true}, {6, 5, true}, {1, 1, true}, {1 << 40, NoCrashLimit, false}} {
		o, unseen := decideUnseen(row.crashes, row.limit)
		if unseen != row.want || unseen != (o.Reason == retry.ReasonCrashed) {
			t.Errorf("decideUnseen(%d, %d) = %+v, %v", row.crashes, row.limit, o, unseen)
		}
	}
}

func TestTrimStack(t *testing.T) {
	t.Parallel()
	stack := "goroutine 1 [running]:\nruntime/debug.Stack()\n\tx.go:1\npanic({0x1, 0x2})\n\tpanic.go:2\nmain.handler()\n\tmain.go:3\n"
	if got := trimStack(stack); got != "main.handler()\n\tmain.go:3\n" {
		t.Errorf("trimStack() = %q", got)
	}
	for _, s := range []string{"", "x", "a\npanic(x)"} {
		if got := trimStack(s); got != s {
			t.Errorf("trimStack(%q) = %q", s, got)
		}
	}
}

// TestCall: whatever a handler does, an error comes of it.
func TestCall(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		handler Handler
		want    string
		is      retry.Category
	}{
		"it panics":                 {func(context.Context, *Message) error { panic("boom") }, "panic: boom", retry.CategoryPanic},
		"it panics with nil":        {func(context.Context, *Message) error { panic(nil) }, "panic called with nil", retry.CategoryPanic},
		"it divides by zero":        {func(_ context.Context, m *Message) error { m.Attempt /= len(m.Body); return nil }, "divide by zero", retry.CategoryPanic},
		"its error's methods panic": {func(context.Context, *Message) error { return nilPointer() }, "nil pointer", retry.CategoryPanic},
		"its context ends":          {func(ctx context.Context, _ *Message) error { <-ctx.Done(); return io.EOF }, "1ms were over: EOF", retry.CategoryTimeout},
		"a wait of its own ends":    {func(context.Context, *Message) error { return context.DeadlineExceeded }, "deadline exceeded", retry.CategoryTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{Worker: &Worker{cfg: Config{Handler: row.handler, HandlerTimeout: time.Millisecond}}, work: t.Context()}
			err := r.call(&Message{})
			if err == nil || !strings.Contains(text(err), row.want) || categoryOf(err) != row.is {
				t.Errorf("call() = %v of category %q, want %q", err, categoryOf(err), row.want)
			}
			if (row.is == retry.CategoryPanic) != (stackOf(err) != "") {
				t.Errorf("the stack is %q", stackOf(err))
			}
		})
	}
	r := &run{Worker: &Worker{cfg: Config{HandlerTimeout: NoHandlerTimeout, Handler: func(ctx context.Context, _ *Message) error {
		if _, limited := ctx.Deadline(); limited {
			return errors.New("it has a deadline")
		}
		return nil
	}}}, work: t.Context()}
	if err := r.call(&Message{}); err != nil {
		t.Errorf("NoHandlerTimeout: %v", err)
	}
}
