package provision

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rmqkit/rmqkit/topology"
)

// object is what has a name of its own.
type object struct {
	kind topology.Kind
	name string
}

func (o object) String() string { return fmt.Sprintf("%s %q", o.kind, o.name) }

// inequivalence is what the broker says when an object is declared that exists with another value: it
// names one argument, the first it comes across.
type inequivalence struct {
	argument string
	current  Value
	// whole is false if the broker's text was cut: an AMQP reply has at most 255 bytes.
	whole bool
}

// parseInequivalence reads the text of a 406. sent are the properties that were declared. It knows the
// three forms that RabbitMQ 3.10 to 4.3 print:
//
//	inequivalent arg 'A' for queue 'Q' in vhost 'V': received 'X' but current is 'Y'
//	… received none but current is the value 'Y' of type 'long'
//	… received the value 'X' of type 'long' but current is none
func parseInequivalence(text string, o object, sent properties) (inequivalence, bool) {
	_, rest, ok := strings.Cut(text, "inequivalent arg '")
	if !ok {
		return inequivalence{}, false
	}
	argument, rest, ok := strings.Cut(rest, "' for "+string(o.kind)+" '")
	if !ok || argument == "" {
		return inequivalence{}, false
	}
	found := inequivalence{argument: argument, current: Value{Type: TypeUnknown}}
	// A name may hold any of the words below; where it comes back as we wrote it, step over it.
	rest, _ = strings.CutPrefix(rest, o.name)
	_, rest, ok = strings.Cut(rest, ": received ")
	if !ok {
		return found, true
	}
	const but = " but current is "
	value := valueOf(sent[argument], sent[argument] != nil)
	received := []string{
		"none" + but,
		"'" + value.Text + "'" + but,
		"''" + value.Text + "''" + but, // the type of a plugin's exchange
	}
	for _, r := range received {
		if after, ok := strings.CutPrefix(rest, r); ok {
			return found.with(after), true
		}
	}
	if i := strings.LastIndex(rest, but); i >= 0 {
		return found.with(rest[i+len(but):]), true
	}
	return found, true
}

// with reads what follows "but current is".
func (in inequivalence) with(text string) inequivalence {
	if text == "none" {
		in.current, in.whole = Value{Type: TypeNone}, true
		return in
	}
	if typed, ok := strings.CutPrefix(text, "the value '"); ok {
		if i := strings.LastIndex(typed, "' of type '"); i >= 0 && strings.HasSuffix(typed, "'") {
			t := strings.TrimSuffix(typed[i+len("' of type '"):], "'")
			in.current, in.whole = Value{Text: typed[:i], Type: typeOf(t)}, true
		}
		return in
	}
	if len(text) >= 2 && strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'") {
		in.current, in.whole = Value{Text: text[1 : len(text)-1], Type: TypeUnknown}, true
	}
	return in
}

// typeOf translates the broker's names of AMQP types.
func typeOf(wire string) ValueType {
	switch wire {
	case "longstr", "binary":
		return TypeString
	case "bool":
		return TypeBool
	case "double", "float":
		return TypeFloat
	case "long", "signedint", "unsignedint", "short", "unsignedshort", "byte", "unsignedbyte":
		return TypeInteger
	}
	return TypeOther
}

// properties are the arguments of an object and, under the broker's names for them, its other
// properties: durable, auto_delete, and an exchange's type and internal.
type properties map[string]any

func exchangeProperties(e topology.Exchange) properties {
	p := properties{}
	maps.Copy(p, e.Arguments)
	// Last: an argument of such a name means nothing to the broker, and must not stand for the property.
	maps.Copy(p, properties{"type": e.Type, "durable": e.Durable, "auto_delete": e.AutoDelete, "internal": e.Internal})
	return p
}

func queueProperties(q topology.Queue) properties {
	p := properties{}
	maps.Copy(p, q.Arguments)
	maps.Copy(p, properties{"durable": q.Durable, "auto_delete": q.AutoDelete})
	return p
}

// exchange is the inverse of exchangeProperties.
func (p properties) exchange(name string) topology.Exchange {
	e := topology.Exchange{Name: name, Arguments: p.arguments("type", "durable", "auto_delete", "internal")}
	e.Type, _ = p["type"].(string)
	e.Durable, _ = p["durable"].(bool)
	e.AutoDelete, _ = p["auto_delete"].(bool)
	e.Internal, _ = p["internal"].(bool)
	return e
}

// queue is the inverse of queueProperties.
func (p properties) queue(name string) topology.Queue {
	q := topology.Queue{Name: name, Arguments: p.arguments("durable", "auto_delete")}
	q.Durable, _ = p["durable"].(bool)
	q.AutoDelete, _ = p["auto_delete"].(bool)
	return q
}

func (p properties) arguments(without ...string) map[string]any {
	args := maps.Clone(map[string]any(p))
	for _, k := range without {
		delete(args, k)
	}
	if len(args) == 0 {
		return nil
	}
	return args
}

// guesses returns the values that a printed one can stand for, the likeliest first: the broker prints
// 'true', '1000' and '1.5' alike whatever their types.
func (v Value) guesses() []any {
	var out []any
	add := func(t ValueType, value any, err error) {
		if err == nil && (v.Type == t || v.Type == TypeUnknown) {
			out = append(out, value)
		}
	}
	i, err := strconv.ParseInt(v.Text, 10, 64)
	add(TypeInteger, i, err)
	b, err := strconv.ParseBool(v.Text)
	if v.Text == "true" || v.Text == "false" {
		add(TypeBool, b, err)
	}
	add(TypeString, v.Text, nil)
	f, err := strconv.ParseFloat(v.Text, 64)
	add(TypeFloat, f, err)
	return out
}

// comparison finds every difference between an object that exists and what is wanted, from answers
// that name one at a time: whatever the broker objects to is replaced by what it says it has, and then
// it is asked again. It decides what to ask; the asking is done elsewhere.
type comparison struct {
	object object
	wanted properties
	// ask is what to declare next.
	ask properties
	// open is the argument that ask holds a guess for, and guesses are the others still to try.
	open    string
	guesses []any
	found   []difference
}

// difference is one argument that differs.
type difference struct {
	argument        string
	wanted, current Value
	// note is what the broker said where that could not be taken apart.
	note string
}

func newComparison(o object, wanted properties) *comparison {
	return &comparison{object: o, wanted: wanted, ask: maps.Clone(wanted)}
}

// differ takes the text of a 406 and reports whether it is worth asking again.
func (c *comparison) differ(text string) bool {
	in, ok := parseInequivalence(text, c.object, c.ask)
	if !ok {
		c.found = append(c.found, difference{note: text})
		return false
	}
	if in.argument == c.open && len(c.guesses) > 0 {
		c.try(in.argument)
		return true
	}
	if i := slices.IndexFunc(c.found, func(d difference) bool { return d.argument == in.argument }); i >= 0 {
		// No guess was right: what else differs stays unknown.
		c.found[i].current.Type, c.found[i].note = TypeUnknown, text
		return false
	}
	want, set := c.wanted[in.argument]
	d := difference{argument: in.argument, wanted: valueOf(want, set), current: in.current}
	if !in.whole {
		d.note = text
	}
	c.found = append(c.found, d)
	c.open, c.guesses = in.argument, nil
	switch {
	case !in.whole:
		return false
	case c.object.kind == topology.KindExchange && in.argument == "type" && !slices.Contains(coreTypes, in.current.Text):
		// The plugin may be off, and RabbitMQ 3.10 closes the connection over a type it does not know.
		return false
	case in.current.Type == TypeNone:
		delete(c.ask, in.argument)
		return true
	}
	for _, g := range in.current.guesses() {
		if valueOf(g, true) != d.wanted {
			c.guesses = append(c.guesses, g)
		}
	}
	if len(c.guesses) == 0 {
		return false
	}
	c.try(in.argument)
	return true
}

// try puts the next guess into the question and, since the right one is the last that is tried, into
// the answer.
func (c *comparison) try(argument string) {
	c.ask[argument] = c.guesses[0]
	c.found[len(c.found)-1].current.Type = valueOf(c.guesses[0], true).Type
	c.guesses = c.guesses[1:]
}
