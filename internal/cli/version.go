package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
)

type versionOptions struct {
	output format
}

func versionCommand(env Env) *cobra.Command {
	var o versionOptions
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which build this is",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return version(cmd.Context(), env, o) },
	}
	o.output.addFlag(cmd, "output", "form of the result", view.Text, view.JSON)
	return cmd
}

func version(_ context.Context, env Env, o versionOptions) error {
	info, ok := env.BuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	result := view.Version{
		Program: "rmq-provision", Version: info.Main.Version, Go: info.GoVersion,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			result.Commit = s.Value
		case "vcs.time":
			result.Time = s.Value
		case "vcs.modified":
			result.Modified = s.Value == "true"
		}
	}
	if result.Version == "" {
		result.Version = "(unknown)"
	}
	return view.Write(env.Stdout, o.output.Format, env.colour(), result)
}
