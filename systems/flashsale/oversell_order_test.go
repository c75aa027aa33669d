package flashsale_test

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/systems/flashsale"
)

// TestOversellInTime: the item that was oversold first comes first, with its count, and of the
// payments those of the buys that decide are its proof.
func TestOversellInTime(t *testing.T) {
	e := goodSale(t)
	sell := func(id uint64, item string, n int, at time.Duration) {
		order := item + "-" + string(rune('a'+n))
		e.add(history.Record{Op: history.Op{ID: id, Kind: flashsale.KindBuy, Key: item,
			Client: order}, Outcome: history.OK, Reply: history.Reply{Key: order},
			Start: at, End: at + 3*ms})
		e.add(history.Record{Op: history.Op{ID: id + 1, Kind: flashsale.KindPayment, Key: order},
			Outcome: history.OK, Reply: history.Reply{Key: string(flashsale.PaymentSold)},
			Start: at + 10*ms, End: at + 11*ms})
	}
	for n := range 4 {
		sell(uint64(80_000+512*n), "item-8", n, 900*ms+time.Duration(20*n)*ms)
		sell(uint64(90_000+512*n), "item-9", n, 100*ms+time.Duration(20*n)*ms)
	}
	v := e.judge(t)[flashsale.NoOversell]
	var found []string
	for _, one := range v.Violations {
		if strings.Contains(one.Text, "were answered") {
			found = append(found, one.Text[:6])
		}
	}
	if strings.Join(found, " ") != "item-9 item-8" {
		t.Fatalf("violated in the order %q: %+v", found, v.Violations)
	}
	first := v.Violations[0]
	// The third buy went above the limit of two, and overlapped no other.
	if first.Counted == nil || first.Counted.Crossing().Op != 90_000+1024 || len(first.Ops) != 2 {
		t.Errorf("%+v", first)
	}
}
