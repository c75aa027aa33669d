package flashsale

import (
	"context"
	"errors"
	"fmt"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// admission is what a gate in Redis says to a buyer.
type admission int64

// The scripts answer with these numbers.
const (
	notReady admission = -2 // the counter is missing
	empty    admission = -1 // nothing is left
	admitted admission = 1  // a unit was taken from the counter
	repeated admission = 2  // this operation took one before
	occupied admission = 3  // the buyer has taken one by another operation
	unsure   admission = 4  // nothing is left, but tokens of orders may be missing
)

// till makes the order of a buyer who was admitted.
type till interface {
	claim(ctx context.Context, req BuyRequest) (claim, error)
}

// gatedShop asks the shelf in Redis first and the till second.
type gatedShop struct {
	ledgerShop
	shelf
	till till
	st   *opened
	// items are those on sale.
	items map[string]bool
}

// placeAdmitted is where a purchase has a unit of Redis and none of the ledger.
const placeAdmitted = "admitted"

func newGatedShop(st *opened, s shelf, b *books, t till) *gatedShop {
	items := map[string]bool{}
	for _, item := range itemKeys(st.Params) {
		items[item] = true
	}
	return &gatedShop{ledgerShop{b}, s, t, st, items}
}

// unitsBehind is a gatedShop in which unit rows in Postgres decide.
func unitsBehind(st *opened, s shelf) *gatedShop {
	b := newBooks(st.DB, unitRows())
	return newGatedShop(st, s, b, newUnitShop(b))
}

// Buy passes the gate, then claims.
func (s *gatedShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	a, err := s.pass(ctx, req)
	if err != nil {
		return Order{}, err
	}
	switch a {
	case occupied:
		return s.second(ctx, req)
	case unsure:
		return s.books.soldOut(ctx, req)
	case admitted:
		s.st.Config.Passed(placeAdmitted)
	}
	return s.claim(ctx, req, a)
}

// pass asks the gate. Without an error it admits, in one way or another.
func (s *gatedShop) pass(ctx context.Context, req BuyRequest) (admission, error) {
	if !s.items[req.Item] {
		return 0, ErrUnknownItem
	}
	a, err := s.admit(ctx, req)
	switch {
	case err != nil:
		return 0, stores.Failed("asking Redis for a unit", err)
	case a == notReady:
		return 0, ErrNotReady
	case a == empty:
		return 0, ErrSoldOut
	}
	return a, nil
}

// claim makes the order. What the gate took goes back if, and only if, the ledger certainly does
// not use it. What is not known the reconciler finds out.
func (s *gatedShop) claim(ctx context.Context, req BuyRequest, a admission) (Order, error) {
	c, err := s.till.claim(ctx, req)
	useless := err == nil && s.unused(c) || errors.Is(err, sut.ErrRefused)
	if a != admitted || !useless {
		return c.Order, err
	}
	back := s.putBack(context.WithoutCancel(ctx), cart(req), c.closed)
	if back != nil {
		s.st.Config.Warn("flashsale could not return an unused unit to Redis", back)
		if err != nil {
			// Not refused: the unit it took is missing from the sale.
			//nolint:errorlint // thus neither error may be found in it
			return Order{}, fmt.Errorf("%v, and its unit was not returned: %v", err, back)
		}
	}
	return c.Order, err
}

// second answers a buyer whose token is of another operation. If that has no unit in the ledger,
// it is under way or its token has not been removed yet.
func (s *gatedShop) second(ctx context.Context, req BuyRequest) (Order, error) {
	order, err := s.books.standing(ctx, req)
	if errors.Is(err, errBusy) {
		return Order{}, fmt.Errorf("another request of %s is under way: %w", req.Buyer, ErrConflict)
	}
	return order, err
}

// PaymentResult applies a delivery; a unit that goes back to the shelf goes
// back to Redis too.
func (s *gatedShop) PaymentResult(ctx context.Context, p Payment) (PaymentState, error) {
	state, released, err := s.books.payment(ctx, p)
	if err == nil && released != nil {
		if err := s.release(context.WithoutCancel(ctx), *released); err != nil {
			s.st.Config.Warn("flashsale could not return a unit of a failed payment to Redis", err)
		}
	}
	return state, err
}
