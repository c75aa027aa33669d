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
