package history

import (
	"errors"
	"fmt"
)

// The ways in which a record contradicts itself. They are sentinels, so that
// checking a good record costs no allocation.
var (
	errNoID     = errors.New("operation id is zero")
	errNoKind   = errors.New("operation kind is empty")
	errOutcome  = errors.New("outcome is none of unknown, ok, refused, dropped")
	errIntended = errors.New("intended time is negative")
	errStart    = errors.New("start time is negative")
	errEnd      = errors.New("end is before start")
	errDropped  = errors.New("a dropped operation has a start or an end time")
	errStarted  = errors.New("an operation that was not dropped has no start time")
	errAnswered = errors.New("an ok or refused operation has no end time")
)

// Validate says how a record contradicts itself, or nil. Such a record is a
// defect of the program that wrote it, never of the system under test, so
// Shard.Append panics on it and readers take it for corruption.
func (r *Record) Validate() error {
	switch {
	case r.Op.ID == 0:
		return errNoID
	case r.Op.Kind == "":
		return errNoKind
	case r.Outcome > Dropped:
		return errOutcome
	case r.Intended < 0:
		return errIntended
	case r.Outcome == Dropped:
		if r.Start != Never || r.End != Never {
			return errDropped
		}
		return nil
	}
	return r.validateTimes()
}

// validateTimes checks the times of a record that was not dropped.
func (r *Record) validateTimes() error {
	switch {
	case r.Start < 0:
		return errStart
	case r.Start == Never:
		return errStarted
	case r.End < r.Start:
		return errEnd
	case r.End == Never && r.Outcome != Unknown:
		return errAnswered
	}
	return nil
}

// Totals counts the records of a history by outcome. Scheduled is all of
// them; those that were not dropped were started.
type Totals struct {
	Scheduled, OK, Refused, Unknown, Dropped int64
}

// Started is the number of attempts that were sent.
func (t Totals) Started() int64 { return t.Scheduled - t.Dropped }

func (t *Totals) add(o Outcome) {
	t.Scheduled++
	switch o {
	case OK:
		t.OK++
	case Refused:
		t.Refused++
	case Dropped:
		t.Dropped++
	case Unknown:
		t.Unknown++
	}
}

// Validate judges the assumptions that every measurement and every checker
// makes about a history and counts its records. It is an error if the history
// cannot be read or is not whole, a record contradicts itself or was sent
// before it was due, a Seq occurs twice, or one below the largest is missing.
//
// It keeps one bit for each record.
func Validate(h History) (Totals, error) {
	var totals Totals
	seen := seqSet{}
	if f, ok := h.(*File); ok && !f.Complete() {
		return totals, fmt.Errorf("%s is not complete: the run that wrote it was cut short", f.name)
	}
	for rec, err := range h.All() {
		if err != nil {
			return totals, err
		}
		if err := rec.Validate(); err != nil {
			return totals, fmt.Errorf("record %d: %w", rec.Seq, err)
		}
		if rec.Start < rec.Intended {
			return totals, fmt.Errorf("record %d: sent at %v, before it was due at %v",
				rec.Seq, rec.Start, rec.Intended)
		}
		if !seen.add(rec.Seq) {
			return totals, fmt.Errorf("record %d occurs twice", rec.Seq)
		}
		totals.add(rec.Outcome)
	}
	if missing, ok := seen.gap(uint64(totals.Scheduled)); ok {
		return totals, fmt.Errorf("record %d of %d is missing", missing, totals.Scheduled)
	}
	return totals, nil
}

// seqSet is a set of sequence numbers as pages of bits, so that a forged
// number costs one page rather than all the memory below it.
type seqSet map[uint64]*[64]uint64

// add inserts seq and reports whether it was new.
func (s seqSet) add(seq uint64) bool {
	page := s[seq>>12]
	if page == nil {
		page = new([64]uint64)
		s[seq>>12] = page
	}
	word, bit := &page[seq>>6&63], uint64(1)<<(seq&63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// gap returns the smallest number below n that is not in the set.
func (s seqSet) gap(n uint64) (uint64, bool) {
	for seq := range n {
		page := s[seq>>12]
		if page == nil || page[seq>>6&63]&(1<<(seq&63)) == 0 {
			return seq, true
		}
	}
	return 0, false
}
