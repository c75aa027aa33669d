package reservation

import (
	"encoding/json"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The names of the invariants.
const (
	NoDoubleBooking = "no-double-booking"
	HoldsKept       = "holds-kept"
	BookingsKept    = "bookings-kept"
	ExpiredIsOver   = "expired-is-over"
	HeldIsMine      = "held-is-mine"
	NightsAddUp     = "nights-add-up"
	FreeIsForSale   = "free-is-for-sale"
)

// invariants are what must be true of every design.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts),
		Most: map[string]time.Duration{expiryLag: longestLag, lagOfView: longestLag}}
	booked := check.Effects{Table: bookingFact, Kind: about(KindConfirm)}
	returned := check.Effects{Table: returnFact, Kind: about(KindRelease, KindCancel)}
	taken := check.Effects{Table: holdFact, Kind: asked()}
	most := check.Capacity{Table: stayFact, By: check.ByKey, Most: p.capacity()}
	single := check.Capacity{Table: stayFact, By: check.ByKey | check.ByThing, Most: 1,
		Counts: func(f *check.Fact) bool { return f.Thing != 0 }}
	path := check.Path{Log: changeFact, Owners: holdFact, Moves: []check.Move{{From: "", To: held},
		{From: held, To: confirmed}, {From: held, To: released}, {From: held, To: expired},
		{From: confirmed, To: cancelled}}}
	return []check.Invariant{
		s.State(NoDoubleBooking, "at no moment a night has more guests than places, or a place two",
			most.Spans(), single.Spans(), crowded(p.capacity())),
		s.State(HoldsKept, "every acknowledged hold is there with all its nights, and nothing was held "+
			"that nobody asked for", check.AckedDurable(taken), check.NoPhantom(taken),
			check.AtMostOnce(holdFact, check.ByOp), madeBy(asked(), held),
			notDenied(holdFact, check.Replies{Kind: asked(), What: "hold", Same: check.ByThing},
				func(h *check.Fact) bool { return h == nil || !live(h.State) }, ErrSoldOut, ErrUnknownStay)),
		s.State(BookingsKept, "every acknowledged booking, release and cancellation is there, once, and "+
			"none that nobody asked for", check.AckedDurable(booked), check.NoPhantom(booked),
			check.AckedDurable(returned), check.NoPhantom(returned),
			check.AtMostOnce(bookingFact, check.ByOp), check.AtMostOnce(returnFact, check.ByOp),
			madeBy(booked.Kind, confirmed),
			notDenied(bookingFact, check.Replies{Kind: about(KindConfirm, KindRelease, KindCancel)},
				func(b *check.Fact) bool { return b != nil && b.State == cancelled },
				ErrNotOpen, ErrUnknownHold, ErrExpired)),
		s.State(ExpiredIsOver, "a hold ends once, by its guest or its time; what has expired is never "+
			"confirmed", path.Causes(), path.Follow(check.Track{By: check.ByName, Held: true,
			Rows: holdFact, Strict: true}), confirmedInTime(p.HoldTTL.D()),
			check.InTime(check.Bound{Table: holdFact, Kind: check.Named(KindHold), Ended: []string{expired},
				Open: []string{held}, NotBefore: p.HoldTTL.D(), Within: p.HoldTTL.D(),
				Grain: time.Millisecond, Slack: expiryLag})),
		s.State(HeldIsMine, "who confirms a hold in its time is not refused", heldIsMine(p.HoldTTL.D())),
		s.State(NightsAddUp, "free and taken places of a night add up, and are those of the holds: "+
			"all nights of a stay or none",
			check.ConservedRows(nightFact, check.ByName, int64(p.capacity())),
			check.Agree(check.Pair{A: nightFact, B: guestFact, By: check.ByName | check.ByThing,
				OfA:    func(f *check.Fact) bool { return f.State == "taken" },
				AtRest: true}), check.Quiescent(holdFact, held)),
		s.State(FreeIsForSale, "nobody is told sold out while a place is free, also one that was given "+
			"back", freeIsForSale(p.capacity())),
	}
}

// notDenied is SameReply, where a refusal for one of some reasons denies what was acknowledged,
// unless its row at the end excuses that.
func notDenied(
	table string, s check.Replies, excuses func(row *check.Fact) bool, reasons ...error,
) check.Clause {
	return check.On(table, func(r *check.Run, t *check.Table) func() {
		s.Denied = func(rec *history.Record) bool {
			return slices.ContainsFunc(reasons, func(e error) bool { return sut.RefusedFor(rec, e) })
		}
		s.Excused = func(op uint64) bool { return excuses(t.Op(op)) }
		return check.SameReply(s)(r)
	})
}

// madeBy is the clause that an acknowledgement names the version that a hold got with a state.
func madeBy(kind check.Kind, state string) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		made := map[string]int64{}
		for _, c := range a.Changes {
			if c.State == state {
				made[nameOf(c.Hold)] = c.Version
			}
		}
		r.See(func(rec *history.Record) {
			said := kind.Says(rec)
			if v, known := made[said.Name]; known && rec.Outcome == history.OK && v != said.Version {
				r.Violate([]uint64{said.Op}, "hold %s was %s with version %d; operation %d was told %d",
					said.Name, state, v, said.Op, said.Version)
			}
		}, kind.Names...)
		return nil
	})
}

// crowded is the clause that the gauge never saw more guests of a night than places.
func crowded(places int) check.Clause {
	return func(r *check.Run) func() {
		open := &check.Watched{Quantity: "open holds", Unit: "holds"}
		for _, sample := range r.Samples() {
			var s seen
			if len(sample.Body) == 0 || json.Unmarshal(sample.Body, &s) != nil {
				open.Gaps++
				continue
			}
			open.Judged++
			open.Look(sample.To, s.Open, s.Open, false)
			if s.Most > int64(places) {
				r.ViolateAt(sample.To, nil, "a night of a resource has %d guests at %v, but only %d places",
					s.Most, sample.To, places)
			}
		}
		if open.Judged > 0 {
			r.Watched(open)
		}
		return nil
	}
}

// confirmedInTime is the clause that no hold was confirmed after its time, by the store's clock.
func confirmedInTime(ttl time.Duration) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		for _, h := range a.Holds {
			if h.ConfirmOp == 0 {
				continue
			}
			r.Checked(1)
			if age := time.Duration(h.ConfirmedNS - h.HeldNS); age < 0 || age > ttl {
				r.Violate([]uint64{h.Hold, h.ConfirmOp}, "hold %d was confirmed %v after it was made; it "+
					"lasts %v", h.Hold, age, ttl)
			}
		}
		return nil
	})
}

// heldIsMine is the clause that a confirmation which was answered while the hold certainly had
// time left is not told that it has expired or is not open, unless the guest may have changed the
// hold before.
func heldIsMine(ttl time.Duration) check.Clause {
	table := API()
	return func(r *check.Run) func() {
		type refusal struct {
			op, hold uint64
			end      time.Duration
		}
		var refused []refusal
		holds, changed := check.Operations{}, map[uint64]time.Duration{}
		r.See(holds.Add, KindHold)
		r.See(func(rec *history.Record) {
			req, err := api.RequestOf[HeldRequest](table, rec.Op)
			if err != nil {
				return
			}
			if rec.Op.Kind == KindConfirm && (sut.RefusedFor(rec, ErrExpired) ||
				sut.RefusedFor(rec, ErrNotOpen) || sut.RefusedFor(rec, ErrUnknownHold)) {
				refused = append(refused, refusal{rec.Op.ID, req.Hold, rec.End})
				return
			}
			at, known := changed[req.Hold]
			if rec.Outcome != history.Refused && (!known || rec.Start < at) {
				changed[req.Hold] = rec.Start
			}
			r.Checked(1)
		}, KindConfirm, KindRelease, KindCancel)
		return func() {
			for _, f := range refused {
				hold := holds[f.hold]
				at, other := changed[f.hold]
				if hold.Outcome == history.OK && hold.End <= f.end && f.end < hold.Start+ttl &&
					(!other || at > f.end) {
					r.Violate([]uint64{f.hold, f.op}, "hold %d was acknowledged at %v and lasts %v, but its "+
						"confirmation was refused at %v", f.hold, hold.End, ttl, f.end)
				}
			}
			r.Need(len(changed) > 0, "no hold was confirmed, released or cancelled")
		}
	}
}
