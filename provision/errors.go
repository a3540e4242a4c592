package provision

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rmqkit/rmqkit/topology"
)

// The errors that callers tell apart. Neither has changed anything on the broker.
var (
	// ErrRefused says that apply would not begin: its reasons need a person. [*MismatchError] is one too.
	ErrRefused = errors.New("refused")
	// ErrLocked says that another apply of the same topology was running all the time.
	ErrLocked = errors.New("another apply of this topology is running")
)

// RefusedError is every reason, other than mismatches, why apply would not begin. It is [ErrRefused].
type RefusedError struct {
	Reasons []string

	// cause is what the reasons were made of, or nil.
	cause error
}

// Error returns the reasons, one on a line.
func (e *RefusedError) Error() string { return strings.Join(e.Reasons, "\n") }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Unwrap returns the [topology.Diagnostics] if the version of the broker is the reason, and else nil.
func (e *RefusedError) Unwrap() error { return e.cause }

func refuseBroker(wrong topology.Diagnostics) error {
	e := &RefusedError{cause: wrong}
	for _, d := range wrong {
		e.Reasons = append(e.Reasons, d.String())
	}
	return e
}

func refusef(format string, args ...any) error {
	return &RefusedError{Reasons: []string{fmt.Sprintf(format, args...)}}
}

// MismatchError is every difference between objects that exist and what the topology wants: none of
// them can be changed in place. It is [ErrRefused].
type MismatchError struct {
	Mismatches []Mismatch
}

// Error returns the mismatches, one on a line; what to do about an object stands after the last of
// its.
func (e *MismatchError) Error() string {
	lines := make([]string, len(e.Mismatches))
	for i, m := range e.Mismatches {
		if i+1 < len(e.Mismatches) {
			if next := e.Mismatches[i+1]; next.Kind == m.Kind && next.Name == m.Name && next.Hint == m.Hint {
				m.Hint = ""
			}
		}
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *MismatchError) Is(target error) bool { return target == ErrRefused }

// Mismatch is one argument or property of one object that exists with another value.
type Mismatch struct {
	Kind topology.Kind `json:"kind"`
	Name string        `json:"name"`
	// Argument is the broker's name for it: an argument such as x-message-ttl, or type, durable,
	// auto_delete, internal.
	Argument string `json:"argument"`
	Wanted   Value  `json:"wanted"`
	Current  Value  `json:"current"`
	// Source is where the wanted value comes from.
	Source topology.Position `json:"source"`
	// Hint says what to do.
	Hint string `json:"hint"`
}

// String returns the mismatch on one line.
func (m Mismatch) String() string {
	var b strings.Builder
	if m.Source != (topology.Position{}) {
		fmt.Fprintf(&b, "%s: ", m.Source)
	}
	wanted, current := m.Wanted.String(), m.Current.String()
	if m.Wanted.Type != m.Current.Type && m.Wanted.Text == m.Current.Text {
		wanted, current = m.Wanted.typed(), m.Current.typed()
	}
	fmt.Fprintf(&b, "%s %q: %s is %s on the broker, %s here", m.Kind, m.Name, m.Argument, current, wanted)
	if m.Hint != "" {
		fmt.Fprintf(&b, "; %s", m.Hint)
	}
	return b.String()
}

// ValueType is the type of an argument, as coarse as the broker's comparison.
type ValueType string

// The types.
const (
	// TypeNone is the type of an argument that is not set.
	TypeNone    ValueType = "none"
	TypeString  ValueType = "string"
	TypeInteger ValueType = "integer"
	TypeFloat   ValueType = "float"
	TypeBool    ValueType = "boolean"
	TypeOther   ValueType = "other"
	// TypeUnknown is the type of a value that the broker did not tell, or not in full.
	TypeUnknown ValueType = "unknown"
)

// Value is an argument's value as the broker prints it.
type Value struct {
	Text string    `json:"text"`
	Type ValueType `json:"type"`
}

// String returns the value for a sentence.
func (v Value) String() string {
	switch v.Type {
	case TypeNone:
		return "not set"
	case TypeUnknown:
		if v.Text == "" {
			return "something that the broker does not tell"
		}
		return fmt.Sprintf("%q", v.Text)
	case TypeString:
		return fmt.Sprintf("%q", v.Text)
	}
	return v.Text
}

func (v Value) typed() string {
	if v.Type == TypeNone {
		return v.String()
	}
	return fmt.Sprintf("%s (%s)", v, v.Type)
}

// valueOf describes an argument of ours.
func valueOf(v any, set bool) Value {
	if !set {
		return Value{Type: TypeNone}
	}
	switch v := v.(type) {
	case string:
		return Value{Text: v, Type: TypeString}
	case bool:
		return Value{Text: fmt.Sprint(v), Type: TypeBool}
	case int, int8, int16, int32, int64, uint8:
		return Value{Text: fmt.Sprint(v), Type: TypeInteger}
	case float32, float64:
		return Value{Text: fmt.Sprint(v), Type: TypeFloat}
	}
	return Value{Text: fmt.Sprint(v), Type: TypeOther}
}
