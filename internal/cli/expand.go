package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
)

type expandOptions struct {
	source source
	to     format
}

func expandCommand(env Env) *cobra.Command {
	var o expandOptions
	cmd := &cobra.Command{
		Use:   "expand",
		Short: "Show everything that a topology makes of a broker",
		Long: `expand shows every exchange, queue and binding that a topology leads to, retry ladders and dead-letter
queues included, without a broker. The same topology always gives the same bytes.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return expand(cmd.Context(), env, o) },
	}
	o.source.addFlag(cmd)
	o.to.addFlag(cmd, "to", "form of the result", view.YAML, view.JSON, view.Mermaid)
	return cmd
}

func expand(_ context.Context, env Env, o expandOptions) error {
	t, err := o.source.load(env)
	if err != nil {
		return err
	}
	return view.Write(env.Stdout, o.to.Format, env.colour(), view.Expansion{Name: t.Name, Manifest: t.Expand()})
}
