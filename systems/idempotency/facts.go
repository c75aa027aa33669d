package idempotency

import (
	"time"

	"stampede/harness/check"
)

// The tables of facts, by the name of a row.
const (
	chargeFact = "charge" // every charge in the provider's log, for as long as its key is kept
	keyFact    = "key"    // every key, from when its answer was kept until it was forgotten
)

// reapLag is the promise of a Contract.
const reapLag = "reap_lag"

// longestLag is the most that a design may promise.
const longestLag = 10 * time.Second

// factsFor reads an audit as tables, where answers are kept for some time.
func factsFor(ttl time.Duration) func(*Audit) check.Facts {
	return func(a *Audit) check.Facts {
		var now int64
		charges := []check.Fact{}
		for _, c := range a.Charges {
			now = max(now, c.AtNS)
			charges = append(charges, check.Fact{Op: c.ID, Name: c.Receipt, Key: c.Key, Owner: c.Customer,
				Thing: c.Amount, From: c.AtNS, To: c.AtNS + int64(ttl)})
		}
		for _, k := range a.Keys {
			now = max(now, k.DoneNS, k.GoneNS)
		}
		f := check.Facts{Now: now, Tables: []*check.Table{check.Rows(keyFact, a.Keys)},
			Declared: map[string]time.Duration{reapLag: time.Duration(a.Contract.ReapLagNS)}}
		if a.Charges != nil {
			f.Tables = append(f.Tables, check.TableOf(chargeFact, charges))
		}
		return f
	}
}
