package flashsale_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// reconciledShops are the variants that a reconciler keeps in line.
func reconciledShops(v sut.Variant) bool {
	for _, r := range v.Roles {
		if r.Name == "reconciler" {
			return true
		}
	}
	return false
}

// gated says that unit rows in Postgres decide behind the counter in Redis.
func gated(v sut.Variant) bool { return reconciledShops(v) && correct(v) }

// rdb is the test's own connection to a shop's Redis.
func (s *shop) rdb(t testing.TB) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(s.cfg.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *shop) key(name string) string { return s.cfg.Prefix + name + ":" + item }

// forget removes all that Redis has of the sale.
func (s *shop) forget(t testing.TB) {
	t.Helper()
	keys := []string{s.key("stock"), s.key("tokens"), s.key("deadlines")}
	if err := s.rdb(t).Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) wantRedis(t testing.TB, want flashsale.RedisAudit) {
	t.Helper()
	want.Item = item
	got := s.audit(t).Redis
	if len(got) != 1 || got[0] != want {
		t.Errorf("Redis has %+v, want %+v", got, want)
	}
}

// TestRedisLoss: without its counter the sale pauses; the reconciler rebuilds
// it from the ledger, with what the ledger has sold meanwhile.
func TestRedisLoss(t *testing.T) {
	eachShop(t, smallSale(4), gated, func(t *testing.T, s *shop) {
		first := s.mustBuy(t, 1)
		s.mustBuy(t, 2)
		s.forget(t)
		_, err := s.buy(3)
		wantErr(t, "buying without a counter", err, flashsale.ErrNotReady)
		s.wantRedis(t, flashsale.RedisAudit{Present: false})

		s.mustPay(t, "p1", first.ID, false, flashsale.PaymentReleased)
		s.wantRedis(t, flashsale.RedisAudit{Present: false}) // nobody takes 1 for the stock
		stop := s.run(t, "")
		eventually(t, func() (string, error) {
			_, err := s.buy(3)
			return "", err
		})
		if left, err := s.rdb(t).PTTL(t.Context(), s.key("doubtful")).Result(); err != nil || left <= 0 {
			t.Errorf("nothing says that tokens may be missing: %v, %v", left, err)
		}
		if again, err := s.buy(2); err != nil || again.ID == "" {
			t.Errorf("repeating a request from before the loss: %+v, %v", again, err)
		}
		s.mustBuy(t, 4)
		s.mustBuy(t, 5)
		_, err = s.buy(6)
		wantErr(t, "the fifth of four units", err, flashsale.ErrSoldOut)
		stop()
		s.wantRedis(t, flashsale.RedisAudit{Present: true})
		s.wantStock(t, 0, 4, 0)
	})
}

// TestExcessOnItsWay: the unit that Redis has too many is reserved by a buyer
// whose purchase is on its way, and would be by the next. The reconciler does
// not wait for an instant at which nobody has it.
func TestExcessOnItsWay(t *testing.T) {
	s := openShop(t, "redis_reservation", smallSale(2))
	s.mustBuy(t, 1)
	s.mustBuy(t, 2)
	if err := s.rdb(t).Set(t.Context(), s.key("stock"), 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.take(t, "late", 9, 3_600_000, 1)
	s.run(t, "")
	eventually(t, func() (string, error) {
		if r := s.audit(t).Redis[0]; r.Holds != 0 || r.Stock != 0 {
			return fmt.Sprintf("Redis offers %d units and has %d reserved", r.Stock, r.Holds), nil
		}
		return "", nil
	})
}

// TestOrderWithoutToken: a purchase that was under way while the counter was rebuilt has an
// order and no token. Until that is found, a buyer who asks again with the same key gets the
// order, although Redis has nothing left; anybody else is told that it is sold out.
func TestOrderWithoutToken(t *testing.T) {
	eachShop(t, smallSale(1), gated, func(t *testing.T, s *shop) {
		order := s.mustBuy(t, 1)
		if n, err := s.rdb(t).Del(t.Context(), s.key("tokens")).Result(); err != nil || n != 1 {
			t.Fatalf("removing the tokens: %d, %v", n, err)
		}
		_, err := s.buy(1)
		wantErr(t, "asking again without a repair", err, flashsale.ErrSoldOut)
		if err := s.rdb(t).Set(t.Context(), s.key("doubtful"), 1, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if again, err := s.buy(1); err != nil || again != order {
			t.Errorf("asking again: %+v, %v; want %+v", again, err, order)
		}
		_, err = s.buy(2)
		wantErr(t, "another buyer", err, flashsale.ErrSoldOut)
	})
}

// take asks Redis for a unit, and holds it for some milliseconds, 0 for ever.
func (s *shop) take(t testing.TB, buyer string, op uint64, ttl, want int) {
	t.Helper()
	keys := []string{s.key("stock"), s.key("tokens"), s.key("deadlines"), s.key("doubtful")}
	n, err := s.rdb(t).Eval(t.Context(), flashsale.TakeTokenLua, keys, buyer, op, ttl).Int()
	if err != nil || n != want {
		t.Fatalf("taking a unit: %d, %v, want %d", n, err, want)
	}
}

// TestPrepareRefusesLeftovers: keys of another sale are not overwritten.
func TestPrepareRefusesLeftovers(t *testing.T) {
	s := reopenVariant(t, "redis_lua", config(t, smallSale(1)))
	if err := s.rdb(t).Set(t.Context(), s.key("tokens"), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.inst.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("got %v, want an error that names the prefix", err)
	}
}
