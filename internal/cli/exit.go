package cli

import (
	"errors"
	"fmt"

	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

// ExitCode is how a program ends. The values never change.
type ExitCode int

// The exit codes.
const (
	ExitDone    ExitCode = 0
	ExitFailed  ExitCode = 1
	ExitChanges ExitCode = 2
	ExitInvalid ExitCode = 3
	ExitRefused ExitCode = 4
	ExitUsage   ExitCode = 64
)

// exitCodes is every exit code with its meaning, in the order in which they are documented.
var exitCodes = []struct {
	code    ExitCode
	meaning string
}{
	{ExitDone, "done"},
	{ExitFailed, "tried and failed, or interrupted"},
	{ExitChanges, "a check found changes"},
	{ExitInvalid, "the topology is invalid"},
	{ExitRefused, "refused: it would lose or change what it must not"},
	{ExitUsage, "wrong usage"},
}

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) ExitCode {
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, new(usageError)):
		return ExitUsage
	case errors.Is(err, errChanges):
		return ExitChanges
	case errors.Is(err, provision.ErrRefused):
		// First: what a broker's version forbids is a diagnostic too.
		return ExitRefused
	case errors.As(err, new(topology.Diagnostics)):
		return ExitInvalid
	}
	return ExitFailed
}

// errChanges says that a check found changes.
var errChanges = errors.New("there are changes")

// usageError is a mistake in the command line or in a setting.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// shownError is an error that was written as a command's result, and only decides the exit code.
type shownError struct{ err error }

func (e shownError) Error() string { return e.err.Error() }
func (e shownError) Unwrap() error { return e.err }
