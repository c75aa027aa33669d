package check

import (
	"stampede/harness/history"
)

// Replies are the answers to operations that are sent more than once under one identity, Op.
type Replies struct {
	Kind Kind
	// What names the identity in violations, such as "idempotency key".
	What string
	// Same are the columns of an acknowledgement that are the same each time; 0 if they may
	// differ.
	Same By
	// Denied says which refusals say that the request cannot be granted, and not only that it
	// was not: a server that is overloaded says nothing about the request.
	Denied func(*history.Record) bool
	// Excused says for which operations a later denial is right, such as orders that have
	// expired; nil is none.
	Excused func(op uint64) bool
	// Sent says that operations are sent again on purpose: then one must have been
	// acknowledged twice.
	Sent bool
}

// SameReply is the clause that who asks again is told the same, and is not denied what was
// acknowledged before.
func SameReply(s Replies) Clause {
	return func(r *Run) func() {
		type answer struct {
			Group
			told bool // a difference is told once
		}
		first := make(map[uint64]*answer)
		var repeats Repeats
		r.SeeParts(s.Kind, func(rec *history.Record) {
			repeats.See(rec, s.Denied != nil && s.Denied(rec))
			if rec.Outcome != history.OK || s.Same == 0 {
				return
			}
			r.Checked(1)
			f := s.Kind.said(rec)
			now := s.Same.Of(&f)
			before := first[f.Op]
			if before == nil {
				first[f.Op] = &answer{Group: now}
				return
			}
			if before.Group != now && !before.told {
				before.told = true
				r.Violate([]uint64{f.Op}, "the %s %d was answered with %v and with %v", s.What, f.Op,
					before.Group, now)
			}
		})
		return func() {
			repeats.Judge(r.Collector, s.Excused)
			again := repeats.Again()
			r.Need(again > 0 || !s.Sent, "no %s was acknowledged again when it was sent again", s.What)
		}
	}
}
