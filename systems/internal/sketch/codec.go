package sketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrMalformed is of bytes that nothing was encoded to.
var ErrMalformed = errors.New("malformed")

// The first byte says which sketch it is, and in which version of the format.
const (
	formMisraGries  = 0x11
	formSpaceSaving = 0x21
	formCountMin    = 0x31
	formHeavyKeeper = 0x41
)

// Limits of what is decoded.
const (
	maxSlots = 1 << 16
	maxWidth = 1 << 20
	maxRows  = 32
)

// AppendBinary encodes the sketch.
func (m *MisraGries) AppendBinary(to []byte) ([]byte, error) {
	return m.append(uvarints(append(to, formMisraGries), m.total, m.base)), nil
}

// UnmarshalBinary decodes a sketch.
func (m *MisraGries) UnmarshalBinary(from []byte) error {
	r := reader{rest: from}
	r.form(formMisraGries)
	total, base := r.uvarint(), r.uvarint()
	decoded := MisraGries{table: r.table(), base: base, total: total}
	return done(&r, m, decoded)
}

// AppendBinary encodes the sketch.
func (s *SpaceSaving) AppendBinary(to []byte) ([]byte, error) {
	return s.append(uvarints(append(to, formSpaceSaving), s.total, s.floor)), nil
}

// UnmarshalBinary decodes a sketch.
func (s *SpaceSaving) UnmarshalBinary(from []byte) error {
	r := reader{rest: from}
	r.form(formSpaceSaving)
	total, floor := r.uvarint(), r.uvarint()
	decoded := SpaceSaving{table: r.table(), floor: floor, total: total}
	return done(&r, s, decoded)
}

// AppendBinary encodes the sketch.
func (c *CountMin) AppendBinary(to []byte) ([]byte, error) {
	to = uvarints(append(to, formCountMin), c.total, uint64(c.width), uint64(len(c.cells)/c.width))
	for _, cell := range c.cells {
		to = binary.AppendUvarint(to, uint64(cell))
	}
	return c.best.append(to), nil
}

// UnmarshalBinary decodes a sketch.
func (c *CountMin) UnmarshalBinary(from []byte) error {
	r := reader{rest: from}
	r.form(formCountMin)
	decoded := CountMin{total: r.uvarint()}
	width, rows := r.matrix()
	decoded.width, decoded.cells = width, make([]uint32, width*rows)
	for i := range decoded.cells {
		decoded.cells[i] = r.uint32()
	}
	decoded.best = r.table()
	return done(&r, c, decoded)
}

// AppendBinary encodes the sketch.
func (h *HeavyKeeper) AppendBinary(to []byte) ([]byte, error) {
	to = uvarints(append(to, formHeavyKeeper), h.total, uint64(h.random), uint64(h.width),
		uint64(len(h.buckets)/h.width))
	for _, b := range h.buckets {
		if to = binary.AppendUvarint(to, uint64(b.count)); b.count > 0 {
			to = binary.LittleEndian.AppendUint32(to, b.mark)
		}
	}
	return h.best.append(to), nil
}

// UnmarshalBinary decodes a sketch.
func (h *HeavyKeeper) UnmarshalBinary(from []byte) error {
	r := reader{rest: from}
	r.form(formHeavyKeeper)
	decoded := HeavyKeeper{total: r.uvarint(), random: source(r.uvarint()), decays: decays()}
	r.check(decoded.random != 0)
	width, rows := r.matrix()
	decoded.width, decoded.buckets = width, make([]bucket, width*rows)
	for i := range decoded.buckets {
		if b := &decoded.buckets[i]; r.good() {
			if b.count = r.uint32(); b.count > 0 {
				b.mark = r.fixed32()
			}
		}
	}
	decoded.best = r.table()
	return done(&r, h, decoded)
}

// append encodes a table.
func (t *table) append(to []byte) []byte {
	to = uvarints(to, uint64(cap(t.keys)), uint64(len(t.keys)))
	for slot, key := range t.keys {
		to = uvarints(to, key, t.counts[slot])
	}
	return to
}

func uvarints(to []byte, list ...uint64) []byte {
	for _, v := range list {
		to = binary.AppendUvarint(to, v)
	}
	return to
}

// AppendKeys encodes keys that are to be counted.
func AppendKeys(to []byte, list []uint64) []byte {
	return uvarints(binary.AppendUvarint(to, uint64(len(list))), list...)
}

// ReadKeys decodes all of from, with some keys at most, into a list that may be used again.
func ReadKeys(from []byte, most uint64, list []uint64) ([]uint64, error) {
	r := reader{rest: from}
	n := r.uvarint()
	r.check(n <= most)
	for list = list[:0]; r.good() && uint64(len(list)) < n; {
		list = append(list, r.uvarint())
	}
	if r.check(len(r.rest) == 0); r.bad {
		return nil, fmt.Errorf("%w: keys", ErrMalformed)
	}
	return list, nil
}

// done returns what a reader found wrong, or else replaces a sketch by what was decoded.
func done[T any](r *reader, sketch *T, decoded T) error {
	r.check(len(r.rest) == 0)
	if r.bad {
		return fmt.Errorf("%w: %T", ErrMalformed, sketch)
	}
	*sketch = decoded
	return nil
}

// reader reads what uvarints wrote. After an error it returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) good() bool { return !r.bad }

func (r *reader) check(good bool) {
	if !good {
		r.bad, r.rest = true, nil
	}
}

func (r *reader) form(want byte) {
	r.check(len(r.rest) > 0 && r.rest[0] == want)
	if r.good() {
		r.rest = r.rest[1:]
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.check(n > 0); r.bad {
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uvarint()
	r.check(v <= math.MaxUint32)
	return uint32(v)
}

func (r *reader) fixed32() uint32 {
	if r.check(len(r.rest) >= 4); r.bad {
		return 0
	}
	v := binary.LittleEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return v
}

// matrix reads a width and a number of rows, whose cells have a byte each at least.
func (r *reader) matrix() (width, rows int) {
	w, n := r.uvarint(), r.uvarint()
	r.check(w > 0 && w <= maxWidth && bits.OnesCount64(w) == 1 && n > 0 && n <= maxRows)
	r.check(r.bad || w*n <= uint64(len(r.rest)))
	if r.bad {
		return 0, 0
	}
	return int(w), int(n)
}

// table reads a table, in which each key is once.
func (r *reader) table() table {
	capacity, n := r.uvarint(), r.uvarint()
	r.check(capacity > 0 && capacity <= maxSlots && n <= capacity && 2*n <= uint64(len(r.rest)))
	if r.bad {
		return table{}
	}
	t := newTable(int(capacity))
	for range n {
		key, count := r.uvarint(), r.uvarint()
		if r.check(count > 0 && t.find(key) < 0); r.bad {
			return table{}
		}
		t.insert(key, count)
	}
	return t
}
