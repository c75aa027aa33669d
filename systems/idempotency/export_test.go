package idempotency

import (
	"context"

	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// Mutants are postgres_points with a planted error each, and the designs that are wrong by it.
func Mutants() map[string]sut.Variant {
	planted := func(plant func(idem.Claim) idem.Claim, request func(*idem.Request)) sut.Variant {
		v := postgresPoints()
		keys := func(st *opened) idem.Store { return mutant{rows{st}, plant, request} }
		v.Roles = []role{reaper(), completerOf(keys)}
		v.Open = func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, 0, keys(st))
		}
		return systemOf(v).Variants[0]
	}
	same := func(c idem.Claim) idem.Claim { return c }
	nothing := func(*idem.Request) {}
	return map[string]sut.Variant{
		"control": planted(same, nothing),
		"M120":    systemOf(checkThenInsert()).Variants[0],
		"M121":    planted(func(c idem.Claim) idem.Claim { return endless{c.(*rowClaim)} }, nothing),
		"M122":    planted(func(c idem.Claim) idem.Claim { return unfenced{c} }, nothing),
		"M123":    planted(same, func(r *idem.Request) { r.Fingerprint = "" }),
		"M124":    planted(func(c idem.Claim) idem.Claim { return keepsAll{c} }, nothing),
		"early":   systemOf(doneBeforeEffect()).Variants[0],
	}
}

// mutant plants an error in claims, or in what they are made for.
type mutant struct {
	rows
	plant   func(idem.Claim) idem.Claim
	request func(*idem.Request)
}

func (m mutant) Begin(ctx context.Context, r idem.Request) (idem.Claim, *idem.Response, error) {
	m.request(&r)
	claim, kept, err := m.rows.Begin(ctx, r)
	if claim == nil {
		return nil, kept, err
	}
	c := m.plant(claim)
	if e, is := c.(endless); is {
		err = e.change(ctx, `UPDATE keys SET locked_until = 'infinity' WHERE key = $1 AND fence = $2`)
	}
	return c, nil, err
}

// endless is a claim whose lease never ends.
type endless struct{ *rowClaim }

// unfenced tells the provider nothing of who is newer.
type unfenced struct{ idem.Claim }

func (unfenced) Fence() int64 { return 0 }

// keepsAll keeps the answer that something failed.
type keepsAll struct{ idem.Claim }

func (k keepsAll) Abandon(ctx context.Context) error {
	return k.Finish(ctx, idem.Response{Status: 500, Type: "application/json",
		Body: []byte(`{"code":"unknown_effect"}`)})
}
