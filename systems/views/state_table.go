package views

import (
	"crypto/sha256"
	"encoding/binary"
)

// digest names a session, or a window of a user or an address: 128 bits of SHA-256, of which one
// is always set. Names by chance alike do not occur, and finding two that are takes 2^63 tries,
// so that nobody can make a session count as another one's.
type digest [2]uint64

// maxDigested is the longest name: its kind, two numbers, and two texts with a length.
const maxDigested = 1 + 2*binary.MaxVarintLen64 + 2*(binary.MaxVarintLen16+maxField)

// digestOf makes a digest of a kind, numbers and texts. Each text follows its length, so that
// other texts are other bytes.
func digestOf(kind byte, of span, texts ...string) digest {
	var room [maxDigested]byte
	name := append(room[:0], kind)
	name = binary.AppendUvarint(name, uint64(of.ms))
	name = binary.AppendUvarint(name, uint64(of.n))
	for _, text := range texts {
		name = binary.AppendUvarint(name, uint64(len(text)))
		name = append(name, text...)
	}
	sum := sha256.Sum256(name)
	return digest{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]) | 1}
}

// table maps digests to numbers. It is one array without pointers, which the garbage collector
// does not look into: 24 bytes a slot, of which up to three quarters are used. A digest is as
// good as random, so its first bits say where to look for it, and slots that follow are tried
// one after the other (linear probing). Nothing is removed but everything at once.
type table struct {
	slots []slot
	used  int
}

// slot is free if it has the digest zero, which none is.
type slot struct {
	key   digest
	value uint64
}

// leastSlots is how many slots a table begins with, a power of two as all its sizes.
const leastSlots = 1 << 6

// at is the slot of a key, or the free one where it belongs.
func (t *table) at(key digest) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := key[0] & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.key == key || s.key == (digest{}) {
			return s
		}
	}
}

func (t *table) get(key digest) (value uint64, known bool) {
	if t.used == 0 {
		return 0, false
	}
	s := t.at(key)
	return s.value, s.key == key
}

// put keeps a value, in place of that which the key may have.
func (t *table) put(key digest, value uint64) { *t.made(key) = value }

// add adds to a value, which is 0 at first.
func (t *table) add(key digest, n uint64) { *t.made(key) += n }

// made is the value of a key, which is entered if it is not there.
func (t *table) made(key digest) *uint64 {
	if 4*t.used >= 3*len(t.slots) {
		t.reserve(1)
	}
	s := t.at(key)
	if s.key != key {
		s.key = key
		t.used++
	}
	return &s.value
}

// reserve makes room for so many more keys, by doubling the array as often as is needed.
func (t *table) reserve(more int) {
	size := max(leastSlots, len(t.slots))
	for 4*(t.used+more) > 3*size {
		size *= 2
	}
	if size == len(t.slots) {
		return
	}
	old := t.slots
	t.slots = make([]slot, size)
	for i := range old {
		if old[i].key != (digest{}) {
			*t.at(old[i].key) = old[i]
		}
	}
}

// clear removes everything and keeps the array.
func (t *table) clear() {
	clear(t.slots)
	t.used = 0
}

// recent is what was entered in the current stretch of time and in the one before. What is older
// goes with its table, as a whole: so each entry stays for one stretch at least and two at most.
type recent struct {
	stretch     int64
	now, before table
}

// advance begins a later stretch.
func (r *recent) advance(stretch int64) {
	if stretch <= r.stretch {
		return
	}
	r.before = table{}
	if stretch == r.stretch+1 {
		r.before = r.now
	}
	r.now, r.stretch = table{}, stretch
}

// of is the table of a stretch, nil if that is over. It begins the stretch if it is the next.
func (r *recent) of(stretch int64) *table {
	r.advance(stretch)
	switch stretch {
	case r.stretch:
		return &r.now
	case r.stretch - 1:
		return &r.before
	}
	return nil
}

// get looks into both tables.
func (r *recent) get(key digest) (value uint64, known bool) {
	if value, known = r.now.get(key); known {
		return value, true
	}
	return r.before.get(key)
}

// sum adds up what both tables have.
func (r *recent) sum(key digest) uint64 {
	now, _ := r.now.get(key)
	before, _ := r.before.get(key)
	return now + before
}
