package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/history"
)

// Repeats holds the answers to requests that were sent more than once with one identity
// against each other: what was acknowledged is not denied when it is asked for again.
type Repeats struct{ asked map[uint64]*repeat }

// repeat is what one identity was told.
type repeat struct {
	answers, acks int
	acked         time.Duration // first, or Never
	// denied is when the last attempt began that was denied, and why it was.
	denied time.Duration
	why    string
}

// See adds a record. It is denied if its refusal says that the request cannot be
// granted, and not only that it was not: a server that is overloaded, or that tried in
// vain, says nothing of the request.
func (r *Repeats) See(rec *history.Record, denied bool) {
	if rec.Outcome != history.OK && !denied {
		return
	}
	if r.asked == nil {
		r.asked = make(map[uint64]*repeat)
	}
	one := r.asked[rec.Op.ID]
	if one == nil {
		one = &repeat{acked: history.Never, denied: -1}
		r.asked[rec.Op.ID] = one
	}
	one.answers++
	switch {
	case !denied:
		one.acks++
		one.acked = min(one.acked, rec.End)
	case rec.Start > one.denied:
		one.denied, one.why = rec.Start, rec.Err
	}
}

// Judge requires that no request that was acknowledged was denied when it was sent again
// after that. It leaves out operations that are excused, if that is not nil, and returns
// how many requests had more than one answer.
func (r *Repeats) Judge(c *Collector, excused func(op uint64) bool) (repeated int) {
	for _, op := range slices.Sorted(maps.Keys(r.asked)) {
		one := r.asked[op]
		if one.answers < 2 || one.acked == history.Never {
			continue
		}
		repeated++
		c.Checked(1)
		if one.denied > one.acked && (excused == nil || !excused(op)) {
			c.Violate([]uint64{op}, "operation %d was acknowledged at %v, but denied when it was sent "+
				"again at %v with the same identity: %q", op, one.acked, one.denied, one.why)
		}
	}
	return repeated
}

// Again is how many requests were acknowledged more than once. A server that turns away
// what it has seen denies nothing, and shows nothing.
func (r *Repeats) Again() (requests int) {
	for _, one := range r.asked {
		if one.acks > 1 {
			requests++
		}
	}
	return requests
}

// Known is the clause that no operation of a kind is refused because what its key names does not
// exist, if it does. What exists is named by a prefix and a number, from 1 to most.
func Known(k Kind, prefix string, most int, denied func(*history.Record) bool) Clause {
	return func(r *Run) func() {
		r.See(func(rec *history.Record) {
			number, named := strings.CutPrefix(rec.Op.Key, prefix)
			n, err := strconv.Atoi(number)
			if !named || err != nil || n < 1 || n > most {
				return
			}
			r.Checked(1)
			if denied(rec) {
				r.Violate([]uint64{rec.Op.ID}, "%s of %s at %v was refused as if there were no such thing: %q",
					rec.Op.Kind, rec.Op.Key, rec.Start, rec.Err)
			}
		}, k.Names...)
		return nil
	}
}

// HadAnother is the clause that who is told to have one of a key already may have one: by another
// operation of the same client, since the same one would be given what it has.
func HadAnother(k Kind, denied func(*history.Record) bool) Clause {
	const who = ByKey | ByOwner
	return func(r *Run) func() {
		type denial struct {
			Fact
			end time.Duration
		}
		var denials []denial
		attempts := make(map[Group][]Operation)
		r.SeeParts(k, func(rec *history.Record) {
			f := k.said(rec)
			if denied(rec) {
				denials = append(denials, denial{f, rec.End})
			} else if rec.Outcome != history.Refused {
				attempts[who.Of(&f)] = append(attempts[who.Of(&f)], Attempt(rec))
			}
		})
		return func() {
			for _, d := range denials {
				r.Checked(1)
				if !slices.ContainsFunc(attempts[who.Of(&d.Fact)], func(o Operation) bool {
					return o.ID != d.Op && o.Start <= d.end
				}) {
					r.Violate([]uint64{d.Op}, "%v was told at %v to have one by another operation, and never "+
						"had one", who.Of(&d.Fact), d.end)
				}
			}
		}
	}
}
