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
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

func newLoad(t tb, seed uint64, p flashsale.Params) sut.Workload {
	t.Helper()
	load, err := flashsale.System().Workload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	return load
}

// TestBadParams: what two parameters forbid together is named.
func TestBadParams(t *testing.T) {
	for want, change := range map[string]func(*flashsale.Params){
		"units: 10000 items of":  func(p *flashsale.Params) { p.Items, p.Units = 10_000, 10_000 },
		"pay_failure: pay_succ":  func(p *flashsale.Params) { p.PayFailure = 0.4 },
		"at most cart_ttl (3s)":  func(p *flashsale.Params) { p.LateSpread = p.CartTTL + 1 },
		"buy_again: click_twice": func(p *flashsale.Params) { p.BuyAgain = 0.9 },
	} {
		p := flashsale.DefaultParams()
		change(&p)
		_, err := flashsale.System().Workload(1, p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

// TestWorkloadIsPure: the same seed gives the same operations in any order,
// another seed others. What was never sent has no consequences.
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
			history.OK, history.Unknown, history.Refused, history.Dropped}).Draw(t, "outcome")
		reply := history.Reply{Key: "o1"}
		next := a.Follow(op, outcome, reply)
		if !reflect.DeepEqual(next, b.Follow(op, outcome, reply)) {
			t.Fatal("Follow is not a function of its arguments")
		}
		if outcome == history.Dropped && next != nil {
			t.Fatalf("a dropped operation was followed by %+v", next)
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
