package topology

import (
	"fmt"
	"strings"
)

// Position is a place in a file; Line and Column count from 1. The zero value is no place.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// String returns "file:line:column".
func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Diagnostic is one thing that is wrong with what an operator wrote.
type Diagnostic struct {
	Position
	// Code names the kind of mistake. It never changes.
	Code string `json:"code"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Expected says what would have been right. It may be empty.
	Expected string `json:"expected,omitempty"`
	// Hint says what to do about it. It may be empty.
	Hint string `json:"hint,omitempty"`
}

// String returns the diagnostic on one line.
func (d Diagnostic) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", d.Position, d.Message)
	if d.Expected != "" {
		fmt.Fprintf(&b, "; expected %s", d.Expected)
	}
	if d.Hint != "" {
		fmt.Fprintf(&b, "; %s", d.Hint)
	}
	fmt.Fprintf(&b, " [%s]", d.Code)
	return b.String()
}

// Diagnostics is every mistake found, in source order. As an error it has one line for each.
type Diagnostics []Diagnostic

// Error returns the diagnostics, one on a line.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
