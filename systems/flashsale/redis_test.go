package flashsale_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/env"
	"stampede/harness/fault"
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
		stop := runRoles(t, s)
		eventually(t, func() (string, error) {
			_, err := s.buy(3)
			return "", err
		})
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

// TestRedisOnlyForgets: without a ledger behind it the counter comes back full.
func TestRedisOnlyForgets(t *testing.T) {
	s := openShop(t, "redis_only", smallSale(2))
	s.mustBuy(t, 1)
	s.mustBuy(t, 2)
	_, err := s.buy(3)
	wantErr(t, "the third of two units", err, flashsale.ErrSoldOut)
	s.forget(t)
	s.mustBuy(t, 4)
	s.wantStock(t, -1, 3, 0)
}

// TestRedisTooHigh: a Redis that came back with an old state offers units that
// are gone; the ledger refuses them and the reconciler corrects the counter.
func TestRedisTooHigh(t *testing.T) {
	eachShop(t, smallSale(2), gated, func(t *testing.T, s *shop) {
		s.mustBuy(t, 1)
		s.mustBuy(t, 2)
		s.forget(t)
		if err := s.rdb(t).Set(t.Context(), s.key("stock"), 2, 0).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := s.buy(3)
		wantErr(t, "a unit that Redis has and the ledger has not", err, flashsale.ErrSoldOut)
		s.wantRedis(t, flashsale.RedisAudit{Present: true, Stock: 2})
		runRoles(t, s)
		eventually(t, func() (string, error) {
			if r := s.audit(t).Redis[0]; r.Stock != 0 {
				return fmt.Sprintf("Redis offers %d units", r.Stock), nil
			}
			return "", nil
		})
		s.wantStock(t, 0, 2, 0)
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
	keys := []string{s.key("stock"), s.key("tokens"), s.key("deadlines")}
	taken := s.rdb(t).Eval(t.Context(), flashsale.TakeTokenLua, append(keys, s.key("doubtful")),
		"late", 9, 3_600_000)
	if n, err := taken.Int(); err != nil || n != 1 {
		t.Fatalf("taking a unit: %d, %v", n, err)
	}
	runRoles(t, s)
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

// TestRebuildIsDoubtful: a rebuilt counter says for a time that tokens may be missing.
func TestRebuildIsDoubtful(t *testing.T) {
	s := openShop(t, "redis_lua", smallSale(2))
	s.mustBuy(t, 1)
	s.forget(t)
	runRoles(t, s)
	eventually(t, func() (string, error) {
		left, err := s.rdb(t).PTTL(t.Context(), s.key("doubtful")).Result()
		if err == nil && left <= 0 {
			return "nothing says so", nil
		}
		return "", err
	})
}

// TestLeak: a unit that was taken from Redis and never reached the ledger
// comes back for sale.
func TestLeak(t *testing.T) {
	eachShop(t, smallSale(1), gated, func(t *testing.T, s *shop) {
		s.abandon(t, "vanished", 9)
		_, err := s.buy(1)
		wantErr(t, "the unit that vanished", err, flashsale.ErrSoldOut)
		runRoles(t, s)
		eventually(t, func() (string, error) {
			_, err := s.buy(1)
			return "", err
		})
		reconciled(t, s)
		s.wantRedis(t, flashsale.RedisAudit{Present: true})
		s.wantStock(t, 0, 1, 0)
	})
}

// abandon takes a unit from Redis for an operation that dies there.
func (s *shop) abandon(t testing.TB, buyer string, op uint64) {
	t.Helper()
	if n := s.take(t, buyer, op); n != 1 {
		t.Fatalf("taking a unit: %d, want 1", n)
	}
}

// take asks Redis for a unit and returns its answer.
func (s *shop) take(t testing.TB, buyer string, op uint64) int {
	t.Helper()
	ttl := 0
	if s.Name == "redis_reservation" {
		ttl = 200
	}
	keys := []string{s.key("stock"), s.key("tokens"), s.key("deadlines")}
	keys = append(keys, s.key("doubtful"))
	n, err := s.rdb(t).Eval(t.Context(), flashsale.TakeTokenLua, keys, buyer, op, ttl).Int()
	if err != nil {
		t.Fatalf("taking a unit: %v", err)
	}
	return n
}

// TestLapsedTokenOfAnOrder: a purchase that died between ledger and commit
// keeps its unit when its token lapses.
func TestLapsedTokenOfAnOrder(t *testing.T) {
	s := openShop(t, "redis_reservation", smallSale(2))
	order := s.mustBuy(t, 1)
	lapsed := redis.Z{Score: 1, Member: "buyer-1"}
	if err := s.rdb(t).ZAdd(t.Context(), s.key("deadlines"), lapsed).Err(); err != nil {
		t.Fatal(err)
	}
	s.wantRedis(t, flashsale.RedisAudit{Present: true, Stock: 1, Holds: 1})
	runRoles(t, s)
	eventually(t, func() (string, error) {
		if r := s.audit(t).Redis[0]; r.Holds > 0 {
			return "the token is not settled", nil
		}
		return "", nil
	})
	s.wantRedis(t, flashsale.RedisAudit{Present: true, Stock: 1})
	s.mustPay(t, "p1", order.ID, true, flashsale.PaymentSold)
}

// behindProxy puts a proxy before the shop's Redis and opens its variant once
// more behind it.
func (s *shop) behindProxy(t testing.TB, limit time.Duration) (*shop, *fault.Proxy) {
	t.Helper()
	// A store that is started again may have another address.
	upstream := stores.Cluster(t).Component(sut.Redis).Addr
	proxy, err := fault.NewProxy(t.Context(), "redis", upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	cfg := s.cfg
	cfg.Timeout = limit
	if cfg.RedisURL, err = fault.Rewrite(s.cfg.RedisURL, proxy.Addr()); err != nil {
		t.Fatal(err)
	}
	return reopenVariant(t, s.Name, cfg), proxy
}

// TestLostAck: the reply of the script is lost after it ran. The driver that
// retries silently takes another unit; with retries off and a token the buyer
// does not know, asks again, and has one unit of one.
func TestLostAck(t *testing.T) {
	const units = 10
	t.Run("silent retry", func(t *testing.T) {
		s := openShop(t, "redis_lua_silent_retry", smallSale(units))
		behind, proxy := s.behindProxy(t, 2*time.Second)
		behind.mustBuy(t, 1) // the script is known, the connection open
		proxy.Impose(fault.Condition{LoseDown: true})
		bought := make(chan error, 1)
		go func() {
			_, err := behind.buy(2)
			bought <- err
		}()
		rdb := s.rdb(t)
		eventually(t, func() (string, error) {
			n, err := rdb.Get(t.Context(), s.key("stock")).Int()
			switch {
			case n > units-2:
				return "the script has not run", err
			case proxy.Stats().LostDown == 0:
				return "its reply is not lost yet", err
			}
			return "", err
		})
		proxy.Heal()
		if err := <-bought; err != nil {
			t.Errorf("the retry was not silent: %v", err)
		}
		if got := s.audit(t).Redis[0].Stock; got >= units-2 {
			t.Errorf("2 units are sold and Redis has %d of %d: nothing leaked", got, units)
		}
	})
	for _, name := range []string{"redis_lua", "redis_lua_pipelined", "redis_reservation"} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, name, smallSale(units))
			behind, proxy := s.behindProxy(t, 2*time.Second)
			behind.mustBuy(t, 1)
			proxy.Impose(fault.Condition{LoseDown: true})
			if _, err := behind.buy(2); err == nil || isRefused(err) {
				t.Errorf("got %v, want an unknown outcome", err)
			}
			s.wantStock(t, units-1, 1, 0)
			proxy.Heal()
			eventually(t, func() (string, error) {
				_, err := behind.buy(2)
				return "", err
			})
			s.wantStock(t, units-2, 2, 0)
			if got := s.audit(t).Redis[0].Stock; got != units-2 {
				t.Errorf("Redis has %d of %d units after 2 were sold", got, units)
			}
		})
	}
}

// TestRedisKilled kills Redis in the middle of a sale and lets it come back
// without its data: whatever it forgot, nothing is oversold, and in the end
// both stores agree.
func TestRedisKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills real stores; -short was given")
	}
	breakable, ok := stores.Cluster(t).Component(sut.Redis).(env.Breakable)
	if !ok {
		t.Skip("this backend's Redis cannot be killed")
	}
	const units, buyers = 100, 400
	eachShop(t, smallSale(units), gated, func(t *testing.T, direct *shop) {
		s, _ := direct.behindProxy(t, direct.cfg.Timeout)
		runRoles(t, s)
		var crowd sync.WaitGroup
		half := make(chan struct{})
		for g := range uint64(16) {
			crowd.Go(func() {
				for k := range uint64(buyers / 16) {
					_, _ = s.buy(g*1000 + k + 1)
					if g == 0 && k == 3 {
						close(half)
					}
				}
			})
		}
		<-half
		if _, err := breakable.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := breakable.Start(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		crowd.Wait()
		reconciled(t, s)
		s.buyOut(t, 1_000_000)
		reconciled(t, s)
		s.wantStock(t, 0, units, 0)
		s.wantRedis(t, flashsale.RedisAudit{Present: true})
	})
}

// buyOut lets new buyers come, each until they have a unit or are told that
// there is none; drivers that have just lost Redis need a moment to notice
// that it is back.
func (s *shop) buyOut(t testing.TB, op uint64) {
	t.Helper()
	for soldOut := false; !soldOut; op++ {
		eventually(t, func() (string, error) {
			_, err := s.buy(op)
			if soldOut = errors.Is(err, flashsale.ErrSoldOut); soldOut {
				return "", nil
			}
			return "", err
		})
	}
}

// reconciled waits until both stores agree; carts may still be held.
func reconciled(t testing.TB, s *shop) {
	t.Helper()
	eventually(t, func() (string, error) { return s.Unreconciled(t.Context()) })
}

// TestReconcilerDecides: when a difference between the stores is a fault.
func TestReconcilerDecides(t *testing.T) {
	const patience = time.Second
	type look struct {
		after         time.Duration
		present       bool
		stock, active int64 // of 10 units
		rebuild       bool
	}
	tests := map[string][]look{
		"in line": {{0, true, 7, 3, false}, {patience * 9, true, 7, 3, false}},
		"lost":    {{0, false, 0, 3, true}},
		"purchases under way": {
			{0, true, 6, 3, false}, {patience / 2, true, 6, 3, false}, {patience, true, 6, 4, false}},
		"always others": {
			{0, true, 6, 3, false}, {2 * patience, true, 5, 4, false}, {4 * patience, true, 4, 5, false}},
		"leak": {
			{0, true, 6, 3, false}, {patience, true, 6, 3, false}, {patience + 1, true, 6, 3, true}},
		"leak that was none": {
			{0, true, 6, 3, false}, {patience, true, 7, 3, false}, {2 * patience, true, 6, 3, false}},
		"too high once":        {{0, true, 8, 3, false}, {patience, true, 7, 3, false}},
		"too high twice":       {{0, true, 8, 3, false}, {1, true, 8, 3, true}},
		"too high and changed": {{0, true, 8, 3, false}, {1, true, 7, 4, true}},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			decide := flashsale.NewReconcilerRule(10, patience)
			for i, l := range looks {
				if got := decide(l.after, l.present, l.stock, l.active); got != l.rebuild {
					t.Errorf("look %d: rebuild = %t, want %t", i, got, l.rebuild)
				}
			}
		})
	}
}

// TestPrepareRefusesLeftovers: keys of another sale are not overwritten.
func TestPrepareRefusesLeftovers(t *testing.T) {
	space := stores.Namespace(t)
	cfg := sut.Config{PostgresURL: space.PostgresURL, RedisURL: space.RedisURL,
		Prefix: space.Prefix, Params: smallSale(1), Timeout: 5 * time.Second}
	s := reopenVariant(t, "redis_lua", cfg)
	if err := s.rdb(t).Set(t.Context(), s.key("tokens"), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.inst.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("got %v, want an error that names the prefix", err)
	}
}
