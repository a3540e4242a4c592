package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
	"github.com/rmqkit/rmqkit/provision"
)

type applyOptions struct {
	source    source
	settings  settings
	output    format
	vhost     string
	wait      time.Duration
	dryRun    bool
	adopt     bool
	keepLimit bool
}

func applyCommand(env Env) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make a broker have what a topology describes",
		Long: `apply makes a broker have what a topology describes. Everything is looked at before anything is changed: if
an object exists with other settings, which the broker cannot change in place, apply names every
difference and changes nothing. What is there already is left alone, so a second run has nothing to
change; a run that was interrupted is completed by the next one. Two at once take turns.

The vhost is that of --vhost, else that of the broker URL or of the topology; if these two name
different ones, apply refuses.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return apply(cmd.Context(), env, o) },
	}
	o.source.addFlag(cmd)
	o.settings.addFlags(cmd)
	cmd.Flags().StringVar(&o.vhost, "vhost", "", "`NAME` of the vhost to use, whatever the broker URL and the topology say")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "`TIME` to wait for a broker that does not answer, such as 30s")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be done, in order, and change nothing")
	cmd.Flags().BoolVar(&o.adopt, "adopt-ladders", false, "where there is no record of what was applied, take ladders that exist for those of the topology")
	cmd.Flags().BoolVar(&o.keepLimit, "keep-delivery-limit", false, "accept existing dead-letter queues that differ in x-delivery-limit only")
	o.output.addFlag(cmd, "output", "form of the result", view.Text, view.JSON)
	return cmd
}

func apply(ctx context.Context, env Env, o applyOptions) error {
	if o.wait < 0 {
		return usagef("--wait is %v; expected 0 or more", o.wait)
	}
	// Before the file: a password in the argument list is to be seen first of all.
	broker, err := o.settings.rabbit(ctx, env)
	if err != nil {
		return err
	}
	t, err := o.source.load(env)
	if err != nil {
		return err
	}
	broker.VHost = o.vhost
	progress := progressOf(env)
	run := provision.Apply
	if o.dryRun {
		run = provision.Preview
	}
	r, err := run(ctx, provision.Options{
		Rabbit: broker, Wait: o.wait, KeepDeliveryLimit: o.keepLimit, AdoptLadders: o.adopt, Logger: logger(env.Stderr), Progress: progress.step,
	}, t)
	progress.clear()
	if errors.Is(err, syscall.ECONNREFUSED) && o.wait == 0 {
		err = fmt.Errorf("%w; --wait 30s would wait for it", err)
	}
	if r == nil {
		return err
	}
	// What was changed before an error is a result, too.
	return errors.Join(err, view.Write(env.Stdout, o.output.Format, env.colour(), view.Applied{Report: r, Incomplete: err != nil}))
}

// logger returns a logger for a person: lines without time and level.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// progress shows on a terminal how far a long run is.
type progress struct{ w io.Writer }

func progressOf(env Env) progress {
	if !env.ErrIsTerminal {
		return progress{io.Discard}
	}
	return progress{env.Stderr}
}

func (p progress) step(step string, done, total int) {
	fmt.Fprintf(p.w, "\r\x1b[K%s %d/%d", step, done, total)
}

func (p progress) clear() { fmt.Fprint(p.w, "\r\x1b[K") }
