package check_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// parse reads a history from NDJSON.
func parse(t testing.TB, text string) *history.Memory {
	t.Helper()
	h, err := history.ReadNDJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// clause is a minimal history and what one clause of a checker says of it.
type clause struct {
	name    string // ends in "- pass", "- fail" or "- undecided"
	history string
	judge   func(c *check.Collector)
	reason  string // part of the verdict's reason
	witness []uint64
}

// expected is the status that a clause's name asks for.
func (cl clause) expected() check.Status {
	switch {
	case strings.HasSuffix(cl.name, "- pass"):
		return check.Held
	case strings.HasSuffix(cl.name, "- fail"):
		return check.Broken
	}
	return check.Undecided
}

// judgeClauses runs a table of clauses.
func judgeClauses(t *testing.T, clauses []clause) {
	for _, cl := range clauses {
		t.Run(cl.name, func(t *testing.T) {
			c := check.Collect(t.Context(), "clause", parse(t, cl.history))
			cl.judge(c)
			v := c.Verdict()
			if v.Status != cl.expected() || !strings.Contains(v.Reason, cl.reason) {
				t.Fatalf("%v because %q, want %v because %q", v.Status, v.Reason, cl.expected(), cl.reason)
			}
			if v.Status == check.Broken && v.Count == 0 || !slices.Equal(v.Witness, cl.witness) {
				t.Errorf("%d violations with witness %v, want %v", v.Count, v.Witness, cl.witness)
			}
		})
	}
}

const twoBuys = `
{"id":7,"kind":"buy","key":"item","client":"ann","outcome":"ok","start_ns":10,"end_ns":20,"reply":{"key":"o1"}}
{"id":8,"kind":"buy","key":"item","client":"bob","outcome":"unknown","start_ns":12}
{"id":7,"kind":"buy","key":"item","client":"ann","outcome":"ok","start_ns":30,"end_ns":40,"reply":{"key":"o1"}}
`

func TestCollector(t *testing.T) {
	judgeClauses(t, []clause{
		{"checked - pass", twoBuys, func(c *check.Collector) { c.Checked(1) }, "", nil},
		{"nothing checked - undecided", twoBuys, func(c *check.Collector) {}, "nothing to check", nil},
		{"need met - pass", twoBuys, func(c *check.Collector) {
			c.Checked(1)
			c.Need(true, "nothing")
		}, "", nil},
		{"a note - pass", twoBuys, func(c *check.Collector) {
			c.Checked(1)
			c.Note("looked at %d", 1)
			c.Note("looked at %d", 2)
		}, "looked at 2", nil},
		{"a note does not hide a need - undecided", twoBuys, func(c *check.Collector) {
			c.Checked(1)
			c.Note("looked at 1")
			c.Need(false, "no refusal")
		}, "no refusal", nil},
		{"needs unmet - undecided", twoBuys, func(c *check.Collector) {
			c.Checked(1)
			c.Need(false, "no %s", "refusal")
			c.Need(false, "no fault")
		}, "no refusal; no fault", nil},
		{"no occasion for a promise of time - undecided", twoBuys, func(c *check.Collector) {
			c.Checked(1)
			c.NeedTimely(true, "nothing")
			c.NeedTimely(false, "all of it was near a %s", "fault")
		}, "all of it was near a fault", nil},
		{"a need outweighs the occasion - undecided", twoBuys, func(c *check.Collector) {
			c.NeedTimely(false, "near a fault")
			c.Need(false, "no refusal")
		}, "no refusal", nil},
		{"violation outweighs the occasion - fail", twoBuys, func(c *check.Collector) {
			c.NeedTimely(false, "near a fault")
			c.Violate([]uint64{8}, "proof")
		}, "proof", []uint64{1}},
		{"violation outweighs a need - fail", twoBuys, func(c *check.Collector) {
			c.Need(false, "no refusal")
			c.Violate([]uint64{7, 0, 8}, "two %s", "owners")
		}, "two owners", []uint64{0, 1, 2}},
		{"violation before a failure - fail", twoBuys, func(c *check.Collector) {
			c.Violate([]uint64{8}, "proof")
			c.Fail("gone")
		}, "proof", []uint64{1}},
		{"violation after a failure - undecided", twoBuys, func(c *check.Collector) {
			c.Checked(1)
			c.Fail("gone")
			c.Fail("later")
			c.Violate([]uint64{8}, "no proof")
		}, "gone", nil},
	})
}

// TestCollectorTellsPromises: a promise of time that could not be judged leaves nothing else
// open, and a need that is not met does.
func TestCollectorTellsPromises(t *testing.T) {
	for _, test := range []struct {
		occasion, exercised, notJudged bool
	}{{true, true, false}, {false, true, true}, {true, false, false}, {false, false, false}} {
		c := check.Collect(t.Context(), "x", parse(t, twoBuys))
		c.Checked(1)
		c.NeedTimely(test.occasion, "near a fault")
		c.Need(test.exercised, "no refusal")
		if v := c.Verdict(); v.NotJudged() != test.notJudged || v.NotExercised == test.exercised {
			t.Errorf("%+v: %+v", test, v)
		}
	}
}

func TestCollectorSpellsOutTheFirstViolations(t *testing.T) {
	c := check.Collect(t.Context(), "x", parse(t, twoBuys))
	for i := range 100 {
		c.Violate([]uint64{7}, "violation %d", i)
	}
	v := c.Verdict()
	if v.Count != 100 || len(v.Violations) != check.MaxViolations ||
		v.Violations[19].Text != "violation 19" {
		t.Errorf("%d violations, %d spelled out", v.Count, len(v.Violations))
	}
	if first := v.Violations[0]; first.AtNS != 40 || !slices.Equal(first.Ops, []uint64{0, 2}) {
		t.Errorf("violation %+v, want both attempts and the end of the last", first)
	}
}

// TestCollectorDatesViolations: by the last answer to the operations that prove it, but
// not if it has a moment of its own, and not if there are so many that some may be unnamed.
func TestCollectorDatesViolations(t *testing.T) {
	many := []uint64{7, 8}
	for id := range uint64(check.MaxProof - len(many)) {
		many = append(many, 100+id)
	}
	c := check.Collect(t.Context(), "x", parse(t, twoBuys))
	c.Violate([]uint64{7}, "by its answers")
	c.ViolateAt(25, []uint64{7}, "at a moment of its own")
	c.Violate(many, "by many")
	c.Violate(many[:len(many)-1], "by a few")
	var got []int64
	for _, v := range c.Verdict().Violations {
		got = append(got, v.AtNS)
	}
	if want := []int64{40, 25, 0, 40}; !slices.Equal(got, want) {
		t.Errorf("dated %d, want %d", got, want)
	}
}

func TestRecordsSelectsKinds(t *testing.T) {
	h := parse(t, `
		{"id":2,"kind":"stock","outcome":"dropped"}
		{"id":3,"kind":"pay","outcome":"dropped"}`)
	c := check.Collect(t.Context(), "x", h)
	var ids []uint64
	for r := range c.Records("pay", "buy") {
		ids = append(ids, r.Op.ID)
	}
	for r := range c.Records() {
		ids = append(ids, r.Op.ID)
		break
	}
	if !slices.Equal(ids, []uint64{3, 2}) {
		t.Errorf("records %v", ids)
	}
}

// TestWitnessesAreBounded: a violation names each record once and at most
// eight of them.
func TestWitnessesAreBounded(t *testing.T) {
	var records []history.Record
	var ops []uint64
	for i := range uint64(20) {
		records = append(records, history.Record{Seq: i, Op: history.Op{ID: i + 1}, End: 7})
		ops = append(ops, i+1, i+1)
	}
	c := check.Collect(t.Context(), "x", history.Slice(records))
	c.Violate(ops, "many")
	c.Violate([]uint64{20, 20, 1}, "few")
	v := c.Verdict()
	if got := v.Violations[0].Ops; !slices.Equal(got, []uint64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("many: %v", got)
	}
	if got := v.Violations[1].Ops; !slices.Equal(got, []uint64{0, 19}) {
		t.Errorf("few: %v", got)
	}
	if !slices.Equal(v.Witness, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 19}) {
		t.Errorf("witness %v", v.Witness)
	}
}

func TestCollectorCounts(t *testing.T) {
	c := check.Collect(t.Context(), "x", history.Slice(nil))
	c.Checked(2)
	c.Checked(3)
	c.AllowedUnknown(3)
	c.AllowedUnknown(1)
	if v := c.Verdict(); v.Invariant != "x" || v.Checked != 5 || v.Unknown != 4 {
		t.Errorf("%+v", v)
	}
}

// TestCollectorTellsKindsApart: what is late or not finished is a violation like any other,
// and counted, also where it is not spelled out any more.
func TestCollectorTellsKindsApart(t *testing.T) {
	c := check.Collect(t.Context(), "x", history.Slice(nil))
	c.Late(nil, "late")
	for range check.MaxViolations {
		c.LateAt(time.Second, nil, "late by then")
		c.Unfinished(nil, "not done")
	}
	c.Violate(nil, "wrong")
	c.Late(nil, "late again")
	v := c.Verdict()
	if v.Status != check.Broken || v.Late != check.MaxViolations+2 ||
		v.Unfinished != check.MaxViolations || v.Count != 2*check.MaxViolations+3 ||
		v.Violations[1].AtNS != time.Second.Nanoseconds() || v.Reason != "wrong" ||
		len(v.Violations) != check.MaxViolations || v.Violations[check.MaxViolations-1].Text != "wrong" {
		t.Errorf("%+v", v)
	}
	c = check.Collect(t.Context(), "x", history.Slice(nil))
	c.AtRest()
	c.Violate(nil, "not there")
	c.ViolateAt(time.Second, nil, "wrong by then")
	if v := c.Verdict(); v.Status != check.Broken || v.Count != 2 || v.Unfinished != 1 {
		t.Errorf("at rest: %+v", v)
	}
	c = check.Collect(t.Context(), "x", torn{history.Slice(nil)})
	for range c.Records() {
		t.Fatal("there is a record")
	}
	c.Late(nil, "late")
	if v := c.Verdict(); v.Count != 0 || v.Late != 0 {
		t.Errorf("after a failure: %+v", v)
	}
}

// torn is a history that fails after its records.
type torn struct{ history.History }

func (h torn) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for r := range h.History.All() {
			if !yield(r, nil) {
				return
			}
		}
		yield(history.Record{}, errors.New("checksum mismatch"))
	}
}

func TestUnreadableHistoryIsUndecided(t *testing.T) {
	c := check.Collect(t.Context(), "x", torn{parse(t, twoBuys)})
	for range c.Records() {
		c.Checked(1)
	}
	c.Violate([]uint64{9}, "absent from the part that was read")
	v := c.Verdict()
	if v.Status != check.Undecided || !strings.Contains(v.Reason, "checksum mismatch") {
		t.Errorf("%+v", v)
	}
}

func TestCancelledCollectionIsUndecided(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := check.Collect(ctx, "x", parse(t, twoBuys))
	for range c.Records() {
		c.Checked(1)
	}
	if v := c.Verdict(); v.Status != check.Undecided || !strings.Contains(v.Reason, "canceled") {
		t.Errorf("%+v", v)
	}
}

func TestOperationsMergeAttempts(t *testing.T) {
	h := parse(t, `
		{"id":1,"kind":"buy","outcome":"unknown","start_ns":10,"end_ns":20}
		{"id":1,"kind":"buy","outcome":"refused","start_ns":21,"end_ns":22}
		{"id":1,"kind":"buy","outcome":"ok","start_ns":30,"end_ns":40}
		{"id":1,"kind":"buy","outcome":"ok","start_ns":50,"end_ns":60}
		{"id":2,"kind":"buy","outcome":"refused","start_ns":10,"end_ns":20}
		{"id":2,"kind":"buy","outcome":"dropped"}
		{"id":3,"kind":"buy","outcome":"refused","start_ns":10,"end_ns":20}
		{"id":3,"kind":"buy","outcome":"unknown","start_ns":30}`)
	ops := check.Operations{}
	for r := range h.All() {
		ops.Add(&r)
	}
	never := history.Never
	want := map[uint64]check.Operation{
		1: {ID: 1, Outcome: history.OK, Start: 10, End: 40},
		2: {ID: 2, Outcome: history.Refused, Start: never, End: never},
		3: {ID: 3, Outcome: history.Unknown, Start: 30, End: never},
	}
	for id, o := range want {
		if ops[id] != o {
			t.Errorf("operation %d is %+v, want %+v", id, ops[id], o)
		}
	}
}

func TestTimeText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		908_478_567:            "908ms",
		90_847_856:             "90.8ms",
		9_999_999:              "10ms",
		41_234:                 "41.2µs",
		412:                    "412ns",
		7:                      "7ns",
		0:                      "0s",
		2_524_050_111:          "2.524s",
		-2_524_050_111:         "-2.524s",
		90 * time.Second:       "1m30s",
		300 * time.Millisecond: "300ms",
	} {
		if got := check.TimeText(d); got != want {
			t.Errorf("%d is %q, want %q", d, got, want)
		}
	}
}

// TestTextsHaveShortTimes: whatever a judge hands over.
func TestTextsHaveShortTimes(t *testing.T) {
	c := check.Collect(t.Context(), "x", parse(t, ""))
	c.Violate(nil, "acknowledged at %v, gone at %s", 908_478_567*time.Nanosecond,
		2_524_050_111*time.Nanosecond)
	v := c.Verdict()
	if got := v.Violations[0].Text; got != "acknowledged at 908ms, gone at 2.524s" {
		t.Errorf("it says %q", got)
	}
}
