package flashsale_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

func newLoad(t tb, seed uint64, p flashsale.Params) sut.Workload {
	t.Helper()
	load, err := flashsale.NewWorkload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	return load
}

// TestBadParams: every bad field is named, all at once.
func TestBadParams(t *testing.T) {
	p := flashsale.Params{
		Items: 0, Units: -1, PriceCents: 0, Buyers: -1, ItemSkew: "hott",
		PaySuccess: 1.5, PayFailure: -0.1, PayTwice: math.NaN(), PayLate: 2,
		LateSpread: sut.Duration(time.Second), ClickTwice: 0.7, BuyAgain: 0.7, StockReads: 17,
		RetryOnLost: 16, PayDelay: sut.Duration(2 * time.Hour), PaySpread: sut.Duration(-1),
	}
	_, err := flashsale.NewWorkload(1, p)
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{
		"items: expected 1 to 10000, got 0", "units: expected 1 to 10000000, got -1",
		"price_cents: expected 1 to 1000000000", "buyers: expected 0 or more",
		`item_skew: expected uniform, zipf, hot or moving, got "hott"`,
		"cart_ttl: expected a duration from 1ms", "reclaim_every:",
		"pay_success: expected a number from 0 to 1, got 1.5", "pay_failure:", "pay_twice:",
		"pay_late:", "late_spread: expected at most cart_ttl", "pay_delay:", "pay_spread:",
		"buy_again: click_twice and buy_again add up to 1.4", "stock_reads:",
		"retry_on_lost: expected 0 to 15, got 16",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not say %q:\n%v", field, err)
		}
	}
	p = flashsale.DefaultParams()
	p.Items, p.Units = 10_000, 10_000
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "units: 10000 items of") {
		t.Errorf("too many units in all: %v", err)
	}
}

// TestWorkloadIsPure: the same seed gives the same operations in any order,
// another seed others.
func TestWorkloadIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		p := flashsale.DefaultParams()
		p.Items = rapid.IntRange(1, 5).Draw(t, "items")
		a, b := newLoad(t, seed, p), newLoad(t, seed, p)
		i := rapid.Uint64Range(0, 1<<40).Draw(t, "i")
		b.Op(i + 7)
		op := a.Op(i)
		if !reflect.DeepEqual(op, b.Op(i)) || !reflect.DeepEqual(op, a.Op(i)) {
			t.Fatal("Op is not a function of i")
		}
		outcome := rapid.SampledFrom([]history.Outcome{
			history.OK, history.Unknown, history.Refused}).Draw(t, "outcome")
		reply := history.Reply{Key: "o1"}
		if !reflect.DeepEqual(a.Follow(op, outcome, reply), b.Follow(op, outcome, reply)) {
			t.Fatal("Follow is not a function of its arguments")
		}
	})
	same := 0
	a, b := newLoad(t, 1, flashsale.DefaultParams()), newLoad(t, 2, flashsale.DefaultParams())
	for i := range uint64(100) {
		if reflect.DeepEqual(a.Follow(a.Op(i), history.OK, history.Reply{}),
			b.Follow(b.Op(i), history.OK, history.Reply{})) {
			same++
		}
	}
	if same > 40 {
		t.Errorf("%d of 100 journeys are the same for two seeds", same)
	}
}

// journey is everything that scheduled operations bring about, if outcomes
// are as told.
func journey(
	load sut.Workload, ops int, tell func(history.Op) (history.Outcome, history.Reply),
) []sut.FollowUp {
	var out []sut.FollowUp
	for i := range ops {
		queue := []sut.FollowUp{{Op: load.Op(uint64(i))}}
		for len(queue) > 0 {
			next := queue[0]
			queue = queue[1:]
			out = append(out, next)
			outcome, reply := tell(next.Op)
			queue = append(queue, load.Follow(next.Op, outcome, reply)...)
		}
	}
	return out
}

func allOK(op history.Op) (history.Outcome, history.Reply) {
	return history.OK, history.Reply{Key: fmt.Sprintf("o%d", op.ID)}
}

func allUnknown(history.Op) (history.Outcome, history.Reply) {
	return history.Unknown, history.Reply{}
}

// TestIdentities: an identity belongs to one purchase, delivery or read, and
// its attempts differ only in Arg.
func TestIdentities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := flashsale.DefaultParams()
		p.RetryOnLost = rapid.IntRange(0, 15).Draw(t, "retries")
		p.StockReads = rapid.Float64Range(0, 16).Draw(t, "reads")
		load := newLoad(t, rapid.Uint64().Draw(t, "seed"), p)
		mixed := func(op history.Op) (history.Outcome, history.Reply) {
			if (op.ID^uint64(op.Arg))%3 == 0 {
				return allUnknown(op)
			}
			return allOK(op)
		}
		known := make(map[uint64]history.Op)
		for _, next := range journey(load, 50, mixed) {
			op := next.Op
			if next.After < 0 || op.ID == 0 || op.Client == "" || op.Key == "" {
				t.Fatalf("incomplete operation %+v after %v", op, next.After)
			}
			first, seen := known[op.ID]
			if !seen {
				known[op.ID] = op
				continue
			}
			if op.Kind == flashsale.KindBuy {
				op.Arg = first.Arg
			}
			if op.Kind != flashsale.KindBuy || !reflect.DeepEqual(op, first) {
				t.Fatalf("%+v and %+v share an identity", first, next.Op)
			}
		}
	})
}

// TestRetriesAreBounded: a buy and each delivery are sent at most RetryOnLost
// times more, with growing pauses.
func TestRetriesAreBounded(t *testing.T) {
	p := flashsale.DefaultParams()
	p.RetryOnLost, p.ClickTwice, p.BuyAgain = 3, 0, 0
	load := newLoad(t, 1, p)
	buys, deliveries := make(map[uint64]int), make(map[string]int)
	last := time.Duration(0)
	lost := func(op history.Op) (history.Outcome, history.Reply) {
		if op.Kind == flashsale.KindBuy && op.Arg == 3 {
			return allOK(op)
		}
		return allUnknown(op)
	}
	for _, next := range journey(load, 200, lost) {
		switch next.Op.Kind {
		case flashsale.KindBuy:
			if n := int64(buys[next.Op.ID]); next.Op.Arg != n {
				t.Fatalf("attempt %d has Arg %d", n, next.Op.Arg)
			}
			if next.Op.Arg > 1 && next.After != 2*last {
				t.Fatalf("attempt %d after %v, the one before after %v", next.Op.Arg, next.After, last)
			}
			last = next.After
			buys[next.Op.ID]++
		case flashsale.KindPayment:
			deliveries[next.Op.Client]++
		}
	}
	for id, n := range buys {
		if n != 4 {
			t.Errorf("buy %d was sent %d times, want 4", id, n)
		}
	}
	if len(deliveries) == 0 {
		t.Error("no payments")
	}
	for payment, n := range deliveries {
		if n != 4 && n != 8 {
			t.Errorf("%s was delivered %d times, want 4, or 8 if it is sent twice", payment, n)
		}
	}
}

// TestShares: journeys occur as often as the parameters say.
func TestShares(t *testing.T) {
	p := flashsale.DefaultParams()
	p.StockReads = 1.5
	p.ClickTwice, p.BuyAgain = 0.3, 0.2
	load := newLoad(t, 7, p)
	const ops = 40_000
	buyers, clicks, again := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	paid, failed, late, twice, reads := 0.0, 0.0, 0.0, 0.0, 0.0
	orders := 0.0
	first := p.CartTTL.D() - p.LateSpread.D()
	for _, next := range journey(load, ops, allOK) {
		op := next.Op
		switch {
		case op.Kind == flashsale.KindStock:
			reads++
		case op.Kind == flashsale.KindPayment && op.ID&0x10 != 0:
			twice++
		case op.Kind == flashsale.KindPayment && op.Arg < 0:
			failed++
		case op.Kind == flashsale.KindPayment:
			paid++
			if next.After >= first {
				late++
			}
		case op.Arg != 0:
			clicks[op.Client] = true
		case op.ID&1 != 0:
			again[op.Client] = true
			orders++
		default:
			buyers[op.Client] = true
			orders++
		}
	}
	n := float64(len(buyers))
	near(t, "buyers that click twice", float64(len(clicks))/n, p.ClickTwice)
	near(t, "buyers that buy again", float64(len(again))/n, p.BuyAgain)
	near(t, "paid", paid/orders, p.PaySuccess)
	near(t, "failed", failed/orders, p.PayFailure)
	near(t, "late", late/paid, p.PayLate)
	near(t, "delivered twice", twice/(paid+failed), p.PayTwice)
	near(t, "stock reads", reads/n, p.StockReads)
	// A quarter of the second requests take the place of another buyer's first.
	near(t, "buyers for each operation", n/ops, 1/(1+0.25*(p.ClickTwice+p.BuyAgain)))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.015 {
		t.Errorf("%s: %.4f, want about %.4f", what, got, want)
	}
}

// TestBuyers: without a number each operation has a buyer of its own; with
// one, they take turns.
func TestBuyers(t *testing.T) {
	p := flashsale.DefaultParams()
	p.ClickTwice, p.BuyAgain = 0, 0
	for _, c := range []struct{ buyers, want int }{{0, 1000}, {1000, 1000}, {250, 250}} {
		p.Buyers = c.buyers
		load := newLoad(t, 3, p)
		turns := make(map[string]int)
		for i := range uint64(1000) {
			turns[load.Op(i).Client]++
		}
		if len(turns) != c.want {
			t.Errorf("buyers %d: %d distinct in 1000, want %d", c.buyers, len(turns), c.want)
		}
		for buyer, n := range turns {
			if n != 1000/c.want {
				t.Errorf("buyers %d: %s had %d turns", c.buyers, buyer, n)
			}
		}
	}
}

// TestItemSkew: the first item's share of ten.
func TestItemSkew(t *testing.T) {
	for skew, want := range map[string]float64{"uniform": 0.1, "hot": 0.8, "zipf": 0.3414} {
		p := flashsale.DefaultParams()
		p.Items, p.ItemSkew = 10, skew
		load := newLoad(t, 11, p)
		n := 0
		for i := range uint64(20_000) {
			if load.Op(2*i).Key == flashsale.ItemKey(1) {
				n++
			}
		}
		near(t, skew, float64(n)/20_000, want)
	}
}

// TestItemSkewMoves: of each thousand buys most are of one item, another one than
// before, and all ten have their turn.
func TestItemSkewMoves(t *testing.T) {
	const turn = 1000
	p := flashsale.DefaultParams()
	p.Items, p.ItemSkew = 10, keys.SkewMoving
	load := newLoad(t, 11, p)
	hot := map[string]bool{}
	for first := uint64(0); first < 10*turn; first += turn {
		wanted := map[string]int{}
		for i := range uint64(turn) {
			wanted[load.Op(first+i).Key]++
		}
		for item, n := range wanted {
			hot[item] = hot[item] || n > turn/2
		}
	}
	for n := range 10 {
		if item := flashsale.ItemKey(n + 1); !hot[item] {
			t.Errorf("%s never had its turn", item)
		}
	}
}

// TestDropped: what was never sent has no consequences.
func TestDropped(t *testing.T) {
	load := newLoad(t, 1, flashsale.DefaultParams())
	for i := range uint64(100) {
		if next := load.Follow(load.Op(i), history.Dropped, history.Reply{}); next != nil {
			t.Fatalf("a dropped operation was followed by %+v", next)
		}
	}
}

func BenchmarkOp(b *testing.B) {
	load, err := flashsale.NewWorkload(1, flashsale.DefaultParams())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := range b.N {
		load.Op(uint64(i))
	}
}
