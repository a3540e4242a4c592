package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// maxDepth bounds nesting: the deepest thing we know is at 7, and arguments may be tables.
	maxDepth = 32
	// maxVisits bounds the work on one file: defaults are read again for every queue, so that a small
	// file could otherwise ask for a lot.
	maxVisits = 250_000
	// maxObjects bounds the queues, and the exchanges, of one file: a ladder makes ten objects and more.
	maxObjects = 10_000
	// maxExpanded bounds the queues with those that ladders make.
	maxExpanded = 100_000
	// maxDiagnostics is where reporting ends.
	maxDiagnostics = 1_000
	// maxGuesses bounds the words that are compared for hints.
	maxGuesses = 50_000
)

// decoder reads one file and collects what is wrong with it.
type decoder struct {
	file   string
	lookup func(string) (string, bool)

	diagnostics Diagnostics
	seen        map[Diagnostic]bool
	// bad nodes have been reported; whoever meets one says nothing.
	bad map[*yaml.Node]bool
	// variables are the nodes that were filled in from the environment.
	variables map[*yaml.Node]bool
	visits    int
	// filled counts the bytes that came from the environment, guesses the words that were compared.
	filled, guesses int
}

func (d *decoder) at(line, column int) Position {
	return Position{File: d.file, Line: max(line, 1), Column: max(column, 1)}
}

func (d *decoder) of(n *yaml.Node) Position { return d.at(n.Line, n.Column) }

// add reports a diagnostic, once.
func (d *decoder) add(x Diagnostic) {
	if d.full() || d.seen[x] {
		return
	}
	d.seen[x] = true
	d.diagnostics = append(d.diagnostics, x)
	if d.full() {
		d.diagnostics = append(d.diagnostics, Diagnostic{
			Position: x.Position, Code: codeTooMany, Message: fmt.Sprintf("%d mistakes; what else is wrong is not shown", maxDiagnostics),
			Expected: "fewer",
		})
	}
}

// full reports whether nothing more is reported.
func (d *decoder) full() bool { return len(d.diagnostics) >= maxDiagnostics }

// refuse reports what is wrong at n and marks it.
func (d *decoder) refuse(n *yaml.Node, x Diagnostic) {
	x.Position = d.of(n)
	d.bad[n] = true
	d.add(x)
}

// clean reports whether nothing was wrong with n and with what stands directly in it.
func (d *decoder) clean(n *yaml.Node) bool {
	for _, c := range n.Content {
		if d.bad[c] {
			return false
		}
	}
	return !d.bad[n]
}

func (d *decoder) sorted() Diagnostics {
	slices.SortStableFunc(d.diagnostics, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return d.diagnostics
}

// visit counts work and reports whether there may be more.
func (d *decoder) visit(n *yaml.Node) bool {
	d.visits++
	if d.visits == maxVisits {
		d.refuse(n, Diagnostic{
			Code: codeTooLarge, Message: "the file says too much: many queues, each with large defaults",
			Hint: "split the topology into files of their own names",
		})
	}
	return d.visits < maxVisits && !d.full()
}

// prepare goes through the whole tree once: it refuses what YAML can do and we do not want, and fills
// in the environment. It reports whether the rest may be read.
func (d *decoder) prepare(n *yaml.Node, depth int) bool {
	if d.full() {
		return false
	}
	if depth > maxDepth {
		d.refuse(n, Diagnostic{
			Code: codeTooDeep, Message: "nested too deeply", Expected: fmt.Sprintf("at most %d levels", maxDepth),
		})
		return false
	}
	if n.Anchor != "" {
		d.refuse(n, Diagnostic{
			Code: codeAlias, Message: fmt.Sprintf("anchor %q", "&"+n.Anchor), Expected: "a value",
			Hint: "write the value out where it is needed; what all queues share goes under defaults",
		})
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.refuse(n, Diagnostic{
			Code: codeTag, Message: fmt.Sprintf("tag %q", n.Tag), Expected: "a value without a tag",
			Hint: "for a text that looks like something else use quotes",
		})
	}
	switch n.Kind {
	case yaml.AliasNode:
		d.refuse(n, Diagnostic{
			Code: codeAlias, Message: fmt.Sprintf("alias %q", "*"+n.Value), Expected: "a value",
			Hint: "write the value out; what all queues share goes under defaults",
		})
		return true
	case yaml.ScalarNode:
		d.interpolate(n)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if !d.prepare(c, depth+1) {
				return false
			}
		}
	case yaml.MappingNode:
		return d.prepareMapping(n, depth)
	}
	return true
}

func (d *decoder) prepareMapping(n *yaml.Node, depth int) bool {
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if d.key(k) {
			if first, ok := seen[k.Value]; ok {
				d.refuse(k, Diagnostic{
					Code: codeDuplicateKey, Message: fmt.Sprintf("key %q is given twice", k.Value),
					Expected: "each key once", Hint: fmt.Sprintf("the first is in line %d", first.Line),
				})
			} else {
				seen[k.Value] = k
			}
		}
		if !d.prepare(n.Content[i+1], depth+1) {
			return false
		}
	}
	return true
}

// key reports whether a node can be a key, and reports why not. Keys are taken as they are written:
// nothing is filled in, and a number is its digits.
func (d *decoder) key(k *yaml.Node) bool {
	switch {
	case k.Kind == yaml.AliasNode, k.Anchor != "":
		d.refuse(k, Diagnostic{
			Code: codeAlias, Message: "an anchor or alias at a key", Expected: "a plain key", Hint: "write the key out",
		})
	case k.Kind != yaml.ScalarNode:
		d.refuse(k, Diagnostic{Code: codeWrongType, Message: "a " + kindOf(k) + " as a key", Expected: "a text"})
	case k.ShortTag() == "!!merge":
		d.refuse(k, Diagnostic{
			Code: codeMergeKey, Message: `merge key "<<"`, Expected: "plain keys",
			Hint: "write the keys out; what all queues share goes under defaults",
		})
	case k.Style&yaml.TaggedStyle != 0:
		d.refuse(k, Diagnostic{Code: codeTag, Message: fmt.Sprintf("tag %q at a key", k.Tag), Expected: "a plain key"})
	case k.ShortTag() == "!!null":
		d.refuse(k, Diagnostic{Code: codeWrongType, Message: "an empty key", Expected: "a text", Hint: `a name like that needs quotes`})
	case strings.Contains(k.Value, "${"):
		d.refuse(k, Diagnostic{
			Code: codeVariable, Message: fmt.Sprintf("a variable in the key %q", shown(k.Value)), Expected: "a plain key",
			Hint: "only values are filled in from the environment",
		})
	default:
		return true
	}
	return false
}
