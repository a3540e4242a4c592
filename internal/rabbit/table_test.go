package rabbit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

func TestPlainAndBack(t *testing.T) {
	t.Parallel()
	in := amqp.Table{
		"bool": true, "int8": int8(-1), "byte": byte(1), "int16": int16(2), "int32": int32(3), "int64": int64(4),
		"float": float32(1.5), "double": 2.5, "decimal": amqp.Decimal{Scale: 2, Value: 100}, "string": "s",
		"bytes": []byte{0, 255}, "no bytes": []byte{}, "time": time.Unix(1, 0), "nil": nil, "none": []any{},
		"list":  []any{amqp.Table{"a": []any{amqp.Table{}}}, int8(1)},
		"table": amqp.Table{"in": amqp.Table{"deep": []byte("x")}},
	}
	plain := rabbit.Plain(in)
	if _, ok := plain["table"].(map[string]any)["in"].(map[string]any); !ok {
		t.Errorf("a nested table is a %T", plain["table"])
	}
	if _, ok := plain["list"].([]any)[0].(map[string]any)["a"].([]any)[0].(map[string]any); !ok {
		t.Error("a table in a list is no plain map")
	}
	if diff := cmp.Diff(in, rabbit.Table(plain)); diff != "" {
		t.Errorf("Table(Plain()) mismatch (-want +got):\n%s", diff)
	}
	plain["bytes"].([]byte)[0] = 9
	plain["list"].([]any)[1] = nil
	if in["bytes"].([]byte)[0] != 0 || in["list"].([]any)[1] != int8(1) {
		t.Error("Plain() shares values with its argument")
	}
	if rabbit.Plain(nil) != nil || rabbit.Table(nil) != nil {
		t.Error("nil does not stay nil")
	}
}
