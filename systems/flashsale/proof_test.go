package flashsale_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  flashsale.Params
	records []history.Record
	windows []history.Window
	samples []history.Sample
	audit   flashsale.Audit
	// drifts are what a sample of a sale in virtual time should have seen.
	drifts []map[string]int64
}

const (
	ms    = time.Millisecond
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

func saleParams() flashsale.Params {
	p := flashsale.DefaultParams()
	p.Units, p.PriceCents = 2, 500
	p.CartTTL = sut.Duration(time.Second)
	return p
}

// goodSale is the sale of testdata, which every invariant accepts.
func goodSale() *evidence {
	e := &evidence{params: saleParams()}
	must := func(err error) {
		if err != nil {
			panic(err) // testdata is as it should be
		}
	}
	file, err := os.Open("testdata/sale.ndjson")
	must(err)
	defer file.Close()
	h, err := history.ReadNDJSON(file)
	must(err)
	e.samples = h.Samples()
	for rec, err := range h.All() {
		must(err)
		e.records = append(e.records, rec)
	}
	raw, err := os.ReadFile("testdata/sale.json")
	must(err)
	e.audit, err = api.DecodeAudit[flashsale.Audit](raw)
	must(err)
	return e
}

// judge returns the verdicts by name.
func (e *evidence) judge(t suttest.TB) map[string]check.Verdict {
	t.Helper()
	return e.judgeRaw(suttest.Encoded(t, e.audit))
}

func (e *evidence) judgeRaw(audit json.RawMessage) map[string]check.Verdict {
	return suttest.Verdicts(flashsale.Invariants(e.params),
		history.Slice(e.records, e.windows...).WithSamples(e.samples), audit)
}

// attempt returns the n-th attempt of an operation.
func (e *evidence) attempt(id uint64, n int) *history.Record {
	for i := range e.records {
		if e.records[i].Op.ID == id {
			if n == 0 {
				return &e.records[i]
			}
			n--
		}
	}
	panic(fmt.Sprintf("no attempt %d of operation %d", n, id))
}

func (e *evidence) add(rec history.Record) {
	rec.Seq = uint64(len(e.records))
	rec.Intended = rec.Start
	e.records = append(e.records, rec)
}

// forget removes records.
func (e *evidence) forget(which func(history.Record) bool) {
	e.records = slices.DeleteFunc(e.records, which)
}

func (e *evidence) order(id string) *flashsale.OrderAudit {
	i := slices.IndexFunc(e.audit.Orders, func(o flashsale.OrderAudit) bool { return o.ID == id })
	return &e.audit.Orders[i]
}

func (e *evidence) payment(id string) *flashsale.PaymentAudit {
	i := slices.IndexFunc(e.audit.Payments,
		func(p flashsale.PaymentAudit) bool { return p.ID == id })
	return &e.audit.Payments[i]
}

// storeTime is a moment of the driver's clock on the store's.
func storeTime(at time.Duration) int64 { return int64(50*time.Second + at) }

func (e *evidence) close(order, state string, at time.Duration) {
	e.order(order).State, e.order(order).ClosedAt = state, storeTime(at)
}

func (e *evidence) fault(start, end time.Duration) {
	e.windows = append(e.windows, history.Window{
		Kind: history.FaultWindow, Name: "stall", Fault: "pause redis",
		Start: start, End: end, Recovered: end, Evidence: []string{"paused"},
	})
}

// look changes what the gauge saw in its n-th sample.
func (e *evidence) look(n int, change func(*flashsale.LookItem)) {
	var look flashsale.Look
	err := json.Unmarshal(e.samples[n].Body, &look)
	if err == nil {
		change(&look.Items[0])
		e.samples[n].Body, err = json.Marshal(look)
	}
	if err != nil {
		panic(err)
	}
}

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

// proof is what the judges of the sale are proved by.
func proof() suttest.Proof[*evidence] {
	p := suttest.Proof[*evidence]{Any: drawSale, Judge: (*evidence).judge,
		Some: func(t *rapid.T) *evidence {
			p := flashsale.DefaultParams()
			p.Items, p.Units = 2, rapid.IntRange(4, 20).Draw(t, "units")
			return saleOf(t, rapid.Uint64().Draw(t, "seed"), p,
				suttest.Trouble{LostRequest: 0.01, LostReply: 0.01, Late: 0.01, Dropped: 0.01}, 200)
		},
		Whole: func(t suttest.TB, seed uint64) *evidence {
			p := flashsale.DefaultParams()
			p.Units = 50
			return saleOf(t, seed, p, suttest.Trouble{}, 5000)
		},
		Parts:     func(e *evidence) ([]history.Record, any) { return e.records, &e.audit },
		Unnoticed: unnoticed,
		Absent: map[string][]string{
			"none is refused": {"invent payment", "invent stock"},
			"all items are alike": {"exchange units of items", "exchange price_cents of items",
				"exchange amount_cents of payments"},
			"each has one effect": {"exchange effects of payments"},
			"no cart is left at the end": {"exchange held of items", "raise held of items",
				"lower held of items", "exchange holds of redis", "raise holds of redis",
				"lower holds of redis"},
		},
	}
	for _, inv := range flashsale.Invariants(flashsale.DefaultParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// unnoticed are what no judge of the sale can or need see.
var unnoticed = map[string][]string{
	"anybody may read the stock, and need not be answered": {"deny stock", "change client of stock"},
	"it adds up for any item":                              {"mistake item in answers to stock"},
	"both say the same":                                    {"double of items", "double of redis"},
	"it explains a violation and is none": {"exchange deliveries of payments",
		"raise deliveries of payments", "lower deliveries of payments"},
	"what it effected is in the order":    {"lower effects of payments"},
	"the order of the log stays the same": {"raise seq of log", "lower seq of log"},
	"the times of orders are in their rows": {"exchange at_ns of log", "raise at_ns of log",
		"lower at_ns of log"},
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 20, []suttest.Corruption[*evidence]{
		{Name: "offer a unit too many for a while", Breaks: flashsale.RedisDrift, Do: offerTooMany},
		{Name: "lose a unit in a cart", Breaks: flashsale.SellThrough,
			Do: func(e *evidence, _ func(int) int) bool {
				it := &e.audit.Items[0]
				it.Held, it.Available = it.Held+it.Available+1, 0
				it.Sold = it.Units - it.Held
				return true
			}},
		{Name: "return carts too early", Breaks: flashsale.ExpiryOnTime,
			Do: func(e *evidence, _ func(int) int) bool {
				e.params.CartTTL *= 2
				return slices.ContainsFunc(e.audit.Orders, func(o flashsale.OrderAudit) bool {
					return o.State == flashsale.OrderExpired
				})
			}},
		{Name: "refuse while units are free", Breaks: flashsale.NoFalseSoldOut, Do: refuseEarly},
	})
}

// offerTooMany raises what Redis had at some moment of the sale, by no less
// than makes it certain.
func offerTooMany(e *evidence, pick func(int) int) bool {
	var fit []int
	for i, s := range e.samples {
		if s.Seen() && s.From > 0 {
			e.look(i, func(l *flashsale.LookItem) {
				if l.Before.Made > 0 {
					fit = append(fit, i)
				}
			})
		}
	}
	if len(fit) == 0 {
		return false
	}
	e.look(fit[pick(len(fit))], func(l *flashsale.LookItem) {
		_, high := l.Drift(int64(e.params.Units))
		l.Stock += high + 1 + int64(pick(5))
	})
	return true
}

// refuseEarly tells somebody that all is sold out before anybody buys.
func refuseEarly(e *evidence, _ func(int) int) bool {
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
	e.refuse(first - 2*ms)
	return true
}

// TestMissingParts: what an audit leaves out is named, and is no violation.
func TestMissingParts(t *testing.T) {
	for part, leaveOut := range map[string]func(*flashsale.Audit){
		"items":            func(a *flashsale.Audit) { a.Items = nil },
		"units":            func(a *flashsale.Audit) { a.Units = nil },
		"orders":           func(a *flashsale.Audit) { a.Orders = nil },
		"payments":         func(a *flashsale.Audit) { a.Payments = nil },
		"log":              func(a *flashsale.Audit) { a.Log = nil },
		"redis":            func(a *flashsale.Audit) { a.Redis = nil },
		"reclaim_slack_ns": func(a *flashsale.Audit) { a.ReclaimSlackNS = 0 },
	} {
		e, undecided := goodSale(), 0
		leaveOut(&e.audit)
		for name, v := range e.judge(t) {
			if v.Status == fail || v.Status == maybe && !strings.Contains(v.Reason, part) {
				t.Errorf("without %s, %s is %s: %s", part, name, v.Status, v.Reason)
			}
			if v.Status == maybe {
				undecided++
			}
		}
		if undecided == 0 && part != "units" {
			t.Errorf("no invariant needs %s", part)
		}
	}
}

// TestEmptyRun: nothing happened, so nothing is held.
func TestEmptyRun(t *testing.T) {
	e := &evidence{params: saleParams(), audit: flashsale.Audit{
		Items:  []flashsale.ItemAudit{{Item: "item-1", Units: 2, PriceCents: 500, Available: 2}},
		Orders: []flashsale.OrderAudit{}, Payments: []flashsale.PaymentAudit{},
		Log:            []flashsale.LogEntry{},
		Redis:          []flashsale.RedisAudit{{Item: "item-1", Present: true, Stock: 2}},
		ReclaimSlackNS: 1,
	}}
	for name, v := range e.judge(t) {
		if v.Status != maybe {
			t.Errorf("%s is %s for a run in which nothing happened", name, v.Status)
		}
	}
}

// TestUnfinished: what the reconciler has still to do, or the reclaimer, is told from what
// they cannot mend.
func TestUnfinished(t *testing.T) {
	for name, c := range map[string]struct {
		invariant  string
		edit       func(*evidence)
		unfinished bool
	}{
		"Redis has one less": {flashsale.RedisDrift, func(e *evidence) { e.audit.Redis[0].Stock = 0 },
			true},
		"no counter": {flashsale.RedisDrift, func(e *evidence) { e.audit.Redis[0].Present = false },
			true},
		"less than nothing": {flashsale.RedisDrift, func(e *evidence) {
			e.audit.Redis[0].Stock, e.audit.Redis[0].Holds = -1, 2
		}, false},
		"a unit in a cart": {flashsale.SellThrough, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Held = 0, 1
		}, true},
		"a unit of nobody": {flashsale.Conservation, func(e *evidence) {
			e.audit.Units[0].OrderID = "o9"
		}, false},
	} {
		e := goodSale()
		c.edit(e)
		v := e.judge(t)[c.invariant]
		if v.Status != fail || c.unfinished != (v.Unfinished == v.Count) {
			t.Errorf("%s: %s, %d of %d not finished: %s", name, v.Status, v.Unfinished, v.Count, v.Reason)
		}
	}
}
