package topology

import (
	"fmt"
	"strings"
)

// longestGuess bounds the words that are compared: a longer one is no slip of the finger, and a
// hostile file has many.
const longestGuess = 64

// nearest returns the candidate that word was most likely meant to be, or "".
func nearest(word string, candidates []string) string {
	best, least := "", 3
	if len(word) <= 3 {
		least = 2
	}
	if len(word) > longestGuess {
		return ""
	}
	folded := fold(word)
	for _, c := range candidates {
		if c == word || len(c) > longestGuess {
			continue
		}
		if d := distance(folded, fold(c), least); d < least {
			best, least = c, d
		}
	}
	return best
}

// fold makes the spellings of one word equal: messageTTL, message-ttl, x-message-ttl.
func fold(s string) string {
	s = strings.TrimPrefix(strings.ToLower(s), "x-")
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(s)
}

// distance returns how many letters must be changed, added, left out or swapped with their neighbour,
// or limit if it is that or more.
func distance(a, b string, limit int) int {
	if abs(len(a)-len(b)) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}

func abs(n int) int { return max(n, -n) }

// didYouMean returns a hint, or "". After very many words it gives up: a hostile file has more.
func (d *decoder) didYouMean(word string, candidates []string) string {
	if d.guesses += len(candidates); d.guesses > maxGuesses {
		return ""
	}
	if near := nearest(word, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// oneOf spells a choice: "a", "b" or "c".
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}
