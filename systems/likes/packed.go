package likes

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// packedSchemas describe the types that encode themselves.
func packedSchemas() map[reflect.Type]map[string]any {
	return map[reflect.Type]map[string]any{
		reflect.TypeFor[Packed](): {"type": "string", "contentEncoding": "base64",
			"description": "Numbers in ascending order: the base64 of the differences from one to the " +
				"next, each an unsigned LEB128 varint."},
		reflect.TypeFor[PackedEvents](): {"type": "string", "contentEncoding": "base64",
			"description": "The records: the base64 of five unsigned LEB128 varints each, op_id, video, " +
				"user, 1 for a like and 0 for an unlike, version."},
	}
}

// Packed is a list of numbers in ascending order. In JSON it is the base64 of
// the differences from one to the next, each an unsigned varint as of package
// encoding/binary: a million operations take three megabytes.
type Packed []uint64

// MarshalJSON encodes the list; one that does not ascend is an error.
func (p Packed) MarshalJSON() ([]byte, error) {
	buf := make([]byte, 0, 2*len(p))
	last := uint64(0)
	for i, n := range p {
		if i > 0 && n < last {
			return nil, fmt.Errorf("packing numbers: %d comes after %d", n, last)
		}
		buf = binary.AppendUvarint(buf, n-last)
		last = n
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(buf))
}

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Packed) UnmarshalJSON(text []byte) error {
	buf, err := unbase64(text)
	if err != nil {
		return err
	}
	list, last := Packed{}, uint64(0)
	for len(buf) > 0 {
		d, err := takeUvarint(&buf)
		if err != nil {
			return err
		}
		if d > math.MaxUint64-last {
			return errors.New("a packed number is too large")
		}
		last += d
		list = append(list, last)
	}
	*p = list
	return nil
}

func unbase64(text []byte) ([]byte, error) {
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return nil, fmt.Errorf("expected packed numbers as base64, got %.20s", text)
	}
	buf, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("unpacking numbers: %w", err)
	}
	return buf, nil
}

func takeUvarint(buf *[]byte) (uint64, error) {
	n, size := binary.Uvarint(*buf)
	if size <= 0 {
		return 0, errors.New("packed numbers are cut short")
	}
	*buf = (*buf)[size:]
	return n, nil
}

// Event is one interaction in the log: user User likes video Video, or does not
// any more, as of Version. Of two events of one pair the one with the higher
// version is true.
type Event struct {
	OpID    uint64 `json:"op"`
	Video   uint64 `json:"video"`
	User    uint64 `json:"user"`
	Liked   bool   `json:"liked"`
	Version int64  `json:"version"`
}

// epoch is the life of the counters in which an event came about.
func (e Event) epoch() int64 { return e.Version / versionsPerEpoch }

// check says what is wrong with an event, if anything.
func (e Event) check() error {
	if e.OpID == 0 || e.Video == 0 || e.User == 0 || e.Version <= 0 {
		return fmt.Errorf("an event misses something: %+v", e)
	}
	return nil
}

// PackedEvents are events in JSON as the base64 of five unsigned varints each:
// operation, video, user, 1 for a like, version.
type PackedEvents []Event

// MarshalJSON encodes the events.
func (p PackedEvents) MarshalJSON() ([]byte, error) {
	buf := make([]byte, 0, 16*len(p))
	for _, e := range p {
		liked := uint64(0)
		if e.Liked {
			liked = 1
		}
		for _, n := range []uint64{e.OpID, e.Video, e.User, liked, uint64(e.Version)} {
			buf = binary.AppendUvarint(buf, n)
		}
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(buf))
}

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *PackedEvents) UnmarshalJSON(text []byte) error {
	buf, err := unbase64(text)
	if err != nil {
		return err
	}
	list := PackedEvents{}
	for len(buf) > 0 {
		var n [5]uint64
		for i := range n {
			if n[i], err = takeUvarint(&buf); err != nil {
				return err
			}
		}
		if n[3] > 1 || n[4] > math.MaxInt64 {
			return fmt.Errorf("a packed event has liked %d and version %d", n[3], n[4])
		}
		e := Event{OpID: n[0], Video: n[1], User: n[2], Liked: n[3] == 1, Version: int64(n[4])}
		if err := e.check(); err != nil {
			return err
		}
		list = append(list, e)
	}
	*p = list
	return nil
}
