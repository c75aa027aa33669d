package flashsale_test

import (
	"encoding/json"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// watched are the variants with a gauge.
func watched(v sut.Variant) bool { return v.Gauge != nil }

// lookAt asks a shop's gauge once about its one item.
func (s *shop) lookAt(t testing.TB) flashsale.LookItem {
	t.Helper()
	gauge, err := variant(t, s.Name).Gauge(t.Context(), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer gauge.Close()
	body, err := gauge.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var look flashsale.Look
	if err := json.Unmarshal(body, &look); err != nil || len(look.Items) != 1 {
		t.Fatalf("the gauge saw %s: %v", body, err)
	}
	return look.Items[0]
}

// TestGauge: in every variant to which the drift applies, and in no other, the
// gauge sees what both stores have.
func TestGauge(t *testing.T) {
	for _, v := range flashsale.System().Variants {
		if _, exempt := v.NotApplicable[flashsale.RedisDrift]; exempt == watched(v) {
			t.Errorf("%s: not applicable: %t, has a gauge: %t", v.Name, exempt, watched(v))
		}
	}
	const units = 5
	eachShop(t, smallSale(units), watched, func(t *testing.T, s *shop) {
		want := flashsale.LookItem{Item: item, Present: true, Stock: units}
		s.wantLook(t, want, 0)
		s.mustBuy(t, 1)
		order := s.mustBuy(t, 2)
		s.mustPay(t, "p", order.ID, false, flashsale.PaymentReleased)
		counts := flashsale.OrderCounts{Made: 2, Closed: 1}
		want.Before, want.After, want.Stock = counts, counts, units-1
		s.wantLook(t, want, 0)
		if err := s.rdb(t).IncrBy(t.Context(), s.key("stock"), 2).Err(); err != nil {
			t.Fatal(err)
		}
		want.Stock += 2
		s.wantLook(t, want, -2)
		if err := s.rdb(t).Del(t.Context(), s.key("stock")).Err(); err != nil {
			t.Fatal(err)
		}
		want.Present, want.Stock = false, 0
		s.wantLook(t, want, units-1)
	})
}

func (s *shop) wantLook(t testing.TB, want flashsale.LookItem, drift int64) {
	t.Helper()
	got := s.lookAt(t)
	if low, high := got.Drift(5); got != want || low != drift || high != drift {
		t.Errorf("the gauge saw %+v with a drift of %d to %d, want %+v with %d",
			got, low, high, want, drift)
	}
}

// TestGaugeSeesTokensAndRepairs: a token counts until it has an order, and
// whatever the reconciler gives back or replaces leaves a mark.
func TestGaugeSeesTokensAndRepairs(t *testing.T) {
	s := openShop(t, "redis_reservation", smallSale(3))
	marks := map[string]bool{"": true}
	see := func(what string, stock, tokens, unclaimed, drift int64, repaired bool) {
		t.Helper()
		got := s.lookAt(t)
		low, high := got.Drift(3)
		if got.Stock != stock || got.Tokens != tokens || got.Unclaimed != unclaimed ||
			low != drift || high != drift || marks[got.Repair] == repaired {
			t.Errorf("%s: the gauge saw %+v with a drift of %d to %d", what, got, low, high)
		}
		marks[got.Repair] = true
	}
	s.mustBuy(t, 1)
	see("bought and committed", 2, 0, 0, 0, false)
	s.take(t, "buyer-2", 2, 200, 1)
	see("reserved without an order", 1, 1, 1, 0, false)
	s.take(t, "buyer-2", 2, 200, 2)
	see("shared by two clicks", 1, 1, 1, 0, false)
	for _, buyer := range []string{"buyer-1", "buyer-2"} {
		lapsed := redis.Z{Score: 1, Member: buyer}
		if err := s.rdb(t).ZAdd(t.Context(), s.key("deadlines"), lapsed).Err(); err != nil {
			t.Fatal(err)
		}
	}
	see("lapsed", 1, 2, 1, 0, false)
	if err := s.SettleLapsed(t.Context()); err != nil {
		t.Fatal(err)
	}
	see("given back by the reconciler", 2, 0, 0, 0, true)
	for range 2 {
		if err := s.rdb(t).Incr(t.Context(), s.key("stock")).Err(); err != nil {
			t.Fatal(err)
		}
		see("one too many", 3, 0, 0, -1, false)
		if err := s.Rebuild(t.Context(), item); err != nil {
			t.Fatal(err)
		}
		see("rebuilt", 2, 0, 0, 0, true)
	}
}

// TestDriftBounds: what the gauge makes of three readings holds at the moment
// of the middle one, whatever happens in between.
func TestDriftBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawSale(t)
		for i, s := range e.samples {
			if !s.Seen() {
				continue
			}
			var look flashsale.Look
			if err := json.Unmarshal(s.Body, &look); err != nil {
				t.Fatal(err)
			}
			for _, l := range look.Items {
				low, high := l.Drift(int64(e.params.Units))
				if drift := e.drifts[i][l.Item]; drift < low || drift > high {
					t.Fatalf("sample %d: a drift of %d is not between %d and %d: %+v",
						i, drift, low, high, l)
				}
			}
		}
	})
}
