package reservation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// The tables of facts, by the name of a row.
const (
	holdFact    = "hold"    // every hold, by the operation that asked
	bookingFact = "booking" // every booking, also if it was cancelled, by the confirmation
	returnFact  = "return"  // every hold that was given back, by the release or cancellation
	changeFact  = "change"  // every change of a hold
	// The times in which somebody has a place for a night: one row for each night of a hold.
	stayFact = "stay"
	// How many places of a night are taken, by the stock, and by the holds at the end.
	nightFact = "night"
	guestFact = "guest count"
)

// The promises of a Contract.
const (
	expiryLag = "expiry_lag"
	lagOfView = "view_lag"
)

// longestLag is the most that a design may promise.
const longestLag = 10 * time.Second

func nameOf(hold uint64) string        { return strconv.FormatUint(hold, 10) }
func resourceKey(number uint64) string { return "resource-" + strconv.FormatUint(number, 10) }

// stayKey names a place for some nights.
func stayKey(resource uint64, first, nights int) string {
	return fmt.Sprintf("%s, nights %d to %d", resourceKey(resource), first, first+nights-1)
}

func nightKeyOf(resource uint64, night int) string {
	return fmt.Sprintf("%s, night %d", resourceKey(resource), night)
}

// live says whether a hold in a state has its place.
func live(state string) bool { return state == held || state == confirmed }

// facts are an audit as tables.
func facts(a *Audit) check.Facts {
	slices.SortStableFunc(a.Changes, func(x, y Change) int { return cmp.Compare(x.Seq, y.Seq) })
	holds, bookings, returns := []check.Fact{}, []check.Fact{}, []check.Fact{}
	taken := map[string]int64{}
	for _, h := range a.Holds {
		f := check.Fact{Op: h.Hold, Name: nameOf(h.Hold), Key: stayKey(h.Resource, h.First, h.Nights),
			Owner: h.Guest, Thing: int64(h.Unit), State: h.State, Version: h.Version, From: h.HeldNS,
			To: h.EndedNS}
		holds = append(holds, f)
		f.Key, f.Thing = resourceKey(h.Resource), 0
		if h.State == confirmed || h.State == cancelled {
			f.Op = h.ConfirmOp
			bookings = append(bookings, f)
		}
		if h.State == released || h.State == cancelled {
			f.Op = h.EndOp
			returns = append(returns, f)
		}
		for n := h.First; live(h.State) && n < h.First+h.Nights; n++ {
			taken[nightKeyOf(h.Resource, n)]++
		}
	}
	declared := map[string]time.Duration{expiryLag: time.Duration(a.Contract.ExpiryLagNS),
		lagOfView: time.Duration(a.Contract.ViewLagNS)}
	var now int64
	for _, c := range a.Changes {
		now = max(now, c.AtNS)
	}
	return check.Facts{Now: now, Declared: declared, Tables: append(nights(a, taken),
		check.TableOf(holdFact, holds), check.TableOf(bookingFact, bookings),
		check.TableOf(returnFact, returns), check.Rows(changeFact, a.Changes),
		check.TableOf(stayFact, stays(a)))}
}

// nights are the counts of each night, by the stock and by the holds.
func nights(a *Audit, taken map[string]int64) []*check.Table {
	stock, guests := []check.Fact{}, []check.Fact{}
	for _, n := range a.Nights {
		name := nightKeyOf(n.Resource, n.Night)
		stock = append(stock, check.Fact{Name: name, State: "free", Thing: n.Free},
			check.Fact{Name: name, State: "taken", Thing: n.Taken})
		guests = append(guests, check.Fact{Name: name, State: "taken", Thing: taken[name]})
		delete(taken, name)
	}
	for name, n := range taken { // nights that the stock does not have
		guests = append(guests, check.Fact{Name: name, State: "taken", Thing: n})
	}
	return []*check.Table{check.TableOf(nightFact, stock), check.TableOf(guestFact, guests)}
}

// stays are when somebody had each night, by the log of changes. A place without a number is any
// place.
func stays(a *Audit) (list []check.Fact) {
	holds := make(map[uint64]*HoldRow, len(a.Holds))
	for i := range a.Holds {
		holds[a.Holds[i].Hold] = &a.Holds[i]
	}
	since := map[uint64]int64{}
	add := func(id uint64, state string, from, to int64) {
		h := holds[id]
		if h == nil {
			return // the log is about nothing, which path sees
		}
		f := check.Fact{Op: id, Name: nameOf(id), Owner: h.Guest, State: state, From: from, To: to}
		for n := h.First; n < h.First+h.Nights; n++ {
			f.Key, f.Thing = nightKeyOf(h.Resource, n), int64(h.Unit)
			list = append(list, f)
		}
	}
	for _, c := range a.Changes {
		from, open := since[c.Hold]
		switch {
		case live(c.State) && !open:
			since[c.Hold] = c.AtNS
		case !live(c.State) && open:
			add(c.Hold, c.State, from, c.AtNS)
			delete(since, c.Hold)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(since)) {
		add(id, held, since[id], 0)
	}
	return list
}

// The operations, with what their records say.
func asked() check.Kind {
	table := API()
	return check.Kind{Names: []string{KindHold}, Says: func(rec *history.Record) check.Fact {
		f := check.Said(rec)
		f.Name = nameOf(f.Op)
		if req, err := api.RequestOf[HoldRequest](table, rec.Op); err == nil {
			f.Key = stayKey(req.Resource, req.First, req.Nights)
		}
		var told Held
		if rec.Outcome == history.OK && check.Misread(rec, &told) == "" {
			f.Thing, f.Version = int64(told.Unit), told.Version
		}
		return f
	}}
}

func about(kinds ...string) check.Kind {
	table := API()
	return check.Kind{Names: kinds, Says: func(rec *history.Record) check.Fact {
		f := check.Said(rec)
		f.Thing, f.Version = 0, f.Thing
		if req, err := api.RequestOf[HeldRequest](table, rec.Op); err == nil {
			f.Name = nameOf(req.Hold)
		}
		return f
	}}
}
