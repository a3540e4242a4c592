package retry

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tableSize returns how many bytes a table takes on the wire, its length included.
func tableSize(t map[string]any) int {
	n := 4
	for k, v := range t {
		n += fieldSize(k, v)
	}
	return n
}

// fieldSize returns how many bytes a field of a table takes: a short string and a value.
func fieldSize(name string, v any) int { return 1 + len(name) + valueSize(v) }

// valueSize returns how many bytes a value takes with its type, as AMQP 0.9.1 and its client for Go
// write it. A type that is not known here is taken for more than it can need.
func valueSize(v any) int {
	switch v := v.(type) {
	case nil:
		return 1
	case bool, int8, uint8:
		return 2
	case int16, uint16:
		return 3
	case int, int32, uint32, float32:
		return 5
	case int64, float64, time.Time:
		return 9
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case []any:
		n := 5
		for _, e := range v {
			n += valueSize(e)
		}
		return n
	case map[string]any:
		return 1 + tableSize(v)
	}
	if t, ok := asTable(v); ok {
		return 1 + tableSize(t)
	}
	// A decimal takes 6 bytes.
	return 9 + int(reflect.TypeOf(v).Size()) + len(fmt.Sprint(v))
}

// asTable returns the fields of a map of another named type, such as the table of a client library
// that this package does not import.
func asTable(v any) (map[string]any, bool) {
	want := reflect.TypeFor[map[string]any]()
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Map || !rv.Type().ConvertibleTo(want) {
		return nil, false
	}
	return rv.Convert(want).Interface().(map[string]any), true
}

// maxFloats is how many changed values are noted: more than a header has room for.
const maxFloats = 64

// copier copies values deeply and notes the paths of those it had to change.
type copier struct {
	// path leads to the value at hand; it is joined only when it is needed, since a hostile message
	// can be nested thousands deep.
	path   []string
	floats []string
}

func (c *copier) at(segment string, v any) any {
	c.path = append(c.path, segment)
	out := c.value(v)
	c.path = c.path[:len(c.path)-1]
	return out
}

func (c *copier) value(v any) any {
	switch v := v.(type) {
	case float64:
		return c.float(v, v)
	case float32:
		return c.float(float64(v), v)
	case []byte:
		return append([]byte{}, v...)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = c.at("["+strconv.Itoa(i)+"]", e)
		}
		return out
	}
	t, ok := asTable(v)
	if !ok {
		return v
	}
	out := make(map[string]any, len(t))
	for _, k := range slices.Sorted(maps.Keys(t)) {
		out[k] = c.at("."+k, t[k])
	}
	return reflect.ValueOf(out).Convert(reflect.TypeOf(v)).Interface()
}

// float returns v, or its text if the broker cannot carry it.
func (c *copier) float(f float64, v any) any {
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		return v
	}
	if len(c.floats) < maxFloats {
		c.floats = append(c.floats, strings.Join(c.path, ""))
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
