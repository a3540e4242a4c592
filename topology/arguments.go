package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// arguments is a table of arguments as JSON that keeps the difference between an integer and a float:
// a float is written with a point or an exponent, and only such a number is read as one. To the broker
// 1 and 1.0 are different values.
type arguments map[string]any

// MarshalJSON writes the table with sorted keys.
func (a arguments) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, map[string]any(a)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// UnmarshalJSON reads a table. Null is refused below the top: no argument has that type.
func (a *arguments) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return err
	}
	for k, v := range m {
		read, err := fromJSON(v)
		if err != nil {
			return fmt.Errorf("argument %q: %w", k, err)
		}
		m[k] = read
	}
	*a = m
	return nil
}

func fromJSON(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case bool, string:
		return v, nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return v.Float64()
		}
		return v.Int64()
	case []any:
		for i := range v {
			if v[i], err = fromJSON(v[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		for k := range v {
			if v[k], err = fromJSON(v[k]); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	return nil, fmt.Errorf("value has type %T; expected a number, boolean, string, list or table", v)
}

func writeJSON(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v cannot be an argument", v)
		}
		b.WriteString(spellFloat(v))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, e); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, k); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, v[k]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		b.Write(text)
	}
	return nil
}

// spellFloat writes a finite float so that it cannot be taken for an integer.
func spellFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// canonical returns one text for equal tables, whatever their order. Values that JSON does not know
// are told apart by their Go form.
func canonical(m map[string]any) string {
	text, err := arguments(m).MarshalJSON()
	if err != nil {
		return fmt.Sprintf("%#v", m)
	}
	return string(text)
}

// cloneArguments returns a deep copy, so that what one caller changes no other sees. Empty is nil.
func cloneArguments(m map[string]any) map[string]any {
	if len(m) == 0 {
		return nil
	}
	return cloneValue(m).(map[string]any)
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cloneValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = cloneValue(v[k])
		}
		return out
	}
	return v
}
