package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// settings say how to reach the broker: each a flag, else an environment variable, else a default.
type settings struct {
	URL          string `env:"RMQ_URL, default=amqp://guest:guest@localhost:5672/" flag:"url" value:"URL" usage:"broker to use, amqp:// or amqps://; as a flag without a password"`
	PasswordFile string `env:"RMQ_PASSWORD_FILE" flag:"password-file" value:"FILE" usage:"password, which replaces that of the URL"`
	CAFile       string `env:"RMQ_CA_FILE" flag:"ca-file" value:"FILE" usage:"authorities to trust instead of the system's, as PEM (amqps only)"`
	CertFile     string `env:"RMQ_CERT_FILE" flag:"cert-file" value:"FILE" usage:"client certificate, as PEM (amqps only)"`
	KeyFile      string `env:"RMQ_KEY_FILE" flag:"key-file" value:"FILE" usage:"key of the client certificate, as PEM (amqps only)"`
}

// addFlags adds the flags of the settings to a command.
func (s *settings) addFlags(cmd *cobra.Command) {
	for _, f := range s.fields() {
		cmd.Flags().VarP((*text)(&f), f.flag, "", f.usage+" [$"+f.env+"]")
	}
}

// rabbit returns the settings as a connection's: what flags left open is filled from the environment.
func (s settings) rabbit(ctx context.Context, env Env) (rabbit.Config, error) {
	if u, err := url.Parse(s.URL); err != nil {
		return rabbit.Config{}, usagef("--url is %w", rabbit.ErrBadURL)
	} else if _, ok := u.User.Password(); ok {
		return rabbit.Config{}, usagef("--url holds a password, which every user of this machine can read in the argument list; " +
			"put the URL into RMQ_URL, or the password into a file and give --password-file")
	}
	var fromEnv settings
	err := envconfig.ProcessWith(ctx, &envconfig.Config{
		Target: &fromEnv,
		Lookuper: lookuper(func(name string) (string, bool) {
			v, ok := env.LookupEnv(name)
			return v, ok && v != ""
		}),
	})
	if err != nil {
		return rabbit.Config{}, fmt.Errorf("read settings from the environment: %w", err)
	}
	given, open := s.fields(), fromEnv.fields()
	for i := range given {
		if *given[i].value == "" {
			*given[i].value = *open[i].value
		}
	}
	if s.PasswordFile != "" {
		if s.URL, err = withPassword(s.URL, s.PasswordFile); err != nil {
			return rabbit.Config{}, err
		}
	}
	return rabbit.Config{
		URL: s.URL, CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, Name: "rmq-provision",
	}, nil
}

// withPassword returns a broker URL with the password that a file holds.
func withPassword(brokerURL, file string) (string, error) {
	u, err := url.Parse(brokerURL)
	if err != nil {
		return "", fmt.Errorf("read broker URL: %w", rabbit.ErrBadURL)
	}
	if u.User.Username() == "" {
		return "", usagef("a password file is given, but the broker URL names no user")
	}
	password, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	text := strings.TrimRight(string(password), "\r\n")
	if text == "" {
		return "", fmt.Errorf("read password: %w", errors.New(file+" is empty"))
	}
	u.User = url.UserPassword(u.User.Username(), text)
	return u.String(), nil
}

// setting is one field of settings with its tags.
type setting struct {
	flag, env, otherwise, usage, kind string

	value *string
}

// text is a setting as the value of a flag.
type text setting

// String implements pflag.Value.
func (t *text) String() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// Set implements pflag.Value.
func (t *text) Set(v string) error { *t.value = v; return nil }

// Type implements pflag.Value.
func (t *text) Type() string { return t.kind }

type lookuper func(string) (string, bool)

// Lookup implements envconfig.Lookuper.
func (l lookuper) Lookup(name string) (string, bool) { return l(name) }

// fields returns the fields of s, which their values point into.
func (s *settings) fields() []setting {
	v := reflect.ValueOf(s).Elem()
	out := make([]setting, v.NumField())
	for i := range out {
		tag := v.Type().Field(i).Tag
		name, rest, _ := strings.Cut(tag.Get("env"), ",")
		_, otherwise, _ := strings.Cut(rest, "default=")
		out[i] = setting{
			flag: tag.Get("flag"), env: name, otherwise: otherwise, usage: tag.Get("usage"), kind: tag.Get("value"),
			value: v.Field(i).Addr().Interface().(*string),
		}
	}
	return out
}
