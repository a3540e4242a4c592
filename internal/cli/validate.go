package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
	"github.com/rmqkit/rmqkit/topology"
)

type validateOptions struct {
	source source
	output format
}

func validateCommand(env Env) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a topology without a broker",
		Long: `validate checks a topology without a broker and lists every mistake with its place, what was expected and
what to do. The list is the result: it goes to standard output.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return validate(cmd.Context(), env, o) },
	}
	o.source.addFlag(cmd)
	o.output.addFlag(cmd, "output", "form of the result", view.Text, view.JSON)
	return cmd
}

func validate(_ context.Context, env Env, o validateOptions) error {
	t, err := o.source.load(env)
	var found topology.Diagnostics
	if err != nil && !errors.As(err, &found) {
		return err
	}
	result := view.Validation{File: o.source.name(), Valid: err == nil, Diagnostics: found}
	if t != nil && err == nil {
		result.Count(t.Expand())
	}
	if werr := view.Write(env.Stdout, o.output.Format, env.colour(), result); werr != nil {
		return werr
	}
	if err != nil {
		return shownError{err}
	}
	return nil
}
