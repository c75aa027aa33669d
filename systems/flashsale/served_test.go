package flashsale_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// TestResetBeginsAnew: after a reset every variant is as if just prepared,
// whatever was sold before.
func TestResetBeginsAnew(t *testing.T) {
	eachShop(t, smallSale(3), all, func(t *testing.T, s *shop) {
		resetter, able := s.inst.(api.Resetter)
		if !able {
			t.Fatal("the variant cannot be reset")
		}
		fresh := auditOf(t, s.inst)
		for range 2 {
			for op := range uint64(3) {
				s.mustBuy(t, op+1)
			}
			if sold := auditOf(t, s.inst); len(sold.Orders) != 3 {
				t.Fatalf("%d orders, want 3", len(sold.Orders))
			}
			if err := resetter.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := auditOf(t, s.inst); !sameSale(again, fresh) {
				t.Fatalf("after the reset %+v, before the sale %+v", again, fresh)
			}
		}
	})
}

// TestResetPrepares: a variant that was never prepared may be reset too.
func TestResetPrepares(t *testing.T) {
	space := stores.Namespace(t)
	s := reopenVariant(t, "redis_lua", sut.Config{
		PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		Params: smallSale(3), MaxConns: 4, Timeout: 5 * time.Second,
	})
	if err := s.inst.(api.Resetter).Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := s.audit(t); len(a.Units) != 3 || a.Redis[0].Stock != 3 {
		t.Errorf("got %+v", a)
	}
}

func sameSale(a, b flashsale.Audit) bool {
	same := len(a.Orders) == len(b.Orders) && len(a.Units) == len(b.Units) &&
		len(a.Redis) == len(b.Redis) && len(a.Log) == len(b.Log) &&
		len(a.Payments) == len(b.Payments) && a.Items[0] == b.Items[0]
	for i := range a.Units {
		same = same && a.Units[i] == b.Units[i]
	}
	for i := range a.Redis {
		same = same && a.Redis[i] == b.Redis[i]
	}
	return same
}

// TestServedVariants: over HTTP, on real stores, a correct variant is never
// broken, for several sales of one server.
func TestServedVariants(t *testing.T) {
	for _, name := range []string{"units_skip_locked", "redis_reservation"} {
		t.Run(name, func(t *testing.T) {
			url := serveVariant(t, name)
			for seed := range uint64(2) {
				e, audit := foreignEvidence(t, url, seed)
				for name, v := range e.judgeRaw(audit) {
					if v.Status == fail {
						t.Errorf("seed %d: %s is broken: %+v", seed, name, v.Violations)
					}
				}
			}
		})
	}
}

// serveVariant serves a variant with its roles and returns the URL.
func serveVariant(t *testing.T, name string) string {
	t.Helper()
	p := foreignParams()
	space := stores.Namespace(t)
	cfg := sut.Config{
		PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		Params: &p, MaxConns: 8, Timeout: 5 * time.Second,
	}
	inst := openVariant(t, name, cfg).inst
	ctx, cancel := context.WithCancel(context.Background())
	var roles sync.WaitGroup
	for _, role := range variant(t, name).Roles {
		roles.Go(func() {
			if err := role.Run(ctx, cfg); err != nil {
				t.Errorf("role %s: %v", role.Name, err)
			}
		})
	}
	t.Cleanup(func() { cancel(); roles.Wait() })
	handler, err := flashsale.API().Handler(inst, cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}
