package history

import (
	"encoding/binary"
	"errors"
	"time"
)

// The flags of an encoded record; the outcome is in the two lowest bits.
const (
	flagOutcome = 0b11
	flagNoStart = 1 << 2
	flagNoEnd   = 1 << 3
	flagReply   = 1 << 4
	flagCode    = 1 << 5
)

const (
	// maxWords bounds a chunk's dictionary. It holds kinds, errors and their codes,
	// which are few; a flood of distinct errors is written out in full.
	maxWords = 16
	// recordOverhead is more than a record takes beside its strings: a flag,
	// eleven integers of at most ten bytes and seven lengths of at most five.
	recordOverhead = 1 + 11*binary.MaxVarintLen64 + 7*binary.MaxVarintLen32
)

// encodedBound is the most bytes that r takes once encoded.
func encodedBound(r *Record) int {
	return recordOverhead + len(r.Op.Kind) + len(r.Op.Key) + len(r.Op.Client) + len(r.Op.Body) +
		len(r.Reply.Key) + len(r.Reply.Body) + len(r.Err) + len(r.Code)
}

// encoder appends the records of one chunk to buf.
type encoder struct {
	buf []byte
	// words is the chunk's dictionary, in order of first use.
	words []string
}

// reset starts a chunk in buf.
func (e *encoder) reset(buf []byte) {
	e.buf = buf
	clear(e.words) // release the strings
	e.words = e.words[:0]
}

// record appends r. Its layout is: flags; Seq; ID, kind, Key, Client, Arg and
// Body of the operation; error, and its code if there is one; Intended;
// Start - Intended and End - Start if there are any; and the reply if it is not
// empty.
func (e *encoder) record(r *Record) {
	e.buf = append(e.buf, flags(r))
	e.uint(r.Seq)
	e.uint(r.Op.ID)
	e.word(r.Op.Kind)
	e.string(r.Op.Key)
	e.string(r.Op.Client)
	e.int(r.Op.Arg)
	e.bytes(r.Op.Body)
	e.word(r.Err)
	if r.Code != "" {
		e.word(r.Code)
	}
	e.int(int64(r.Intended))
	if r.Start != Never {
		e.int(int64(r.Start - r.Intended))
		if r.End != Never {
			e.int(int64(r.End - r.Start))
		}
	}
	if hasReply(r) {
		e.string(r.Reply.Key)
		e.int(r.Reply.Value)
		e.bytes(r.Reply.Body)
	}
}

func hasReply(r *Record) bool {
	return r.Reply.Key != "" || r.Reply.Value != 0 || len(r.Reply.Body) > 0
}

func flags(r *Record) byte {
	f := byte(r.Outcome)
	if r.Start == Never {
		f |= flagNoStart
	}
	if r.End == Never {
		f |= flagNoEnd
	}
	if hasReply(r) {
		f |= flagReply
	}
	if r.Code != "" {
		f |= flagCode
	}
	return f
}

func (e *encoder) uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)   { e.buf = binary.AppendVarint(e.buf, v) }

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.buf = append(e.buf, b...)
}

// word appends a string by its place in the dictionary, counted from 1. One
// more than the dictionary's length says that the string follows and enters
// it, 0 that it follows and does not.
func (e *encoder) word(s string) {
	for i, known := range e.words {
		if known == s {
			e.uint(uint64(i + 1))
			return
		}
	}
	if len(e.words) < maxWords {
		e.words = append(e.words, s)
		e.uint(uint64(len(e.words)))
	} else {
		e.uint(0)
	}
	e.string(s)
}

// errMalformed says that a payload with a good checksum is not what encoder
// writes.
var errMalformed = errors.New("a record cannot be decoded")

// decoder reads the records of one chunk from buf. A read past the end sets
// bad and returns zero values, so that only record has to look.
type decoder struct {
	buf    []byte
	words  []string
	intern *interner
	bad    bool
}

func (d *decoder) reset(buf []byte) {
	d.buf, d.words, d.bad = buf, d.words[:0], false
}

// record decodes the next record. Its strings and bodies are copies.
func (d *decoder) record() (Record, error) {
	var r Record
	f := d.byte()
	r.Outcome = Outcome(f & flagOutcome)
	r.Seq = d.uint()
	r.Op.ID = d.uint()
	r.Op.Kind = d.word()
	r.Op.Key = d.string()
	r.Op.Client = d.string()
	r.Op.Arg = d.int()
	r.Op.Body = d.bytes()
	r.Err = d.word()
	if f&flagCode != 0 {
		r.Code = d.word()
	}
	d.times(&r, f)
	if f&flagReply != 0 {
		r.Reply = Reply{Key: d.string(), Value: d.int(), Body: d.bytes()}
	}
	if d.bad {
		return Record{}, errMalformed
	}
	return r, r.Validate()
}

func (d *decoder) times(r *Record, f byte) {
	r.Intended, r.Start, r.End = d.duration(), Never, Never
	if f&flagNoStart == 0 {
		r.Start = r.Intended + d.duration()
		if f&flagNoEnd == 0 {
			r.End = r.Start + d.duration()
		}
	}
}

// take returns the next n bytes, which are valid until the next reset.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.buf)) {
		d.bad, d.buf = true, nil
		return nil
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	d.skip(n)
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.buf)
	d.skip(n)
	return v
}

// skip drops the n bytes of an integer; package binary says with n <= 0 that
// there is none and that its value is 0.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.bad, d.buf = true, nil
		return
	}
	d.buf = d.buf[n:]
}

func (d *decoder) duration() time.Duration { return time.Duration(d.int()) }

func (d *decoder) string() string { return d.intern.get(d.take(d.uint())) }

func (d *decoder) bytes() []byte {
	return append([]byte(nil), d.take(d.uint())...)
}

func (d *decoder) word() string {
	place, size := d.uint(), uint64(len(d.words))
	if place > 0 && place <= size {
		return d.words[place-1]
	}
	s := d.string()
	switch {
	case place == 0:
	case place == size+1 && size < maxWords:
		d.words = append(d.words, s)
	default:
		d.bad = true
	}
	return s
}

// interner gives equal strings one copy where it can: a direct-mapped cache,
// so that its memory is bounded whatever the history holds.
type interner struct{ slots [1024]string }

func (t *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	slot := &t.slots[fnv1a(b)%uint32(len(t.slots))]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// fnv1a is the 32-bit FNV-1a hash of Fowler, Noll and Vo. Package hash/fnv
// would allocate.
func fnv1a(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}
