package flashsale

import (
	"context"
	"errors"
	"fmt"
)

// optimisticVersion reads the counter with its version, decrements it where the version is still
// the same, and starts again if it is not. Of all who read one version a single one succeeds;
// after optimisticTries a buyer is told to come back although there is stock.
func optimisticVersion() variant {
	return counterRow().sells(variant{
		Name:       "optimistic_version",
		Idea:       "read the counter and its version; decrement it only where the version is unchanged",
		Guarantees: "never more orders than units: a stale decrement finds no row",
		GivesUp:    "progress under contention: most attempts are wasted, and unlucky buyers are refused",
		Open: func(_ context.Context, st *opened) (Shop, error) {
			b := newBooks(st.DB, counterRow())
			return &optimisticShop{ledgerShop{b}, b.buyStatement(`
    UPDATE items SET available = available - 1, version = version + 1
    WHERE item = $1 AND version = $4 AND available > 0 AND EXISTS (SELECT FROM allowed)
    RETURNING 0::bigint, 0::bigint`, `true`)}, nil
		},
	})
}

// optimisticTries bounds the attempts at one purchase.
const optimisticTries = 10

// optimisticShop compares versions instead of waiting.
type optimisticShop struct {
	ledgerShop
	statement string
}

// Buy reads and compares until it succeeds, the stock is gone, or the tries are.
func (s *optimisticShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	for range optimisticTries {
		available, version, err := s.books.counter(ctx, req.Item)
		if err != nil {
			return Order{}, err
		}
		if available <= 0 {
			return s.books.soldOut(ctx, req)
		}
		c, err := s.books.buy(ctx, s.statement, req, version)
		if !errors.Is(err, errBusy) {
			return c.Order, err
		}
	}
	return Order{}, fmt.Errorf("%d tries: %w", optimisticTries, ErrConflict)
}
