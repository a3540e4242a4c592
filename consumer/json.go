package consumer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// JSON returns a [Handler] that decodes the body as one JSON value into a T and calls handle. A body
// that is not JSON, is not UTF-8, holds more than one value, does not fit T, or is null where T cannot
// be nil, is [Malformed]: parked at once. Fields that T does not have are ignored.
func JSON[T any](handle func(ctx context.Context, value T, m *Message) error) Handler {
	return func(ctx context.Context, m *Message) error {
		var value T
		if err := decodeJSON(m.Body, &value); err != nil {
			return Malformed(fmt.Errorf("decode the body as JSON into %v: %w", reflect.TypeFor[T](), err))
		}
		return handle(ctx, value, m)
	}
}

var (
	errNotUTF8 = errors.New("not UTF-8")
	errNull    = errors.New("null")
)

func decodeJSON[T any](body []byte, value *T) error {
	// encoding/json would replace what is not UTF-8, and leave value as it is for null: the handler
	// would get other data than was sent.
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	if err := json.Unmarshal(body, value); err != nil {
		return err
	}
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return nil
	}
	if _, own := any(value).(json.Unmarshaler); !own && string(bytes.TrimSpace(body)) == "null" {
		return errNull
	}
	return nil
}
