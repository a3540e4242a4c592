package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// dialect is what differs between versions of the broker.
type dialect struct {
	version string
	// containers: since 3.13 deaths are kept beside the message, x-last-death-* are headers that a
	// headers exchange sees, x-death is not, and an integer never equals a float.
	containers bool
	// limited: since 4.0 a quorum queue has a delivery limit of 20 unless told.
	limited bool
	// fewHashes: 4.3 takes at most two # in a topic binding.
	fewHashes bool
}

// newest is the version that an empty one stands for.
const newest = "4.3"

func dialectOf(version string) (dialect, error) {
	if version == "" {
		version = newest
	}
	parts := strings.SplitN(version, ".", 3)
	major, err := strconv.Atoi(parts[0])
	minor := 0
	if err == nil && len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	if err != nil || major < 3 || minor < 0 || major == 3 && len(parts) > 1 && minor < 10 {
		return dialect{}, fmt.Errorf("broker version %q; expected 3.10 or later, such as 3.10, 4 or 4.3.1", version)
	}
	atLeast := func(x, y int) bool { return major > x || major == x && minor >= y }
	return dialect{version: version, containers: atLeast(3, 13), limited: atLeast(4, 0), fewHashes: atLeast(4, 3)}, nil
}

// matcher returns which bindings of an exchange a message matches, and whether the exchange picks one
// of those.
func matcher(x Exchange, keys []string, headers map[string]any, d dialect) (matches func(Binding) bool, picks bool, err error) {
	all := func(Binding) bool { return true }
	typ := x.Type
	if typ == "x-delayed-message" {
		// It holds the message for a while and then routes as another type.
		typ, _ = x.Arguments["x-delayed-type"].(string)
	}
	switch typ {
	case "direct":
		return func(b Binding) bool { return slices.Contains(keys, b.RoutingKey) }, false, nil
	case "fanout", "x-recent-history":
		return all, false, nil
	case "topic":
		words := make([][]string, len(keys))
		for i, k := range keys {
			words[i] = topicWords(k)
		}
		return func(b Binding) bool {
			pattern := topicWords(b.RoutingKey)
			return slices.ContainsFunc(words, func(w []string) bool { return topicMatches(pattern, w) })
		}, false, nil
	case "headers":
		return func(b Binding) bool { return headersMatch(b.Arguments, headers, d) }, false, nil
	case "x-random", "x-consistent-hash", "x-modulus-hash", "x-local-random":
		return all, true, nil
	}
	if x.Type == "" {
		return nil, false, fmt.Errorf("external exchange %q without a type: %w", x.Name, ErrUnknownType)
	}
	return nil, false, fmt.Errorf("exchange %q of type %q: %w", x.Name, x.Type, ErrUnknownType)
}

// topicWords splits a key at its dots. The empty key has no words, unlike "." which has two empty ones.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func hashes(key string) int {
	n := 0
	for _, w := range topicWords(key) {
		if w == "#" {
			n++
		}
	}
	return n
}

// topicMatches reports whether the words of a key match a pattern, in which * is one word and # any
// number of them, none included.
func topicMatches(pattern, words []string) bool {
	// matched[j] says whether the pattern so far matches the first j words.
	matched := make([]bool, len(words)+1)
	matched[0] = true
	for _, p := range pattern {
		if p == "#" {
			for j := 1; j < len(matched); j++ {
				matched[j] = matched[j] || matched[j-1]
			}
			continue
		}
		for j := len(words); j > 0; j-- {
			matched[j] = matched[j-1] && (p == "*" || p == words[j-1])
		}
		matched[0] = false
	}
	return matched[len(words)]
}
