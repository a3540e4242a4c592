package retry

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"
)

var numberKinds = map[reflect.Kind]byte{
	reflect.Int8: 'b', reflect.Uint8: 'B', reflect.Int16: 's', reflect.Uint16: 'u', reflect.Int32: 'I',
	reflect.Uint32: 'i', reflect.Int64: 'l', reflect.Float32: 'f', reflect.Float64: 'd',
}

// encode writes a value as the grammar of AMQP 0.9.1 with RabbitMQ's errata has it, independently of
// valueSize.
func encode(w *bytes.Buffer, v any) {
	fixed := func(kind byte, v any) {
		w.WriteByte(kind)
		_ = binary.Write(w, binary.BigEndian, v)
	}
	long := func(kind byte, b []byte) {
		fixed(kind, uint32(len(b)))
		w.Write(b)
	}
	switch v := v.(type) {
	case nil:
		w.WriteByte('V')
	case bool:
		fixed('t', v)
	case int8, uint8, int16, uint16, int32, uint32, int64, float32, float64:
		fixed(numberKinds[reflect.TypeOf(v).Kind()], v)
	case time.Time:
		fixed('T', v.Unix())
	case decimal:
		fixed('D', v.Scale)
		_ = binary.Write(w, binary.BigEndian, v.Value)
	case string:
		long('S', []byte(v))
	case []byte:
		long('x', v)
	case []any:
		var b bytes.Buffer
		for _, e := range v {
			encode(&b, e)
		}
		long('A', b.Bytes())
	case table:
		encode(w, map[string]any(v))
	case map[string]any:
		var b bytes.Buffer
		for k, e := range v {
			b.WriteByte(byte(len(k)))
			b.WriteString(k)
			encode(&b, e)
		}
		long('F', b.Bytes())
	default:
		panic(v)
	}
}

func TestValueSize(t *testing.T) {
	t.Parallel()
	all := everyType()
	for name, v := range all {
		var b bytes.Buffer
		encode(&b, v)
		got, want := valueSize(v), b.Len()
		if name == "decimal" {
			if got < want || got > 64 {
				t.Errorf("valueSize(%T) = %d; want %d to 64", v, got, want)
			}
			continue
		}
		if got != want {
			t.Errorf("valueSize(%s) = %d, want %d", name, got, want)
		}
	}
	delete(all, "decimal")
	var b bytes.Buffer
	encode(&b, all)
	if got := tableSize(all); got != b.Len()-1 {
		t.Errorf("tableSize() = %d, want %d", got, b.Len()-1)
	}
	if got := valueSize(int(1)); got != 5 {
		t.Errorf("valueSize(int) = %d; the client writes it as 32 bits", got)
	}
}
