package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/rmqkit/rmqkit/retry"
)

// Outcome is what shall become of a delivery: the decision, before anything was sent.
type Outcome struct {
	// Verdict is Acked, Retried, Parked, Discarded or GivenBack.
	Verdict Verdict
	// Reason is why it is parked, or "".
	Reason retry.Reason
	// Category is the kind of failure, or "" if there was none.
	Category retry.Category
	// Delay is that of the tier it waits in, or 0.
	Delay time.Duration
	// Err is what the handler returned.
	Err error
}

// Decide says what becomes of a message whose handler returned err at an attempt, which counts from
// 1. cut says that the worker had stopped and ended the handler's context before it returned: only
// success counts then. Decide is pure.
func Decide(err error, attempt int, tiers []retry.Tier, cut bool) Outcome {
	var (
		discard  *discardError
		verdict  *verdictError
		panicked *panicError
	)
	switch {
	case err == nil:
		return Outcome{Verdict: Acked}
	case cut:
		return Outcome{Verdict: GivenBack, Err: err}
	// A panic is a failure whatever its value: only a handler that returns may let a message go.
	case errors.As(err, &discard) && !errors.As(err, &panicked):
		return Outcome{Verdict: Discarded, Err: err}
	case errors.As(err, &verdict):
		return Outcome{Verdict: Parked, Reason: verdict.reason, Category: categoryOf(err), Err: err}
	case attempt > len(tiers):
		return Outcome{Verdict: Parked, Reason: retry.ReasonExhausted, Category: categoryOf(err), Err: err}
	}
	return Outcome{Verdict: Retried, Category: categoryOf(err), Delay: tiers[max(attempt, 1)-1].Delay, Err: err}
}

// decideUnseen says what becomes of a message that no handler shall see, and whether it is one: its
// consumers died too often.
func decideUnseen(crashes int64, limit int) (Outcome, bool) {
	if limit == NoCrashLimit || crashes < int64(limit) {
		return Outcome{}, false
	}
	return Outcome{
		Verdict:  Parked,
		Reason:   retry.ReasonCrashed,
		Category: retry.CategoryUnknown,
		Err:      &crashError{crashes},
	}, true
}

// categoryOf returns the category of a failure: what the caller said, else what the error itself says.
func categoryOf(err error) retry.Category {
	var (
		own      *categoryError
		panicked *panicError
		verdict  *verdictError
		timeout  *timeoutError
		network  net.Error
		errno    syscall.Errno
	)
	switch {
	case errors.As(err, &own):
		return own.category
	case errors.As(err, &panicked):
		return retry.CategoryPanic
	case errors.As(err, &verdict) && verdict.reason == retry.ReasonMalformed:
		return retry.CategoryDeserialization
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return retry.CategoryTimeout
	// Every system error has the methods of a net.Error.
	case errors.As(err, &network) && !errors.As(network, &errno), errors.As(err, &errno) && isNetwork(errno):
		return retry.CategoryDependency
	}
	return retry.CategoryUnknown
}

func isNetwork(errno syscall.Errno) bool {
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return true
	}
	return false
}

// classOf returns the Go type of the innermost error. Of joined errors the first leads on.
func classOf(err error) string {
	// Bounded, since an error may unwrap to itself.
	for range 100 {
		inner := unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	if p, ok := err.(*panicError); ok {
		return fmt.Sprintf("panic(%T)", p.value)
	}
	return fmt.Sprintf("%T", err)
}

func unwrap(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if e != nil {
				return e
			}
		}
		return nil
	}
	return errors.Unwrap(err)
}

// text returns what an error says; fmt survives an Error method that panics.
func text(err error) string { return fmt.Sprint(err) }

// stackOf returns the stack of a panic, or "".
func stackOf(err error) string {
	var p *panicError
	if errors.As(err, &p) {
		return p.stack
	}
	return ""
}
