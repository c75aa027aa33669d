package flashsale_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// drawSale is any sale of a correct shop with any amount of trouble.
func drawSale(t *rapid.T) *evidence {
	p := flashsale.DefaultParams()
	share := rapid.Float64Range(0, 1)
	p.Items = rapid.IntRange(1, 3).Draw(t, "items")
	p.Units = rapid.IntRange(1, 8).Draw(t, "units")
	p.Buyers = rapid.IntRange(0, 20).Draw(t, "buyers")
	p.ItemSkew = rapid.SampledFrom([]string{"uniform", "zipf", "hot", "moving"}).Draw(t, "skew")
	p.CartTTL = sut.Duration(rapid.IntRange(50, 800).Draw(t, "ttl_ms")) * sut.Duration(ms)
	p.LateSpread = min(p.LateSpread, p.CartTTL)
	p.PaySuccess = share.Draw(t, "success")
	p.PayFailure = (1 - p.PaySuccess) * share.Draw(t, "failure")
	p.PayTwice, p.PayLate = share.Draw(t, "twice"), share.Draw(t, "late")
	p.ClickTwice = share.Draw(t, "click")
	p.BuyAgain = (1 - p.ClickTwice) * share.Draw(t, "again")
	p.StockReads = 2 * share.Draw(t, "reads")
	p.RetryOnLost = rapid.IntRange(0, 4).Draw(t, "retries")
	seed, tr := rapid.Uint64().Draw(t, "seed"), suttest.DrawTrouble(t)
	return saleOf(t, seed, p, tr, rapid.IntRange(0, 120).Draw(t, "ops"))
}

// TestCorrectShopIsNeverBroken: the judges are sound.
func TestCorrectShopIsNeverBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for name, v := range drawSale(t).judge(t) {
			if v.Status == fail {
				t.Fatalf("%s is broken: %+v", name, v.Violations)
			}
		}
	})
}

// busySale is a sale as a smoke run has it, with or without trouble.
func busySale(t tb, seed uint64, tr suttest.Trouble) *evidence {
	p := flashsale.DefaultParams()
	p.Units = 50
	return saleOf(t, seed, p, tr, 5000)
}

// TestSmokeRunDecidesAll: the default parameters exercise every invariant,
// whatever the seed.
func TestSmokeRunDecidesAll(t *testing.T) {
	for seed := range uint64(20) {
		for name, v := range busySale(t, seed, suttest.Trouble{}).judge(t) {
			if v.Status != pass {
				t.Errorf("seed %d: %s is %s: %s", seed, name, v.Status, v.Reason)
			}
		}
	}
}

// corruption is one thing that a correct system never does.
type corruption struct {
	name, breaks string
	// do changes the evidence; it returns false if the sale has nothing to
	// change.
	do func(t *rapid.T, e *evidence) bool
}

// TestCorruptionsAreCaught: what is this system's own is not judged in vain, also in the midst
// of unknown outcomes. Those of families corrupt histories of their own.
func TestCorruptionsAreCaught(t *testing.T) {
	for _, c := range slices.Concat(stockCorruptions(), paymentCorruptions(), logCorruptions()) {
		t.Run(c.name, func(t *testing.T) {
			done := 0
			rapid.Check(t, func(t *rapid.T) {
				p := flashsale.DefaultParams()
				p.Units = rapid.IntRange(4, 20).Draw(t, "units")
				tr := suttest.Trouble{LostRequest: 0.01, LostReply: 0.01, Late: 0.01, Dropped: 0.01}
				e := saleOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, 200)
				if !c.do(t, e) {
					return
				}
				done++
				if v := e.judge(t)[c.breaks]; v.Status != fail || v.Count == 0 {
					t.Fatalf("%s is %s: %s", c.breaks, v.Status, v.Reason)
				}
			})
			if done == 0 {
				t.Error("no sale had anything to corrupt")
			}
		})
	}
}

// pickOrder draws an order in one of the states; nil if there is none.
func pickOrder(t *rapid.T, e *evidence, states ...string) *flashsale.OrderAudit {
	var fit []*flashsale.OrderAudit
	for i := range e.audit.Orders {
		if slices.Contains(states, e.audit.Orders[i].State) {
			fit = append(fit, &e.audit.Orders[i])
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return rapid.SampledFrom(fit).Draw(t, "order")
}

// pickRecord draws a record that fits; nil if there is none.
func pickRecord(t *rapid.T, e *evidence, fits func(history.Record) bool) *history.Record {
	var fit []int
	for i, rec := range e.records {
		if fits(rec) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return &e.records[rapid.SampledFrom(fit).Draw(t, "record")]
}

func stockCorruptions() []corruption {
	return []corruption{
		{"inflate redis stock", flashsale.RedisDrift, func(t *rapid.T, e *evidence) bool {
			e.audit.Redis[0].Stock += rapid.Int64Range(1, 5).Draw(t, "more")
			return true
		}},
		{"leak redis stock", flashsale.RedisDrift, func(t *rapid.T, e *evidence) bool {
			e.audit.Redis[0].Stock -= rapid.Int64Range(1, 5).Draw(t, "less")
			return true
		}},
		{"offer a unit too many for a while", flashsale.RedisDrift, offerTooMany},
		{"lose a unit in a snapshot", flashsale.Conservation, func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, func(r history.Record) bool {
				return r.Op.Kind == flashsale.KindStock && r.Outcome == history.OK
			})
			if rec == nil {
				return false
			}
			rec.Reply.Body = fmt.Appendf(nil, `{"units":%d,"available":%d}`,
				e.params.Units, e.params.Units-1)
			return true
		}},
		{"lose a unit in a cart", flashsale.SellThrough, func(_ *rapid.T, e *evidence) bool {
			it := &e.audit.Items[0]
			it.Held, it.Available = it.Held+it.Available+1, 0
			it.Sold = it.Units - it.Held
			return true
		}},
		{"refuse while units are free", flashsale.NoFalseSoldOut, func(_ *rapid.T, e *evidence) bool {
			first := history.Never
			for i := range e.records {
				rec := &e.records[i]
				if rec.Outcome != history.Dropped {
					rec.Start += time.Second
					if rec.End != history.Never {
						rec.End += time.Second
					}
					first = min(first, rec.Start)
				}
			}
			e.add(history.Record{
				Op:      history.Op{ID: 1 << 40, Kind: flashsale.KindBuy, Key: "item-1", Client: "early"},
				Outcome: history.Refused, Err: flashsale.ErrSoldOut.Error(),
				Start: first - 2*ms, End: first - ms,
			})
			return true
		}},
	}
}

// offerTooMany raises what Redis had at some moment of the sale, by no less
// than makes it certain.
func offerTooMany(t *rapid.T, e *evidence) bool {
	var fit []int
	for i, s := range e.samples {
		began := false
		if s.Seen() && s.From > 0 {
			e.look(t, i, func(l *flashsale.LookItem) { began = l.Before.Made > 0 })
		}
		if began {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return false
	}
	e.look(t, rapid.SampledFrom(fit).Draw(t, "sample"), func(l *flashsale.LookItem) {
		_, high := l.Drift(int64(e.params.Units))
		l.Stock += high + rapid.Int64Range(1, 5).Draw(t, "more")
	})
	return true
}

func paymentCorruptions() []corruption {
	return []corruption{
		{"lose a refund", flashsale.PaymentExactlyOnce, func(t *rapid.T, e *evidence) bool {
			return changePayment(t, e, func(p *flashsale.PaymentAudit) bool { return p.Refunded },
				func(p *flashsale.PaymentAudit) { p.Refunded = false })
		}},
		{"refund a sale", flashsale.PaymentExactlyOnce, func(t *rapid.T, e *evidence) bool {
			return changePayment(t, e,
				func(p *flashsale.PaymentAudit) bool { return p.Captured && !p.Refunded },
				func(p *flashsale.PaymentAudit) { p.Refunded = true })
		}},
		{"apply a payment twice", flashsale.PaymentExactlyOnce, func(t *rapid.T, e *evidence) bool {
			return changePayment(t, e, func(p *flashsale.PaymentAudit) bool { return p.Effects == 1 },
				func(p *flashsale.PaymentAudit) { p.Effects = 2 })
		}},
	}
}

func changePayment(
	t *rapid.T, e *evidence,
	fits func(*flashsale.PaymentAudit) bool, change func(*flashsale.PaymentAudit),
) bool {
	var fit []*flashsale.PaymentAudit
	for i := range e.audit.Payments {
		if p := &e.audit.Payments[i]; fits(p) {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return false
	}
	change(rapid.SampledFrom(fit).Draw(t, "payment"))
	return true
}

func logCorruptions() []corruption {
	return []corruption{
		{"take a unit that is taken", flashsale.UnitExclusive, func(t *rapid.T, e *evidence) bool {
			o := pickOrder(t, e, flashsale.OrderPaid)
			if o == nil {
				return false
			}
			last := e.audit.Log[len(e.audit.Log)-1]
			e.audit.Log = append(e.audit.Log, flashsale.LogEntry{
				Seq: last.Seq + 1, OrderID: "o-other", Item: o.Item, Unit: o.Unit,
				From: "available", To: "held", Cause: "buy", At: last.At,
			})
			return true
		}},
	}
}
