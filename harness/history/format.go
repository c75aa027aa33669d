package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// A stored history is the magic, the version (uint32) and a sequence of
// frames. Integers of fixed size are little-endian. A frame is
//
//	payload length   uint32
//	kind             byte
//	payload checksum uint32, CRC-32C
//	head checksum    uint32, CRC-32C of the nine bytes before it
//	payload
//
// The head has a checksum of its own so that a torn tail, which has a good
// head and too few bytes, differs from a damaged length.
//
// The first frame is the header and the last one of a history that was closed
// is the end marker. A chunk's payload is the number of its records (uint32)
// and the records, each as encoded by encoder.record; a chunk depends on no
// other, so that losing one loses nothing else.
const (
	magic = "STAMPEDE"
	// version is raised when an older reader could not read a new file. Files
	// from oldest on are read; what is newer in them is just not there.
	version = 3
	oldest  = 1 // 1 had no samples, 2 no codes

	preludeSize = len(magic) + 4
	frameHead   = 4 + 1 + 4 + 4
	chunkHead   = frameHead + 4

	headerFrame = 1
	chunkFrame  = 2
	windowFrame = 3
	endFrame    = 4
	sampleFrame = 5

	// maxPayload bounds a frame: a record of this size is refused.
	maxPayload = 64 << 20
)

// Header says which run a history belongs to.
type Header struct {
	RunID    string `json:"run_id"`
	Scenario string `json:"scenario"`
	System   string `json:"system"`
	Variant  string `json:"variant"`
	// Repeat counts from 0.
	Repeat int    `json:"repeat"`
	Seed   uint64 `json:"seed"`
	// Base is the wall-clock time of the run's base, for people: all times
	// in a history are offsets from the base on one monotonic clock.
	Base time.Time `json:"base"`
}

// endMark is the payload of the end marker: what the history must hold.
type endMark struct {
	Records uint64 `json:"records"`
	Windows int    `json:"windows"`
	Samples int    `json:"samples"`
}

// castagnoli makes the table of CRC-32C. Package crc32 keeps one table for
// all callers, whose sums use the processor's instruction.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal fills in the head of a frame whose payload follows it in buf.
func seal(buf []byte, kind byte) []byte {
	payload := buf[frameHead:]
	binary.LittleEndian.PutUint32(buf, uint32(len(payload)))
	buf[4] = kind
	binary.LittleEndian.PutUint32(buf[5:], crc32.Checksum(payload, castagnoli()))
	binary.LittleEndian.PutUint32(buf[9:], crc32.Checksum(buf[:9], castagnoli()))
	return buf
}

// sealJSON makes a frame whose payload is v as JSON.
func sealJSON(kind byte, v any) ([]byte, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return seal(append(make([]byte, frameHead), payload...), kind), nil
}

// head is the decoded head of a frame.
type head struct {
	size int64 // of the payload
	kind byte
	sum  uint32
}

// parseHead decodes the head of a frame from exactly frameHead bytes.
func parseHead(b []byte) (head, error) {
	if crc32.Checksum(b[:9], castagnoli()) != binary.LittleEndian.Uint32(b[9:]) {
		return head{}, errors.New("the checksum of a frame's head does not match")
	}
	h := head{
		size: int64(binary.LittleEndian.Uint32(b)),
		kind: b[4],
		sum:  binary.LittleEndian.Uint32(b[5:]),
	}
	if h.size > maxPayload {
		return head{}, fmt.Errorf("a frame claims %d bytes, more than %d", h.size, maxPayload)
	}
	return h, nil
}

// errPayload says that a frame's bytes are not those that were written.
var errPayload = errors.New("the checksum of a frame's payload does not match")

// verify compares a payload with its checksum.
func (h head) verify(payload []byte) error {
	if crc32.Checksum(payload, castagnoli()) != h.sum {
		return errPayload
	}
	return nil
}
