package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rmqkit/rmqkit/topology"
)

// Explanation is where a message goes: a line for each queue that a copy comes to, in a tree that branches
// where copies part, with the time since the publish.
type Explanation struct {
	*topology.Explanation
	// Routes adds to the text the exchanges and bindings by which each copy came.
	Routes bool `json:"-"`
}

func (e Explanation) text(p *printer) {
	p.printf("%s\n\n", p.in(bold, e.title()))
	if len(e.Copies) == 0 {
		p.printf("It %s: the broker returns a mandatory message and drops any other silently.\n", p.in(red, "reaches no queue"))
	} else if e.MayReachNone {
		p.printf("It depends on what an exchange picks whether it reaches a queue at all.\n\n")
	}
	t := tree{routes: e.Routes}
	t.copies(e.Copies, "")
	t.write(p)
	for i, line := range e.summary() {
		if i == 0 {
			p.printf("\n")
		}
		p.printf("%s\n", line)
	}
}

func (e Explanation) title() string {
	p := e.Publish
	var b strings.Builder
	fmt.Fprintf(&b, "publish to %s, key %s", exchangeName(p.Exchange), plainName(p.RoutingKey))
	switch {
	case e.Failures == 0:
	case e.Failures == topology.Always:
		fmt.Fprintf(&b, "; %s every time", e.Reason)
	case e.Failures == 1:
		fmt.Fprintf(&b, "; %s once", e.Reason)
	default:
		fmt.Fprintf(&b, "; %s %d times", e.Reason, e.Failures)
	}
	if e.Queue != "" && e.Failures > 0 {
		fmt.Fprintf(&b, " in %s", plainName(e.Queue))
	}
	fmt.Fprintf(&b, "; RabbitMQ %s", e.Version)
	return b.String()
}

// summary says how each copy ends, where that is more than the tree shows at a glance, and the notes.
func (e Explanation) summary() []string {
	var out []string
	for _, end := range e.Ends() {
		if end.Attempts == 0 && end.After.Max == 0 && end.Fate == topology.FateRests {
			continue
		}
		line := fmt.Sprintf("comes to %s after %s", plainName(end.Queue), timeSpan(end.After))
		if end.Attempts > 0 {
			line += " and " + plural(end.Attempts, "attempt")
		}
		line += ", and " + ending(end.Fate)
		if !end.Certain {
			line += ", if it is picked"
		}
		out = append(out, line)
		if len(out) == maxEnds {
			out = append(out, "and so on")
			break
		}
	}
	for _, n := range e.Notes {
		out = append(out, "note: "+n)
	}
	return out
}

// maxEnds is how many ends the summary lists.
const maxEnds = 20

func ending(f topology.Fate) string {
	switch f {
	case topology.FateRests:
		return "stays"
	case topology.FateRepeats:
		return "goes round for ever"
	case topology.FateCut:
		return "is not followed further"
	}
	return "is " + string(f) + " there"
}

// tree is a tree in lines.
type tree struct {
	routes bool
	lines  []line
}

type line struct {
	time, name, what string
	// bad is a line about a loss.
	bad bool
	// aside lines have no columns.
	aside bool
}

// copies adds the lines of copies that part here; prefix is drawn before their names.
func (t *tree) copies(cs []topology.Copy, prefix string) {
	for i, c := range cs {
		own, below := prefix, prefix
		if len(cs) > 1 {
			own, below = prefix+"├─ ", prefix+"│  "
			if i == len(cs)-1 {
				own, below = prefix+"└─ ", prefix+"   "
			}
		}
		if t.routes {
			t.lines = append(t.lines, line{name: own + route(c.Via), aside: true})
			own = below
		}
		t.lines = append(t.lines, line{time: timeSpan(c.After), name: own + queueName(c), what: describe(c), bad: loses(c)})
		t.copies(c.Next, below)
	}
}

func (t *tree) write(p *printer) {
	wide, wider := 0, 0
	for _, l := range t.lines {
		wide = max(wide, utf8.RuneCountInString(l.time))
		if !l.aside {
			wider = max(wider, utf8.RuneCountInString(l.name))
		}
	}
	for _, l := range t.lines {
		if l.aside {
			p.printf("%s  %s\n", pad("", wide), p.in(dim, l.name))
			continue
		}
		what := l.what
		if l.bad {
			what = p.in(red, what)
		}
		p.printf("%s  %s  %s\n", pad(l.time, wide), pad(l.name, wider), what)
	}
}

// loses reports whether a copy, or one that should have come of it, is gone or stuck.
func loses(c topology.Copy) bool {
	switch c.Fate {
	case topology.FateDiscarded, topology.FateLost, topology.FateHeld:
		return true
	}
	return c.DeadLetter != nil && len(c.DeadLetter.Cycles) > 0
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func queueName(c topology.Copy) string {
	if len(c.Slots) == 0 {
		return plainName(c.Queue)
	}
	return fmt.Sprintf("%s … %s (one of %d)", plainName(c.Slots[0]), plainName(c.Slots[len(c.Slots)-1]), len(c.Slots))
}

// describe says what becomes of a copy.
func describe(c topology.Copy) string {
	var parts []string
	if c.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", c.Attempt))
	}
	if c.Reason == topology.DeathExpired && c.Wait != nil {
		parts = append(parts, "waits "+timeSpan(*c.Wait))
	} else if c.Reason != "" {
		parts = append(parts, string(c.Reason))
	}
	switch c.Fate {
	case topology.FateDies:
	case topology.FateRests:
		parts = append(parts, "stays")
	case topology.FateRepeats:
		if c.Period.Max == 0 {
			parts = append(parts, "and so on for ever, at once")
		} else {
			parts = append(parts, "and so on for ever, every "+timeSpan(*c.Period))
		}
	case topology.FateHandled:
		parts = append(parts, "handled")
	default:
		parts = append(parts, strings.ToUpper(string(c.Fate)))
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	if c.DeadLetter != nil && c.Fate == topology.FateDies && len(c.DeadLetter.Cycles) > 0 {
		parts = append(parts, "the broker drops the copies for "+strings.Join(quotedNames(c.DeadLetter.Cycles), ", ")+" as a cycle")
	}
	if len(c.OneOf) > 0 {
		parts = append(parts, "if "+strings.Join(quotedNames(c.OneOf), " and ")+" picks it")
	}
	return strings.Join(parts, "; ")
}

func quotedNames(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = plainName(n)
	}
	return out
}

// route spells the way to a queue.
func route(via []topology.Hop) string {
	parts := make([]string, len(via))
	for i, h := range via {
		parts[i] = exchangeName(h.Exchange)
		switch {
		case h.Alternate:
			parts[i] += " (nothing matches: alternate)"
		case h.RoutingKey != "" && (h.Type == "topic" || h.Type == "direct"):
			parts[i] += " (" + plainName(h.RoutingKey) + ")"
		}
	}
	return "via " + strings.Join(parts, " → ")
}

func exchangeName(name string) string {
	if name == "" {
		return "the default exchange"
	}
	return plainName(name)
}

// plainName quotes a name that is empty or would do something to a terminal.
func plainName(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func timeSpan(s topology.Span) string {
	if s.Min == s.Max {
		return spellTime(s.Min)
	}
	return spellTime(s.Min) + " to " + spellTime(s.Max)
}

// spellTime is as short as Go's durations can be: 1m30s, 2h, 1.5s.
func spellTime(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
