package checkout

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// rowLock decides in Postgres alone.
//
// The idea: one transaction locks the product's row of the stock, looks whether a unit is left, and
// makes the attempt and its order. The payment comes later, by the payer.
//
// The guarantee: no more orders than units, and an answer at once.
//
// It gives up: throughput. Everybody who wants a product waits for its row, one commit after the
// other, those whom it refuses too; there is no waiting room and no edge, so that a bot who
// sends more requests gets more units.
func rowLock() variant {
	return variant{
		Name:          "row_lock",
		Idea:          "one transaction locks the product's row, takes a unit and makes the order",
		Guarantees:    "no more orders than units, decided at once",
		GivesUp:       "throughput: all who want a product wait for its row; and fairness, with no edge",
		Places:        []string{placeOrdered},
		NotApplicable: atOnce(),
		Roles:         []role{payer()},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return lockingShop{&counter{st}}, nil
		},
		Model: modelled(func(m *shopModel) { m.sellsAtOnce((*payerModel).compensate) }),
	}
}

// atOnce says what does not apply to designs that decide at once.
func atOnce() map[string]string {
	return map[string]string{
		PositionKept:  "there is no waiting room",
		FairAdmission: "there is no waiting room: who comes to the store first is served first",
		RoomKept:      "there is no waiting room",
		LimitsKept:    "there is no edge that limits anybody",
		DriftRepaired: "there is one store only",
	}
}

type lockingShop struct{ *counter }

// Join takes a unit under the lock of its row.
func (s lockingShop) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	return s.sell(ctx, req, takeLocked)
}

func takeLocked(ctx context.Context, tx pgx.Tx, product uint64) error {
	var left int64
	err := tx.QueryRow(ctx, `SELECT available FROM inventory WHERE product = $1 FOR UPDATE`,
		product).Scan(&left)
	if err == nil && left < 1 {
		err = ErrSoldOut
	}
	if err == nil {
		err = takeAnyway(ctx, tx, product)
	}
	return err
}
