package retry

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
)

// NewID returns a new unique id for [Failure.ID]: a UUID of version 7, 36 characters, random but for
// its time, so that ids sort by the millisecond in which they were made.
func NewID(now time.Time) string {
	var b [16]byte
	// It never returns an error; without randomness the program ends.
	_, _ = rand.Read(b[6:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
