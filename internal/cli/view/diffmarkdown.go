package view

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rmqkit/rmqkit/provision"
)

// maxComment is the most characters that a comment gets: GitHub takes 65,536.
const maxComment = 60_000

// mostObjects is how many objects of a flow are listed in a comment.
const mostObjects = 100

// markdown writes a comment for a review. The gravest flows come first, so that what does not fit is what
// matters least.
func (d Diff) markdown(w *bytes.Buffer) {
	if !d.Changed() {
		w.WriteString("**No change**: " + span(d.Old.Name) + " and " + span(d.New.Name) + " mean the same.\n")
		return
	}
	head := "**" + strings.Replace(tally(d.Plan), ":", "**:", 1) + "\n\n" +
		"From " + span(d.Old.Name) + " to " + span(d.New.Name) + ".\n\n"
	flows := slices.Clone(d.Flows)
	slices.SortStableFunc(flows, func(a, b provision.Flow) int {
		all := provision.Verdicts()
		return slices.Index(all, a.Verdict()) - slices.Index(all, b.Verdict())
	})
	c := comment{w: w, left: maxComment - utf8.RuneCountInString(head)}
	w.WriteString(head)
	parts := make([]section, len(flows))
	for i, f := range flows {
		parts[i] = c.section(f)
	}
	for _, s := range parts {
		c.write(s)
	}
	if c.omitted > 0 {
		w.WriteString("_" + plural(c.omitted, "more change") + " not shown: a comment is limited. `rmq-provision diff` shows everything._\n")
	}
}

// comment is Markdown of limited length.
type comment struct {
	w *bytes.Buffer
	// left is how many characters may still be written.
	left    int
	omitted int
}

// section is what is shown of a flow.
type section struct {
	begin, end string
	items      []string
	objects    string
}

// reserved is for what is written when nothing else fits.
const reserved = 200

// take reserves room for texts and reports whether there is enough.
func (c *comment) take(texts ...string) bool {
	n := 0
	for _, t := range texts {
		n += utf8.RuneCountInString(t)
	}
	if n > c.left-reserved {
		return false
	}
	c.left -= n
	return true
}

// section takes as many changes of a flow as there is room for.
func (c *comment) section(f provision.Flow) section {
	s := section{begin: open(f), end: "\n</details>\n\n", objects: objects(f)}
	first := item(f.Changes[0])
	if !c.take(s.begin, first, s.end) {
		c.omitted += len(f.Changes)
		return section{}
	}
	s.items = append(s.items, first)
	for _, change := range f.Changes[1:] {
		if text := item(change); c.take(text) {
			s.items = append(s.items, text)
		} else {
			c.omitted++
		}
	}
	return s
}

// write writes a section, with the list of its objects if there is room for it once all changes have theirs.
func (c *comment) write(s section) {
	c.w.WriteString(s.begin + strings.Join(s.items, ""))
	if s.items != nil && c.take(s.objects) {
		c.w.WriteString(s.objects)
	}
	c.w.WriteString(s.end)
}

// open begins a flow: folded if a reviewer may skip it.
func open(f provision.Flow) string {
	counts := map[provision.Verdict]int{}
	for _, c := range f.Changes {
		counts[c.Verdict]++
	}
	unfolded := " open"
	if v := f.Verdict(); v == provision.VerdictSafe {
		unfolded = ""
	}
	kind := ""
	if f.Kind != provision.FlowQueue {
		kind = string(f.Kind) + " "
	}
	// This is HTML until the next empty line: Markdown does not look into it.
	return "<details" + unfolded + "><summary>" + kind + "<code>" + html.EscapeString(visible(f.Name)) + "</code>: " +
		verdicts(counts) + "</summary>\n\n"
}

// item is one change.
func item(c provision.FlowChange) string {
	var b strings.Builder
	b.WriteString("- **" + string(c.Verdict) + "** " + inline(c.Summary))
	at := c.New
	if at == nil {
		at = c.Old
	}
	if at != nil {
		b.WriteString(" (" + span(place(*at)) + ")")
	}
	b.WriteString("\n")
	for _, s := range c.Details {
		b.WriteString("  - " + inline(s) + "\n")
	}
	if c.Cost != "" {
		b.WriteString("  - " + inline(c.Cost) + "\n")
	}
	if c.Policy != nil {
		pattern, definition := policy(*c.Policy)
		b.WriteString("  - policy: " + fenced(pattern) + " on " + c.Policy.ApplyTo + ": " + fenced(definition) + "\n")
	}
	return b.String()
}

// objects lists the objects of a flow, folded, or is "" if there are none.
func objects(f provision.Flow) string {
	var all []provision.ObjectChange
	for _, c := range f.Changes {
		all = append(all, c.Objects...)
	}
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n<details><summary>" + plural(len(all), "object") + "</summary>\n\n")
	for _, o := range all[:min(len(all), mostObjects)] {
		b.WriteString("- " + inline(o.String()) + "\n")
	}
	if n := len(all) - mostObjects; n > 0 {
		b.WriteString("- and " + plural(n, "more object") + "\n")
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

// inline makes a sentence Markdown: names become code, in which nothing is markup, a mention or a link.
func inline(sentence string) string {
	var b strings.Builder
	spans(sentence,
		func(s string) { b.WriteString(markup.Replace(s)) },
		func(token string) {
			if strings.ContainsRune(token, '\\') || token == `""` {
				b.WriteString(fenced(token))
				return
			}
			b.WriteString(fenced(strings.Trim(token, `"`)))
		})
	return b.String()
}

var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", "&", "&amp;", "@", "&#64;", "#", "&#35;")

// span returns any text as code.
func span(s string) string { return fenced(visible(s)) }

// fenced returns printable text as code, between more backticks than there are in it.
func fenced(s string) string {
	longest, run := 0, 0
	for _, r := range s {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", longest+1)
	// One space at either end is taken off again, if there is one at both.
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		s = " " + s + " "
	}
	return fence + s + fence
}
