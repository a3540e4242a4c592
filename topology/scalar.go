package topology

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// scalar reports whether n is a value, not a mapping or list, and what kind of value.
func (d *decoder) scalar(n *yaml.Node, what string) (kind string, ok bool) {
	if !d.is(n, yaml.ScalarNode, what) {
		return "", false
	}
	return d.kind(n), true
}

// kind is like kindOf; what came from the environment is what it looks like.
func (d *decoder) kind(n *yaml.Node) string {
	if d.variables[n] {
		return kindOf(&yaml.Node{Kind: yaml.ScalarNode, Value: n.Value})
	}
	return kindOf(n)
}

func (d *decoder) wrong(n *yaml.Node, what, expected, hint string) {
	d.refuse(n, Diagnostic{
		Code: codeWrongType, Message: fmt.Sprintf("%s is %s, %s", what, article(d.kind(n)), quoted(n)),
		Expected: expected, Hint: hint,
	})
}

func quoted(n *yaml.Node) string { return strconv.Quote(shown(n.Value)) }

// text reads a string. A number or a boolean is not one: 1.10 would lose its zero.
func (d *decoder) text(n *yaml.Node, what string) (string, bool) {
	kind, ok := d.scalar(n, what)
	if !ok {
		return "", false
	}
	switch {
	case kind == "text", d.variables[n]:
		return n.Value, true
	case kind == "empty value":
		d.refuse(n, Diagnostic{
			Code: codeWrongType, Message: what + " is empty", Expected: "a text", Hint: `an empty text is ""; a # begins a comment unless it is in quotes`,
		})
	default:
		d.wrong(n, what, "a text", fmt.Sprintf("put it in quotes: %q", shown(n.Value)))
	}
	return "", false
}

// choice reads one of a few words.
func (d *decoder) choice(n *yaml.Node, what string, words ...string) (string, bool) {
	s, ok := d.text(n, what)
	if !ok {
		return "", false
	}
	if !slices.Contains(words, s) {
		d.refuse(n, Diagnostic{
			Code: codeValue, Message: fmt.Sprintf("%s is %s", what, quoted(n)), Expected: oneOf(words), Hint: d.didYouMean(s, words),
		})
		return "", false
	}
	return s, true
}

func (d *decoder) boolean(n *yaml.Node, what string) (value, ok bool) {
	kind, ok := d.scalar(n, what)
	if !ok {
		return false, false
	}
	switch {
	case kind == "boolean":
		return strings.EqualFold(n.Value, "true"), true
	case kind == "text" && slices.Contains([]string{"true", "false"}, strings.ToLower(n.Value)):
		d.wrong(n, what, "true or false", "remove the quotes")
	default:
		d.wrong(n, what, "true or false", "")
	}
	return false, false
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// integer reads a whole number from least to most. YAML's other spellings of one are refused: 010 is 8
// to it.
func (d *decoder) integer(n *yaml.Node, what string, least, most int64) (int64, bool) {
	kind, ok := d.scalar(n, what)
	if !ok {
		return 0, false
	}
	plain := decimal.MatchString(n.Value)
	expected := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt64 {
		expected = fmt.Sprintf("a whole number of %d or more", least)
	}
	switch {
	case kind == "text" && plain:
		d.wrong(n, what, expected, "remove the quotes")
		return 0, false
	case kind == "integer" && !plain:
		d.refuse(n, Diagnostic{
			Code: codeNumber, Message: fmt.Sprintf("%s is written %s", what, quoted(n)), Expected: "a plain decimal number",
			Hint: "YAML reads a leading 0 as octal; write digits only",
		})
		return 0, false
	case !plain:
		d.wrong(n, what, expected, "")
		return 0, false
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v < least || v > most {
		d.refuse(n, Diagnostic{Code: codeRange, Message: fmt.Sprintf("%s is %s", what, shown(n.Value)), Expected: expected})
		return 0, false
	}
	return v, true
}

// number reads a number that need not be whole.
func (d *decoder) number(n *yaml.Node, what string, least, most float64) (float64, bool) {
	kind, ok := d.scalar(n, what)
	if !ok {
		return 0, false
	}
	expected := fmt.Sprintf("a number from %g to %g", least, most)
	v, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case kind != "integer" && kind != "number":
		hint := ""
		if kind == "text" && err == nil {
			hint = "remove the quotes"
		}
		d.wrong(n, what, expected, hint)
		return 0, false
	case err != nil || math.IsNaN(v) || v < least || v > most:
		d.refuse(n, Diagnostic{Code: codeRange, Message: fmt.Sprintf("%s is %s", what, shown(n.Value)), Expected: expected})
		return 0, false
	}
	return v, true
}

var percentage = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?%$`)

// percent reads a share such as 20%, as 0.2. It is above 0 and at most most.
func (d *decoder) percent(n *yaml.Node, what string, most float64) (float64, bool) {
	kind, ok := d.scalar(n, what)
	if !ok {
		return 0, false
	}
	expected := fmt.Sprintf("a percentage above 0%% and at most %g%%, such as 20%%", most)
	m := percentage.FindStringSubmatch(n.Value)
	if m == nil {
		x := Diagnostic{Code: codePercent, Message: fmt.Sprintf("%s is %s", what, quoted(n)), Expected: expected}
		if kind == "integer" || kind == "number" {
			x.Hint = "write the % sign"
		}
		d.refuse(n, x)
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || v <= 0 || v > most {
		d.refuse(n, Diagnostic{Code: codeRange, Message: fmt.Sprintf("%s is %s", what, shown(n.Value)), Expected: expected})
		return 0, false
	}
	return v / 100, true
}

var rate = regexp.MustCompile(`^([0-9]+) ?/ ?(s|min|h|d)$`)

// rate reads a rate such as 10/min.
func (d *decoder) rate(n *yaml.Node, what string) (Rate, bool) {
	if _, ok := d.scalar(n, what); !ok {
		return Rate{}, false
	}
	per := map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	if m := rate.FindStringSubmatch(n.Value); m != nil {
		if count, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return Rate{Count: count, Per: per[m[2]]}, true
		}
	}
	d.refuse(n, Diagnostic{
		Code: codeRate, Message: fmt.Sprintf("%s is %s", what, quoted(n)), Expected: "a whole number and a time: 10/min, 1/s, 100/h or 500/d",
	})
	return Rate{}, false
}
