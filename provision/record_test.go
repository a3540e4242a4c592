package provision

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/topology"
)

func TestARecordComesBackAsItWas(t *testing.T) {
	t.Parallel()
	r := record{
		Format: recordFormat, Serial: math.MaxInt64, Phase: phaseSwitch, Name: "orders/é", Ladders: []string{"q"},
		Target: topology.Manifest{
			VHost:     "a/b",
			Exchanges: []topology.Exchange{{Name: "<e>&", Type: "headers", Durable: true, Arguments: map[string]any{"alternate-exchange": "x"}}},
			Queues:    []topology.Queue{{Name: "q", Arguments: map[string]any{"x-max-length": int64(math.MaxInt64), "x-single-active-consumer": true}}},
			Bindings: []topology.Binding{{Source: "<e>&", Destination: "q", DestinationKind: topology.ToQueue, Arguments: map[string]any{
				"float": 2.0, "integer": int64(2), "list": []any{int64(1), 1.5, "x"}, "table": map[string]any{"n": int64(-1)},
			}}},
		},
	}
	for range 900 {
		r.Previous.Queues = append(r.Previous.Queues, topology.Queue{Name: strings.Repeat("long", 30), Durable: true})
	}
	for _, tc := range []struct {
		name, encoding string
		keep           int
	}{{"small", "", 1}, {"large", "gzip", 900}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := r
			r.Previous.Queues = r.Previous.Queues[:tc.keep]
			body, encoding, err := r.encode()
			if err != nil || encoding != tc.encoding {
				t.Fatalf("encode() has encoding %q, error %v", encoding, err)
			}
			got, err := decodeRecord(body, encoding)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Errorf("record mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRecordSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body, encoding string
		want                 error
	}{
		{"empty", "", "", errDamaged},
		{"no JSON", "hello", "", errDamaged},
		{"cut", `{"format":1,"serial":`, "", errDamaged},
		{"no gzip", `{"format":1,"serial":1,"phase":"done"}`, "gzip", errDamaged},
		{"no serial", `{"format":1,"phase":"done"}`, "", errDamaged},
		{"no phase", `{"format":1,"serial":1}`, "", errDamaged},
		{"another type", `{"format":1,"serial":1,"phase":"done","target":[]}`, "", errDamaged},
		{"a later format, whatever is in it", `{"format":2,"serial":"?"}`, "", errNewer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := decodeRecord([]byte(tc.body), tc.encoding); !errors.Is(err, tc.want) {
				t.Errorf("decodeRecord() error = %v, want %v", err, tc.want)
			}
		})
	}
}

func FuzzDecodeRecord(f *testing.F) {
	good, _, err := record{Serial: 1, Phase: phaseDone, Name: "n", Target: ladderManifest()}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, "")
	f.Add([]byte("\x1f\x8b\x08"), "gzip")
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		r, err := decodeRecord(body, encoding)
		if err != nil {
			return
		}
		// What can be read can be planned with, and written.
		newPlan(target{name: "n"}, r, r.Serial, map[object]bool{})
		if _, _, err := r.encode(); err != nil {
			t.Errorf("encode() of what was decoded: %v", err)
		}
	})
}

func ladderManifest() topology.Manifest {
	return topology.Manifest{
		VHost:     "/",
		Exchanges: []topology.Exchange{{Name: "q.retry", Type: "headers", Durable: true}},
		Queues:    []topology.Queue{{Name: "q", Durable: true, Arguments: map[string]any{"x-message-ttl": int64(1)}}},
		Bindings:  []topology.Binding{{Source: "q.retry", Destination: "q", DestinationKind: topology.ToQueue, Arguments: map[string]any{"f": 1.5}}},
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	good := func(serial int64) kept { return kept{serial: serial, record: record{Serial: serial}} }
	damaged := func(serial int64) kept { return kept{serial: serial, err: errDamaged} }
	foreign := func(serial int64) kept { return kept{serial: serial, err: errForeign} }
	newer := func(serial int64) kept {
		return kept{serial: serial, err: fmt.Errorf("%w (format 2)", errNewer)}
	}
	for _, tc := range []struct {
		name     string
		messages []kept
		serial   int64
		sure     bool
		newer    bool
		last     int64
		noted    bool
	}{
		{"nothing", nil, 0, false, false, 0, false},
		{"one", []kept{good(3)}, 3, true, false, 3, false},
		{"the highest, in any order", []kept{good(4), good(6), good(5)}, 6, true, false, 6, false},
		{"an older one that cannot be read is not in the way", []kept{damaged(2), good(3)}, 3, true, false, 3, true},
		{"one that may be newer is", []kept{good(3), damaged(4)}, 3, false, false, 4, true},
		{"so is one of which nothing is known", []kept{good(3), damaged(0)}, 3, false, false, 3, true},
		{"another topology's is not", []kept{good(3), foreign(4)}, 3, true, false, 4, true},
		{"another topology's alone is none", []kept{foreign(4)}, 0, false, false, 4, true},
		{"another topology's does not hide a damaged one", []kept{damaged(5), good(3), foreign(4)}, 3, false, false, 5, true},
		{"only a damaged one", []kept{damaged(7)}, 0, false, false, 7, true},
		{"a newer program's", []kept{good(3), newer(4)}, 3, false, true, 4, true},
		{"a newer program's that was followed by ours", []kept{newer(2), good(3)}, 3, true, false, 3, true},
		{"a newer program's counts whatever else is damaged", []kept{newer(0), damaged(0), good(3)}, 3, false, true, 3, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := newest(tc.messages)
			if k.record.Serial != tc.serial || k.sure != tc.sure || k.newer != tc.newer || k.last != tc.last || (k.note != "") != tc.noted {
				t.Errorf("newest() = %+v", k)
			}
		})
	}
}
