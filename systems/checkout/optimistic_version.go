package checkout

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// optimisticVersion takes no lock until it writes.
//
// The idea: a transaction reads how many units are left, and the row's version. It writes one less
// only if the version is still that; else it begins again.
//
// The guarantee: no more orders than units, and those who are refused wait for nobody.
//
// It gives up: work, and certainty: in a rush most transactions begin again, and a user whose
// transactions all lose is refused as contended although units are left.
func optimisticVersion() variant {
	return variant{
		Name:          "optimistic_version",
		Idea:          "a transaction reads stock and version, and writes if the version is still that",
		Guarantees:    "no more orders than units; who is refused waits for nobody",
		GivesUp:       "work and certainty: in a rush most begin again, and some give up as contended",
		Places:        []string{placeOrdered},
		NotApplicable: atOnce(),
		Roles:         []role{payer()},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return optimisticShop{&counter{st}}, nil
		},
	}
}

type optimisticShop struct{ *counter }

// Join begins again when somebody else was faster, four times at most.
func (s optimisticShop) Join(ctx context.Context, req JoinRequest) (t Ticket, err error) {
	for range 5 {
		t, err = s.sell(ctx, req, takeIfUnchanged)
		if !errors.Is(err, ErrContended) {
			break
		}
	}
	return t, err
}

func takeIfUnchanged(ctx context.Context, tx pgx.Tx, product uint64) error {
	var left, version int64
	err := tx.QueryRow(ctx, `SELECT available, version FROM inventory WHERE product = $1`,
		product).Scan(&left, &version)
	if err == nil && left < 1 {
		err = ErrSoldOut
	}
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `UPDATE inventory SET available = available - 1, version = version + 1
		WHERE product = $1 AND version = $2`, product, version)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrContended
	}
	return err
}
