package checkout

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed reserve.lua
var reserveLua string

// reservations are units of the products in Redis, in front of the stock in Postgres. They are a
// gate and not the ledger: Postgres decides again, and the reconciler sets Redis right.
type reservations struct{ *opened }

func (s reservations) keys(product uint64) []string {
	name := s.Key("stock:" + strconv.FormatUint(product, 10))
	return []string{name, name + ":holds", name + ":changes"}
}

func (s reservations) run(ctx context.Context, product uint64, args ...any) (int, error) {
	return redis.NewScript(reserveLua).Run(ctx, s.Redis, s.keys(product), args...).Int()
}

// errUnready: Redis knew nothing of a product, and was told.
var errUnready = errors.New("redis does not know the stock")

// reserve holds a unit for an attempt for some time. It may be asked again.
func (s reservations) reserve(ctx context.Context, product, id uint64) error {
	for range 3 {
		got, err := s.run(ctx, product, "reserve", id, s.Params.HoldTTL.D().Milliseconds())
		switch {
		case err != nil:
			return stores.Failed("reserving a unit", err)
		case got == -1:
			return ErrSoldOut
		case got != -2:
			return nil
		}
		if _, err := s.mend(ctx, unheld, product); err != nil {
			return stores.Failed("telling Redis the stock", err)
		}
	}
	return stores.Failed("reserving a unit", errUnready)
}

// done ends a hold: its unit is sold, or free again. Where that fails the reconciler does it.
func (s reservations) done(ctx context.Context, product, id uint64, sold bool) {
	what := "release"
	if sold {
		what = "sold"
	}
	if _, err := s.run(ctx, product, what, id); err != nil {
		s.Config.Warn("ending a hold", err)
	}
}

// shown is what Redis says of a product.
type shown struct {
	left    int64
	known   bool
	changes string
	holds   map[string]int64 // by when they end, in milliseconds
	now     int64
}

// gate is what Redis says of some products.
type gate map[uint64]shown

// look reads products, each in one transaction.
func (s reservations) look(ctx context.Context, products []uint64) (gate, error) {
	type reading struct {
		left, changes *redis.StringCmd
		holds         *redis.ZSliceCmd
		now           *redis.TimeCmd
	}
	pipe, asked := s.Redis.TxPipeline(), map[uint64]reading{}
	for _, product := range products {
		keys := s.keys(product)
		asked[product] = reading{pipe.Get(ctx, keys[0]), pipe.Get(ctx, keys[2]),
			pipe.ZRangeWithScores(ctx, keys[1], 0, -1), pipe.Time(ctx)}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading what Redis says: %w", err)
	}
	all := gate{}
	for product, r := range asked {
		left, err := r.left.Int64()
		v := shown{left, err == nil, r.changes.Val(), map[string]int64{}, r.now.Val().UnixMilli()}
		for _, h := range r.holds.Val() {
			v.holds[fmt.Sprint(h.Member)] = int64(h.Score)
		}
		all[product] = v
	}
	return all, nil
}

// stock is what is available of products, and which of some attempts are decided.
func (s reservations) stock(
	ctx context.Context, products []uint64, ids []int64,
) (available map[uint64]int64, decided map[string]bool, err error) {
	available, decided = map[uint64]int64{}, map[string]bool{}
	err = s.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := stores.Each(ctx, tx, `SELECT product, available FROM inventory
			WHERE product = ANY($1)`, []any{products}, func(row pgx.CollectableRow) error {
			var product uint64
			var left int64
			err := row.Scan(&product, &left)
			available[product] = left
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		return stores.Each(ctx, tx, `SELECT op_id::text FROM attempts WHERE op_id = ANY($1)
			AND state NOT IN ('waiting', 'admitted')`, []any{ids}, func(row pgx.CollectableRow) error {
			var id string
			err := row.Scan(&id)
			decided[id] = true
			return err
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the stock: %w", err)
	}
	return available, decided, nil
}

// target is what Redis should say of a product: the units that are left, and the holds that are
// over.
type target func(product uint64, v shown, available int64, decided map[string]bool) (int64, []any)

// unheld are all available units but those that are held. A hold is over when its time is, or when
// its attempt is decided.
func unheld(_ uint64, v shown, available int64, decided map[string]bool) (left int64, over []any) {
	for id, until := range v.holds {
		if until <= v.now || decided[id] {
			over = append(over, id)
		}
	}
	return available - int64(len(v.holds)-len(over)), over
}

// mend sets Redis right about products. What changes meanwhile is left to a later mend, and
// counted.
func (s reservations) mend(
	ctx context.Context, to target, products ...uint64,
) (changing int, err error) {
	all, err := s.look(ctx, products)
	if err != nil {
		return 0, err
	}
	var ids []int64
	for _, v := range all {
		for id := range v.holds {
			if n, err := strconv.ParseInt(id, 10, 64); err == nil {
				ids = append(ids, n)
			}
		}
	}
	available, decided, err := s.stock(ctx, products, ids)
	if err != nil {
		return 0, err
	}
	s.Config.Passed(placeRead)
	for _, product := range products {
		v := all[product]
		left, over := to(product, v, available[product], decided)
		if v.known && v.left == left && len(over) == 0 {
			continue
		}
		args := append([]any{"mend", v.changes, max(0, left)}, over...)
		written, err := s.run(ctx, product, args...)
		if err != nil {
			return changing, fmt.Errorf("setting Redis right: %w", err)
		}
		changing += 1 - written
	}
	return changing, nil
}

// placeRead is where the reconciler has read both stores, and has written neither.
const placeRead = "read"

// reconciler compares Redis with the stock, and repairs it.
func reconciler(to target) role {
	return role{Name: "reconciler", Summary: "sets Redis to what the stock in Postgres says",
		Single: true, Places: []string{placeRead},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			_, err := reservations{st}.mend(ctx, to, st.Params.all()...)
			return st.Params.Reconcile.D(), err
		}}
}

func mendAll(ctx context.Context, st *opened) error {
	_, err := reservations{st}.mend(ctx, unheld, st.Params.all()...)
	return err
}

// emptyRedis begins anew with what the stock says, and with full buckets. Counts of changes go on.
func emptyRedis(ctx context.Context, st *opened) error {
	var keys []string
	for _, product := range st.Params.all() {
		keys = append(keys, reservations{st}.keys(product)[:2]...)
		keys = append(keys, roomKey(st, product))
	}
	buckets := st.Redis.Scan(ctx, 0, st.Key("edge:*"), 1000).Iterator()
	for buckets.Next(ctx) {
		keys = append(keys, buckets.Val())
	}
	err := buckets.Err()
	for some := range slices.Chunk(keys, 1000) {
		err = errors.Join(err, st.Redis.Del(ctx, some...).Err())
	}
	if err != nil {
		return fmt.Errorf("emptying Redis: %w", err)
	}
	return mendAll(ctx, st)
}

// openOrDrifted counts open attempts, and the products of which Redis is not right.
func openOrDrifted(ctx context.Context, st *opened) (left int64, what string, err error) {
	left, what, err = openAttempts(ctx, st)
	if left > 0 || err != nil {
		return left, what, err
	}
	s := reservations{st}
	all, err := s.look(ctx, st.Params.all())
	if err != nil {
		return 0, "", err
	}
	available, _, err := s.stock(ctx, st.Params.all(), nil)
	for product, units := range available {
		if v := all[product]; !v.known || v.left != units || len(v.holds) > 0 {
			left++
		}
	}
	return left, fmt.Sprintf("of %d products Redis says something else than Postgres", left), err
}

// auditGated adds what Redis says.
func auditGated(ctx context.Context, st *opened) (any, error) {
	return gated(ctx, st, st.Params.RepairLag)
}

func gated(ctx context.Context, st *opened, lag sut.Duration) (any, error) {
	a, err := auditOf(ctx, st)
	if err != nil {
		return a, err
	}
	a.Contract.RepairLagNS = int64(lag)
	all, err := reservations{st}.look(ctx, st.Params.all())
	for _, product := range slices.Sorted(maps.Keys(all)) {
		if v := all[product]; v.known {
			a.Gate = append(a.Gate, GateRow{product, v.left})
		}
	}
	return a, err
}
