package topology

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxFilled bounds what comes from variables in all.
const maxFilled = 256 << 10

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^{}$]*))?\}`)

// interpolate fills in ${NAME} and ${NAME:-default}; $${ is a literal ${. A default stands for a
// variable that is unset or empty. The environment has no types: what comes from it is a text where a
// text is wanted and a number where a number is, in quotes or not.
func (d *decoder) interpolate(n *yaml.Node) {
	if !strings.Contains(n.Value, "${") {
		return
	}
	if d.filled > maxFilled {
		d.bad[n] = true
		return
	}
	var b strings.Builder
	rest := n.Value
	for {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			break
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString("{")
			rest = after
			continue
		}
		m := variable.FindStringSubmatch("${" + after)
		if m == nil {
			d.refuse(n, Diagnostic{
				Code: codeVariable, Message: "${ does not begin a variable", Expected: "${NAME} or ${NAME:-default}",
				Hint: "write $${ for a literal ${; a default cannot contain $, { or }",
			})
			return
		}
		value, ok := d.valueOf(n, m)
		if !ok {
			return
		}
		b.WriteString(value)
		rest = after[len(m[0])-len("${"):]
		if d.filled += len(value); d.filled > maxFilled {
			d.refuse(n, Diagnostic{
				Code: codeTooLarge, Message: "the file is too long with its variables filled in",
				Expected: fmt.Sprintf("at most %d bytes from variables", maxFilled),
			})
			return
		}
	}
	n.Value, n.Tag = b.String(), "!!str"
	d.variables[n] = true
}

// valueOf returns what a match of variable stands for; it is refused where it stands for nothing.
func (d *decoder) valueOf(n *yaml.Node, m []string) (value string, ok bool) {
	value, set := d.lookup(m[1])
	if m[2] != "" && value == "" {
		value, set = m[3], true
	}
	if !set {
		d.refuse(n, Diagnostic{
			Code: codeUnset, Message: fmt.Sprintf("environment variable %s is not set", m[1]),
			Expected: "it to be set", Hint: fmt.Sprintf("set it, or give a default: ${%s:-…}", m[1]),
		})
		return "", false
	}
	if !utf8.ValidString(value) {
		// The value is not shown: it may be a password.
		d.refuse(n, Diagnostic{
			Code: codeEncoding, Message: fmt.Sprintf("environment variable %s is not UTF-8", m[1]), Expected: "UTF-8",
			Hint: "the broker ends a connection that sends anything else as a name or key",
		})
		return "", false
	}
	return value, true
}
