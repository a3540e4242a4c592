package retry

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mark ends a text that was shortened.
const mark = "… [cut]"

const (
	// minFrame is the least frame_max that AMQP allows.
	minFrame = 4096
	// frameOverhead is what a header frame holds beside the header table at most: 8 bytes around the
	// frame, 14 before the properties, seven short strings of 255 bytes, delivery mode, priority and
	// timestamp. user_id and expiration are not among a parked message's properties.
	frameOverhead = 8 + 14 + 7*256 + 1 + 1 + 8
	// maxNames bounds a list of names as the broker stores it.
	maxNames = 384
	// leastText is the shortest rest of a text that is worth keeping.
	leastText = 32
)

// evidence is what gives way first, in this order.
var evidence = []string{
	HeaderErrorStack, HeaderErrorMessage, HeaderErrorClass, HeaderConsumerVersion, HeaderConsumerName,
	HeaderFloats,
}

// fit cuts headers until their table, with the list of what was cut, takes at most budget bytes. It
// returns cut with the names of what it touched added.
func fit(headers map[string]any, cut []string, budget int) []string {
	size := tableSize(headers)
	over := func() int {
		if len(cut) == 0 {
			return size - budget
		}
		return size + fieldSize(HeaderCut, names(cut)) - budget
	}
	for _, name := range evidence {
		v, ok := headers[name]
		if !ok || over() <= 0 {
			continue
		}
		if !slices.Contains(cut, name) {
			cut = append(cut, name)
		}
		size -= fieldSize(name, v)
		delete(headers, name)
		if text, ok := v.(string); ok && fieldSize(name, "")+leastText <= -over() {
			headers[name], _ = shorten(text, -over()-fieldSize(name, ""))
			size += fieldSize(name, headers[name])
		}
	}
	for _, name := range bySize(headers) {
		if over() <= 0 {
			break
		}
		cut = append(cut, name)
		size -= fieldSize(name, headers[name])
		delete(headers, name)
	}
	return cut
}

// bySize returns the names of the message's own headers in the order in which they give way: x-death,
// which has been read, then the largest, then by name.
func bySize(headers map[string]any) []string {
	type sized struct {
		name string
		size int
	}
	var own []sized
	for name, v := range headers {
		switch {
		case strings.HasPrefix(name, Prefix):
		case name == headerDeath:
			own = append(own, sized{name, 1 << 62})
		default:
			own = append(own, sized{name, fieldSize(name, v)})
		}
	}
	slices.SortFunc(own, func(a, b sized) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name))
	})
	out := make([]string, len(own))
	for i, s := range own {
		out[i] = s.name
	}
	return out
}

// names returns a list of names as a header's value, bounded by maxNames: long names are shortened,
// and a last "…" stands for those that have no room.
func names(list []string) []any {
	const more = "…"
	out := []any{}
	size := valueSize(out) + valueSize(more)
	for _, n := range list {
		n, _ = shorten(n, 64)
		if size += valueSize(n); size > maxNames {
			return append(out, more)
		}
		out = append(out, n)
	}
	return out
}

// shorten returns s as valid UTF-8 of at most limit bytes, and whether something was left out; if so
// it ends with the mark.
func shorten(s string, limit int) (string, bool) {
	if len(s) <= limit {
		s = strings.ToValidUTF8(s, "\uFFFD")
		if len(s) <= limit {
			return s, false
		}
	}
	keep := max(limit-len(mark), 0)
	// Twice: making a text valid can make it longer.
	s = strings.ToValidUTF8(atRune(s, keep), "\uFFFD")
	return atRune(s, keep) + mark, true
}

// atRune returns the first n bytes of s at most, without the first bytes of a rune that does not fit.
func atRune(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := n; i > 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n]
}
