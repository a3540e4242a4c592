package topology

import (
	"math"
	"reflect"
	"strings"
	"time"
)

// headersMatch reports whether headers satisfy the arguments of a binding of a headers exchange.
func headersMatch(args, headers map[string]any, d dialect) bool {
	mode, _ := args[argMatch].(string)
	withX := strings.HasSuffix(mode, "-with-x")
	anyOf := strings.HasPrefix(mode, "any")
	for k, want := range args {
		if k == argMatch || !withX && strings.HasPrefix(k, "x-") {
			continue
		}
		got, there := headers[k]
		// A binding's argument without a value asks for presence only.
		ok := there && (want == nil || d.equal(want, got))
		if ok == anyOf {
			return anyOf
		}
	}
	return !anyOf
}

// equal reports whether a header's value equals a binding's, as the broker sees it: it compares values
// and not AMQP types, so that integers of any width are equal, and so are a string and bytes.
func (d dialect) equal(want, got any) bool {
	if t, ok := got.(time.Time); ok {
		// Message containers hold a timestamp header in milliseconds, and a binding's in seconds.
		got = t.Unix()
		if d.containers {
			got = t.Unix() * 1000
		}
	}
	want, got = plainValue(want), plainValue(got)
	switch w := want.(type) {
	case int64:
		if g, ok := got.(float64); ok {
			return !d.containers && sameNumber(w, g)
		}
	case float64:
		if g, ok := got.(int64); ok {
			return !d.containers && sameNumber(g, w)
		}
	}
	// Within arrays and tables the broker compares the AMQP types too.
	return reflect.DeepEqual(want, got)
}

// plainValue returns a top-level value in the type that stands for all that the broker holds equal.
func plainValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case float32:
		return float64(v)
	case time.Time:
		return v.Unix()
	case map[string]any:
		if len(v) == 0 {
			// To the broker an empty table and an empty array are the same empty list.
			return []any{}
		}
	case []any:
		if v == nil {
			return []any{}
		}
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int64(r.Uint())
	}
	return v
}

func sameNumber(i int64, f float64) bool {
	return f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 && int64(f) == i
}
