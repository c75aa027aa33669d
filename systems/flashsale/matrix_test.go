package flashsale_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// TestDiskFull: while Postgres cannot write, nobody is sold anything and
// everybody is told so for certain; what was taken elsewhere is given back, and
// the sale goes on when there is room. The server answers here as it does when
// its disk is full.
func TestDiskFull(t *testing.T) {
	// A cashier keeps the line waiting until there is room, rather than refuse.
	answers := func(v sut.Variant) bool { return correct(v) && v.Name != lineOnly }
	eachShop(t, smallSale(3), answers, func(t *testing.T, s *shop) {
		s.mustBuy(t, 1)
		s.postgres(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'could not extend file: No space left on device'
			USING ERRCODE = 'disk_full'; END $$;
			CREATE TRIGGER full_disk BEFORE INSERT ON orders EXECUTE FUNCTION full_disk()`)
		for op := range uint64(4) {
			_, err := s.buy(op + 2)
			wantErr(t, "buying with a full disk", err, sut.ErrRefused)
		}
		s.wantStock(t, 2, 1, 0)
		for _, r := range s.audit(t).Redis {
			if r.Stock != 2 {
				t.Errorf("Redis has %d units, the ledger 2", r.Stock)
			}
		}
		s.postgres(t, `DROP TRIGGER full_disk ON orders`)
		s.mustBuy(t, 2)
		s.mustBuy(t, 3)
		s.wantStock(t, 0, 3, 0)
	})
}

// postgres runs statements beside the shop.
func (s *shop) postgres(t testing.TB, statements string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.cfg.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// TestSkewedClockIsCaught: a reclaimer that goes by the clock of its own
// machine, which is ahead, returns carts too early. The others give the
// database a length of time, never a moment, so that no clock but its own counts.
func TestSkewedClockIsCaught(t *testing.T) {
	sys := flashsale.System()
	sys.Variants = []sut.Variant{flashsale.AppClockReclaimer()}
	suttest.Exercise(t, suttest.Suite{
		System: sys, Params: crowd(), Space: stores.Namespace, Seed: 1, Ops: 1200, Summary: summary,
		Undecided: shortSale(),
	})
}
