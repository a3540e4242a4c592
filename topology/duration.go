package topology

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// longest is the longest duration that is no TTL: ages and waits of alerts.
const longest = 3650 * 24 * time.Hour

var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d(.*)$`)

// parseDuration reads a Go duration that may begin with days: 1d, 1d12h, 1.5d.
func parseDuration(s string) (time.Duration, error) {
	m := days.FindStringSubmatch(s)
	if m == nil {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, err
	}
	hours := n * 24 * float64(time.Hour)
	if hours > float64(longest)*2 {
		return 0, fmt.Errorf("%s is too long", s)
	}
	whole := time.Duration(math.Round(hours))
	if m[2] == "" {
		return whole, nil
	}
	rest, err := time.ParseDuration(m[2])
	if err != nil || rest < 0 {
		return 0, fmt.Errorf("%s is no duration", s)
	}
	return whole + rest, nil
}

// duration reads a duration from least to most, in whole milliseconds: the broker knows nothing finer.
func (d *decoder) duration(n *yaml.Node, what string, least, most time.Duration) (time.Duration, bool) {
	kind, ok := d.scalar(n, what)
	if !ok {
		return 0, false
	}
	const expected = "a duration such as 500ms, 2s, 1h30m or 7d"
	v, err := parseDuration(n.Value)
	switch {
	case err != nil || kind == "empty value":
		x := Diagnostic{Code: codeDuration, Message: fmt.Sprintf("%s is %s", what, quoted(n)), Expected: expected}
		if kind == "integer" || kind == "number" {
			x.Hint = fmt.Sprintf("add a unit: %sms or %ss", shown(n.Value), shown(n.Value))
		}
		d.refuse(n, x)
		return 0, false
	case v < least || v > most:
		d.refuse(n, Diagnostic{
			Code: codeRange, Message: fmt.Sprintf("%s is %s", what, shown(n.Value)),
			Expected: fmt.Sprintf("from %s to %s", spellRange(least), spellRange(most)),
		})
		return 0, false
	case v%time.Millisecond != 0:
		d.refuse(n, Diagnostic{
			Code: codeDuration, Message: fmt.Sprintf("%s is %s", what, shown(n.Value)), Expected: "whole milliseconds",
			Hint: "the broker knows nothing finer",
		})
		return 0, false
	}
	return v, true
}

func spellRange(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return retry.Spell(d)
}
