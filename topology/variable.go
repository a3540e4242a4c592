package topology

import (
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxText bounds one text after variables are filled in.
const maxText = 64 << 10

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^{}$]*))?\}`)

// interpolate fills in ${NAME} and ${NAME:-default}; $${ is a literal ${. A default stands for a
// variable that is unset or empty. What was written without quotes is then read as if its text had
// been in the file; what was quoted stays a text.
func (d *decoder) interpolate(n *yaml.Node) {
	if !strings.Contains(n.Value, "${") {
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
		value, set := d.lookup(m[1])
		if m[2] != "" && value == "" {
			value, set = m[3], true
		}
		if !set {
			d.refuse(n, Diagnostic{
				Code: codeUnset, Message: fmt.Sprintf("environment variable %s is not set", m[1]),
				Expected: "it to be set", Hint: fmt.Sprintf("set it, or give a default: ${%s:-…}", m[1]),
			})
			return
		}
		b.WriteString(value)
		rest = after[len(m[0])-len("${"):]
		if b.Len() > maxText {
			d.refuse(n, Diagnostic{
				Code: codeTooLarge, Message: "the text is too long with its variables filled in",
				Expected: fmt.Sprintf("at most %d bytes", maxText),
			})
			return
		}
	}
	n.Value = b.String()
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		n.Tag = ""
		n.Tag = n.ShortTag()
	}
}
