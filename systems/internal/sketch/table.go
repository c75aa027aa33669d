package sketch

import "math/bits"

// table is a fixed number of counters by key, in flat arrays. A counter has a slot, which an index
// with linear probing finds.
//
// Counts of slots only grow, and a key that takes the slot of another one takes it with a higher
// count. So the least count only grows, too. The slots that have it are found by a scan and used
// up one after the other, and each scan finds a higher one: a scan visits as many slots as there
// are, and there are no more scans than the least count. In SpaceSaving that is the number of
// events divided by the number of slots, so that an event costs one visit on average, whatever the
// stream. Neither a heap nor the lists of a stream summary are needed.
type table struct {
	keys, counts []uint64 // of the slots; the length is how many are used
	index        []uint32 // a slot and one, 0 for none: a power of two of them, 4 for a slot at least
	least        uint64
	weak         []uint32 // slots that had the least count when they were looked for
}

func newTable(capacity int) table {
	return table{keys: make([]uint64, 0, capacity), counts: make([]uint64, 0, capacity),
		index: make([]uint32, 1<<bits.Len(uint(4*capacity-1))), weak: make([]uint32, 0, capacity)}
}

func (t *table) bytes() int {
	return 16*cap(t.keys) + 4*len(t.index) + 4*cap(t.weak)
}

func (t *table) full() bool { return len(t.keys) == cap(t.keys) }

// find is the slot of a key, -1 if it has none.
func (t *table) find(key uint64) int {
	mask := uint32(len(t.index) - 1)
	for at := uint32(Hash(key)) & mask; ; at = (at + 1) & mask {
		slot := t.index[at&mask]
		if slot == 0 {
			return -1
		}
		if t.keys[slot-1] == key {
			return int(slot - 1)
		}
	}
}

// insert gives a key that has no slot a new one. The table must not be full.
func (t *table) insert(key, count uint64) {
	t.keys, t.counts = append(t.keys, key), append(t.counts, count)
	t.point(key, uint32(len(t.keys)))
}

// point enters a slot and one into the index.
func (t *table) point(key uint64, slot uint32) {
	mask := uint32(len(t.index) - 1)
	at := uint32(Hash(key)) & mask
	for t.index[at] != 0 {
		at = (at + 1) & mask
	}
	t.index[at] = slot
}

// weakest is a slot with the least count, and that count. There must be a slot.
func (t *table) weakest() (slot uint32, least uint64) {
	for {
		for n := len(t.weak); n > 0; n-- {
			if slot = t.weak[n-1]; t.counts[slot] == t.least {
				t.weak = t.weak[:n]
				return slot, t.least
			}
		}
		t.weak = t.weak[:0]
		t.scan()
	}
}

// scan finds the least count and the slots that have it.
func (t *table) scan() {
	t.least = t.counts[0]
	for slot, count := range t.counts {
		if count > t.least {
			continue
		}
		if count < t.least {
			t.least, t.weak = count, t.weak[:0]
		}
		t.weak = append(t.weak, uint32(slot))
	}
}

// replace gives a slot to another key, with a higher count.
func (t *table) replace(slot uint32, key, count uint64) {
	t.forget(t.keys[slot])
	t.keys[slot], t.counts[slot] = key, count
	t.point(key, slot+1)
}

// offer takes a key that is not in the table in, if its count is above the least one.
func (t *table) offer(key, count uint64) {
	if !t.full() {
		t.insert(key, count)
		return
	}
	if count <= t.least {
		return
	}
	if slot, least := t.weakest(); count > least {
		t.replace(slot, key, count)
	}
}

// forget takes a key out of the index and moves what was displaced by it (Knuth, TAOCP 3, 6.4,
// algorithm R).
func (t *table) forget(key uint64) {
	mask := uint32(len(t.index) - 1)
	hole := uint32(Hash(key)) & mask
	for t.keys[t.index[hole]-1] != key {
		hole = (hole + 1) & mask
	}
	for at := (hole + 1) & mask; t.index[at] != 0; at = (at + 1) & mask {
		home := uint32(Hash(t.keys[t.index[at]-1])) & mask
		if (at-home)&mask >= (at-hole)&mask {
			t.index[hole] = t.index[at]
			hole = at
		}
	}
	t.index[hole] = 0
}

// items are the keys whose counts exceed a base, without it.
func (t *table) items(base uint64) []Item {
	list := make([]Item, 0, len(t.keys))
	for slot, key := range t.keys {
		if count := t.counts[slot]; count > base {
			list = append(list, Item{key, count - base})
		}
	}
	return list
}

// fill makes the table that of some items, each with a base added.
func (t *table) fill(items []Item, base uint64) {
	t.keys, t.counts, t.weak, t.least = t.keys[:0], t.counts[:0], t.weak[:0], 0
	clear(t.index)
	for _, it := range items {
		t.insert(it.Key, it.Count+base)
	}
}

// choose keeps of the keys of two tables those with the highest estimates.
func (t *table) choose(other *table, estimate func(key uint64) uint64) {
	list := make([]Item, 0, len(t.keys)+len(other.keys))
	for _, key := range t.keys {
		list = append(list, Item{key, estimate(key)})
	}
	for _, key := range other.keys {
		if t.find(key) < 0 {
			list = append(list, Item{key, estimate(key)})
		}
	}
	t.fill(Best(list, cap(t.keys)), 0)
}

// added are the items of two lists with the counts of each key added up. If there are more than
// some, all are reduced by the highest count of those beyond, which is returned, so that the
// others vanish (Agarwal et al., "Mergeable summaries", PODS 2012).
func added(a, b []Item, most int) (list []Item, reduced uint64) {
	sums := make(map[uint64]uint64, len(a)+len(b))
	for _, it := range a {
		sums[it.Key] += it.Count
	}
	for _, it := range b {
		sums[it.Key] += it.Count
	}
	for key, count := range sums {
		list = append(list, Item{key, count})
	}
	list = Best(list, len(list))
	if len(list) > most {
		reduced = list[most].Count
	}
	for i := range list {
		if list[i].Count <= reduced {
			return list[:i], reduced
		}
		list[i].Count -= reduced
	}
	return list, reduced
}
