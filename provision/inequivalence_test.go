package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/topology"
)

func TestParseInequivalence(t *testing.T) {
	t.Parallel()
	queue := object{topology.KindQueue, "q"}
	for _, tc := range []struct {
		name string
		text string
		of   object
		sent properties
		want inequivalence
	}{
		{
			"both have a value", "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '2000' but current is '1000'",
			queue,
			properties{"x-message-ttl": int64(2000)},
			inequivalence{"x-message-ttl", Value{"1000", TypeUnknown}, true},
		},
		{
			"only ours has one", "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q' in vhost '/': received the value '5' of type 'long' but current is none",
			queue,
			properties{"x-delivery-limit": int64(5)},
			inequivalence{"x-delivery-limit", Value{"", TypeNone}, true},
		},
		{
			"only the broker's has one", "PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'q' in vhost '/': received none but current is the value 'reject-publish' of type 'longstr'",
			queue,
			properties{},
			inequivalence{"x-overflow", Value{"reject-publish", TypeString}, true},
		},
		{
			"an integer of a type that has another name", "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '7' of type 'signedint'",
			queue,
			properties{},
			inequivalence{"x-max-length", Value{"7", TypeInteger}, true},
		},
		{
			"a property", "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
			queue,
			properties{"durable": false},
			inequivalence{"durable", Value{"true", TypeUnknown}, true},
		},
		{
			"a plugin's exchange type has two quotes", "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'e' in vhost '/': received ''x-random'' but current is 'direct'",
			object{topology.KindExchange, "e"},
			properties{"type": "x-random"},
			inequivalence{"type", Value{"direct", TypeUnknown}, true},
		},
		{
			"a value that looks like the broker's words", "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost 'v': received 'it's 'a' but current is 'b'' but current is 'c' but current is 'd'",
			queue,
			properties{"x-dead-letter-exchange": "it's 'a' but current is 'b'"},
			inequivalence{"x-dead-letter-exchange", Value{"c' but current is 'd", TypeUnknown}, true},
		},
		{
			"a name that looks like the broker's words", "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'a: received none but current is none' in vhost '/': received '2' but current is '1'",
			object{topology.KindQueue, "a: received none but current is none"},
			properties{"x-expires": int64(2)},
			inequivalence{"x-expires", Value{"1", TypeUnknown}, true},
		},
		{
			"a text that was cut at 255 bytes", "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '" + strings.Repeat("n", 190) + "...",
			object{topology.KindQueue, strings.Repeat("n", 225)},
			properties{"x-expires": int64(2)},
			inequivalence{"x-expires", Value{"", TypeUnknown}, false},
		},
		{
			"a value that was cut", "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': received 'a' but current is 'bbb...",
			queue,
			properties{"x-dead-letter-exchange": "a"},
			inequivalence{"x-dead-letter-exchange", Value{"", TypeUnknown}, false},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := parseInequivalence(tc.text, tc.of, tc.sent)
			if !ok {
				t.Fatal("parseInequivalence() does not know it")
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(inequivalence{})); diff != "" {
				t.Errorf("parseInequivalence() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	for _, text := range []string{
		"", "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '/': \"expected integer, got longstr\"",
		"inequivalent arg '' for queue 'q'", "inequivalent arg 'x-expires", "inequivalent arg 'type' for exchange 'q'",
	} {
		if got, ok := parseInequivalence(text, queue, nil); ok {
			t.Errorf("parseInequivalence(%q) = %+v", text, got)
		}
	}
}

func FuzzParseInequivalence(f *testing.F) {
	f.Add("inequivalent arg 'x-overflow' for queue 'q' in vhost '/': received none but current is the value 'a' of type 'longstr'", "q", "b")
	f.Add("inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'", "q", "")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		o := object{topology.KindQueue, name}
		sent := properties{"x-overflow": value}
		if in, ok := parseInequivalence(text, o, sent); ok && in.argument == "" {
			t.Errorf("an inequivalence without an argument in %q", text)
		}
		c := newComparison(o, sent)
		for range 20 {
			if !c.differ(text) {
				return
			}
		}
		t.Errorf("the same answer %q is asked for again and again", text)
	})
}

// objection answers a redeclaration as the broker does: with the first difference, or "".
func objection(o object, has, asked properties) string {
	var names []string
	for _, p := range []properties{has, asked} {
		for n := range p {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		old, oldSet := has[n]
		new, newSet := asked[n]
		text := fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg '%s' for %s '%s' in vhost '/': received ", n, o.kind, o.name)
		wire := map[ValueType]string{TypeInteger: "long", TypeString: "longstr", TypeBool: "bool", TypeFloat: "double", TypeOther: "table"}
		switch {
		case oldSet && newSet && valueOf(old, true) != valueOf(new, true):
			return text + fmt.Sprintf("'%v' but current is '%v'", new, old)
		case newSet && !oldSet:
			return text + fmt.Sprintf("the value '%v' of type '%s' but current is none", new, wire[valueOf(new, true).Type])
		case oldSet && !newSet:
			return text + fmt.Sprintf("none but current is the value '%v' of type '%s'", old, wire[valueOf(old, true).Type])
		}
	}
	return ""
}

func TestAComparisonFindsEveryDifference(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		wanted, has properties
		want        []string
	}{
		{"equal", properties{"durable": true}, properties{"durable": true}, nil},
		{
			"values, arguments too many and too few",
			properties{"durable": true, "x-message-ttl": int64(2000), "x-overflow": "reject-publish", "x-max-length": int64(5)},
			properties{"durable": false, "x-message-ttl": int64(1000), "x-max-length": int64(5), "x-expires": int64(9), "x-single-active-consumer": true},
			[]string{
				"durable is false on the broker, true here",
				"x-expires is 9 on the broker, not set here",
				"x-message-ttl is 1000 on the broker, 2000 here",
				`x-overflow is not set on the broker, "reject-publish" here`,
				"x-single-active-consumer is true on the broker, not set here",
			},
		},
		{
			"the same text and another type",
			properties{"a": int64(1000), "b": "1000", "c": "true", "d": 2.0, "e": true},
			properties{"a": "1000", "b": int64(1000), "c": true, "d": int64(2), "e": "true"},
			[]string{
				`a is "1000" (string) on the broker, 1000 (integer) here`,
				`b is 1000 (integer) on the broker, "1000" (string) here`,
				`c is true (boolean) on the broker, "true" (string) here`,
				`d is 2 (integer) on the broker, 2 (float) here`,
				`e is "true" (string) on the broker, true (boolean) here`,
			},
		},
		{
			"a value that nobody can guess stops it, and it says so",
			properties{"a": int64(1), "b": int64(1)},
			properties{"a": []any{"x"}, "b": int64(2)},
			[]string{`a is "[x]" on the broker, 1 here`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := object{topology.KindQueue, "q"}
			c := newComparison(o, tc.wanted)
			for range 40 {
				text := objection(o, tc.has, c.ask)
				if text == "" || !c.differ(text) {
					break
				}
			}
			var got []string
			for _, d := range c.found {
				m := Mismatch{Kind: o.kind, Name: o.name, Argument: d.argument, Wanted: d.wanted, Current: d.current}
				got = append(got, strings.TrimPrefix(m.String(), `queue "q": `))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differences mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAComparisonDoesNotAskForThePluginOfAnotherExchange(t *testing.T) {
	t.Parallel()
	o := object{topology.KindExchange, "e"}
	c := newComparison(o, properties{"type": "direct"})
	if c.differ(objection(o, properties{"type": "x-random"}, c.ask)) {
		t.Errorf("it asks for %v, over which RabbitMQ 3.10 closes the connection if the plugin is off", c.ask)
	}
}

// The broker knows no argument of such a name; a topology that was not made by Parse may have one.
func TestAnArgumentDoesNotStandForAProperty(t *testing.T) {
	t.Parallel()
	e := exchangeProperties(topology.Exchange{Name: "e", Type: "topic", Durable: true, Arguments: map[string]any{
		"type": "direct", "durable": false, "auto_delete": true, "internal": true,
	}}).exchange("e")
	if diff := cmp.Diff(topology.Exchange{Name: "e", Type: "topic", Durable: true}, e); diff != "" {
		t.Errorf("exchange mismatch (-want +got):\n%s", diff)
	}
	q := queueProperties(topology.Queue{Name: "q", Durable: true, Arguments: map[string]any{"durable": false, "auto_delete": true}}).queue("q")
	if diff := cmp.Diff(topology.Queue{Name: "q", Durable: true}, q); diff != "" {
		t.Errorf("queue mismatch (-want +got):\n%s", diff)
	}
}
