package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rmqkit/rmqkit/internal/cli/view"
	"github.com/rmqkit/rmqkit/topology"
)

type explainOptions struct {
	source   source
	question topology.Question
	headers  []string
	reject   string
	reason   string
	routes   bool
	output   format
}

// always is the value of --reject that is no number.
const always = "always"

func explainCommand(env Env) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain EXCHANGE [KEY]",
		Short: "Show where a message goes, and goes next if it is rejected",
		Long: `explain shows which queues get a message that is published to EXCHANGE with the routing key KEY, and what
becomes of each copy whose handling fails again and again: through which queues it goes, when, and where it
ends. EXCHANGE "" is the default exchange. It asks no broker, and answers as a broker of --broker-version would.

Handling fails in --queue, or else in the first queue on the way of each copy that has no TTL: a queue with a TTL
is taken for a delay that nobody consumes. Without --queue, --expiration runs out in that first queue.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usagef("explain has %d arguments; expected EXCHANGE and KEY", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.question.Publish.Exchange = args[0]
			if len(args) > 1 {
				o.question.Publish.RoutingKey = args[1]
			}
			return explain(cmd.Context(), env, o)
		},
	}
	o.source.addFlag(cmd)
	o.output.addFlag(cmd, "output", "form of the result", view.Text, view.JSON)
	f := cmd.Flags()
	f.StringArrayVar(&o.headers, "headers", nil, "`NAME=VALUE` of a header of the message, once for each; VALUE is JSON, or else a text")
	f.StringVar(&o.reject, "reject", always, "`NUMBER` of times that handling fails before it succeeds, or always")
	f.StringVar(&o.question.Queue, "queue", "", "`NAME` of the queue in which handling fails")
	f.StringVar(&o.reason, "reason", string(topology.DeathRejected), "`REASON` of failing: rejected, expired, maxlen or delivery_limit")
	f.DurationVar(&o.question.Expiration, "expiration", 0, "`TIME` that the message itself may wait in a queue")
	f.StringVar(&o.question.Version, "broker-version", "", "`VERSION` of the broker, such as 3.10 or 4 (default: the newest that is known)")
	f.BoolVar(&o.routes, "routes", false, "show the exchanges and bindings too (text only; JSON has them)")
	return cmd
}

func explain(_ context.Context, env Env, o explainOptions) error {
	var err error
	if o.question.Publish.Headers, err = parseHeaders(o.headers); err != nil {
		return err
	}
	if o.question.Failures, err = parseFailures(o.reject); err != nil {
		return err
	}
	if o.question.Expiration%time.Millisecond != 0 || o.question.Expiration < 0 {
		return usagef("--expiration %v; expected whole milliseconds", o.question.Expiration)
	}
	o.question.Reason = topology.DeathReason(o.reason)
	t, err := o.source.load(env)
	if err != nil {
		return err
	}
	answer, err := t.Router().Explain(o.question)
	if err != nil {
		// The topology is right, so the question is wrong.
		return usageError{err}
	}
	return view.Write(env.Stdout, o.output.Format, env.colour(), view.Explanation{Explanation: answer, Routes: o.routes})
}

func parseFailures(s string) (int, error) {
	if s == always {
		return topology.Always, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > topology.MaxFailures {
		return 0, usagef("--reject %q; expected 0 to %d, or %s", s, topology.MaxFailures, always)
	}
	return n, nil
}

// parseHeaders reads NAME=VALUE. Whole numbers are integers, as they are in a message.
func parseHeaders(list []string) (map[string]any, error) {
	out := map[string]any{}
	for _, h := range list {
		name, text, ok := strings.Cut(h, "=")
		switch _, twice := out[name]; {
		case !ok || name == "":
			return nil, usagef("--headers %q; expected NAME=VALUE", h)
		case twice:
			return nil, usagef("--headers %q: %q is given more than once", h, name)
		}
		v, err := parseValue(text)
		if err != nil {
			return nil, usagef("--headers %q: %w", h, err)
		}
		out[name] = v
	}
	return out, nil
}

var errNumber = errors.New("a number that no header can hold")

// parseValue reads JSON; what is none is a text.
func parseValue(s string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return s, nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, nil
	}
	return numbers(v)
}

// numbers makes int64 and float64 of the numbers in a JSON value.
func numbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil || !strings.ContainsAny(v.String(), ".eE") {
			return nil, fmt.Errorf("%s: %w", v, errNumber)
		}
		return f, nil
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = numbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
