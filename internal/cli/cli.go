// Package cli is the commands of rmq-provision. A command is a function of a context, an [Env] and its
// options; it touches the process only through them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Env is all that a command sees of the process it runs in.
type Env struct {
	// Args are the arguments without the program's name.
	Args []string
	// Stdin is read by commands that are told to read "-".
	Stdin io.Reader
	// Stdout gets results, Stderr the rest.
	Stdout, Stderr io.Writer
	// LookupEnv returns an environment variable.
	LookupEnv func(string) (string, bool)
	// Git runs git with these arguments in the working directory and returns its output.
	Git func(ctx context.Context, args ...string) ([]byte, error)
	// Now returns the time.
	Now func() time.Time
	// IsTerminal says whether Stdout is a terminal, and ErrIsTerminal whether Stderr is.
	IsTerminal, ErrIsTerminal bool
	// BuildInfo returns what the linker knows of this program.
	BuildInfo func() (*debug.BuildInfo, bool)
}

// Program is one of our programs: it runs to its end and returns the exit code.
type Program func(context.Context, Env) int

// Main runs a program in this process and returns the exit code. The first SIGINT or SIGTERM cancels
// the context; a second one ends the process as if there were no handler.
func Main(p Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return p(ctx, Env{
		Args:      os.Args[1:],
		Stdin:     os.Stdin,
		Stdout:    os.Stdout,
		Stderr:    os.Stderr,
		LookupEnv: os.LookupEnv,
		Git:       git,
		Now:       time.Now,
		BuildInfo: debug.ReadBuildInfo,

		IsTerminal:    isTerminal(os.Stdout),
		ErrIsTerminal: isTerminal(os.Stderr),
	})
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colour says whether results are coloured; see https://no-color.org.
func (e Env) colour() bool {
	v, _ := e.LookupEnv("NO_COLOR")
	return e.IsTerminal && v == ""
}

// Provision is the program rmq-provision.
func Provision(ctx context.Context, env Env) int {
	return run(ctx, env, provisionCommand(env))
}

// run executes a command, reports its error in one place and returns the exit code.
func run(ctx context.Context, env Env, root *cobra.Command) int {
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		// Whatever goes wrong before a command runs is in its arguments.
		err = usageError{err}
	}
	report(env, cmd, err)
	return int(exitCode(err))
}

// userinfo is the part of a URL that may hold a password. Its end is the last @ before what no URL holds as
// it is: a password that needs encoding and has none may hold anything else.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s:@/"']*):[^\s"']*@`)

// withoutPasswords takes passwords out of text that may quote an argument: whoever gives a broker URL in the
// wrong place shall not find its password in a log.
func withoutPasswords(text string) string { return userinfo.ReplaceAllString(text, "$1:xxxxx@") }

// report writes an error to stderr, unless it is a result that was written already.
func report(env Env, cmd *cobra.Command, err error) {
	env.Stderr = redacting{env.Stderr}
	var usage usageError
	switch {
	case err == nil, errors.As(err, new(shownError)):
		return
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(env.Stderr, "%s: interrupted: %v\n", cmd.Root().Name(), err)
	case errors.As(err, &usage):
		fmt.Fprintf(env.Stderr, "%s: %v\nSee '%s --help'.\n", cmd.Root().Name(), err, cmd.CommandPath())
	default:
		fmt.Fprintln(env.Stderr, prefixed(cmd.Root().Name()+": ", err.Error()))
	}
}

// redacting writes text without passwords. Each Write holds whole messages.
type redacting struct{ w io.Writer }

// Write implements io.Writer.
func (r redacting) Write(b []byte) (int, error) {
	if _, err := io.WriteString(r.w, withoutPasswords(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// prefixed puts the program's name before every line: some errors are lists.
func prefixed(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+prefix)
}
