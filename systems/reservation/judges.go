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

// clockGrain is the coarsest resolution of a store's clock.
const clockGrain = time.Millisecond

// invariants are what must be true of every design.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts),
		Most: map[string]time.Duration{expiryLag: longestLag, lagOfView: longestLag}}
	booked := check.Effects{Table: bookingFact, Kind: about(KindConfirm)}
	returned := check.Effects{Table: returnFact, Kind: about(KindRelease, KindCancel)}
	taken := check.Effects{Table: holdFact, Kind: asked()}
	most := check.Capacity{Table: stayFact, Kind: taken.Kind, By: check.ByKey, Most: p.capacity(),
		Live: []string{held}}
	single := check.Capacity{Table: stayFact, Kind: taken.Kind, By: check.ByKey | check.ByThing,
		Most: 1, Live: most.Live, Counts: func(f *check.Fact) bool { return f.Thing != 0 }}
	path := check.Path{Log: changeFact, Owners: holdFact, Moves: []check.Move{{From: "", To: held},
		{From: held, To: confirmed}, {From: held, To: released}, {From: held, To: expired},
		{From: confirmed, To: cancelled}}}
	return []check.Invariant{
		s.State(NoDoubleBooking, "at no moment a night has more guests than places, or a place two",
			most.Spans(), single.Spans(), most.Held(), single.Held(), crowded(p.capacity())),
		s.State(HoldsKept, "every acknowledged hold is there with all its nights, and nothing was held "+
			"that nobody asked for", check.AckedDurable(taken), check.NoPhantom(taken),
			check.AtMostOnce(holdFact, check.ByOp), madeBy(asked(), held, p.capacity()),
			notDenied(holdFact, check.Replies{Kind: asked(), What: "hold", Same: check.ByThing},
				func(h *check.Fact) bool { return h == nil || !live(h.State) }, ErrSoldOut, ErrUnknownStay)),
		s.State(BookingsKept, "every acknowledged booking, release and cancellation is there, once, and "+
			"none that nobody asked for", check.AckedDurable(booked), check.NoPhantom(booked),
			check.AckedDurable(returned), check.NoPhantom(returned),
			check.AtMostOnce(bookingFact, check.ByOp), check.AtMostOnce(returnFact, check.ByOp),
			madeBy(booked.Kind, confirmed, p.capacity()),
			notDenied(bookingFact, check.Replies{Kind: about(KindConfirm, KindRelease, KindCancel)},
				func(b *check.Fact) bool { return b != nil && b.State == cancelled },
				ErrNotOpen, ErrUnknownHold, ErrExpired)),
		s.State(ExpiredIsOver, "a hold ends once, by its guest or its time; what has expired is never "+
			"confirmed", path.Causes(), path.Follow(check.Track{By: check.ByName, Held: true,
			Rows: holdFact, Strict: true}), confirmedInTime(p.HoldTTL.D()),
			check.InTime(check.Bound{Table: holdFact, Kind: check.Named(KindHold), Ended: []string{expired},
				Open: []string{held}, NotBefore: p.HoldTTL.D(), Within: p.HoldTTL.D(),
				Grain: clockGrain, Slack: expiryLag})),
		s.State(HeldIsMine, "who confirms or releases a hold in its time, or cancels a booking, is not "+
			"refused", heldIsMine(p.HoldTTL.D())),
		s.State(NightsAddUp, "free and taken places of a night add up, and are those of the holds: "+
			"all nights of a stay or none",
			check.ConservedRows(nightFact, check.ByName, int64(p.capacity())),
			check.Agree(check.Pair{A: nightFact, B: guestFact, By: check.ByName | check.ByThing,
				OfA:    func(f *check.Fact) bool { return f.State == "taken" },
				AtRest: true}), check.Quiescent(holdFact, held)),
		s.State(FreeIsForSale, "nobody is told sold out while a place is free, also one that was given "+
			"back, nor that there is no such stay", freeIsForSale(p.capacity()),
			check.Known(asked(), "resource-", p.Resources, func(rec *history.Record) bool {
				return sut.RefusedFor(rec, ErrUnknownStay)
			})),
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

// madeBy is the clause that an acknowledgement names the version that a hold got with a state, and
// if it names a place, that of the hold, which is one of those that there are.
func madeBy(kind check.Kind, state string, places int) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		holds, made := r.Table(holdFact), map[string]int64{}
		for _, c := range a.Changes {
			if c.State == state {
				made[nameOf(c.Hold)] = c.Version
			}
		}
		r.See(func(rec *history.Record) {
			said := kind.Says(rec)
			v, known := made[said.Name]
			switch h := holds.Named(said.Name); {
			case !known || h == nil || rec.Outcome != history.OK:
			case v != said.Version:
				r.Violate([]uint64{said.Op}, "hold %s was %s with version %d; operation %d was told %d",
					said.Name, state, v, said.Op, said.Version)
			case said.Thing != 0 && (said.Thing != h.Thing || said.Thing > int64(places)):
				r.Violate([]uint64{said.Op}, "hold %s has place %d, and there are %d; its guest was told %d",
					said.Name, h.Thing, places, said.Thing)
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

// confirmedInTime is the clause that no hold was confirmed after its time, by the store's clock and
// by the driver's: it was made before it was acknowledged, and who asks after its time is too late.
func confirmedInTime(ttl time.Duration) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		ops, late := check.Operations{}, ttl+ttl/1000+10*time.Millisecond // two clocks never run alike
		r.See(ops.Add, KindHold, KindConfirm)
		return func() {
			for _, h := range a.Holds {
				if h.ConfirmOp == 0 {
					continue
				}
				r.Checked(1)
				if age := time.Duration(h.ConfirmedNS - h.HeldNS); age < 0 || age > ttl+clockGrain {
					r.Violate([]uint64{h.Hold, h.ConfirmOp}, "hold %d was confirmed %v after it was made; it "+
						"lasts %v", h.Hold, age, ttl)
				}
				hold, sent := ops[h.Hold], ops[h.ConfirmOp]
				if hold.Outcome == history.OK && sent.May() && sent.Start > hold.End+late {
					r.Violate([]uint64{h.Hold, h.ConfirmOp}, "hold %d was acknowledged at %v and lasts %v, but "+
						"was confirmed for who asked at %v", h.Hold, hold.End, ttl, sent.Start)
				}
			}
		}
	})
}

// heldIsMine is the clause that a confirmation or release which was answered while the hold
// certainly had time left, and a cancellation of what was booked before, are not told that it has
// expired, is not open or unknown, unless the guest may have changed it before.
func heldIsMine(ttl time.Duration) check.Clause {
	table := API()
	return func(r *check.Run) func() {
		type refusal struct {
			op, hold   uint64
			kind       string
			start, end time.Duration
		}
		var refused []refusal
		// By kind and hold.
		of := map[string]check.Operations{KindHold: {}, KindConfirm: {}, KindRelease: {}, KindCancel: {}}
		begun := func(kind string, f refusal) bool {
			o, is := of[kind][f.hold]
			return is && o.Start <= f.end
		}
		r.See(of[KindHold].Add, KindHold)
		r.See(func(rec *history.Record) {
			req, err := api.RequestOf[HeldRequest](table, rec.Op)
			switch {
			case err != nil:
			case sut.RefusedFor(rec, ErrExpired) || sut.RefusedFor(rec, ErrNotOpen) ||
				sut.RefusedFor(rec, ErrUnknownHold):
				refused = append(refused, refusal{rec.Op.ID, req.Hold, rec.Op.Kind, rec.Start, rec.End})
			case rec.Outcome != history.Refused:
				about := *rec
				about.Op.ID = req.Hold
				of[rec.Op.Kind].Add(&about)
			}
			r.Checked(1)
		}, KindConfirm, KindRelease, KindCancel)
		return func() {
			for _, f := range refused {
				had, state := of[KindHold][f.hold], held
				ended := f.end >= had.Start+ttl || begun(KindConfirm, f) || begun(KindRelease, f)
				if f.kind == KindCancel {
					had, state, ended = of[KindConfirm][f.hold], confirmed, begun(KindCancel, f)
				}
				if had.Outcome == history.OK && had.End <= f.start && !ended {
					r.Violate([]uint64{f.hold, f.op}, "hold %d was %s at %v, but the request to %s it "+
						"was refused at %v; a hold lasts %v", f.hold, state, had.End, f.kind, f.end, ttl)
				}
			}
			r.Need(len(of[KindConfirm])+len(of[KindRelease])+len(of[KindCancel]) > 0,
				"no hold was confirmed, released or cancelled")
		}
	}
}
