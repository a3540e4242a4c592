package topology

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// searchable is the size of the largest file in which the line of a syntax error is searched for.
const searchable = 64 << 10

var (
	errorLine     = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '([^']*)' referenced$`)
	// What people write without the quotes that it needs.
	bareStar     = regexp.MustCompile(`[:,\[{-] *\*`)
	bareHash     = regexp.MustCompile(`[:,] +#`)
	bareVariable = regexp.MustCompile(`[\[{].*[:,\[ ] *\$\{`)
)

// syntax turns an error of the YAML parser into a diagnostic. The parser tells at best the line where
// the mapping or list around the mistake began.
func (d *decoder) syntax(err error, data []byte) Diagnostic {
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n"), "\n")
	line, message := splitError(err)
	line = min(max(line, 1), len(lines))
	switch m := unknownAnchor.FindStringSubmatch(message); {
	case strings.HasPrefix(message, "exceeded max depth"):
		return Diagnostic{
			Position: d.at(line, 1), Code: codeTooDeep, Message: "nested too deeply", Expected: fmt.Sprintf("at most %d levels", maxDepth),
		}
	case m != nil:
		return Diagnostic{
			Position: d.find(lines, "*"+m[1]), Code: codeAlias, Message: fmt.Sprintf("alias %q", "*"+shown(m[1])), Expected: "a value",
			Hint: "write the value out; a text that begins with * needs quotes",
		}
	}
	if len(data) <= searchable {
		line = offending(lines, line, message)
	}
	text := lines[line-1]
	column := 1 + len(text) - len(strings.TrimLeft(text, " "))
	out := Diagnostic{Position: d.at(line, column), Code: codeSyntax, Message: "not YAML: " + message}
	switch {
	case strings.HasPrefix(text[column-1:], "\t"):
		// The parser's own words for the most common reason help nobody.
		out.Message, out.Expected = "a tab in the indentation", "spaces"
	case bareStar.MatchString(text):
		out.Hint = "a text that begins with * needs quotes"
	case bareVariable.MatchString(text):
		out.Hint = `inside { } and [ ] a variable needs quotes: "${NAME}"`
	case bareHash.MatchString(text) || line > 1 && bareHash.MatchString(lines[line-2]):
		// What follows the comment is where the parser finds out.
		out.Hint = `a # begins a comment unless it is in quotes: "#"`
	}
	return out
}

// splitError returns the line in an error of the YAML parser, or 0, and its words.
func splitError(err error) (line int, message string) {
	m := errorLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	return line, m[2]
}

// offending returns the line that makes the parser say message: the last one of the shortest beginning
// of the file for which it does. If there is none it is the line that the parser tells.
func offending(lines []string, told int, message string) int {
	says := func(n int) bool {
		var doc yaml.Node
		dec := yaml.NewDecoder(strings.NewReader(strings.Join(lines[:n], "\n") + "\n"))
		for {
			if err := decodeNode(dec, &doc); err != nil {
				_, said := splitError(err)
				return said == message
			}
		}
	}
	n := 1 + sort.Search(len(lines)-1, func(i int) bool { return says(i + 1) })
	if n < len(lines) || says(n) {
		return n
	}
	return told
}

// find returns the place of the first line that has text.
func (d *decoder) find(lines []string, text string) Position {
	for i, l := range lines {
		if before, _, ok := strings.Cut(l, text); ok {
			return d.at(i+1, utf8.RuneCountInString(before)+1)
		}
	}
	return d.at(1, 1)
}
