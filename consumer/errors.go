package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/rmqkit/rmqkit/retry"
)

// Permanent marks an error that no retry can mend: the message is parked at once, with reason
// "permanent". Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &verdictError{err: err, reason: retry.ReasonPermanent}
}

// Malformed marks the error of decoding a body: the message is parked at once, with reason "malformed"
// and category "deserialization". Malformed(nil) is nil.
func Malformed(err error) error {
	if err == nil {
		return nil
	}
	return &verdictError{err: err, reason: retry.ReasonMalformed}
}

// Discard says that the message is not wanted: it is acknowledged, and reported as discarded with this
// reason. It leaves no other trace.
func Discard(reason string) error { return &discardError{reason} }

// Categorize gives an error a category of failure, one of retry's or the caller's own, for reports and
// for the evidence on a parked message; it does not change what becomes of the message. The outermost
// category counts. Categorize(nil, …) is nil.
func Categorize(err error, category retry.Category) error {
	if err == nil {
		return nil
	}
	return &categoryError{err: err, category: category}
}

// verdictError asks for parking at once.
type verdictError struct {
	err    error
	reason retry.Reason
}

func (e *verdictError) Error() string { return e.err.Error() }
func (e *verdictError) Unwrap() error { return e.err }

type discardError struct{ reason string }

func (e *discardError) Error() string { return "discarded: " + e.reason }

type categoryError struct {
	err      error
	category retry.Category
}

func (e *categoryError) Error() string { return e.err.Error() }
func (e *categoryError) Unwrap() error { return e.err }

// panicError is a handler's panic.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value of the panic if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// timeoutError is what a handler returned after its context had ended by HandlerTimeout.
type timeoutError struct {
	err   error
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the handler's %v were over: %v", e.after, e.err)
}
func (e *timeoutError) Unwrap() error { return e.err }

// crashError stands for the deaths of the processes that had a message.
type crashError struct{ crashes int64 }

func (e *crashError) Error() string {
	return fmt.Sprintf("its consumers died or lost their connection %d times while they had it", e.crashes)
}

// errGoexit is the error of a handler that ended its goroutine.
var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit) and returned nothing")
