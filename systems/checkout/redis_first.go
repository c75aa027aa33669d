package checkout

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// redisFirst asks Redis before Postgres.
//
// The idea: a script takes a unit from a counter in Redis and notes the hold, in one step; most of
// a crowd are told there that nothing is left. Who has a hold makes the order in Postgres, whose
// own count decides again. A reconciler sets Redis to what Postgres says: after a crash between
// the two, a cancelled order, or when Redis has forgotten.
//
// The guarantee: that of Postgres, whatever Redis forgets or invents.
//
// It gives up: freshness. A unit that a crash, a cancellation or a repeated request gives back is
// for sale when the reconciler has seen it.
func redisFirst() variant {
	notApplicable := atOnce()
	delete(notApplicable, DriftRepaired)
	return variant{
		Name:          "redis_first",
		Idea:          "a script reserves in Redis, Postgres decides again, a reconciler repairs Redis",
		Guarantees:    "no more orders than units, whatever Redis forgets or invents",
		GivesUp:       "freshness: a unit given back is for sale when the reconciler has seen it",
		Needs:         []sut.Service{sut.Redis},
		Places:        []string{placeReserved, placeOrdered},
		NotApplicable: notApplicable,
		Roles:         []role{payer(), reconciler(unheld)},
		State: state{Ready: mendAll, Reset: emptyRedis, Pending: openOrDrifted,
			Audit: auditGated},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return reservingShop{&counter{st}, reservations{st}, takeConditionally}, nil
		},
	}
}

type reservingShop struct {
	*counter
	reservations
	take take
}

// Join reserves a unit in Redis, and makes its order.
func (s reservingShop) Join(ctx context.Context, req JoinRequest) (t Ticket, err error) {
	if !s.counter.Params.has(req.Product) {
		return t, ErrUnknownProduct
	}
	if err := s.reserve(ctx, req.Product, req.ID); err != nil {
		if errors.Is(err, ErrSoldOut) {
			t, err := s.earlier(ctx, req, ErrSoldOut)
			t.Position = 0
			return t, err
		}
		return t, err
	}
	s.counter.Config.Passed(placeReserved)
	t, err = s.sellOnce(ctx, req, s.take)
	switch {
	case err == nil || errors.Is(err, sut.ErrRefused):
		s.done(ctx, req.Product, req.ID, err == nil)
	case errors.Is(err, errAgain):
		// The hold may be that of the other request, which has the order and has not said so yet: it
		// is for the reconciler, who sees what was decided.
		err = nil
	} // else the order may be there: the hold stays until its time is over
	return t, err
}

// takeConditionally decides in the statement that takes the unit.
func takeConditionally(ctx context.Context, tx pgx.Tx, product uint64) error {
	tag, err := tx.Exec(ctx, `UPDATE inventory SET available = available - 1, version = version + 1
		WHERE product = $1 AND available > 0`, product)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrSoldOut
	}
	return err
}
