package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

// Diff is what a change of a topology means. All its forms but JSON, which has everything, are for
// people: text for a terminal, Markdown for a comment on a review, SARIF and GitHub for places in a file.
type Diff struct {
	*provision.Plan
	// Expand lists generated objects in text.
	Expand bool `json:"-"`
	// NewPath is where the new file is in the work tree, with slashes, or "" if it is not a file.
	NewPath string `json:"-"`
	// Version is that of this program.
	Version string `json:"-"`
}

// review writes the forms for reviews.
func (d Diff) review(f Format, w *bytes.Buffer) error {
	switch f {
	case Markdown:
		d.markdown(w)
	case GitHub:
		d.github(w)
	default:
		return d.sarif(w)
	}
	return nil
}

func (d Diff) text(p *printer) {
	for _, f := range d.Flows {
		p.printf("%s\n", p.in(bold, bare(title(f))))
		for _, c := range f.Changes {
			const width = 10
			p.printf("  %s%s%s%s\n", p.in(styleOf(c.Verdict), string(c.Verdict)), strings.Repeat(" ", width-len(c.Verdict)),
				bare(c.Summary), p.in(dim, written(c)))
			for _, line := range d.lines(c) {
				p.printf("  %*s%s\n", width, "", line)
			}
		}
	}
	if !d.Changed() {
		p.printf("%s: %s and %s mean the same\n", p.in(green, "no change"), visible(d.Old.Name), visible(d.New.Name))
		return
	}
	p.printf("%s\n", tally(d.Plan))
}

// lines are what stands below a change.
func (d Diff) lines(c provision.FlowChange) []string {
	out := append([]string{}, c.Details...)
	if c.Cost != "" {
		out = append(out, c.Cost)
	}
	for i := range out {
		out[i] = bare(out[i])
	}
	if c.Policy != nil {
		out = append(out, policyLine(*c.Policy))
	}
	if d.Expand {
		for _, o := range c.Objects {
			out = append(out, bare(o.String()))
		}
	} else if n := generated(c.Objects); n != "" {
		out = append(out, n+" (--expand lists them)")
	}
	return out
}

// title names a flow, with the name in quotes.
func title(f provision.Flow) string {
	name := strconv.Quote(f.Name)
	if f.Kind == provision.FlowQueue {
		return name
	}
	return string(f.Kind) + " " + name
}

// sentence says a change without its flow around it.
func sentence(f provision.Flow, c provision.FlowChange) string {
	switch c.Code {
	case provision.CodeVHostChanged, provision.CodeNameChanged, provision.CodeQueueChanged, provision.CodeExchangeChanged,
		provision.CodeLadderChanged, provision.CodeDLQMoved, provision.CodeDLQChanged,
		provision.CodeOwnerChanged, provision.CodeAlertsChanged:
		return title(f) + ": " + c.Summary
	}
	return title(f) + " " + c.Summary
}

// tally counts the changes of a plan by verdict, the gravest first.
func tally(p *provision.Plan) string {
	total := 0
	for _, n := range p.Counts {
		total += n
	}
	return plural(total, "change") + ": " + verdicts(p.Counts)
}

func verdicts(counts map[provision.Verdict]int) string {
	var out []string
	for _, v := range provision.Verdicts() {
		if n := counts[v]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(out, ", ")
}

// generated counts generated objects, or is "" if there are none.
func generated(objects []provision.ObjectChange) string {
	var out []string
	for _, action := range []provision.ObjectAction{provision.ObjectAdded, provision.ObjectRemoved, provision.ObjectChanged} {
		for _, kind := range []string{"exchange", "queue", "binding"} {
			n := 0
			for _, o := range objects {
				if o.Generated && o.Action == action && o.Kind == kind {
					n++
				}
			}
			if n > 0 {
				out = append(out, plural(n, kind)+" "+string(action))
			}
		}
	}
	return strings.Join(out, ", ")
}

func styleOf(v provision.Verdict) string {
	switch v {
	case provision.VerdictBreaking, provision.VerdictRecreate:
		return red
	case provision.VerdictSafe:
		return green
	case provision.VerdictIgnored:
		return dim
	}
	return bold
}

// written says where a change stands, or is empty.
func written(c provision.FlowChange) string {
	at := c.New
	if at == nil {
		at = c.Old
	}
	if at == nil {
		return ""
	}
	return " (" + place(*at) + ")"
}

func place(p topology.Position) string { return visible(p.File) + ":" + strconv.Itoa(p.Line) }

// policy returns the pattern and the definition of a policy, both printable.
func policy(p provision.PolicyInstead) (pattern, definition string) {
	text, err := json.Marshal(p.Definition)
	if err != nil {
		text = []byte("{}") // values of arguments can always be written
	}
	return printable(p.Pattern), printable(string(text))
}

// policyLine returns a policy on one line.
func policyLine(p provision.PolicyInstead) string {
	pattern, definition := policy(p)
	return "policy: " + pattern + " on " + p.ApplyTo + ": " + definition
}

// printable escapes what does not print as JSON does.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

// visible returns a text with everything that does not print escaped.
func visible(s string) string {
	quoted := strconv.Quote(s)
	if strings.ContainsRune(quoted, '\\') {
		return quoted
	}
	return s
}

// spans calls plain and name for the parts of a sentence in turn: names are in quotes as Go writes them.
func spans(sentence string, plain, name func(string)) {
	for sentence != "" {
		i := strings.IndexByte(sentence, '"')
		if i < 0 {
			plain(sentence)
			return
		}
		token, err := strconv.QuotedPrefix(sentence[i:])
		if err != nil {
			token = sentence[i : i+1]
		}
		if i > 0 {
			plain(sentence[:i])
		}
		name(token)
		sentence = sentence[i+len(token):]
	}
}

// bare returns a sentence without the quotes around names that nobody can take for anything else.
func bare(sentence string) string {
	var b strings.Builder
	write := func(s string) { b.WriteString(s) }
	spans(sentence, write, func(token string) { write(unquoteTame(token)) })
	return b.String()
}

func unquoteTame(token string) string {
	inner := strings.Trim(token, `"`)
	if inner == "" || inner == "none" || inner == "true" || inner == "false" {
		return token
	}
	for i, r := range inner {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789._-", r)) {
			return token
		}
	}
	return inner
}
