package provision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// spoken returns a duration as a person says it: 5 min 40 s.
func spoken(d time.Duration) string {
	if d == 0 {
		return "0 s"
	}
	var parts []string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.unit; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			d -= n * u.unit
		}
	}
	return strings.Join(parts, " ")
}

// between returns one duration or two with the word between them.
func between(low, high time.Duration, word string) string {
	if low == high {
		return spoken(low)
	}
	return spoken(low) + " " + word + " " + spoken(high)
}

// count returns "1 queue" or "2 queues".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listed joins words for a sentence: a, b and c.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// few joins the first words and says how many more there are.
func few(words []string) string {
	const most = 5
	if len(words) <= most {
		return listed(words)
	}
	return listed(append(slices.Clone(words[:most-1]), fmt.Sprintf("%d more", len(words)-most+1)))
}

// quoted returns names in quotes.
func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return out
}

// arrow returns what changed into what.
func arrow(from, to string) string { return from + " → " + to }

// schedule is what retries come to: how many, over which time.
func schedule(l retry.Ladder) string {
	if len(l.Tiers) == 0 {
		return "none"
	}
	var low, high time.Duration
	for i := range l.Tiers {
		shortest, longest := l.Delays(i + 1)
		low, high = low+shortest, high+longest
	}
	return count(len(l.Tiers), "attempt") + " over " + between(low, high, "to")
}

// delays returns the delay of each tier.
func delays(l retry.Ladder) string {
	if len(l.Tiers) == 0 {
		return "none"
	}
	out := make([]string, len(l.Tiers))
	for i, t := range l.Tiers {
		shortest, longest := l.Delays(i + 1)
		out[i] = between(shortest, longest, "to")
		if t.Spread != "" {
			out[i] += fmt.Sprintf(" in %s by %s", count(len(t.Slots), "slot"), t.Spread)
		}
	}
	return strings.Join(out, ", ")
}

// from names an exchange as the origin of messages.
func from(exchange string) string {
	if exchange == "" {
		return "the default exchange"
	}
	return strconv.Quote(exchange)
}

// received says which messages a binding brings. kind is the type of its source, if known.
func received(b topology.Binding, kind string) string {
	what := strconv.Quote(b.RoutingKey)
	switch {
	case kind == "fanout":
		what = "everything"
	case kind == "headers":
		what = "messages"
	case kind == "topic" && b.RoutingKey == "#":
		what = "everything"
	case spreading(kind):
		what = "a share (binding key " + strconv.Quote(b.RoutingKey) + ")"
	case b.RoutingKey == "":
		what = "messages with an empty key"
	}
	out := what + " from " + from(b.Source)
	if len(b.Arguments) > 0 && kind != "fanout" {
		out += " where " + condition(b.Arguments)
	}
	return out
}

// condition says what the arguments of a binding ask for.
func condition(args map[string]any) string {
	var words []string
	for _, k := range keysOf(args, nil) {
		v := valueOf(args[k], true)
		words = append(words, strconv.Quote(k)+" is "+v.quoted())
	}
	return listed(words)
}

// quoted returns the value for a sentence of a [FlowChange]: what someone else wrote is in quotes.
func (v Value) quoted() string {
	switch v.Type {
	case TypeInteger, TypeFloat, TypeBool, TypeNone:
		return v.String()
	}
	return strconv.Quote(v.Text)
}

// spreading reports whether an exchange gives each message to one of its bindings by chance or by hash.
func spreading(kind string) bool {
	switch kind {
	case "x-random", "x-local-random", "x-consistent-hash", "x-modulus-hash":
		return true
	}
	return false
}
