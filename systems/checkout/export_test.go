package checkout

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Mutants are row_lock, redis_first or waiting_room with a planted error each, by its name, and
// those that they are planted in.
func Mutants() map[string]sut.Variant {
	one := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	inCashier := func(fail func(*till, context.Context, due, error) error) sut.Variant {
		v := rowLock()
		v.Roles = []role{cashierOf(fail)}
		return one(v)
	}
	inUsher := func(next string, room int) sut.Variant {
		v := waitingRoom()
		for i, r := range v.Roles {
			if r.Name == "usher" {
				v.Roles[i] = usher(func(p Params) int { return max(room, p.Batch) }, func(p Params) int {
					return max(room, p.Room)
				}, next, showRooms)
			}
		}
		return one(v)
	}
	unrepaired := redisFirst()
	unrepaired.Roles = []role{cashier()}
	// Whoever comes has a unit, as if Redis had forgotten what it sold.
	generous := func(settle settle) sut.Variant {
		v := redisDecides(variant{Name: "generous"}, settle)
		v.Open = func(_ context.Context, st *opened) (Shop, error) {
			return generousShop{newCounter(st)}, nil
		}
		return one(v)
	}
	unlimited := waitingRoom()
	unlimited.Open = func(_ context.Context, st *opened) (Shop, error) {
		return noEdge{roomShop{newCounter(st)}}, nil
	}
	return map[string]sut.Variant{
		"row_lock": one(rowLock()), "waiting_room": one(waitingRoom()), "redis_first": one(redisFirst()),
		"M141": one(compensationForgotten()), "M142": one(keyPerRetry()),
		"M148":     inUsher(strings.Replace(selectNext, "ORDER BY w.seq", "ORDER BY md5(w.key)", 1), 0),
		"no edge":  one(unlimited),
		"any room": inUsher(selectNext, 100_000),
		"restock":  generous(restock), "cancel newest": generous(cancelExcess),
		"unsettled": generous(func(context.Context, pgx.Tx, uint64, int64) error { return nil }),
		"oldest":    generous(cancelOldest),
		"unit lost": inCashier((*till).keepUnit), "unrepaired": one(unrepaired),
	}
}

// generousShop sells to everybody.
type generousShop struct{ *counter }

func (s generousShop) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	return s.sell(ctx, req, takeAnyway)
}

// cancelOldest is cancelExcess the other way round.
func cancelOldest(ctx context.Context, tx pgx.Tx, product uint64, excess int64) error {
	_, err := tx.Exec(ctx, strings.ReplaceAll(cancelSQL, "DESC", "ASC"), product, excess)
	return stores.Failed("cancelling the oldest", err)
}

// noEdge lets everybody through.
type noEdge struct{ roomShop }

func (s noEdge) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	return s.wait(ctx, req, 0)
}

// keepUnit gives no unit back.
func (t *till) keepUnit(ctx context.Context, d due, err error) error {
	if err := t.compensate(ctx, d, err); err != nil {
		return err
	}
	return t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE inventory SET available = available - 1 WHERE product = $1
			AND available > 0`, d.Product)
		return stores.Failed("losing a unit", err)
	})
}
