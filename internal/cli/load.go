package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/topology"
)

// source is where a topology is read from.
type source struct {
	file string
	many int
}

func (s *source) addFlag(cmd *cobra.Command) {
	s.file = "topology.yaml"
	cmd.Flags().VarP(s, "file", "f", "topology to read; - is standard input")
}

// String, Set and Type implement the value of a flag that may be given once.
func (s *source) String() string { return s.file }

// Set implements pflag.Value.
func (s *source) Set(v string) error {
	if s.many++; s.many > 1 {
		return fmt.Errorf("given more than once")
	}
	if v == "" {
		return fmt.Errorf("no file name")
	}
	s.file = v
	return nil
}

// Type implements pflag.Value.
func (*source) Type() string { return "FILE" }

// name is how the source is called in diagnostics.
func (s *source) name() string {
	if s.file == "-" {
		return "stdin"
	}
	return s.file
}

func (s *source) read(env Env) ([]byte, error) {
	in := env.Stdin
	if s.file != "-" {
		f, err := os.Open(s.file)
		if err != nil {
			return nil, fmt.Errorf("read topology: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	// One byte more than the parser takes: it says what is wrong with a larger file.
	data, err := io.ReadAll(io.LimitReader(in, topology.MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read topology %s: %w", s.name(), err)
	}
	return data, nil
}

// load reads and checks a topology. What is wrong with it is a [topology.Diagnostics].
func (s *source) load(env Env) (*topology.Topology, error) {
	data, err := s.read(env)
	if err != nil {
		return nil, err
	}
	return topology.Parser{LookupEnv: env.LookupEnv}.Parse(s.name(), data)
}
