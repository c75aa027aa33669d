package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// connect opens a connection of the test's own to a shop's database.
func connect(t testing.TB, s *shop) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.cfg.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// blocked waits until so many sessions of a database wait for a lock.
func blocked(t testing.TB, watch *pgx.Conn, sessions int) {
	t.Helper()
	eventually(t, func() (string, error) {
		var n int
		err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil || n < sessions {
			return fmt.Sprintf("%d of %d sessions wait for a lock", n, sessions), err
		}
		return "", nil
	})
}

// TestBlockedBuyerLeaves: a buyer who waits for a lock in Postgres and gives
// up returns, does not know the outcome, and leaves the shop in order.
func TestBlockedBuyerLeaves(t *testing.T) {
	blocks := map[string]string{
		"counter_row":        `SELECT FROM items FOR UPDATE`,
		"conditional_update": `SELECT FROM items FOR UPDATE`,
		"naive_read_write":   `SELECT FROM items FOR UPDATE`,
		"for_update":         `SELECT FROM units FOR UPDATE`,
		"units_skip_locked":  `SELECT FROM units FOR UPDATE`,
		"units_grouped":      `SELECT FROM units FOR UPDATE`,
		"redis_lua":          `SELECT FROM units FOR UPDATE`,
	}
	for name, lock := range blocks {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, name, smallSale(1))
			blocker, watch := connect(t, s), connect(t, s)
			execute(t, blocker, `BEGIN`)
			execute(t, blocker, lock)
			ctx, leave := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() {
				_, err := s.Buy(ctx, request(1, "impatient"))
				result <- err
			}()
			blocked(t, watch, 1)
			leave()
			err := <-result
			if err == nil || errors.Is(err, sut.ErrRefused) {
				t.Errorf("got %v, want an unknown outcome", err)
			}
			execute(t, blocker, `ROLLBACK`)
			// Whether the abandoned statement still ran or not, the key settles it.
			eventually(t, func() (string, error) {
				_, err := s.Buy(t.Context(), request(1, "impatient"))
				return "", err
			})
			s.wantStock(t, 0, 1, 0)
		})
	}
}

// TestQueuedBuyerLeaves: who leaves before the group was sent has certainly
// bought nothing.
func TestQueuedBuyerLeaves(t *testing.T) {
	s := openShop(t, "units_grouped", smallSale(2))
	blocker, watch := connect(t, s), connect(t, s)
	execute(t, blocker, `BEGIN`)
	execute(t, blocker, `LOCK TABLE orders`)
	first := make(chan error, 1)
	go func() {
		_, err := s.buy(1)
		first <- err
	}()
	blocked(t, watch, 1) // the first group is being served; all others queue
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := s.Buy(ctx, request(2, "buyer-2"))
	wantErr(t, "leaving the queue", err, sut.ErrRefused)
	wantErr(t, "leaving the queue", err, context.Canceled)
	execute(t, blocker, `ROLLBACK`)
	if err := <-first; err != nil {
		t.Errorf("the first buyer: %v", err)
	}
	s.wantStock(t, 1, 1, 0)
}

// TestSoldOutWaitsForLocks: a unit that is locked by a buyer who then fails is
// not denied to the next one.
func TestSoldOutWaitsForLocks(t *testing.T) {
	for _, name := range []string{"units_skip_locked", "units_grouped", "for_update"} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, name, smallSale(1))
			failing, watch := connect(t, s), connect(t, s)
			execute(t, failing, `BEGIN`)
			execute(t, failing, `SELECT FROM units FOR UPDATE`)
			result := make(chan error, 1)
			go func() {
				_, err := s.buy(1)
				result <- err
			}()
			blocked(t, watch, 1)
			execute(t, failing, `ROLLBACK`)
			if err := <-result; err != nil {
				t.Errorf("the unit came free and the buyer who waited got: %v", err)
			}
		})
	}
}

// overdue makes every cart look as old as it must be to be reclaimed.
func overdue(t testing.TB, conn *pgx.Conn, s *shop) (by time.Duration) {
	t.Helper()
	by = s.cfg.Params.(*flashsale.Params).CartTTL.D() + time.Second
	for _, sql := range []string{
		`UPDATE orders SET held_at = held_at - $1 * interval '1 second'`,
		`UPDATE order_log SET at = at - $1 * interval '1 second'`,
	} {
		execute(t, conn, sql, by.Seconds())
	}
	return by
}

// reclaimers are ways to return a cart that is overdue. The second is the
// classic mistake: it finds carts first and returns them by their number
// later, whatever has become of them meanwhile.
var reclaimers = []struct {
	name   string
	find   string // remembers what is due
	sql    string // returns it
	args   []any
	breaks []string
}{{
	name: "guarded by state",
	find: `CREATE TEMP TABLE due AS SELECT id FROM orders WHERE false`,
	sql:  flashsale.ReclaimSQL(),
	args: []any{smallSale(1).CartTTL.D().Microseconds(), 100},
}, {
	name: "by number only",
	find: `CREATE TEMP TABLE due AS SELECT id FROM orders WHERE state = 'held'`,
	sql: `WITH closed AS (
		UPDATE orders SET state = 'expired', closed_at = clock_timestamp()
		FROM due WHERE orders.id = due.id
		RETURNING orders.id, item, unit_no, closed_at
	), freed AS (
		UPDATE units SET state = 'available', order_id = NULL, version = units.version + 1
		FROM closed WHERE units.item = closed.item AND units.unit_no = closed.unit_no
		RETURNING closed.id, units.version
	)
	INSERT INTO order_log (order_id, item, unit_no, version, from_state, to_state, cause, at)
	SELECT id, item, unit_no, version, 'held', 'available', 'expired', closed_at
	FROM closed JOIN freed USING (id)`,
	breaks: []string{flashsale.PaymentExactlyOnce, flashsale.UnitPath},
}}

// TestReclaimerMeetsWebhook pays a cart between the moment a reclaimer looks
// for overdue carts and the moment it returns them. The guarded reclaimer
// leaves the paid unit alone; the other puts it back on the shelf, and the
// invariants must see that.
func TestReclaimerMeetsWebhook(t *testing.T) {
	for _, r := range reclaimers {
		t.Run(r.name, func(t *testing.T) {
			s := openShop(t, "units_skip_locked", smallSale(2))
			records := &recording{inst: s.inst}
			order := records.do(t, flashsale.KindBuy, item, "ann", 0).Key
			session := connect(t, s)
			records.later = overdue(t, session, s)
			execute(t, session, r.find)
			records.do(t, flashsale.KindPayment, order, "pay-1", flashsale.DefaultParams().PriceCents)
			execute(t, session, r.sql, r.args...)
			invariants := flashsale.Invariants(*s.cfg.Params.(*flashsale.Params))
			verdicts := suttest.Verdicts(invariants, history.Slice(records.done),
				suttest.Encoded(t, s.audit(t)))
			for name, v := range verdicts {
				if wanted := slices.Contains(r.breaks, name); wanted && v.Status != fail ||
					len(r.breaks) == 0 && v.Status == fail {
					t.Errorf("%s is %s: %+v", name, v.Status, v.Violations)
				}
			}
		})
	}
}

// TestWebhookWaitsForReclaimer: a webhook that arrives while a reclaimer is
// about to return its cart waits, then finds it gone and refunds; if the
// reclaimer fails, it sells.
func TestWebhookWaitsForReclaimer(t *testing.T) {
	ends := map[string]flashsale.PaymentState{
		"COMMIT": flashsale.PaymentRefunded, "ROLLBACK": flashsale.PaymentSold,
	}
	for end, want := range ends {
		for _, name := range []string{"units_skip_locked", "redis_lua"} {
			t.Run(name+" "+end, func(t *testing.T) {
				s := openShop(t, name, smallSale(1))
				order := s.mustBuy(t, 1)
				reclaimer, watch := connect(t, s), connect(t, s)
				overdue(t, reclaimer, s)
				execute(t, reclaimer, `BEGIN`)
				ttl := s.cfg.Params.(*flashsale.Params).CartTTL.D()
				execute(t, reclaimer, flashsale.ReclaimSQL(), ttl.Microseconds(), 100)
				paid := make(chan flashsale.PaymentState, 1)
				go func() {
					state, err := s.pay("p1", order.ID, true)
					if err != nil {
						t.Errorf("payment: %v", err)
					}
					paid <- state
				}()
				blocked(t, watch, 1)
				execute(t, reclaimer, end)
				if got := <-paid; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// TestTokenOfTwoClicks: two clicks with one key meet at the last unit. The one
// that took the token comes second and is refused, the other one has the order:
// the token is the order's and must not go back.
func TestTokenOfTwoClicks(t *testing.T) {
	for _, name := range []string{"redis_lua", "redis_reservation"} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, name, smallSale(1))
			blocker, watch := connect(t, s), connect(t, s)
			execute(t, blocker, `BEGIN`)
			execute(t, blocker, `SELECT FROM units FOR UPDATE`)
			s.take(t, "buyer-1", 1, 0, 1)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := s.buy(1)
				first <- err
			}()
			blocked(t, watch, 1)
			go func() {
				_, err := s.ClaimAdmitted(t.Context(), request(1, "buyer-1"))
				second <- err
			}()
			blocked(t, watch, 2)
			execute(t, blocker, `ROLLBACK`)
			if err := <-first; err != nil {
				t.Errorf("the click that was first in the ledger: %v", err)
			}
			wantErr(t, "the other click", <-second, flashsale.ErrSoldOut)
			l := s.lookAt(t)
			if low, high := l.Drift(1); low != 0 || high != 0 {
				t.Errorf("one unit is sold, and Redis has %d: a drift of %d to %d", l.Stock, low, high)
			}
		})
	}
}

// TestReclaimerSkipsLockedCarts: a payment under way does not hold up the
// return of other carts.
func TestReclaimerSkipsLockedCarts(t *testing.T) {
	s := openShop(t, "units_skip_locked", smallSale(2))
	paying := s.mustBuy(t, 1)
	s.mustBuy(t, 2)
	payment, reclaimer := connect(t, s), connect(t, s)
	overdue(t, reclaimer, s)
	execute(t, payment, `BEGIN`)
	execute(t, payment, `SELECT FROM orders WHERE id = $1::text::bigint FOR UPDATE`, paying.ID)
	ttl := s.cfg.Params.(*flashsale.Params).CartTTL.D()
	execute(t, reclaimer, flashsale.ReclaimSQL(), ttl.Microseconds(), 100)
	execute(t, payment, `ROLLBACK`)
	s.wantStock(t, 1, 1, 0)
	s.mustPay(t, "p1", paying.ID, true, flashsale.PaymentSold)
}

// recording performs operations and keeps their records.
type recording struct {
	inst  sut.Instance
	done  []history.Record
	later time.Duration // by how much times of the ledger were moved
}

func (r *recording) do(t testing.TB, kind, key, client string, arg int64) history.Reply {
	t.Helper()
	at := time.Duration(len(r.done)+1)*time.Second + r.later
	op := history.Op{ID: uint64(len(r.done)+1) << 8, Kind: kind, Key: key, Client: client, Arg: arg}
	reply, err := r.inst.Do(t.Context(), op)
	if err != nil {
		t.Fatalf("%s: %v", op.Kind, err)
	}
	r.done = append(r.done, history.Record{Seq: uint64(len(r.done)), Op: op, Reply: reply,
		Outcome: history.OK, Intended: at, Start: at, End: at + time.Millisecond})
	return reply
}
