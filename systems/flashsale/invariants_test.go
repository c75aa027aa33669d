package flashsale_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

func saleParams() flashsale.Params {
	p := flashsale.DefaultParams()
	p.Units, p.PriceCents = 2, 500
	p.CartTTL = sut.Duration(time.Second)
	return p
}

// goodSale is the sale of testdata, which every invariant accepts.
func goodSale(t testing.TB) *evidence {
	t.Helper()
	file, err := os.Open("testdata/sale.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h, err := history.ReadNDJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	e := &evidence{params: saleParams(), samples: h.Samples()}
	for rec, err := range h.All() {
		if err != nil {
			t.Fatal(err)
		}
		e.records = append(e.records, rec)
	}
	raw, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	if e.audit, err = api.DecodeAudit[flashsale.Audit](raw); err != nil {
		t.Fatal(err)
	}
	return e
}

// judge returns the verdicts by name.
func (e *evidence) judge(t tb) map[string]check.Verdict {
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

// buy adds an acknowledged buy and its order, which lasts from its reply on.
func (e *evidence) buy(id uint64, buyer, order string, unit int64, at time.Duration) {
	e.add(history.Record{
		Op:      history.Op{ID: id, Kind: flashsale.KindBuy, Key: "item-1", Client: buyer},
		Outcome: history.OK, Reply: history.Reply{Key: order, Value: unit},
		Start: at, End: at + time.Millisecond,
	})
	e.audit.Orders = append(e.audit.Orders, flashsale.OrderAudit{
		ID: order, OpID: id, Item: "item-1", Buyer: buyer, Unit: unit,
		State: flashsale.OrderHeld, HeldAt: storeTime(at),
	})
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
func (e *evidence) look(t tb, n int, change func(*flashsale.LookItem)) {
	t.Helper()
	var look flashsale.Look
	if err := json.Unmarshal(e.samples[n].Body, &look); err != nil {
		t.Fatal(err)
	}
	change(&look.Items[0])
	body, err := json.Marshal(look)
	if err != nil {
		t.Fatal(err)
	}
	e.samples[n].Body = body
}

const (
	ms    = time.Millisecond
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

type verdictCase struct {
	invariant, name string
	want            check.Status
	edit            func(e *evidence)
	text            string // a part of the violation or reason
}

func TestVerdicts(t *testing.T) {
	for name, v := range goodSale(t).judge(t) {
		t.Run(name+"/good sale - pass", func(t *testing.T) { expect(t, v, pass, "") })
	}
	cases := slices.Concat(stockCases(), driftCases(t), ownerCases(), orderCases(), soldOutCases(),
		paymentCases(), timeCases(), pathCases())
	for _, c := range cases {
		t.Run(c.invariant+"/"+c.name, func(t *testing.T) {
			checkSuffix(t, c)
			e := goodSale(t)
			c.edit(e)
			expect(t, e.judge(t)[c.invariant], c.want, c.text)
		})
	}
}

// checkSuffix keeps names and expectations together.
func checkSuffix(t *testing.T, c verdictCase) {
	suffix := map[check.Status]string{pass: " - pass", fail: " - fail", maybe: " - undecided"}
	if !strings.HasSuffix(c.name, suffix[c.want]) {
		t.Errorf("the name must end with %q", suffix[c.want])
	}
}

func expect(t *testing.T, v check.Verdict, want check.Status, text string) {
	t.Helper()
	if v.Status != want {
		t.Fatalf("got %s, want %s; reason %q, violations %+v", v.Status, want, v.Reason, v.Violations)
	}
	if want == fail {
		if !strings.Contains(fmt.Sprint(v.Violations), text) {
			t.Errorf("no violation with %q: %+v", text, v.Violations)
		}
	} else if !strings.Contains(v.Reason, text) {
		t.Errorf("reason %q does not contain %q", v.Reason, text)
	}
}

// TestWitnesses: the records behind a violation are named.
func TestWitnesses(t *testing.T) {
	e := goodSale(t)
	e.audit.Orders = slices.Delete(e.audit.Orders, 0, 1)
	v := e.judge(t)[flashsale.AckedDurable]
	if want := []uint64{0, 3}; !slices.Equal(v.Witness, want) {
		t.Errorf("witnesses %v, want %v", v.Witness, want)
	}
	if len(v.Violations) != 1 || !slices.Equal(v.Violations[0].Ops, []uint64{0, 3}) {
		t.Errorf("violations %+v, want one with records 0 and 3", v.Violations)
	}
}

// TestMissingParts: what an audit leaves out is named, and is no violation.
func TestMissingParts(t *testing.T) {
	e := goodSale(t)
	raw, err := json.Marshal(e.audit)
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{
		"items", "units", "orders", "payments", "log", "redis", "reclaim_slack_ns"}
	for _, part := range parts {
		t.Run(part, func(t *testing.T) {
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(raw, &fields); err != nil {
				t.Fatal(err)
			}
			delete(fields, part)
			less, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			undecided := 0
			for name, v := range e.judgeRaw(less) {
				switch {
				case v.Status == fail:
					t.Errorf("%s is broken: %s", name, v.Reason)
				case v.Status == maybe && !strings.Contains(v.Reason, part):
					t.Errorf("%s does not say that %s is missing: %s", name, part, v.Reason)
				case v.Status == maybe:
					undecided++
				}
			}
			if undecided == 0 && part != "units" {
				t.Errorf("no invariant needs %s", part)
			}
		})
	}
}

// TestBadAudits: an audit that cannot be read leaves all undecided.
func TestBadAudits(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "no JSON": "{", "a list": "[]",
		"a wrong type": `{"orders": "none"}`, "a wrong row": `{"orders": [{"order": "1"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range goodSale(t).judgeRaw(json.RawMessage(raw)) {
				if v.Status != maybe || !strings.Contains(v.Reason, "audit") {
					t.Errorf("%s is %s: %s", v.Invariant, v.Status, v.Reason)
				}
			}
		})
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

// torn is a history that cannot be read beyond its first records.
type torn struct{ *history.Memory }

func (h torn) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		n := 0
		for rec := range h.Memory.All() {
			if n++; n > 2 {
				yield(history.Record{}, errors.New("bad sector"))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// TestUnreadableHistory: what is absent from half a history proves nothing.
func TestUnreadableHistory(t *testing.T) {
	e := goodSale(t)
	raw, err := json.Marshal(e.audit)
	if err != nil {
		t.Fatal(err)
	}
	h := torn{history.Slice(e.records).WithSamples(e.samples)}
	for _, inv := range flashsale.Invariants(e.params) {
		v := inv.Check(t.Context(), h, raw)
		// These two look at the audit only.
		alone := inv.Name() == flashsale.UnitPath || inv.Name() == flashsale.ExpiryOnTime
		if !alone && (v.Status != maybe || !strings.Contains(v.Reason, "bad sector")) {
			t.Errorf("%s: %s, %q", v.Invariant, v.Status, v.Reason)
		}
	}
}

func stockBody(available, held, sold int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"item":"item-1","units":2,"available":%d,"held":%d,"sold":%d}`,
		available, held, sold)
	return b.Bytes()
}

// TestUnfinished: what the reconciler has still to do, or the reclaimer, is told from what
// they cannot mend.
func TestUnfinished(t *testing.T) {
	redis := func(e *evidence) *flashsale.RedisAudit { return &e.audit.Redis[0] }
	for name, c := range map[string]struct {
		invariant  string
		edit       func(*evidence)
		unfinished bool
	}{
		"Redis has one less": {flashsale.RedisDrift, func(e *evidence) {
			redis(e).Stock = 0
		}, true},
		"Redis has one more": {flashsale.RedisDrift, func(e *evidence) {
			redis(e).Stock = 2
		}, true},
		"no counter": {flashsale.RedisDrift, func(e *evidence) {
			redis(e).Present = false
		}, true},
		"less than nothing": {flashsale.RedisDrift, func(e *evidence) {
			redis(e).Stock, redis(e).Holds = -1, 2
		}, false},
		"a unit in a cart": {flashsale.SellThrough, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Held = 0, 1
		}, true},
		"a cart that nobody returns": {flashsale.ExpiryOnTime, func(e *evidence) {
			e.buy(4096, "gil", "o4", 1, 200*ms)
		}, true},
		"a unit of nobody": {flashsale.Conservation, func(e *evidence) {
			e.audit.Units[0].OrderID = "o9"
		}, false},
	} {
		e := goodSale(t)
		c.edit(e)
		v := e.judge(t)[c.invariant]
		if v.Status != fail || c.unfinished != (v.Unfinished == v.Count) {
			t.Errorf("%s: %s, %d of %d not finished: %s", name, v.Status, v.Unfinished, v.Count, v.Reason)
		}
	}
}
