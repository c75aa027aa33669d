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
	// Successful counts the operations with the outcome OK that took part, Raced those of them
	// that overlapped another operation on their key, whatever that one's outcome.
	Successful, Raced int64
	// Peak is the highest number of operations in execution on one key at once.
	Peak int64
}

// Overlap measures how much the operations of some kinds overlapped, each from its start to
// its end. One that never returned counts with the others up to its start: whether it was
// still being executed is not known. An operation does not race with itself, however often
// it is sent. A successful one whose reply is idle, if that is set, took nothing: it neither
// counts nor is raced with. It keeps 32 bytes an operation. A history that cannot be read is
// an error.
func Overlap(
	h history.History, kinds []string, idle func(history.Reply) bool,
) (o Overlaps, err error) {
	byKey := map[string][]execution{}
	for rec, err := range h.All() {
		if err != nil {
			return o, fmt.Errorf("counting races: %w", err)
		}
		ok := rec.Outcome == history.OK
		if rec.Start == history.Never || !slices.Contains(kinds, rec.Op.Kind) ||
			ok && idle != nil && idle(rec.Reply) {
			continue
		}
		e := execution{rec.Op.ID, rec.Start, rec.End, ok}
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

// Span is the time for which Who had something in hand, by any one clock.
type Span struct {
	Who      string
	From, To time.Duration
}

// Together counts the spans, in Raced those that overlap a span of somebody else, for work
// that no operation of a client shows.
func Together(spans []Span) (o Overlaps) {
	ids, list := map[string]uint64{}, make([]execution, len(spans))
	for i, s := range spans {
		if ids[s.Who] == 0 {
			ids[s.Who] = uint64(len(ids) + 1)
		}
		list[i] = execution{ids[s.Who], s.From, s.To, true}
	}
	o.add(list)
	return o
}

// execution is one operation from its start to its end.
type execution struct {
	id         uint64
	start, end time.Duration
	ok         bool
}

// add takes the operations on one key in.
func (o *Overlaps) add(list []execution) {
	slices.SortFunc(list, func(a, b execution) int { return cmp.Compare(a.start, b.start) })
	ends := make([]time.Duration, 0, len(list))
	var before latest
	for i, e := range list {
		ends = append(ends, e.end)
		if e.ok {
			o.Successful++
			if before.without(e.id) > e.start || nextBegins(list[i+1:], e) {
				o.Raced++
			}
		}
		before.note(e)
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

// nextBegins says whether another operation begins before one ends; they are in order of
// their start.
func nextBegins(later []execution, e execution) bool {
	for _, other := range later {
		if other.start >= e.end {
			return false
		}
		if other.id != e.id {
			return true
		}
	}
	return false
}

// latest are the operation that ends last of some, and the one of another identity that
// does.
type latest struct{ first, second execution }

func (l *latest) note(e execution) {
	switch {
	case e.end > l.first.end:
		if e.id != l.first.id {
			l.second = l.first
		}
		l.first = e
	case e.id != l.first.id && e.end > l.second.end:
		l.second = e
	}
}

// without is when the last of them ends that is not of an identity, 0 if there is none.
func (l *latest) without(id uint64) time.Duration {
	if l.first.id == id {
		return l.second.end
	}
	return l.first.end
}
