package index

import (
	"encoding/binary"
	"math/bits"
)

// appendPacked appends numbers with as many bits each as the largest has: a byte with how many, and
// the bits, the lowest first.
func appendPacked(b []byte, values []uint32) []byte {
	var all uint32
	for _, v := range values {
		all |= v
	}
	width := bits.Len32(all)
	return appendBits(append(b, byte(width)), width, len(values), func(i int) uint64 {
		return uint64(values[i])
	})
}

// appendBits appends n numbers with so many bits each: 64, or 56 at most, so that a number is in
// eight bytes wherever it begins.
func appendBits(b []byte, width, n int, value func(i int) uint64) []byte {
	start, size := len(b), packedBytes(n, width)
	b = append(b, make([]byte, size+8)...)
	for i := range n {
		at := i * width
		to := b[start+at>>3:]
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)|value(i)<<(at&7))
	}
	return b[:start+size]
}

// unpack reads len(values) numbers and returns what follows them. There must be 8 bytes more.
func unpack(b []byte, values []uint32) []byte {
	width := int(b[0])
	b = b[1:]
	mask := uint64(1)<<width - 1
	for i, at := 0, 0; i < len(values); i, at = i+1, at+width {
		values[i] = uint32(binary.LittleEndian.Uint64(b[at>>3:]) >> (at & 7) & mask)
	}
	return b[packedBytes(len(values), width):]
}

func packedBytes(n, width int) int { return (n*width + 7) / 8 }

// skipPacked returns what follows n numbers.
func skipPacked(b []byte, n int) []byte { return b[1+packedBytes(n, int(b[0])):] }

// column is a list of numbers that is read in any order: each as the bits by which it exceeds the
// lowest. There must be 8 bytes more.
type column struct {
	lowest uint64
	width  int // see appendBits
	bits   []byte
}

func (c *column) get(i int) uint64 {
	at := i * c.width
	v := binary.LittleEndian.Uint64(c.bits[at>>3:])
	if c.width == 64 {
		return c.lowest + v
	}
	return c.lowest + v>>(at&7)&(1<<c.width-1)
}

// columnHead is how many bytes are before a column's bits.
const columnHead = 16

// appendColumn appends a column of n numbers.
func appendColumn(b []byte, n int, value func(i int) uint64) []byte {
	lowest, highest := ^uint64(0), uint64(0)
	for i := range n {
		lowest, highest = min(lowest, value(i)), max(highest, value(i))
	}
	width := 0
	if n > 0 {
		width = bits.Len64(highest - lowest)
	}
	if width > 56 {
		width = 64
	}
	b = binary.LittleEndian.AppendUint64(b, lowest)
	b = binary.LittleEndian.AppendUint64(b, uint64(width))
	return appendBits(b, width, n, func(i int) uint64 { return value(i) - lowest })
}

// columnAt reads a column of n numbers and returns what follows it. The bits still reach into that,
// because a number is read with the seven bytes behind it.
func columnAt(b []byte, n int) (column, []byte, bool) {
	if len(b) < columnHead {
		return column{}, nil, false
	}
	c := column{lowest: binary.LittleEndian.Uint64(b)}
	width := binary.LittleEndian.Uint64(b[8:])
	b = b[columnHead:]
	if width > 64 || len(b) < packedBytes(n, int(width))+8 {
		return column{}, nil, false
	}
	c.width, c.bits = int(width), b
	return c, b[packedBytes(n, int(width)):], true
}
