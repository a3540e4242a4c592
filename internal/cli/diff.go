package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

type diffOptions struct {
	before, after string
	output        format
	expand, check bool
}

func diffCommand(env Env) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what a change of a topology means",
		Long: `diff shows what a change of a topology means, for a review, without a broker: by message flow, with one
verdict for each change (breaking, recreate, policy, drains, safe or ignored). OLD and NEW are files, - for
standard input, or git:REV:PATH for a file as it is in a revision of the git repository, where PATH begins
at the top of the repository, or with ./ at the working directory.`,
		Args: func(_ *cobra.Command, args []string) error {
			const want = 2
			if len(args) != want {
				return usagef("diff has %d arguments; expected OLD and NEW", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.before, o.after = args[0], args[1]
			return diff(cmd.Context(), env, o)
		},
	}
	o.output.addFlag(cmd, "output", "form of the result", view.Text, view.JSON, view.Markdown, view.SARIF, view.GitHub)
	cmd.Flags().BoolVar(&o.expand, "expand", false, "list generated objects too (text only; the other forms have them or have no room)")
	cmd.Flags().BoolVar(&o.check, "check", false, "exit with 2 if anything changes")
	return cmd
}

func diff(ctx context.Context, env Env, o diffOptions) error {
	if o.before == "-" && o.after == "-" {
		return usagef("OLD and NEW are both standard input")
	}
	var (
		sides    [2]provision.Side
		mistakes topology.Diagnostics
	)
	for i, arg := range []string{o.before, o.after} {
		t, err := readVersion(ctx, env, arg)
		var found topology.Diagnostics
		if err != nil && !errors.As(err, &found) {
			return err
		}
		mistakes = append(mistakes, found...)
		sides[i] = provision.Side{Name: nameOf(arg), Topology: t}
	}
	if len(mistakes) > 0 {
		return mistakes
	}
	result := view.Diff{Plan: provision.Diff(sides[0], sides[1]), Expand: o.expand, NewPath: pathOf(o.after)}
	if info, ok := env.BuildInfo(); ok {
		result.Version = info.Main.Version
	}
	if err := view.Write(env.Stdout, o.output.Format, env.colour(), result); err != nil {
		return err
	}
	if o.check && result.Changed() {
		return shownError{errChanges}
	}
	return nil
}

const gitPrefix = "git:"

// readVersion reads and checks OLD or NEW. What is wrong with it is a [topology.Diagnostics].
func readVersion(ctx context.Context, env Env, arg string) (*topology.Topology, error) {
	if arg == "" {
		return nil, usagef("no file name")
	}
	if !strings.HasPrefix(arg, gitPrefix) {
		s := source{file: arg}
		return s.load(env)
	}
	rev, file, err := gitObject(arg)
	if err != nil {
		return nil, err
	}
	// A name that begins with - would be an option; after -- there are only paths, and there are none.
	data, err := env.Git(ctx, "show", "--no-textconv", rev+":"+file, "--")
	if err != nil {
		return nil, fmt.Errorf("read topology %q: %w", arg, err)
	}
	return topology.Parser{LookupEnv: env.LookupEnv}.Parse(arg, data)
}

// gitObject takes git:REV:PATH apart.
func gitObject(arg string) (rev, file string, err error) {
	rev, file, ok := strings.Cut(strings.TrimPrefix(arg, gitPrefix), ":")
	switch {
	case !ok || rev == "" || file == "":
		return "", "", usagef("%q is no file in git; expected git:REV:PATH, such as git:main:topology.yaml", arg)
	case strings.HasPrefix(rev, "-"):
		return "", "", usagef("%q: a revision does not begin with -", arg)
	case strings.ContainsFunc(arg, unicode.IsControl):
		return "", "", usagef("%q: control characters", arg)
	}
	return rev, file, nil
}

func nameOf(arg string) string {
	s := source{file: arg}
	return s.name()
}

// pathOf returns the file that OLD or NEW is in the work tree, with slashes, or "" for standard input.
func pathOf(arg string) string {
	switch {
	case arg == "-":
		return ""
	case strings.HasPrefix(arg, gitPrefix):
		if _, file, err := gitObject(arg); err == nil {
			return file
		}
	}
	return filepath.ToSlash(arg)
}

// git is [Env.Git] of a process. Of an error, what git says of it is the text.
func git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	// One byte more than the parser takes: it says what is wrong with a larger file.
	stdout, stderr := head{most: topology.MaxFileSize + 1}, head{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C") // its words are looked at
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n"); line != "" {
			line = strings.TrimPrefix(line, "fatal: ")
			if strings.HasPrefix(line, "bad revision") {
				line += ": there is no such revision, or no such file in it"
			}
			return nil, fmt.Errorf("git: %s", line)
		}
		return nil, fmt.Errorf("run git: %w", err)
	}
	return stdout.Bytes(), nil
}

// head keeps the beginning of what is written to it.
type head struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer. It never fails: whoever writes shall come to its end.
func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), h.most-h.Len())])
	return len(p), nil
}
