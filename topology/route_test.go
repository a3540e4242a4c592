package topology

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sketch makes a manifest of lines: "exchange NAME TYPE [alternate]", "queue NAME",
// "bind SOURCE DESTINATION [key]". A destination is a queue if there is one.
func sketch(t *testing.T, text string) Manifest {
	t.Helper()
	var m Manifest
	kinds := map[string]DestinationKind{}
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		f := append(strings.Fields(l), "", "", "")
		switch f[0] {
		case "exchange":
			x := Exchange{Name: f[1], Type: f[2]}
			if f[3] != "" {
				x.Arguments = map[string]any{argAlternate: f[3]}
			}
			m.Exchanges = append(m.Exchanges, x)
			kinds[f[1]] = ToExchange
		case "queue":
			m.Queues = append(m.Queues, Queue{Name: f[1], Durable: true})
			kinds[f[1]] = ToQueue
		case "bind":
			m.Bindings = append(m.Bindings, Binding{Source: f[1], Destination: f[2], DestinationKind: kinds[f[2]], RoutingKey: f[3]})
		default:
			t.Fatalf("line %q", l)
		}
	}
	return m
}

// targets spells a routing: certain queues as they are, possible ones with a question mark.
func targets(r Routing) string {
	var out []string
	for _, t := range r.Targets {
		if len(t.OneOf) > 0 {
			t.Queue += "?" + strings.Join(t.OneOf, ",")
		}
		out = append(out, t.Queue)
	}
	if r.MayReachNone {
		out = append(out, "none?")
	}
	return strings.Join(out, " ")
}

func TestRoute(t *testing.T) {
	t.Parallel()
	const queues = "queue a\nqueue b\nqueue c\n"
	for name, tt := range map[string]struct {
		topology string
		publish  Publish
		want     string
	}{
		"the default exchange leads to the queue of that name": {
			queues, Publish{RoutingKey: "b"}, "b",
		},
		"the default exchange takes CC and BCC": {
			queues, Publish{RoutingKey: "b", Headers: map[string]any{"CC": []any{"a", int64(1)}, "BCC": []string{"c", "nowhere"}}}, "a b c",
		},
		"the default exchange has no such queue": {
			queues, Publish{RoutingKey: "d"}, "none?",
		},
		"an exchange that every vhost has": {
			queues + "bind amq.topic a x.*", Publish{Exchange: "amq.topic", RoutingKey: "x.y"}, "a",
		},
		"one copy however many bindings match": {
			queues + "exchange t topic\nbind t a #\nbind t a x\nbind t a *", Publish{Exchange: "t", RoutingKey: "x"}, "a",
		},
		"one copy however many ways lead there": {
			queues + "exchange f fanout\nexchange g fanout\nbind f g\nbind f a\nbind g a", Publish{Exchange: "f"}, "a",
		},
		"exchanges in a circle": {
			queues + "exchange f fanout\nexchange g fanout\nbind f g\nbind g f\nbind g a", Publish{Exchange: "f"}, "a",
		},
		"an alternate exchange takes what matches nothing": {
			queues + "exchange d direct f\nexchange f fanout\nbind d a x\nbind f b", Publish{Exchange: "d", RoutingKey: "y"}, "b",
		},
		"an alternate exchange does not take what matches": {
			queues + "exchange d direct f\nexchange f fanout\nbind d a x\nbind f b", Publish{Exchange: "d", RoutingKey: "x"}, "a",
		},
		"a binding to an exchange that leads nowhere counts as a match": {
			queues + "exchange d direct f\nexchange f fanout\nexchange g fanout\nbind d g x\nbind f b", Publish{Exchange: "d", RoutingKey: "x"}, "none?",
		},
		"a binding back to where it came from counts as a match": {
			queues + "exchange d fanout f\nexchange f fanout\nbind d d\nbind f b", Publish{Exchange: "d"}, "none?",
		},
		"alternate exchanges in a row, the last of them missing": {
			queues + "exchange d direct e\nexchange e direct x", Publish{Exchange: "d"}, "none?",
		},
		"a random exchange picks one": {
			queues + "exchange r x-random\nbind r a\nbind r b", Publish{Exchange: "r"}, "a?r b?r",
		},
		"a random exchange with one binding has no choice": {
			queues + "exchange r x-random\nbind r a", Publish{Exchange: "r"}, "a",
		},
		"all choices lead to one queue": {
			queues + "exchange r x-consistent-hash\nexchange f fanout\nexchange g fanout\nbind r f 1\nbind r g 1\nbind f a\nbind f b\nbind g a",
			Publish{Exchange: "r"},
			"a b?r",
		},
		"a choice that leads nowhere": {
			queues + "exchange r x-random\nexchange f fanout\nbind r f\nbind r a", Publish{Exchange: "r"}, "a?r none?",
		},
		"a queue that is reached without the choice as well": {
			queues + "exchange f fanout\nexchange r x-random\nbind f r\nbind f a\nbind r a\nbind r b", Publish{Exchange: "f"}, "a b?r",
		},
		"a choice behind a choice": {
			queues + "exchange r x-random\nexchange s x-random\nbind r s\nbind r a\nbind s b\nbind s c", Publish{Exchange: "r"}, "a?r b?r,s c?r,s",
		},
		"bindings to what does not exist": {
			queues + "exchange f fanout g\nexchange g fanout\nbind g a\nbind f nothing", Publish{Exchange: "f"}, "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := NewRouter(sketch(t, tt.topology)).Route(tt.publish, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := targets(r); got != tt.want {
				t.Errorf("Route() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRoute_Via(t *testing.T) {
	t.Parallel()
	m := sketch(t, "queue a\nexchange d direct f\nexchange f fanout\nexchange t topic\nbind f t\nbind t a x.#")
	r, err := NewRouter(m).Route(Publish{Exchange: "d", RoutingKey: "x.y"}, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []Hop{
		{Exchange: "d", Type: "direct", Alternate: true},
		{Exchange: "f", Type: "fanout"},
		{Exchange: "t", Type: "topic", RoutingKey: "x.#"},
	}
	if diff := cmp.Diff(want, r.Targets[0].Via); diff != "" {
		t.Errorf("Via mismatch (-want +got):\n%s", diff)
	}
}

func TestRoute_Refused(t *testing.T) {
	t.Parallel()
	m := sketch(t, "queue a\nexchange odd x-lvc\nexchange orders direct")
	m.Exchanges = append(m.Exchanges, Exchange{Name: "in", Type: "fanout", Internal: true})
	for _, tt := range []struct {
		publish Publish
		version string
		want    string
		is      error
	}{
		{Publish{Exchange: "ordres"}, "", `publish to exchange "ordres": no such exchange; did you mean "orders"?`, ErrNoExchange},
		{Publish{Exchange: "in"}, "", `publish to exchange "in": the exchange is internal`, ErrInternal},
		{Publish{Exchange: "odd"}, "", `exchange "odd" of type "x-lvc": how`, ErrUnknownType},
		{Publish{Exchange: "orders", Headers: map[string]any{"CC": "a"}}, "", `header "CC" is a string; expected an array`, nil},
		{Publish{Exchange: "orders"}, "3.9", `broker version "3.9"; expected 3.10 or later`, nil},
		{Publish{Exchange: "orders"}, "four", `broker version "four"`, nil},
	} {
		_, err := NewRouter(m).Route(tt.publish, tt.version)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("Route(%+v, %q) = %v, want %q…", tt.publish, tt.version, err, tt.want)
		}
	}
}

func TestTopicMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, key string
		want         bool
	}{
		{"#", "", true},
		{"*", "", false},
		{"", "", true},
		{"#", "a.b", true},
		{"a.#", "a", true},
		{"a.*", "a", false},
		{"a.*", "a.", true},
		{"*.*", ".", true},
		{"#.b.#", "a.b", true},
		{"#.b.#", "a.c", false},
		{"*.#", "a.b.c", true},
		{"a#", "ab", false},
		{"A", "a", false},
		{"#.a.#.a.#", "a.b.a", true},
		{"#.a.#.a.#", "a.b", false},
	} {
		if got := topicMatches(topicWords(tt.pattern), topicWords(tt.key)); got != tt.want {
			t.Errorf("topicMatches(%q, %q) = %v", tt.pattern, tt.key, got)
		}
	}
}

func TestHeadersMatch(t *testing.T) {
	t.Parallel()
	args := func(pairs ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1]
		}
		return out
	}
	for _, tt := range []struct {
		args, headers map[string]any
		// want3 and want4 are for 3.10 and 4.
		want3, want4 bool
	}{
		{args(), args("h", "x"), true, true},
		{args("x-match", "any"), args("h", "x"), false, false},
		{args("h", "x"), args("h", "x", "i", "y"), true, true},
		{args("h", "x", "i", "z"), args("h", "x", "i", "y"), false, false},
		{args("x-match", "any", "h", "x", "i", "z"), args("h", "x", "i", "y"), true, true},
		{args("x-match", "any", "h", "y"), args("h", "x"), false, false},
		// Names that begin with x- are passed over, unless asked for.
		{args("x-h", "y"), args(), true, true},
		{args("x-match", "any", "x-h", "y"), args("x-h", "y"), false, false},
		{args("x-match", "all-with-x", "x-h", "y"), args(), false, false},
		{args("x-match", "any-with-x", "x-h", "y"), args("x-h", "y"), true, true},
		{args("h", nil), args("h", int64(1)), true, true},
		{args("h", nil), args(), false, false},
		{args("h", int64(1)), args("h", byte(1)), true, true},
		{args("h", int64(1)), args("h", "1"), false, false},
		{args("h", int64(1)), args("h", 1.0), true, false},
		{args("h", 1.0), args("h", int32(1)), true, false},
		{args("h", 1.5), args("h", float32(1.5)), true, true},
		{args("h", int64(1)), args("h", 1.5), false, false},
		{args("h", "a"), args("h", []byte("a")), true, true},
		{args("h", int64(1000)), args("h", time.Unix(1000, 0)), true, false},
		{args("h", int64(1000)), args("h", time.Unix(1, 0)), false, true},
		{args("h", []any{int64(1)}), args("h", []any{int32(1)}), false, false},
		{args("h", []any{}), args("h", map[string]any{}), true, true},
		{args("h", true), args("h", "true"), false, false},
	} {
		for version, want := range map[string]bool{"3.10": tt.want3, "4.0": tt.want4} {
			d, err := dialectOf(version)
			if err != nil {
				t.Fatal(err)
			}
			if got := headersMatch(tt.args, tt.headers, d); got != want {
				t.Errorf("headersMatch(%v, %v) on %s = %v, want %v", tt.args, tt.headers, version, got, want)
			}
		}
	}
}

func TestRouter_External(t *testing.T) {
	t.Parallel()
	topo, err := Parse("t.yaml", []byte(`version: 1
name: t
exchanges:
  theirs: {external: true, type: topic}
  odd: {external: true}
queues:
  q:
    bind: [{exchange: theirs, key: "#"}]
`))
	if err != nil {
		t.Fatal(err)
	}
	r := topo.Router()
	got, err := r.Route(Publish{Exchange: "theirs"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if targets(got) != "q" || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "external") {
		t.Errorf("Route() = %+v, want q and a note", got)
	}
	if _, err := r.Route(Publish{Exchange: "odd"}, ""); !errors.Is(err, ErrUnknownType) {
		t.Errorf("Route() = %v, want %v", err, ErrUnknownType)
	}
}

func TestRoute_TooManyHashes(t *testing.T) {
	t.Parallel()
	m := sketch(t, "queue a\nexchange t topic\nbind t a #.a.#.b.#")
	for version, want := range map[string]int{"4.0": 0, "4.3": 1} {
		r, err := NewRouter(m).Route(Publish{Exchange: "t", RoutingKey: "a.b"}, version)
		if err != nil || len(r.Notes) != want {
			t.Errorf("on %s: notes %q, error %v", version, r.Notes, err)
		}
	}
}

// Finding the way through many exchanges takes no longer than it must.
func TestRoute_Large(t *testing.T) {
	t.Parallel()
	const n = 300
	var b strings.Builder
	for i := range n {
		typ := "fanout"
		if i%20 == 0 {
			typ = "x-random"
		}
		fmt.Fprintf(&b, "queue q%d\nexchange x%d %s\n", i, i, typ)
	}
	for i := range n {
		fmt.Fprintf(&b, "bind x%d q%d\nbind x%d x%d\n", i, i, i, (i+1)%n)
	}
	start := time.Now()
	r, err := NewRouter(sketch(t, b.String())).Route(Publish{Exchange: "x0"}, "")
	if err != nil || len(r.Targets) != n {
		t.Fatalf("Route() = %d targets, %v", len(r.Targets), err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
