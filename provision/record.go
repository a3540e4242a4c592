package provision

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rmqkit/rmqkit/topology"
)

// recordFormat is the newest format of a record that this code reads, and the one that it writes.
const recordFormat = 1

// stateName returns the name of the queue that keeps the record of a topology, and of the exchange
// that leads to it.
func stateName(topology string) string { return "rmqkit.state." + topology }

// phase says how far the apply that wrote a record had come.
type phase string

const (
	// phaseIntent: objects of the target may have been created and bindings added; no set of ladder
	// bindings has been touched.
	phaseIntent phase = "intent"
	// phaseSwitch: sets of ladder bindings are on their way from those of Previous to those of Target.
	phaseSwitch phase = "switch"
	// phaseDone: Target is complete.
	phaseDone phase = "done"
)

// record is what the broker keeps for the next apply: everything of ours that may exist.
type record struct {
	Format int    `json:"format"`
	Serial int64  `json:"serial"`
	Phase  phase  `json:"phase"`
	Name   string `json:"name"`
	// Target is what the apply makes, or has made.
	Target topology.Manifest `json:"target"`
	// Ladders are the work queues with a ladder, of Target and of Previous.
	Ladders []string `json:"ladders,omitempty"`
	// Previous is what else may exist: before phaseDone all that earlier applies left, then only what is
	// not wanted any more and was left alone.
	Previous topology.Manifest `json:"previous"`
}

var (
	errDamaged = errors.New("cannot be read")
	errNewer   = errors.New("was written by a newer version of rmqkit")
	errForeign = errors.New("is the record of another topology")
)

// gzipFrom is the size from which a record is compressed: a thousand ladders make 10 MB of JSON, and
// RabbitMQ 4 takes messages of at most 16 MiB.
const gzipFrom = 64 << 10

// maxRecord bounds what a record may grow to when it is unpacked.
const maxRecord = 1 << 30

// encode returns the record as a message body and its content encoding.
func (r record) encode() (body []byte, encoding string, err error) {
	r.Format = recordFormat
	body, err = json.Marshal(r)
	if err != nil {
		return nil, "", fmt.Errorf("encode the record: %w", err)
	}
	if len(body) < gzipFrom {
		return body, "", nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(body)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, "", fmt.Errorf("compress the record: %w", err)
	}
	return packed.Bytes(), "gzip", nil
}

// decodeRecord is the inverse of encode. Its error is errDamaged or errNewer.
func decodeRecord(body []byte, encoding string) (record, error) {
	if encoding == "gzip" {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return record{}, fmt.Errorf("%w: %w", errDamaged, err)
		}
		if body, err = io.ReadAll(io.LimitReader(r, maxRecord)); err != nil {
			return record{}, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return record{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if head.Format > recordFormat {
		return record{}, fmt.Errorf("%w (format %d; this one reads %d)", errNewer, head.Format, recordFormat)
	}
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return record{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if r.Format < 1 || r.Serial < 1 || (r.Phase != phaseIntent && r.Phase != phaseSwitch && r.Phase != phaseDone) {
		return record{}, fmt.Errorf("%w: it has format %d, serial %d, phase %q", errDamaged, r.Format, r.Serial, r.Phase)
	}
	return r, nil
}

// recordOf is decodeRecord for the record of a topology. Somebody else's, moved here by hand, says nothing of
// what this one has made, and acting on it would take the other's bindings away: its error is errForeign.
func recordOf(topology string, body []byte, encoding string) (record, error) {
	r, err := decodeRecord(body, encoding)
	if err == nil && r.Name != topology {
		return record{}, fmt.Errorf("%w (%q)", errForeign, r.Name)
	}
	return r, err
}

// kept is one message of the state queue.
type kept struct {
	// serial is what the message's header says, or 0.
	serial int64
	record record
	// err says why there is no record in it.
	err error
}

// known is what the messages of the state queue amount to.
type known struct {
	// record is the newest that can be read; its Serial is 0 if there is none.
	record record
	// newer is true if what counts was written by a newer version.
	newer bool
	// sure is true if record is all there is to know: it can be read, and nothing that cannot could be
	// newer.
	sure bool
	// last is the highest serial seen.
	last int64
	// note is what the operator must hear about messages that cannot be read.
	note string
}

// newest picks the record that counts: the highest serial. What cannot be read is in the way only if
// it may be newer.
func newest(messages []kept) known {
	var k known
	for _, m := range messages {
		k.last = max(k.last, m.serial)
		if m.err == nil && m.record.Serial >= k.record.Serial {
			k.record = m.record
			k.last = max(k.last, m.record.Serial)
		}
	}
	k.sure = k.record.Serial > 0
	for _, m := range messages {
		foreign := errors.Is(m.err, errForeign)
		if m.err == nil || foreign && k.note != "" {
			continue
		}
		k.note = fmt.Sprintf("a message in it %v", m.err)
		if !foreign && (m.serial == 0 || m.serial >= k.record.Serial) {
			k.sure = false
			if errors.Is(m.err, errNewer) {
				k.note, k.newer = m.err.Error(), true
				return k
			}
		}
	}
	return k
}
