package index

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// blockSize is how many postings are in a block.
const blockSize = 128

// blockHead is how many bytes a table has for each block: its last entry, and where its postings
// and its positions begin.
const blockHead = 12

// appendPostings appends the postings of a term: how many there are and, if they are more than a
// block, the length of all blocks and a table of them; then the blocks, and then the positions of
// each. A block has the impacts of its entries (if it is not the only one), then packed: how much
// further each entry is, and tf - 1. Positions are packed too: how many an entry has - 1, and then
// how much further each is, over all entries of the block.
func appendPostings(b []byte, list []posting, lens func(uint32) uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	blocks := slices.Collect(slices.Chunk(list, blockSize))
	var postings, positions, table []byte
	before := uint32(0) // 1 + the entry before
	for _, block := range blocks {
		last := block[len(block)-1].at
		for _, v := range []int{int(last), len(postings), len(positions)} {
			table = binary.LittleEndian.AppendUint32(table, uint32(v))
		}
		if len(blocks) > 1 {
			postings = appendImpacts(postings, block, lens)
		}
		var ats, tfs, counts, places []uint32
		for _, p := range block {
			ats, tfs = append(ats, p.at-before), append(tfs, p.tf-1)
			counts = append(counts, uint32(len(p.positions)-1))
			before = p.at + 1
			from := uint32(0)
			for _, at := range p.positions {
				places = append(places, at-from)
				from = at
			}
		}
		postings = appendPacked(appendPacked(postings, ats), tfs)
		positions = appendPacked(appendPacked(positions, counts), places)
	}
	if len(blocks) > 1 {
		b = append(binary.AppendUvarint(b, uint64(len(postings))), table...)
	}
	return append(append(b, postings...), positions...)
}

// impact is a pair of tf and len of which a block's scores are not above.
type impact struct{ tf, len uint32 }

// maxImpacts is how many a block has at most.
const maxImpacts = 4

// impacts are the pairs of a block that no other pair outdoes, with more tf in no greater len: with
// any Length, one of them has the highest score. If there are too many, the last become one that is
// as good as all of these.
func impacts(block []posting, lens func(uint32) uint32) []impact {
	list := make([]impact, len(block))
	for i, p := range block {
		list[i] = impact{p.tf, lens(p.at)}
	}
	slices.SortFunc(list, func(a, b impact) int {
		return cmp.Or(cmp.Compare(a.len, b.len), cmp.Compare(b.tf, a.tf))
	})
	best := list[:1]
	for _, p := range list[1:] {
		if p.tf <= best[len(best)-1].tf {
			continue
		}
		if len(best) == maxImpacts {
			best[maxImpacts-1].tf = p.tf
		} else {
			best = append(best, p)
		}
	}
	return best
}

func appendImpacts(b []byte, block []posting, lens func(uint32) uint32) []byte {
	list := impacts(block, lens)
	b = append(b, byte(len(list)))
	for _, p := range list {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.tf)), uint64(p.len))
	}
	return b
}

// none is behind the last entry.
const none = math.MaxUint32

// cursor goes through the postings of a term, in a segment or in memory.
type cursor struct {
	// at is the entry where the cursor stands, if it is placed, and i its place in the block that
	// is decoded.
	at     uint32
	placed bool
	i      int
	ats    []uint32
	tfs    []uint32

	// Of a segment: how many postings and blocks there are, the block that is decoded, and the
	// one that was last looked at for its bound.
	n, blocks, decoded, looked int
	table, data, places        []byte
	bound                      float64 // of block looked; negative: not computed yet
	s                          *segment
	positions                  [][]uint32 // of the decoded block; in a segment nil until needed

	// Of a search: the part of the score that is the term's, and how len counts.
	weight float64
	slot   int // the cursor's place among those of the search
	*scale
}

// scale is what the scores of a search have in common.
type scale struct {
	length  float64
	rounded bool // see Wrong.RoundedBounds
}

// score is what a term adds to a document's score; it rises with tf, and falls with len, also after
// each rounding.
func (c *cursor) score(tf, long uint32) float64 {
	return c.weight / (1 + K1*(1-B+B*float64(long)/c.length)/float64(tf))
}

// cursor opens the postings of a term, before the first entry; nil if there are none.
func (s *segment) cursor(term string) *cursor {
	at, is, err := s.terms.Get([]byte(term))
	if err != nil || !is {
		return nil
	}
	n, used := binary.Uvarint(s.postings[at:])
	c := &cursor{s: s, n: int(n), blocks: (int(n) + blockSize - 1) / blockSize, decoded: -1, bound: -1}
	list := s.postings[at:][used:]
	if c.blocks == 1 {
		c.data = list
		c.places = skipPacked(skipPacked(list, c.n), c.n)
	} else {
		size, used := binary.Uvarint(list)
		c.table = list[used:]
		c.data = c.table[c.blocks*blockHead:]
		c.places = c.data[size:]
	}
	return c
}

// head is a number of a block's row in the table.
func (c *cursor) head(block, number int) uint32 {
	return binary.LittleEndian.Uint32(c.table[block*blockHead+number*4:])
}

// last is the last entry of a block.
func (c *cursor) last(block int) uint32 {
	if c.table == nil {
		c.decode(0)
		return c.ats[len(c.ats)-1]
	}
	return c.head(block, 0)
}

// blockOf is the first block from one on that ends at an entry or later.
func (c *cursor) blockOf(at uint32, from int) int {
	step := 1
	low := from // all blocks before it end too early
	for low+step <= c.blocks && c.last(low+step-1) < at {
		low += step
		step *= 2
	}
	for step > 1 {
		if step /= 2; low+step <= c.blocks && c.last(low+step-1) < at {
			low += step
		}
	}
	return low
}

// decode reads the entries and tfs of a block.
func (c *cursor) decode(block int) {
	if c.decoded == block {
		return
	}
	size := min(c.n-block*blockSize, blockSize)
	if c.ats == nil {
		both := make([]uint32, 2*size)
		c.ats, c.tfs = both[:size], both[size:]
	}
	c.ats, c.tfs = c.ats[:size], c.tfs[:size]
	b, before := c.data, uint32(0)
	if c.table != nil {
		n, from := c.impactsOf(block)
		for b = from; n > 0; n-- {
			_, b = nextImpact(b)
		}
		if block > 0 {
			before = c.last(block-1) + 1
		}
	}
	unpack(unpack(b, c.ats), c.tfs)
	for i := range c.ats {
		c.ats[i] += before
		before = c.ats[i] + 1
		c.tfs[i]++
	}
	c.decoded, c.i, c.positions = block, 0, nil
}

// impactsOf is how many impacts a block in a table has, and the bytes that begin with them.
func (c *cursor) impactsOf(block int) (int, []byte) {
	b := c.data[c.head(block, 1):]
	return int(b[0]), b[1:]
}

// nextImpact takes an impact off some bytes.
func nextImpact(b []byte) (impact, []byte) {
	tf, used := binary.Uvarint(b)
	long, more := binary.Uvarint(b[used:])
	return impact{uint32(tf), uint32(long)}, b[used+more:]
}

// seek goes on to the first entry from at on, and says which it is; none if there is no more.
func (c *cursor) seek(at uint32) uint32 {
	if c.placed && c.at >= at {
		return c.at
	}
	c.placed = true
	if c.s != nil {
		block := max(c.decoded, 0)
		if c.decoded < 0 || c.ats[len(c.ats)-1] < at {
			block = c.blockOf(at, block)
		}
		if block == c.blocks {
			c.at = none
			return none
		}
		c.decode(block)
	}
	for step := 1; c.i+step < len(c.ats) && c.ats[c.i+step] < at; step *= 2 {
		c.i += step
	}
	for c.i < len(c.ats) && c.ats[c.i] < at {
		c.i++
	}
	c.at = none
	if c.i < len(c.ats) {
		c.at = c.ats[c.i]
	}
	return c.at
}

// look says what the term adds at most to the score of an entry from at on, and to which entry that
// holds. It decodes nothing but the only block there is.
func (c *cursor) look(at uint32) (bound float64, until uint32) {
	block := c.blockOf(at, c.looked)
	if block == c.blocks {
		return 0, none
	}
	if block != c.looked || c.bound < 0 {
		c.looked, c.bound = block, c.highest(block)
	}
	return c.bound, c.last(block)
}

// highest is the highest score in a block.
func (c *cursor) highest(block int) (best float64) {
	if c.table == nil {
		c.decode(block)
		for i, tf := range c.tfs {
			best = max(best, c.most(impact{tf, c.s.len(c.ats[i])}))
		}
		return best
	}
	var p impact
	for n, b := c.impactsOf(block); n > 0; n-- {
		p, b = nextImpact(b)
		best = max(best, c.most(p))
	}
	return best
}

// most is the score of an impact.
func (c *cursor) most(p impact) float64 {
	if drop := bits.Len32(p.len) - 8; c.rounded && drop > 0 {
		p.len = (p.len>>drop + 1) << drop
	}
	return c.score(p.tf, p.len)
}

// line is the positions of the entry where the cursor stands.
func (c *cursor) line() []uint32 {
	if c.positions == nil {
		b := c.places
		if c.table != nil {
			b = b[c.head(c.decoded, 2):]
		}
		counts := make([]uint32, len(c.ats))
		b = unpack(b, counts)
		all := 0
		for i := range counts {
			counts[i]++
			all += int(counts[i])
		}
		places := make([]uint32, all)
		unpack(b, places)
		for _, n := range counts {
			for i := uint32(1); i < n; i++ {
				places[i] += places[i-1]
			}
			c.positions = append(c.positions, places[:n:n])
			places = places[n:]
		}
	}
	return c.positions[c.i]
}
