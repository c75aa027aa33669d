package reservation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements whose costs the models need; those of a stock are in its file.
const (
	costInsert    = "insert"    // writes a hold
	costExists    = "exists"    // looks whether there is a hold
	costBefore    = "before"    // looks for an earlier hold
	costConfirm   = "confirm"   // confirms a hold
	costEnd       = "end"       // ends a hold or booking
	costOtherwise = "otherwise" // says why a request changed nothing
	costExpire    = "expire"    // ends holds whose time is over
	costLook      = "look"      // is the gauge's
)

// assumedCosts are what statements cost on a CPU of 2023, until somebody measures them.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(40)},
		Redis: map[string]sim.Cost{"turn": us(8), "connection": us(4), costHeld: us(20),
			costChange: us(20), costOver: us(10)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costInsert: us(120), costExists: us(40),
			costBefore: us(40), costConfirm: us(110), costEnd: us(110), costOtherwise: us(40),
			costExpire: us(100), costLook: us(500), costFindSlot: us(60), costTakeSlots: us(80),
			costGiveSlots: us(80), costTakeCounters: us(80), costLockCounters: us(60),
			costGiveCounters: us(80), costFindRow: us(80)},
	}
}

// modelStock is a stock of a model.
type modelStock interface {
	take(p *sim.Process, req HoldRequest) (unit int, err error)
	give(p *sim.Process, holds []HoldRow)
	// nights is what it says of each night.
	nights() []NightRow
}

// deskModel is desk in virtual time: the rows of schema.sql and the same transactions.
type deskModel struct {
	*sim.Cluster
	stock   modelStock
	p       Params
	db      *sim.Conns
	holds   *sim.Table[uint64, HoldRow]
	due     *sim.Index[uint64, HoldRow] // holds_due
	live    *sim.Index[uint64, HoldRow] // holds_live
	changes *sim.Table[int64, Change]
	seq     int64
}

// modelled makes models of a design whose holds are in Postgres.
func modelled(
	stock func(*deskModel) modelStock,
) func(*sim.Cluster, Params, sut.Config) design.Model[Desk] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Desk] {
		d := &deskModel{Cluster: c, p: p, db: c.Postgres.Conns(),
			holds:   sim.NewTable[uint64, HoldRow](c.Postgres, "holds"),
			changes: sim.NewTable[int64, Change](c.Postgres, "changes")}
		d.due = sim.NewIndex(d.holds, func(h HoldRow) bool { return h.State == held },
			func(a, b HoldRow) int {
				return cmp.Or(cmp.Compare(a.HeldNS, b.HeldNS), cmp.Compare(a.Hold, b.Hold))
			})
		d.live = sim.NewIndex(d.holds, func(h HoldRow) bool { return live(h.State) },
			func(a, b HoldRow) int {
				return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Hold, b.Hold))
			})
		d.stock = stock(d)
		own := c.Postgres.OwnConns("expirer", 1, roleLimit(cfg))
		gauge := c.Postgres.OwnConns("gauge", 1, 0)
		c.Role("expirer", 1, sut.AfterError, sim.Only(func(p *sim.Process) { d.expirer(p, own) }))
		return design.Model[Desk]{Open: admitModelled(c, p, d), Audit: d.audit, Pending: d.pending,
			Gauge: func(p *sim.Process) any { return d.look(p, gauge) }}
	}
}

// roleLimit is how long an operation of a role may take.
func roleLimit(cfg sut.Config) time.Duration { return min(stores.Timeout(cfg), 2*time.Second) }

// Hold takes a place and writes the hold in one transaction.
func (d *deskModel) Hold(ctx context.Context, req HoldRequest) (h Held, err error) {
	if !d.p.has(req) {
		return Held{}, ErrUnknownStay
	}
	p := sim.In(ctx)
	err = errFaster
	for n := 0; n < attempts && errors.Is(err, errFaster); n++ {
		h.Version = 1
		err = d.db.Transaction(p, func() (err error) {
			if h.Unit, err = d.stock.take(p, req); err == nil {
				err = d.insert(p, req, h.Unit)
			}
			return err
		})
	}
	switch {
	case errors.Is(err, ErrSoldOut):
		return d.before(p, req)
	case err != nil:
		return Held{}, ErrContended
	}
	return h, nil
}

// insert is desk.insert.
func (d *deskModel) insert(p *sim.Process, req HoldRequest, unit int) error {
	var again bool
	d.db.Query(p, costInsert, func() {
		h := HoldRow{Hold: req.ID, Resource: req.Resource, Unit: unit, First: req.First,
			Nights: req.Nights, Guest: req.Guest, State: held, Version: 1, HeldNS: int64(p.Now())}
		p.Do(d.holds.Lock(req.ID))
		if _, again = d.holds.Get(req.ID); !again {
			d.write(p, "", h)
		}
	})
	if again {
		d.db.Query(p, costExists, func() {})
		return ErrSoldOut // for this attempt: see before
	}
	return nil
}

// write changes a hold, whose lock the transaction has, and notes it.
func (d *deskModel) write(p *sim.Process, before string, h HoldRow) {
	d.holds.Set(h.Hold, h)
	d.seq++
	c := Change{Seq: d.seq, Hold: h.Hold, Before: before, State: h.State, Version: h.Version,
		AtNS: int64(p.Now())}
	p.Do(d.changes.Lock(c.Seq))
	d.changes.Set(c.Seq, c)
}

// before is desk.before.
func (d *deskModel) before(p *sim.Process, req HoldRequest) (Held, error) {
	var h HoldRow
	var is bool
	d.db.Exec(p, costBefore, func() { h, is = d.holds.Get(req.ID) })
	if !is {
		return Held{}, ErrSoldOut
	}
	return Held{Unit: h.Unit, Version: 1}, nil
}

// change changes a hold if a condition is met, before and after waiting for its lock.
func (d *deskModel) change(
	p *sim.Process, req HeldRequest, when func(HoldRow) bool, to func(*HoldRow),
) (h HoldRow, changed bool) {
	meets := func() bool {
		var is bool
		h, is = d.holds.Get(req.Hold)
		return is && h.Guest == req.Guest && h.Resource == req.Resource && h.Version == req.Version &&
			when(h)
	}
	if !meets() {
		return h, false
	}
	if p.Do(d.holds.Lock(req.Hold)); !meets() {
		return h, false
	}
	before := h.State
	h.Version++
	to(&h)
	d.write(p, before, h)
	return h, true
}

// Confirm takes the payment and then changes the hold.
func (d *deskModel) Confirm(ctx context.Context, req HeldRequest) (Booked, error) {
	p := sim.In(ctx)
	p.Do(sim.Harmless(d.Sim.Delay(d.p.Pay.D())))
	var changed bool
	d.db.Exec(p, costConfirm, func() {
		now := p.Now()
		_, changed = d.change(p, req,
			func(h HoldRow) bool { return h.State == held && d.ends(h) > now },
			func(h *HoldRow) { h.State, h.ConfirmOp, h.ConfirmedNS = confirmed, req.ID, int64(now) })
	})
	if !changed {
		return Booked{req.Version + 1}, d.otherwise(p, req,
			func(h HoldRow) uint64 { return h.ConfirmOp })
	}
	return Booked{req.Version + 1}, nil
}

// ends is when a hold expires.
func (d *deskModel) ends(h HoldRow) time.Duration {
	return time.Duration(h.HeldNS) + d.p.HoldTTL.D()
}

// Release gives a hold back.
func (d *deskModel) Release(ctx context.Context, req HeldRequest) (api.Nothing, error) {
	return api.Nothing{}, d.end(sim.In(ctx), req, held, released)
}

// Cancel gives a booking back.
func (d *deskModel) Cancel(ctx context.Context, req HeldRequest) (api.Nothing, error) {
	return api.Nothing{}, d.end(sim.In(ctx), req, confirmed, cancelled)
}

func (d *deskModel) end(p *sim.Process, req HeldRequest, from, to string) error {
	err := d.db.Transaction(p, func() error {
		var h HoldRow
		var changed bool
		d.db.Query(p, costEnd, func() {
			h, changed = d.change(p, req, func(h HoldRow) bool { return h.State == from },
				func(h *HoldRow) { h.State, h.EndOp, h.EndedNS = to, req.ID, int64(p.Now()) })
		})
		if !changed {
			return ErrNotOpen
		}
		d.stock.give(p, []HoldRow{h})
		return nil
	})
	if err != nil {
		return d.otherwise(p, req, func(h HoldRow) uint64 { return h.EndOp })
	}
	return nil
}

// otherwise is desk.otherwise.
func (d *deskModel) otherwise(
	p *sim.Process, req HeldRequest, by func(HoldRow) uint64,
) (err error) {
	d.db.Exec(p, costOtherwise, func() {
		h, is := d.holds.Get(req.Hold)
		switch {
		case !is || h.Guest != req.Guest || h.Resource != req.Resource:
			err = ErrUnknownHold
		case by(h) == req.ID:
		case h.State == expired || h.State == held && d.ends(h) <= p.Now():
			err = ErrExpired
		default:
			err = ErrNotOpen
		}
	})
	return err
}

// expirer is the role of that name.
func (d *deskModel) expirer(p *sim.Process, db *sim.Conns) {
	for {
		var over []HoldRow
		failed := p.Try(func() {
			_ = db.Transaction(p, func() error {
				db.Query(p, costExpire, func() { over = d.expire(p) })
				if len(over) > 0 {
					p.Passed("expired")
					d.stock.give(p, over)
				}
				return nil
			})
		})
		if failed != nil || len(over) < expireBatch {
			p.Do(d.Sim.Delay(d.p.ExpireEvery.D()))
		}
	}
}

// expire ends holds whose time is over and that nobody has locked.
func (d *deskModel) expire(p *sim.Process) (over []HoldRow) {
	over, _ = d.holds.Claim(d.due.All(), expireBatch,
		func(h HoldRow) bool { return d.ends(h) <= p.Now() }, func(HoldRow) bool { return true })
	for i := range over {
		h := &over[i]
		h.State, h.Version, h.EndedNS = expired, h.Version+1, int64(p.Now())
		d.write(p, held, *h)
	}
	return over
}

// livesOf are the holds and bookings of a resource.
func (d *deskModel) livesOf(resource uint64) (live []HoldRow) {
	for _, h := range d.live.From(HoldRow{Resource: resource}) {
		if h.Resource != resource {
			break
		}
		live = append(live, h)
	}
	return live
}

// taken is how many places of a resource its holds and bookings have, by night from 1.
func (d *deskModel) taken(resource uint64) []int64 {
	taken := make([]int64, d.p.Nights+1)
	for _, h := range d.livesOf(resource) {
		for night := h.First; night < h.First+h.Nights; night++ {
			taken[night]++
		}
	}
	return taken
}

func (d *deskModel) pending() (left int64, what string) {
	for range d.due.All() {
		left++
	}
	return left, fmt.Sprintf("%d holds are open", left)
}

// look is the gauge's.
func (d *deskModel) look(p *sim.Process, db *sim.Conns) (s seen) {
	db.Exec(p, costLook, func() {
		s.Open, _ = d.pending()
		for resource := uint64(1); resource <= uint64(d.p.Resources); resource++ {
			s.Most = max(s.Most, slices.Max(d.taken(resource)))
		}
	})
	return s
}

// audit is auditOf.
func (d *deskModel) audit() any {
	a := emptyAudit(d.p)
	a.Nights = d.stock.nights()
	for _, id := range slices.Sorted(slices.Values(d.holds.Keys())) {
		h, _ := d.holds.Get(id)
		a.Holds = append(a.Holds, h)
	}
	for _, seq := range slices.Sorted(slices.Values(d.changes.Keys())) {
		c, _ := d.changes.Get(seq)
		a.Changes = append(a.Changes, c)
	}
	return a
}

// firstUnit is the first place that is free, of those at which a guest looks; 0 if none is.
func firstUnit(p Params, req HoldRequest, free func(unit int) bool) (unit int) {
	best := 0
	for at := 1; at <= p.capacity(); at++ {
		order := (at + int(req.ID>>idBits)) % 61
		if (unit == 0 || order < best) && free(at) {
			unit, best = at, order
		}
	}
	return unit
}

// eachNight lists the nights of all resources.
func eachNight(p Params, taken func(resource, night int) int64) (list []NightRow) {
	for resource := 1; resource <= p.Resources; resource++ {
		for night := 1; night <= p.Nights; night++ {
			n := taken(resource, night)
			list = append(list, NightRow{uint64(resource), night, int64(p.capacity()) - n, n})
		}
	}
	return list
}

// modelRoom is waitingRoom.
type modelRoom struct {
	Desk
	p      Params
	all    int
	inside *sim.Pool
}

// admitModelled is admit, for each process of the API.
func admitModelled(
	c *sim.Cluster, p Params, d Desk,
) func(*sim.Replica) (Desk, []func(*sim.Process)) {
	return func(*sim.Replica) (Desk, []func(*sim.Process)) {
		if p.Admit == 0 {
			return d, nil
		}
		return &modelRoom{Desk: d, p: p,
			inside: sim.NewPool(c.Sim, "places at the desk", p.Admit)}, nil
	}
}

// Hold waits for its turn.
func (w *modelRoom) Hold(ctx context.Context, req HoldRequest) (Held, error) {
	if w.all == w.p.Admit+w.p.Waiting {
		return Held{}, ErrHouseFull
	}
	w.all++
	defer func() { w.all-- }()
	sim.In(ctx).Do(sim.Harmless(w.inside.Get()))
	defer w.inside.Put()
	return w.Desk.Hold(ctx, req)
}
