package sketch

// MisraGries counts keys with a fixed number of counters, k of them (J. Misra and D. Gries,
// "Finding repeated elements", Science of Computer Programming 2(2), 1982). A key without a
// counter takes a free one; where none is free, it and all counters lose one. Of n events
//
//	true - n/(k+1) <= estimate <= true.
//
// The loss is a base that grows: a counter that is not above it is free.
type MisraGries struct {
	table
	base, total uint64
}

// NewMisraGries makes k counters.
func NewMisraGries(k int) *MisraGries { return &MisraGries{table: newTable(k)} }

// Add counts an event.
func (m *MisraGries) Add(key uint64) {
	m.total++
	if slot := m.find(key); slot >= 0 {
		m.counts[slot] = max(m.counts[slot], m.base) + 1
		return
	}
	if !m.full() {
		m.insert(key, m.base+1)
		return
	}
	if m.least <= m.base {
		if slot, least := m.weakest(); least <= m.base {
			m.replace(slot, key, m.base+1)
			return
		}
	}
	m.base++
}

// Total is how many events were counted.
func (m *MisraGries) Total() uint64 { return m.total }

// Estimate is at most how often a key occurred.
func (m *MisraGries) Estimate(key uint64) uint64 {
	if slot := m.find(key); slot >= 0 {
		return max(m.counts[slot], m.base) - m.base
	}
	return 0
}

// Top are the keys with the highest estimates.
func (m *MisraGries) Top(k int) []Item { return Best(m.items(m.base), k) }

// Bytes is the size of the arrays.
func (m *MisraGries) Bytes() int { return m.bytes() }

// Merge adds what another one counted; the bound stays, for all events.
func (m *MisraGries) Merge(other *MisraGries) error {
	if ours, theirs := cap(m.keys), cap(other.keys); ours != theirs {
		return unlike("counters", ours, theirs)
	}
	list, reduced := added(m.items(m.base), other.items(other.base), cap(m.keys))
	m.base, m.total = m.base+other.base+reduced, m.total+other.total
	m.fill(list, m.base)
	return nil
}

// SpaceSaving counts keys with a fixed number of counters, k of them (A. Metwally, D. Agrawal and
// A. El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT 2005).
// A key without a counter takes the least one, and its count with it. Of n events
//
//	true <= estimate <= true + n/k.
//
// A key that has no counter occurred at most as often as the least one says.
type SpaceSaving struct {
	table
	// floor is at least how often a key without a counter may have occurred before a merge.
	floor, total uint64
}

// NewSpaceSaving makes k counters.
func NewSpaceSaving(k int) *SpaceSaving { return &SpaceSaving{table: newTable(k)} }

// Add counts an event.
func (s *SpaceSaving) Add(key uint64) {
	s.total++
	if slot := s.find(key); slot >= 0 {
		s.counts[slot]++
		return
	}
	if !s.full() {
		s.insert(key, s.floor+1)
		return
	}
	slot, least := s.weakest()
	s.replace(slot, key, least+1)
}

// Total is how many events were counted.
func (s *SpaceSaving) Total() uint64 { return s.total }

// Estimate is at least how often a key occurred.
func (s *SpaceSaving) Estimate(key uint64) uint64 {
	if slot := s.find(key); slot >= 0 {
		return s.counts[slot]
	}
	return s.unseen()
}

// unseen is the estimate of a key without a counter.
func (s *SpaceSaving) unseen() uint64 {
	if !s.full() {
		return s.floor
	}
	_, least := s.weakest()
	return least
}

// Top are the keys with the highest estimates.
func (s *SpaceSaving) Top(k int) []Item { return Best(s.items(0), k) }

// Bytes is the size of the arrays.
func (s *SpaceSaving) Bytes() int { return s.bytes() }

// Merge adds what another one counted; the bound stays, for all events. What is above the least
// count of each are the counters of a MisraGries, and merged as those are.
func (s *SpaceSaving) Merge(other *SpaceSaving) error {
	if ours, theirs := cap(s.keys), cap(other.keys); ours != theirs {
		return unlike("counters", ours, theirs)
	}
	ours, theirs := s.unseen(), other.unseen()
	list, reduced := added(s.items(ours), other.items(theirs), cap(s.keys))
	s.floor, s.total = ours+theirs+reduced, s.total+other.total
	s.fill(list, s.floor)
	return nil
}
