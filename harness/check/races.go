package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"stampede/harness/history"
)

// Overlaps is how much the operations on the same keys overlapped.
type Overlaps struct {
	// Successful counts the operations with the outcome OK, Raced those of them that
	// overlapped another operation on their key, whatever that one's outcome.
	Successful, Raced int64
	// Peak is the highest number of operations in execution on one key at once.
	Peak int64
}

// Overlap measures how much the operations of some kinds overlapped, each from its start to
// its end. One that never returned counts with the others up to its start: whether it was
// still being executed is not known. It keeps 24 bytes an operation. A history that cannot
// be read is an error.
func Overlap(h history.History, kinds []string) (o Overlaps, err error) {
	byKey := map[string][]execution{}
	for rec, err := range h.All() {
		if err != nil {
			return o, fmt.Errorf("counting races: %w", err)
		}
		if rec.Start == history.Never || !slices.Contains(kinds, rec.Op.Kind) {
			continue
		}
		e := execution{rec.Start, rec.End, rec.Outcome == history.OK}
		if e.end == history.Never {
			e.end = e.start
		}
		byKey[rec.Op.Key] = append(byKey[rec.Op.Key], e)
	}
	for _, list := range byKey {
		o.add(list)
	}
	return o, nil
}

// execution is one operation from its start to its end.
type execution struct {
	start, end time.Duration
	ok         bool
}

// add takes the operations on one key in.
func (o *Overlaps) add(list []execution) {
	slices.SortFunc(list, func(a, b execution) int { return cmp.Compare(a.start, b.start) })
	ends := make([]time.Duration, 0, len(list))
	latest := time.Duration(-1) // end of those before
	for i, e := range list {
		ends = append(ends, e.end)
		next := i+1 < len(list) && list[i+1].start < e.end
		if e.ok {
			o.Successful++
			if next || latest > e.start {
				o.Raced++
			}
		}
		latest = max(latest, e.end)
	}
	slices.Sort(ends)
	ended := 0
	for i, e := range list {
		for ended < len(ends) && ends[ended] <= e.start {
			ended++
		}
		o.Peak = max(o.Peak, int64(i+1-ended))
	}
}
