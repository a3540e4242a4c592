package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

// testEnv returns an Env with an environment of its own, and its two streams.
func testEnv(vars map[string]string, args ...string) (env Env, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr,
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		Now:       func() time.Time { return time.Unix(1_700_000_000, 0) },
		BuildInfo: func() (*debug.BuildInfo, bool) { return nil, false },
	}, stdout, stderr
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("do it: %w", err) }
	for _, tt := range []struct {
		err  error
		want ExitCode
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{wrap(context.Canceled), 1},
		{wrap(rabbit.ErrCredentials), 1},
		{wrap(topology.Diagnostics{{}}), 3},
		{shownError{topology.Diagnostics{{}}}, 3},
		{wrap(provision.ErrLocked), 1},
		{wrap(&provision.RefusedError{Reasons: []string{"x"}}), 4},
		{wrap(&provision.MismatchError{}), 4},
		{fmt.Errorf("%w: %w", provision.ErrRefused, topology.Diagnostics{{}}), 4},
		{wrap(usagef("x")), 64},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

// A flag wins over the environment, the environment over the default.
func TestSettings(t *testing.T) {
	t.Parallel()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("ge:h/eim \r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags settings
		vars  map[string]string
		want  rabbit.Config
	}{
		"nothing": {settings{}, nil, rabbit.Config{URL: "amqp://guest:guest@localhost:5672/"}},
		"an empty variable is none": {
			settings{}, map[string]string{"RMQ_URL": "", "RMQ_CA_FILE": ""}, rabbit.Config{URL: "amqp://guest:guest@localhost:5672/"},
		},
		"the environment": {
			settings{}, map[string]string{
				"RMQ_URL": "amqps://u:p@h/v", "RMQ_CA_FILE": "ca", "RMQ_CERT_FILE": "cert", "RMQ_KEY_FILE": "key",
			}, rabbit.Config{URL: "amqps://u:p@h/v", CAFile: "ca", CertFile: "cert", KeyFile: "key"},
		},
		"flags": {
			settings{URL: "amqp://f@h", CAFile: "f"},
			map[string]string{"RMQ_URL": "amqp://e:p@h", "RMQ_CA_FILE": "e", "RMQ_KEY_FILE": "e"},
			rabbit.Config{URL: "amqp://f@h", CAFile: "f", KeyFile: "e"},
		},
		"a password file": {
			settings{URL: "amqp://shop@h/v", PasswordFile: password}, nil, rabbit.Config{URL: "amqp://shop:ge%3Ah%2Feim%20@h/v"},
		},
		"a password file, and one in the environment": {
			settings{},
			map[string]string{"RMQ_URL": "amqp://shop:old@h/a%2Fb", "RMQ_PASSWORD_FILE": password},
			rabbit.Config{URL: "amqp://shop:ge%3Ah%2Feim%20@h/a%2Fb"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, _, _ := testEnv(tt.vars)
			got, err := tt.flags.rabbit(t.Context(), env)
			tt.want.Name = "rmq-provision"
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("rabbit() error %v, mismatch (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSettingsRefuse(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags settings
		vars  map[string]string
		want  string
		code  ExitCode
	}{
		"a password in a flag":         {settings{URL: "amqp://u:geheim@h"}, nil, "holds a password", ExitUsage},
		"an empty password in a flag":  {settings{URL: "amqp://u:@h"}, nil, "holds a password", ExitUsage},
		"no URL":                       {settings{URL: "amqp://u:%geheim@h"}, nil, "not a broker URL", ExitUsage},
		"no URL, with a password file": {settings{PasswordFile: empty}, map[string]string{"RMQ_URL": "amqp://u:%geheim@h"}, "not a broker URL", ExitFailed},
		"an empty file":                {settings{PasswordFile: empty}, nil, "is empty", ExitFailed},
		"a missing file":               {settings{PasswordFile: empty + "x"}, nil, "no such file", ExitFailed},
		"a password without a user":    {settings{URL: "amqp://h", PasswordFile: empty}, nil, "names no user", ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, _, _ := testEnv(tt.vars)
			_, err := tt.flags.rabbit(t.Context(), env)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("rabbit() error = %v; want %q", err, tt.want)
			}
			if got := exitCode(err); got != tt.code {
				t.Errorf("exitCode() = %d, want %d", got, tt.code)
			}
		})
	}
}

// Colour is for people: on a terminal only, and not with NO_COLOR.
func TestColour(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		terminal bool
		noColor  string
		want     bool
	}{{true, "", true}, {true, "1", false}, {false, "", false}} {
		env, _, _ := testEnv(map[string]string{"NO_COLOR": tt.noColor})
		env.IsTerminal = tt.terminal
		if got := env.colour(); got != tt.want {
			t.Errorf("colour() with terminal %v, NO_COLOR=%q = %v", tt.terminal, tt.noColor, got)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	env, stdout, _ := testEnv(nil, "version")
	env.BuildInfo = func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{
			GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}},
		}, true
	}
	if code := Provision(t.Context(), env); code != 0 || !strings.HasPrefix(stdout.String(), "rmq-provision v1.2.3, commit abc with changes, go1.26.8, ") {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	env, stdout, _ = testEnv(nil, "version")
	if code := Provision(t.Context(), env); code != 0 || !strings.HasPrefix(stdout.String(), "rmq-provision (unknown), ") {
		t.Errorf("without build info: exit code %d, stdout %q", code, stdout)
	}
}

// A result that nobody got is a failure.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	env, _, stderr := testEnv(nil, "version")
	env.Stdout = broken{}
	if code := Provision(t.Context(), env); code != 1 || stderr.String() != "rmq-provision: write result: no space left\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestErrorsOfManyLinesNameTheProgramOnEach(t *testing.T) {
	t.Parallel()
	if got, want := prefixed("p: ", "a\nb\n"), "p: a\np: b"; got != want {
		t.Errorf("prefixed() = %q, want %q", got, want)
	}
}

// A broker URL in the wrong place is quoted where it is said what is wrong with it.
func TestNoErrorHoldsThePasswordOfAURL(t *testing.T) {
	t.Parallel()
	for _, broker := range []string{"amqp://user:s3cret@host/", "amqps://user:a/s3cret@host:5671/v", "amqp://:s3cret@host", "amqp://user:x@s3cret@host"} {
		for _, args := range [][]string{
			{broker},
			{"help", broker},
			{"apply", broker},
			{"apply", "--file", broker},
			{"apply", "--wait", broker},
			{"apply", "--output", broker},
			{"apply", "--dry-run=" + broker},
			{"apply", "--" + broker},
			{"diff", broker, "x"},
			{"diff", "git:" + broker, "x"},
			{"validate", "--file", broker},
		} {
			env, stdout, stderr := testEnv(nil, args...)
			env.Git = func(_ context.Context, args ...string) ([]byte, error) { return nil, fmt.Errorf("git %q", args) }
			code := Provision(t.Context(), env)
			if said := stdout.String() + stderr.String(); code == 0 || strings.Contains(said, "s3cret") {
				t.Errorf("%q: exit code %d:\n%s", args, code, said)
			}
		}
	}
}
