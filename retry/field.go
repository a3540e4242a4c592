package retry

import (
	"errors"
	"fmt"
	"math"
)

// fields reads typed values out of a table and collects what is wrong with them.
type fields struct {
	table map[string]any
	// where is put before a field's name in errors.
	where string
	errs  []error
}

func (f *fields) wrong(name string, got any, expected string) {
	f.errs = append(f.errs, fmt.Errorf("%s%s has type %T; expected %s", f.where, name, got, expected))
}

func (f *fields) missing(name string) {
	f.errs = append(f.errs, fmt.Errorf("%s%s is missing", f.where, name))
}

// text reads a string; found is false if it is missing or of another type, and only the second is an
// error. Clients that have no strings send bytes, which the broker takes for the same.
func (f *fields) text(name string) (s string, found bool) {
	switch v := f.table[name].(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case []byte:
		return string(v), true
	default:
		f.wrong(name, v, "a string")
		return "", false
	}
}

// name reads the name of an exchange or a routing key, which AMQP bounds; found as in text.
func (f *fields) name(name string) (s string, found bool) {
	s, found = f.text(name)
	if len(s) > maxName {
		f.errs = append(f.errs, fmt.Errorf("%s%s has %d bytes; expected at most %d", f.where, name, len(s), maxName))
		return "", false
	}
	return s, found
}

// integer reads an integer of any width; found as in text.
func (f *fields) integer(name string) (n int64, found bool) {
	v := f.table[name]
	if v == nil {
		return 0, false
	}
	n, err := integer(v)
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s%s %w", f.where, name, err))
		return 0, false
	}
	return n, true
}

func (f *fields) texts(name string) (out []string, found bool) {
	v := f.table[name]
	if v == nil {
		return nil, false
	}
	list, ok := v.([]any)
	if !ok {
		f.wrong(name, v, "an array of strings")
		return nil, false
	}
	for i, e := range list {
		switch e := e.(type) {
		case string:
			out = append(out, e)
		case []byte:
			out = append(out, string(e))
		default:
			f.wrong(fmt.Sprintf("%s[%d]", name, i), e, "a string")
			return nil, false
		}
	}
	return out, true
}

func (f *fields) err() error { return errors.Join(f.errs...) }

// integer accepts every integer type: which one arrives depends on the broker's version and on every
// client on the way.
func integer(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return unsigned(uint64(v))
	case uint64:
		return unsigned(v)
	}
	return 0, fmt.Errorf("has type %T; expected an integer", v)
}

func unsigned(v uint64) (int64, error) {
	if v > math.MaxInt64 {
		return 0, fmt.Errorf("is %d; expected at most %d", v, int64(math.MaxInt64))
	}
	return int64(v), nil
}
