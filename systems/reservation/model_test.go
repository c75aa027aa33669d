package reservation_test

import (
	"context"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/reservation"
)

// desk is the smallest correct design: one place for all holds, one thing at a time.
type desk struct {
	p        reservation.Params
	api      *api.Table[reservation.Desk]
	now      func() time.Duration
	numbered bool // places have numbers
	holds    []*reservation.HoldRow
	changes  []reservation.Change
}

// deskIn is a desk in a world, where a fault lets the expirer sleep.
func deskIn(w *suttest.World, p *reservation.Params) *desk {
	d := &desk{p: *p, api: reservation.API(), now: func() time.Duration { return w.Now },
		numbered: w.Seed%2 == 0}
	w.Every(5*ms, func() bool {
		asleep := len(w.Windows) > 0 && w.Now >= 300*ms && w.Now < 500*ms
		return asleep || d.expire()
	})
	return d
}

// clock is the store's, of which no time is zero.
func (d *desk) clock() int64 { return int64(1e18) + int64(d.now()) }

// Do performs an operation.
func (d *desk) Do(op history.Op, answer func(history.Reply, error)) {
	answer(d.api.Do(context.Background(), d, op))
}

func (d *desk) find(id uint64) *reservation.HoldRow {
	i := slices.IndexFunc(d.holds, func(h *reservation.HoldRow) bool { return h.Hold == id })
	if i < 0 {
		return nil
	}
	return d.holds[i]
}

func (d *desk) places() int { return int(float64(d.p.Units) * d.p.Overbooking) }

// taken counts the holds that have a place for a night, of one number or of all for 0.
func (d *desk) taken(resource uint64, night, unit int) (n int) {
	for _, h := range d.holds {
		if h.Resource == resource && h.First <= night && night < h.First+h.Nights && h.EndedNS == 0 &&
			(unit == 0 || h.Unit == unit) {
			n++
		}
	}
	return n
}

// Hold takes the first place that is free on all nights, or one of each night.
func (d *desk) Hold(_ context.Context, req reservation.HoldRequest) (reservation.Held, error) {
	if h := d.find(req.ID); h != nil {
		return reservation.Held{Unit: h.Unit, Version: 1}, nil
	}
	first, last, most := 0, 0, d.places()
	if d.numbered {
		first, last, most = 1, d.places(), 1
	}
	for unit := first; unit <= last; unit++ {
		free := true
		for n := req.First; n < req.First+req.Nights; n++ {
			free = free && d.taken(req.Resource, n, unit) < most
		}
		if free {
			h := &reservation.HoldRow{Hold: req.ID, Resource: req.Resource, Unit: unit, First: req.First,
				Nights: req.Nights, Guest: req.Guest, HeldNS: d.clock()}
			d.holds = append(d.holds, h)
			d.change(h, "held")
			return reservation.Held{Unit: unit, Version: 1}, nil
		}
	}
	return reservation.Held{}, reservation.ErrSoldOut
}

func (d *desk) change(h *reservation.HoldRow, state string) {
	h.Version++
	d.changes = append(d.changes, reservation.Change{Seq: int64(len(d.changes) + 1), Hold: h.Hold,
		Before: h.State, State: state, Version: h.Version, AtNS: d.clock()})
	h.State = state
}

func (d *desk) over(h *reservation.HoldRow) bool {
	return h.State == "held" && d.clock() >= h.HeldNS+int64(d.p.HoldTTL)
}

// expire ends what is over and says whether anything is still held.
func (d *desk) expire() (open bool) {
	for _, h := range d.holds {
		if d.over(h) {
			h.EndedNS = d.clock()
			d.change(h, "expired")
		}
		open = open || h.State == "held"
	}
	return open
}

// move changes a hold whose guest asks for it, and notes by which operation.
func (d *desk) move(req reservation.HeldRequest, from, to string) (int64, error) {
	h := d.find(req.Hold)
	if h == nil || h.Guest != req.Guest {
		return 0, reservation.ErrUnknownHold
	}
	op, at := &h.EndOp, &h.EndedNS
	if to == "confirmed" {
		op, at = &h.ConfirmOp, &h.ConfirmedNS
	}
	switch {
	case *op == req.ID:
		return req.Version + 1, nil
	case h.State == "expired", to == "confirmed" && d.over(h):
		return 0, reservation.ErrExpired
	case h.State != from || h.Version != req.Version:
		return 0, reservation.ErrNotOpen
	}
	*op, *at = req.ID, d.clock()
	d.change(h, to)
	return h.Version, nil
}

// Confirm makes a booking of a hold.
func (d *desk) Confirm(
	_ context.Context, req reservation.HeldRequest,
) (reservation.Booked, error) {
	version, err := d.move(req, "held", "confirmed")
	return reservation.Booked{Version: version}, err
}

// Release gives a hold back.
func (d *desk) Release(
	_ context.Context, req reservation.HeldRequest,
) (none api.Nothing, err error) {
	_, err = d.move(req, "held", "released")
	return none, err
}

// Cancel gives a booking back.
func (d *desk) Cancel(
	_ context.Context, req reservation.HeldRequest,
) (none api.Nothing, err error) {
	_, err = d.move(req, "confirmed", "cancelled")
	return none, err
}

// Audit copies all rows.
func (d *desk) Audit() reservation.Audit {
	a := reservation.Audit{Contract: reservation.Contract{ExpiryLagNS: int64(d.p.ExpireLag)},
		Changes: d.changes}
	for _, h := range d.holds {
		a.Holds = append(a.Holds, *h)
	}
	for r := range uint64(d.p.Resources) {
		for n := 1; n <= d.p.Nights; n++ {
			taken := int64(d.taken(r+1, n, 0))
			a.Nights = append(a.Nights, reservation.NightRow{Resource: r + 1, Night: n, Taken: taken,
				Free: int64(d.places()) - taken})
		}
	}
	return a
}
