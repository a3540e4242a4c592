package topology

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// maxName is the longest name in bytes that the broker takes.
	maxName = 255
	// maxTopologyName leaves room for what is put before it.
	maxTopologyName = maxName - len(reserved+"state.")
	// reserved begins the names of what we keep in the broker ourselves.
	reserved = "rmqkit."
)

// predeclared are the exchanges that every vhost has; they can be bound from, not declared.
var predeclared = map[string]string{
	"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers", "amq.match": "headers",
	"amq.rabbitmq.trace": "topic", "amq.rabbitmq.log": "topic",
}

// name reports whether the broker takes s as the name of an object that we declare and keeps it as it
// is.
func (d *decoder) name(n *yaml.Node, kind Kind, s string, most int) bool {
	what := string(kind) + " name"
	refuse := func(code, message, expected, hint string) bool {
		d.refuse(n, Diagnostic{Code: code, Message: what + " " + message, Expected: expected, Hint: hint})
		return false
	}
	switch i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || 0x7f <= r && r <= 0x9f }); {
	case s == "":
		return refuse(codeName, "is empty", "1 to 255 bytes", "")
	case i >= 0:
		hint := ""
		if strings.ContainsAny(s, "\r\n") {
			hint = "the broker strips line breaks silently, and then it is another name"
		}
		return refuse(codeName, fmt.Sprintf("%q has a control character", shown(s)), "printable text", hint)
	case len(s) > most && most < maxName && len(s) <= maxName:
		return refuse(codeName, fmt.Sprintf("has %d bytes", len(s)), fmt.Sprintf("at most %d here", most),
			"names are made from it, and the broker takes at most 255")
	case len(s) > most:
		return refuse(codeName, fmt.Sprintf("has %d bytes", len(s)), fmt.Sprintf("at most %d", most), "")
	case strings.HasPrefix(s, "amq."):
		hint := "choose another name"
		if kind == KindExchange && predeclared[s] != "" {
			hint = "it exists in every vhost: bind from it without declaring it"
		}
		return refuse(codeReserved, fmt.Sprintf("%q begins with amq.", shown(s)), "a name that the broker does not keep for itself", hint)
	case strings.HasPrefix(s, reserved):
		return refuse(codeReserved, fmt.Sprintf("%q begins with %s", shown(s), reserved), "another name",
			"locks and records of what was applied are kept under it")
	}
	return true
}
