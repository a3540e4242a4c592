package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
)

// provisionCommand returns the command tree of rmq-provision.
func provisionCommand(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "rmq-provision",
		Short: "Declare on RabbitMQ what a topology.yaml describes",
		Long: `rmq-provision declares on RabbitMQ what a topology.yaml describes: exchanges, queues, bindings, retry
ladders and dead-letter queues. It may be run as often as one likes; what is there already is left alone.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("no command given; expected one of %s", strings.Join(names(cmd), ", "))
		},
	}
	root.AddCommand(validateCommand(env), expandCommand(env), diffCommand(env), explainCommand(env), applyCommand(env), versionCommand(env))
	root.SetHelpCommand(helpCommand())
	// Made here and not at execution, so that it is in the tree that the documentation is tested with.
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = noArgs
			c.RunE = func(cmd *cobra.Command, _ []string) error {
				return usagef("no shell given; expected one of %s", strings.Join(names(cmd), ", "))
			}
		}
	}
	root.SuggestionsMinimumDistance = 2
	return root
}

func names(cmd *cobra.Command) []string {
	var out []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}

// noArgs refuses arguments, and knows what people mean who give a file as one.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasAvailableSubCommands() {
		text := fmt.Sprintf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += fmt.Sprintf("; did you mean %q?", near[0])
		}
		return usagef("%s", text)
	}
	if cmd.Flags().Lookup("file") != nil {
		return usagef("unexpected argument %q; a topology is given as --file %s", args[0], args[0])
	}
	return usagef("unexpected argument %q", args[0])
}

// helpCommand replaces cobra's, which ends well when it is asked about what does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(args, " "))
			}
			return about.Help()
		},
	}
}

// format is the value of --output.
type format struct {
	view.Format
	allowed []view.Format
}

func (f *format) addFlag(cmd *cobra.Command, name, usage string, allowed ...view.Format) {
	f.Format, f.allowed = allowed[0], allowed
	cmd.Flags().Var(f, name, usage+": "+f.list(" or "))
	// It cannot fail: the flag was added in the line above.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(strings.Split(f.list("\n"), "\n"), cobra.ShellCompDirectiveNoFileComp))
}

func (f *format) list(separator string) string {
	out := make([]string, len(f.allowed))
	for i, a := range f.allowed {
		out[i] = string(a)
	}
	return strings.Join(out, separator)
}

// String implements pflag.Value.
func (f *format) String() string { return string(f.Format) }

// Set implements pflag.Value.
func (f *format) Set(v string) error {
	for _, a := range f.allowed {
		if string(a) == v {
			f.Format = a
			return nil
		}
	}
	return fmt.Errorf("expected %s", f.list(" or "))
}

// Type implements pflag.Value.
func (*format) Type() string { return "FORMAT" }
