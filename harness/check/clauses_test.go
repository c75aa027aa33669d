package check_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// effects compares the "buy" records of a history with effects.
func effects(c *check.Collector, found ...check.Effect) *check.Comparison {
	e := check.NewComparison()
	for _, f := range found {
		e.Found(f)
	}
	for r := range c.Records("buy") {
		e.See(r)
	}
	return e
}

func order(op uint64, name, key, client string) check.Effect {
	return check.Effect{Op: op, Name: name, Key: key, Client: client}
}

func TestEffects(t *testing.T) {
	o1 := order(7, "o1", "item", "ann")
	durable := func(found ...check.Effect) func(*check.Collector) {
		return func(c *check.Collector) { effects(c, found...).Durable(c) }
	}
	phantom := func(found ...check.Effect) func(*check.Collector) {
		return func(c *check.Collector) { effects(c, found...).NoPhantom(c) }
	}
	once := func(found ...check.Effect) func(*check.Collector) {
		return func(c *check.Collector) { effects(c, found...).AtMostOnce(c) }
	}
	const refused = `{"id":5,"kind":"buy","outcome":"refused","start_ns":1,"end_ns":2}
		{"id":5,"kind":"buy","outcome":"dropped"}`
	const retried = `{"id":5,"kind":"buy","outcome":"unknown","start_ns":1}
		{"id":5,"kind":"buy","outcome":"refused","start_ns":3,"end_ns":4}`
	judgeClauses(t, []clause{
		{"acked is there, unknown is not - pass", twoBuys, durable(o1), "", nil},
		{"acked and unknown are there - pass", twoBuys,
			durable(o1, order(8, "o2", "item", "bob")), "", nil},
		{"acked is missing - fail", twoBuys, durable(order(8, "o2", "", "")),
			`operation 7 (key "item", client "ann") was acknowledged at 20ns ("o1") but has no effect`,
			[]uint64{0, 2}},
		{"acked is another operation's - fail", twoBuys, durable(order(8, "o1", "item", "bob")),
			`acknowledged at 20ns ("o1"); at the end there is o1 of operation 8`, []uint64{0, 1, 2}},
		{"acked is for another client - fail", twoBuys, durable(order(7, "o1", "item", "bob")),
			`client "bob") was requested with key "item" by client "ann"`, []uint64{0, 2}},
		{"unknown is for another client - pass", twoBuys,
			durable(o1, order(8, "o2", "item", "eve")), "", nil},
		{"acked under another name - fail", twoBuys, durable(order(7, "o9", "item", "ann")),
			`operation 7 was answered "o1", but at the end there is o9`, []uint64{0, 2}},
		{"acked under one of two names - pass", twoBuys,
			durable(order(7, "o9", "", ""), order(7, "o1", "", "")), "", nil},
		{"nothing acked - undecided", refused, durable(), "no operation was acknowledged", nil},

		{"asked for - pass", twoBuys, phantom(o1), "", nil},
		{"unknown has its effect - pass", twoBuys, phantom(order(8, "o2", "item", "bob")), "", nil},
		{"never asked for - fail", twoBuys, phantom(order(6, "o6", "", "")),
			"o6 of operation 6", nil},
		{"refused and dropped - fail", refused, phantom(order(5, "o5", "", "")),
			"the operation was refused", []uint64{0, 1}},
		{"unknown, then refused - pass", retried, phantom(order(5, "o5", "", "")), "", nil},
		{"another's client - fail", twoBuys, phantom(order(8, "o2", "item", "eve")),
			`by client "bob"`, []uint64{1}},
		{"another's key - fail", twoBuys, phantom(order(8, "o2", "thing", "bob")),
			`with key "item"`, []uint64{1}},
		{"no effects - undecided", twoBuys, phantom(), "no effect at the end", nil},

		{"one effect of two attempts - pass", twoBuys, once(o1), "", nil},
		{"two effects - fail", twoBuys, once(o1, order(7, "o2", "item", "ann")),
			"operation 7 has 2 effects", []uint64{0, 2}},
		{"no effects at all - undecided", twoBuys, once(), "no effect at the end", nil},
	})
}

func TestEffectsFoundAfterSeePanics(t *testing.T) {
	e := check.NewComparison()
	e.See(&history.Record{})
	defer func() {
		if recover() == nil {
			t.Error("Found after See did not panic")
		}
	}()
	e.Found(check.Effect{})
}

// TestEffectsCountUnknown: the operations that were allowed for are told.
func TestEffectsCountUnknown(t *testing.T) {
	h := parse(t, twoBuys)
	for _, tt := range []struct {
		name    string
		judge   func(*check.Collector, *check.Comparison)
		unknown int
	}{
		{"durable", func(c *check.Collector, e *check.Comparison) { e.Durable(c) }, 1},
		{"phantom", func(c *check.Collector, e *check.Comparison) { e.NoPhantom(c) }, 1},
	} {
		c := check.Collect(t.Context(), "x", h)
		tt.judge(c, effects(c, order(7, "o1", "", ""), order(8, "o2", "", "")))
		if v := c.Verdict(); v.Unknown != tt.unknown || v.Status != check.Held {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

// TestAround: the span has both ends.
func TestAround(t *testing.T) {
	covers := check.Around(
		[]history.Window{{Start: 10, End: 20, Recovered: 25}, {Start: 50, End: 60}}, 3)
	for at, want := range map[time.Duration]bool{
		6: false, 7: true, 25: true, 26: false, 46: false, 47: true, 60: true, 61: false,
	} {
		if covers(at) != want {
			t.Errorf("%d is covered: %v", at, !want)
		}
	}
}

// lossy has four acknowledged likes, at 1, 2, 3 and 4 s.
const lossy = `
{"id":1,"kind":"buy","outcome":"ok","start_ns":"1s","end_ns":"1s"}
{"id":2,"kind":"buy","outcome":"ok","start_ns":"2s","end_ns":"2s"}
{"id":3,"kind":"buy","outcome":"ok","reply":{"key":"o3"},"start_ns":"3s","end_ns":"3s"}
{"id":4,"kind":"buy","outcome":"ok","start_ns":"4s","end_ns":"4s"}
{"window":{"kind":"fault","name":"kill","start_ns":3500000000,"end_ns":3600000000}}
`

func TestAcceptedLoss(t *testing.T) {
	losing := func(bound int64, found ...check.Effect) func(*check.Collector) {
		return func(c *check.Collector) {
			loss, err := check.NewLoss("likes", "AOF is synced every second", bound,
				check.Around(c.Faults(), 2*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			effects(c, found...).Durable(c, loss)
		}
	}
	e := func(op uint64) check.Effect { return check.Effect{Op: op} }
	judgeClauses(t, []clause{
		{"within the window and the bound - pass", lossy, losing(2, e(1), e(4)), "", nil},
		{"nothing lost - pass", lossy, losing(2, e(1), e(2), e(3), e(4)), "", nil},
		{"beyond the bound - fail", lossy, losing(1, e(1), e(4)), "operation 3", []uint64{2}},
		{"before the window - fail", lossy, losing(2, e(2), e(3), e(4)), "operation 1", []uint64{0}},
		{"after the window - fail", lossy, losing(2, e(1), e(2), e(3)), "operation 4", []uint64{3}},
		{"within both, but another's - fail", lossy,
			losing(2, e(1), e(4), check.Effect{Op: 9, Name: "o2"}, check.Effect{Op: 5, Name: "o3"}),
			`("o3"); at the end there is o3 of operation 5`, []uint64{2}},
		{"bound that nothing can exceed - undecided", lossy, losing(4, e(1), e(4)),
			"no loss could exceed it", nil},
	})
	c := check.Collect(t.Context(), "x", parse(t, lossy))
	losing(3, e(1), e(2), e(4))(c)
	v := c.Verdict()
	want := check.AcceptedLoss{What: "likes", Why: "AOF is synced every second", Count: 1, Bound: 3}
	if len(v.Accepted) != 1 || v.Accepted[0] != want {
		t.Errorf("accepted %+v, want %+v", v.Accepted, want)
	}
}

// TestLossesOver: every loss is shown, with the most that a run lost.
func TestLossesOver(t *testing.T) {
	likes := check.AcceptedLoss{What: "likes", Why: "because", Count: 2, Bound: 9}
	views := check.AcceptedLoss{What: "views", Why: "because", Bound: 9}
	fewer, looser := likes, likes
	fewer.Count, looser.Bound = 1, 10
	accepted := func(losses ...check.AcceptedLoss) check.Verdict {
		return check.Verdict{Accepted: losses}
	}
	got := check.LossesOver([]check.Verdict{
		accepted(fewer), {}, accepted(views, likes), accepted(looser), accepted(fewer)})
	if want := []check.AcceptedLoss{likes, views, looser}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNewLossRejects(t *testing.T) {
	covers := func(time.Duration) bool { return true }
	tests := []struct {
		name, what, why string
		bound           int64
		covers          func(time.Duration) bool
	}{
		{"no what", "", "why", 1, covers}, {"no why", "what", "", 1, covers},
		{"no cover", "what", "why", 1, nil}, {"zero", "what", "why", 0, covers},
		{"negative", "what", "why", -1, covers}, {"infinity", "what", "why", math.MaxInt64, covers},
		{"more than any run", "what", "why", 1<<40 + 1, covers},
	}
	for _, tt := range tests {
		if _, err := check.NewLoss(tt.what, tt.why, tt.bound, tt.covers); err == nil {
			t.Errorf("%s was accepted", tt.name)
		}
	}
	for _, rate := range []float64{math.Inf(1), math.NaN(), 0, -5, 1e300} {
		if n, err := check.LossBound(rate, time.Second); err == nil {
			t.Errorf("a rate of %v gives the bound %d", rate, n)
		}
	}
	if n, err := check.LossBound(1000.5, 2*time.Second); n != 2001 || err != nil {
		t.Errorf("bound %d, %v", n, err)
	}
}

func TestAtMostOne(t *testing.T) {
	claims := func(things ...string) func(*check.Collector) {
		return func(c *check.Collector) {
			u := check.AtMostOne[string]{What: "unit"}
			for i, thing := range things {
				key, value, _ := strings.Cut(thing, "=")
				u.Add(c, key, value, uint64(7+i))
			}
		}
	}
	judgeClauses(t, []clause{
		{"one each - pass", twoBuys, claims("u1=o1", "u2=o2"), "", nil},
		{"the same again - pass", twoBuys, claims("u1=o1", "u1=o1"), "", nil},
		{"two for one - fail", twoBuys, claims("u1=o1", "u1=o2"), "unit u1 has both o1 and o2",
			[]uint64{0, 1, 2}},
		{"none - undecided", twoBuys, claims(), "nothing to check", nil},
	})
}

func TestConserve(t *testing.T) {
	conserve := func(total int64, counts ...int64) func(*check.Collector) {
		return func(c *check.Collector) {
			var terms []check.Term
			for i, n := range counts {
				terms = append(terms, check.Term{Name: []string{"free", "held"}[i], Count: n})
			}
			check.Conserve(c, "at the end", total, []uint64{7}, terms...)
		}
	}
	judgeClauses(t, []clause{
		{"adds up - pass", twoBuys, conserve(5, 2, 3), "", nil},
		{"too few - fail", twoBuys, conserve(5, 2, 2),
			"2 free + 2 held = 4, want 5 (-1)", []uint64{0, 2}},
		{"too many - fail", twoBuys, conserve(5, 2, 4), "want 5 (+1)", []uint64{0, 2}},
		{"negative - fail", twoBuys, conserve(5, -1, 6), "a count is negative", []uint64{0, 2}},
		{"no terms - fail", twoBuys, conserve(5), "= 0, want 5", []uint64{0, 2}},
	})
}

// sale has one unit: taken in [10, 20], given back in [50, 60], and somebody
// was told sold out at a time of the test's choice.
func sale(took, gave, told string) string {
	return `{"id":1,"kind":"take","outcome":"` + took + `","start_ns":10,"end_ns":20}
		{"id":2,"kind":"give","outcome":"` + gave + `","start_ns":50,"end_ns":60}
		{"id":3,"kind":"told","outcome":"refused",` + told + `}`
}

func TestOccupancyFull(t *testing.T) {
	full := func(c *check.Collector) {
		ops := check.Operations{}
		for r := range c.Records("take", "give") {
			ops.Add(r)
		}
		back := ops[2]
		var o check.Occupancy
		if h, ok := holdOf(ops[1], &back); ok {
			o.Add(h)
		}
		for r := range c.Records("told") {
			o.Full(c, "item", 1, r)
		}
	}
	at := func(from, to string) string { return `"start_ns":` + from + `,"end_ns":` + to }
	judgeClauses(t, []clause{
		{"while held - pass", sale("ok", "ok", at("30", "40")), full, "", nil},
		{"while taking - pass", sale("ok", "ok", at("5", "10")), full, "", nil},
		{"while giving back - pass", sale("ok", "ok", at("60", "70")), full, "", nil},
		{"across - pass", sale("ok", "ok", at("1", "100")), full, "", nil},
		{"before - fail", sale("ok", "ok", at("1", "9")), full, "at most 0 can have been", []uint64{2}},
		{"after - fail", sale("ok", "ok", at("61", "70")), full, "at most 0", []uint64{2}},
		{"after, giving back unknown - pass", sale("ok", "unknown", at("61", "70")), full, "", nil},
		{"after, giving back refused - pass", sale("ok", "refused", at("61", "70")), full, "", nil},
		{"taking unknown - pass", sale("unknown", "refused", at("90", "95")), full, "", nil},
		{"taking refused - fail", sale("refused", "refused", at("30", "40")), full,
			"at most 0", []uint64{2}},
		{"dropped - undecided",
			strings.Replace(sale("ok", "ok", `"key":"x"`), `"refused","key"`, `"dropped","key"`, 1),
			full, "nothing to check", nil},
	})
}

func TestOccupancyAtMost(t *testing.T) {
	const two = `{"id":1,"kind":"take","outcome":"ok","start_ns":10,"end_ns":20}
		{"id":2,"kind":"take","outcome":"ok","start_ns":30,"end_ns":40}
		{"id":3,"kind":"give","outcome":"ok","start_ns":START,"end_ns":99}`
	atMost := func(limit int) func(*check.Collector) {
		return func(c *check.Collector) {
			ops := check.Operations{}
			for r := range c.Records() {
				ops.Add(r)
			}
			back := ops[3]
			var o check.Occupancy
			for id, back := range map[uint64]*check.Operation{1: &back, 2: nil} {
				h, _ := holdOf(ops[id], back)
				o.Add(h)
			}
			o.AtMost(c, "item", limit)
		}
	}
	given := func(start string) string { return strings.Replace(two, "START", start, 1) }
	unknown := strings.Replace(given("50"), `"ok","start_ns":30,"end_ns":40`, `"unknown","start_ns":30`, 1)
	judgeClauses(t, []clause{
		{"given back before - pass", given("25"), atMost(1), "", nil},
		{"given back at once - pass", given("40"), atMost(1), "", nil},
		{"perhaps given back meanwhile - pass", given("35"), atMost(1), "", nil},
		{"both held - fail", given("41"), atMost(1), "at 40ns 2 were certainly held", []uint64{0, 1}},
		{"both held of two - pass", given("41"), atMost(2), "", nil},
		{"second unknown - pass", unknown, atMost(1), "", nil},
	})
}

// TestOccupancyPeak: of several times with too many holds the first of the
// worst is named, with the operations that held then.
func TestOccupancyPeak(t *testing.T) {
	h := parse(t, `{"id":1,"kind":"take","outcome":"ok","start_ns":1,"end_ns":1}
		{"id":2,"kind":"take","outcome":"ok","start_ns":2,"end_ns":2}
		{"id":3,"kind":"take","outcome":"ok","start_ns":3,"end_ns":3}
		{"id":4,"kind":"take","outcome":"ok","start_ns":4,"end_ns":4}
		{"id":5,"kind":"take","outcome":"unknown","start_ns":1}`)
	spans := map[uint64][2]time.Duration{1: {1, 5}, 2: {4, 7}, 3: {5, 9}, 4: {7, 9}, 5: {6, 6}}
	var o check.Occupancy
	for op, s := range spans {
		o.Add(check.Hold{Op: op, MustFrom: s[0], MustTo: s[1]})
	}
	c := check.Collect(t.Context(), "x", h)
	o.AtMost(c, "item", 2)
	c.Need(true, "")
	if v := c.Verdict(); v.Status != check.Held {
		t.Errorf("two at once are two: %+v", v)
	}
	c = check.Collect(t.Context(), "x", h)
	o.AtMost(c, "item", 1)
	v := c.Verdict()
	if v.Reason != "item: at 4ns 2 were certainly held at once, but only 1 exist" ||
		!slices.Equal(v.Witness, []uint64{0, 1}) {
		t.Errorf("%s, witness %v", v.Reason, v.Witness)
	}
}

// likes is a counter that starts at 100: +1 in [10, 20], -1 in [30, 40] and a
// read of a value in a span.
func likes(up, down, read string) string {
	return `{"id":1,"kind":"add","arg":1,"outcome":"` + up + `","start_ns":10,"end_ns":20}
		{"id":2,"kind":"add","arg":-1,"outcome":"` + down + `","start_ns":30,"end_ns":40}
		{"id":3,"kind":"read","outcome":"ok",` + read + `}`
}

func TestCounter(t *testing.T) {
	counting := func(stale time.Duration, reader int) func(*check.Collector) {
		return func(c *check.Collector) {
			n := check.Counter{Initial: 100, Stale: stale}
			for r := range c.Records() {
				if r.Op.Kind == "add" {
					n.Add(0, r.Op.Arg, check.Attempt(r))
				} else {
					n.Read(reader, r.Reply.Value, r)
				}
			}
			n.Check(c, "likes")
		}
	}
	counter, elsewhere := counting(0, 0), counting(0, 1)
	stale := func(by time.Duration) func(*check.Collector) { return counting(by, 0) }
	read := func(value, from, to string) string {
		return `"start_ns":` + from + `,"end_ns":` + to + `,"reply":{"value":` + value + `}`
	}
	judgeClauses(t, []clause{
		{"before - pass", likes("ok", "ok", read("100", "1", "9")), counter, "", nil},
		{"before, too high - fail", likes("ok", "ok", read("101", "1", "9")), counter,
			"likes: read 101 between 1ns and 9ns, 100 to 100 are possible", []uint64{2}},
		{"during the add, without - pass", likes("ok", "ok", read("100", "20", "25")), counter, "", nil},
		{"during the add, with - pass", likes("ok", "ok", read("101", "1", "10")), counter, "", nil},
		{"after the add - pass", likes("ok", "ok", read("101", "21", "29")), counter, "", nil},
		{"after the add, too low - fail", likes("ok", "ok", read("100", "21", "29")), counter,
			"101 to 101 are possible", []uint64{2}},
		{"during the subtraction, with - pass",
			likes("ok", "ok", read("100", "21", "30")), counter, "", nil},
		{"during the subtraction, without - pass",
			likes("ok", "ok", read("101", "40", "45")), counter, "", nil},
		{"after both - pass", likes("ok", "ok", read("100", "41", "45")), counter, "", nil},
		{"after both, too high - fail", likes("ok", "ok", read("101", "41", "45")), counter,
			"100 to 100 are possible", []uint64{2}},
		{"after both, too low - fail", likes("ok", "ok", read("99", "41", "45")), counter,
			"100 to 100 are possible", []uint64{2}},
		{"add unknown, with - pass", likes("unknown", "ok", read("100", "41", "45")), counter, "", nil},
		{"add unknown, without - pass", likes("unknown", "ok", read("99", "41", "45")), counter, "", nil},
		{"add unknown, too high - fail", likes("unknown", "ok", read("101", "41", "45")), counter,
			"99 to 100 are possible", []uint64{2}},
		{"subtraction unknown, without - pass",
			likes("ok", "unknown", read("101", "41", "45")), counter, "", nil},
		{"subtraction unknown, too low - fail", likes("ok", "unknown", read("99", "41", "45")), counter,
			"100 to 101 are possible", []uint64{2}},
		{"add refused, with - fail", likes("refused", "refused", read("101", "41", "45")), counter,
			"100 to 100 are possible", []uint64{2}},
		{"read unknown - undecided",
			strings.Replace(likes("ok", "ok", read("7", "41", "45")), `"read","outcome":"ok"`,
				`"read","outcome":"unknown"`, 1), counter, "nothing to check", nil},
		{"as old as it may be - pass", likes("ok", "ok", read("100", "25", "26")), stale(5), "", nil},
		{"older than it may be - fail", likes("ok", "ok", read("100", "26", "27")), stale(5),
			"101 to 101 are possible", []uint64{2}},
		{"the other region unheard of - pass", likes("ok", "ok", read("100", "21", "29")), elsewhere, "",
			nil},
		{"the other region before it took back - pass", likes("ok", "ok", read("101", "41", "45")),
			elsewhere, "", nil},
		{"more than the other region ever had - fail", likes("ok", "ok", read("102", "41", "45")),
			elsewhere, "100 to 101 are possible", []uint64{2}},
		{"less than the other region ever had - fail", likes("ok", "ok", read("99", "41", "45")),
			elsewhere, "100 to 101 are possible", []uint64{2}},
	})
}
