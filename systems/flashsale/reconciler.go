package flashsale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

const (
	// reconcileEvery is how often the reconciler compares Redis and ledger.
	reconcileEvery = 250 * time.Millisecond
	// stalemate is the most that the reconciler waits for a purchase that has
	// a unit of Redis and shows no sign of life, however long buyers may wait.
	stalemate = time.Second
)

// reconciler is the role that keeps Redis in line with the ledger. For each
// item, drift = units - (stock in Redis + held + paid in the ledger):
//
//   - A missing counter, as after Redis lost its data, is rebuilt at once.
//     Until then the sale of the item is paused.
//   - A positive drift is a leak when neither side has moved for longer than a
//     purchase takes. Until then purchases may be under way.
//   - A negative drift that is seen twice in a row is Redis offering too much,
//     as after it came back with an old state.
//   - Where Redis offers a unit too many, one buyer after the other may reserve
//     it and be refused by the ledger, and the drift looks like none. Where
//     reservations have tokens, those without an order are counted too.
//
// A purchase that took a unit of the old counter may reach the ledger after the rebuild has read
// it. The new counter is then too high until the next look, and the purchase has no token; the
// ledger decides meanwhile (doubtfulKey). Each repair leaves a mark, so that a gauge can tell
// this from a fault.
func (o offered) reconciler() role {
	return role{
		Name:    "reconciler",
		Summary: "rebuilds the counters in Redis from the ledger when they are lost or drift",
		Places:  []string{placeCompared},
		Timeout: roleTimeout,
		Do: func(ctx context.Context, st *opened) error {
			shelf := o.in(st)
			r := &reconciliation{shelf: shelf, counters: shelf.counter(), lapsing: lapsing(shelf),
				mismatches: map[string]mismatch{}}
			return st.Config.Steps(ctx, func() (time.Duration, error) { return reconcileEvery, r.look(ctx) })
		},
	}
}

// lapsing are the tokens of a shelf whose reservations lapse, nil if it has none.
func lapsing(s shelf) *tokens {
	if t, has := s.(*tokens); has && t.ttl > 0 {
		return t
	}
	return nil
}

// reconciled completes a design whose counters a role keeps in line. A unit is for sale only
// when Redis has it: a return that Redis missed is found once patience is over, at the latest
// when the token lapses that a refused request left with another one.
func (o offered) reconciled(v variant) variant {
	v = o.sells(v)
	v.State.Audit = o.auditAfter(func(st *opened) time.Duration {
		wait := patience(st.Config)
		if t := lapsing(o.in(st)); t != nil {
			wait = t.ttl
		}
		return reclaimSlack(st) + wait + 2*reconcileEvery
	})
	v.State.Pending = func(ctx context.Context, st *opened) (left int64, what string, err error) {
		if left, what, err = o.held(ctx, st); err != nil {
			return 0, "", err
		}
		more, differs, err := newCounters(st).unreconciled(ctx)
		if left == 0 {
			what = differs
		}
		return left + more, what, err
	}
	v.Roles = append(v.Roles, o.reconciler())
	return v
}

// patience is how long a unit may be missing from both stores, with nothing moving, before it
// counts as lost. A purchase that takes longer makes the counter too high until the next look.
func patience(cfg sut.Config) time.Duration { return min(stores.Timeout(cfg), stalemate) }

// reconciliation remembers what looked wrong at the last look.
type reconciliation struct {
	*counters
	shelf      shelf
	mismatches map[string]mismatch
	// lapsing, if there are any, are settled before each look. They say of which items there are
	// too many units for certain, whatever their drift is.
	lapsing *tokens
}

// mismatch is an item whose counter and ledger disagreed.
type mismatch struct {
	stock, active int64
	since         time.Time // neither has changed since
}

// balance is what both sides say of an item.
type balance struct {
	item          string
	present       bool
	stock, active int64
	drift         int64
	uncommitted   int64
}

// left is what there is to reconcile of an item.
func (l balance) left() int64 {
	if !l.present {
		return 1
	}
	return max(l.drift, -l.drift) + l.uncommitted
}

// balances reads the ledger first and Redis second, so that a purchase between
// the two readings makes the drift look too positive, never too negative.
func (c *counters) balances(ctx context.Context) ([]balance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	orders, err := orderCounts(ctx, c.DB)
	if err != nil {
		return nil, err
	}
	redis, err := c.audit(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]balance, len(redis))
	for i, r := range redis {
		n := orders[r.Item].Made - orders[r.Item].Closed
		list[i] = balance{
			item: r.Item, present: r.Present, stock: r.Stock, active: n,
			drift: int64(c.Params.Units) - r.Stock - n, uncommitted: r.Holds,
		}
	}
	return list, nil
}

// unreconciled counts what the reconciler has still to do, and says what the first of it is.
func (c *counters) unreconciled(ctx context.Context) (left int64, what string, err error) {
	balances, err := c.balances(ctx)
	for _, l := range balances {
		left += l.left()
		if what == "" {
			what = l.text()
		}
	}
	return left, what, err
}

// text says what there is to reconcile of an item, or "".
func (l balance) text() string {
	switch {
	case !l.present:
		return l.item + " has no counter in Redis"
	case l.drift != 0:
		return fmt.Sprintf("%s has %d in Redis and %d active orders: drift %d",
			l.item, l.stock, l.active, l.drift)
	case l.uncommitted != 0:
		return fmt.Sprintf("%s has %d tokens that are not settled", l.item, l.uncommitted)
	}
	return ""
}

// placeCompared is where both sides have been read and nothing is repaired.
const placeCompared = "compared"

// look compares both sides once and repairs what is certainly wrong.
func (r *reconciliation) look(ctx context.Context) error {
	if r.lapsing != nil {
		if err := r.lapsing.settleLapsed(ctx); err != nil {
			return err
		}
	}
	balances, err := r.balances(ctx)
	if err != nil {
		return err
	}
	r.Config.Passed(placeCompared)
	excess := map[string]bool{}
	if r.lapsing != nil {
		if excess, err = r.lapsing.excess(ctx); err != nil {
			return err
		}
	}
	for _, l := range balances {
		if !r.wrong(l, time.Now(), patience(r.Config)) && !excess[l.item] {
			continue
		}
		if err := r.rebuild(ctx, l.item); err != nil {
			return err
		}
		r.Config.Logger.Info("flashsale reconciler rebuilt a counter", "item", l.item,
			"present", l.present, "stock", l.stock, "active", l.active, "drift", l.drift)
		delete(r.mismatches, l.item)
	}
	return nil
}

// wrong decides whether an item's counter must be rebuilt. See reconciler.
func (r *reconciliation) wrong(l balance, now time.Time, patience time.Duration) bool {
	if !l.present {
		return true
	}
	if l.drift == 0 {
		delete(r.mismatches, l.item)
		return false
	}
	before, known := r.mismatches[l.item]
	if known && l.drift < 0 {
		return true
	}
	if known && before.stock == l.stock && before.active == l.active {
		return now.Sub(before.since) > patience
	}
	r.mismatches[l.item] = mismatch{stock: l.stock, active: l.active, since: now}
	return false
}

// rebuild replaces all that Redis has of an item by what the ledger says, in
// one transaction of Redis: nobody sees a counter without its tokens.
func (r *reconciliation) rebuild(ctx context.Context, item string) error {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	owners := []any{}
	err := r.DB.Rows(ctx, `SELECT buyer, op_id FROM orders
		WHERE item = $1 AND state IN ('held', 'paid')`, []any{item},
		func(row pgx.CollectableRow) error {
			var buyer string
			var op int64
			err := row.Scan(&buyer, &op)
			owners = append(owners, buyer, tokenOf(uint64(op)))
			return err
		})
	if err != nil {
		return stores.Failed("reading the owners of "+item, err)
	}
	pipe := r.Redis.TxPipeline()
	pipe.Del(ctx, r.keys(item)...)
	pipe.Set(ctx, r.stockKey(item), r.Params.Units-len(owners)/2, 0)
	pipe.Set(ctx, r.repairKey(item), repairMark(), 0)
	pipe.Set(ctx, r.doubtfulKey(item), 1, r.doubt)
	r.shelf.restore(ctx, pipe, item, owners)
	_, err = pipe.Exec(ctx)
	return stores.Failed("rebuilding the counter of "+item, err)
}
