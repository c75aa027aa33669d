package check_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// store is an audit in the tests of families: what the columns of its rows are called.
type store struct {
	rows   map[string][]check.Fact
	slack  time.Duration
	now    int64
	broken error
}

// familyCase is a history with facts that a clause passes, fails or leaves open, which the end
// of its name says.
type familyCase struct {
	name    string
	history string
	facts   store
	clause  check.Clause
	text    string // a part of the violation or reason
	ops     []uint64
}

func (f familyCase) judge(t *testing.T, more ...check.Clause) check.Verdict {
	t.Helper()
	s := &check.Subject{
		Read: func(json.RawMessage) (check.Facts, error) {
			facts := check.Facts{Declared: map[string]time.Duration{"slack_ns": f.facts.slack},
				Now: f.facts.now}
			for name, rows := range f.facts.rows {
				facts.Tables = append(facts.Tables, check.TableOf(name, rows))
			}
			return facts, f.facts.broken
		},
		Most: map[string]time.Duration{"slack_ns": time.Second},
	}
	h := parse(t, f.history)
	clauses := append([]check.Clause{f.clause}, more...)
	return check.All(t.Context(), []check.Invariant{s.State("x", "", clauses...)}, h, nil)[0]
}

func judgeFamilies(t *testing.T, cases []familyCase) {
	t.Helper()
	for _, f := range cases {
		t.Run(f.name, func(t *testing.T) {
			want := check.Undecided
			switch {
			case strings.HasSuffix(f.name, " - pass"):
				want = check.Held
			case strings.HasSuffix(f.name, " - fail"):
				want = check.Broken
			case !strings.HasSuffix(f.name, " - undecided"):
				t.Fatal("a name ends with what is expected")
			}
			v := f.judge(t)
			if v.Status != want || !strings.Contains(v.First(), f.text) {
				t.Fatalf("%s: %s; want %s with %q", v.Status, v.First(), want, f.text)
			}
			if f.ops != nil && !slices.Equal(v.Witness, f.ops) {
				t.Errorf("witness %v, want %v", v.Witness, f.ops)
			}
		})
	}
}

// of is a store of one table.
func of(name string, rows ...check.Fact) store {
	return store{rows: map[string][]check.Fact{name: rows}}
}

func made(op uint64, name, key, owner string, thing int64) check.Fact {
	return check.Fact{Op: op, Name: name, Key: key, Owner: owner, Thing: thing}
}

func TestEffectFamilies(t *testing.T) {
	orders := check.Effects{Table: "order", Kind: check.Named("buy")}
	o1, o2 := made(7, "o1", "item", "ann", 0), made(8, "o2", "item", "bob", 0)
	eve := made(8, "o2", "item", "eve", 0)
	durable, phantom := check.AckedDurable(orders), check.NoPhantom(orders)
	const denied = `{"id":5,"kind":"buy","outcome":"refused","start_ns":1,"end_ns":2}
		{"id":5,"kind":"buy","outcome":"dropped"}`
	const retried = `{"id":5,"kind":"buy","outcome":"unknown","start_ns":1}
		{"id":5,"kind":"buy","outcome":"refused","start_ns":3,"end_ns":4}`
	superseded := orders
	superseded.Excused = func(r *check.Run) func(uint64) bool {
		acked := map[uint64]bool{}
		r.See(func(rec *history.Record) { acked[rec.Op.ID] = true }, "buy")
		return func(op uint64) bool { return acked[op] }
	}
	losing := orders
	losing.Losses = func(r *check.Run) ([]check.Loss, error) {
		loss, err := check.NewLoss("orders", "memory", 1, check.Around(r.Faults(), 0))
		return []check.Loss{loss}, err
	}
	unit := func(n int64) check.Fact { return made(7, "o1", "item", "ann", n) }
	withUnit := strings.ReplaceAll(twoBuys, `"key":"o1"`, `"key":"o1","value":3`)
	judgeFamilies(t, []familyCase{
		{"acknowledged is there, unknown is not - pass", twoBuys, of("order", o1), durable, "", nil},
		{"both are there - pass", twoBuys, of("order", o1, o2), durable, "", nil},
		{"acknowledged is gone - fail", twoBuys, of("order", o2), durable, `operation 7 (key "item", ` +
			`client "ann") was acknowledged at 20ns ("o1") but has no effect at the end`, []uint64{0, 2}},
		{"gone, and excused - pass", twoBuys, of("order", o2), check.AckedDurable(superseded), "", nil},
		{"gone outside declared losses - fail", twoBuys, of("order", o2), check.AckedDurable(losing),
			"has no effect at the end", nil},
		{"of another operation - fail", twoBuys, of("order", made(8, "o1", "item", "bob", 0)), durable,
			`acknowledged at 20ns ("o1"); at the end there is o1 of operation 8`, []uint64{0, 1, 2}},
		{"of another owner - fail", twoBuys, of("order", made(7, "o1", "item", "bob", 0)), durable,
			`client "bob") was requested with key "item" by client "ann"`, []uint64{0, 2}},
		{"unknown is of another owner - pass", twoBuys, of("order", o1, eve), durable, "", nil},
		{"under another name - fail", twoBuys, of("order", made(7, "o9", "item", "ann", 0)), durable,
			`operation 7 was answered "o1", but at the end there is o9`, []uint64{0, 2}},
		{"under one of two names - pass", twoBuys, of("order", made(7, "o9", "", "", 0),
			made(7, "o1", "", "", 0)), durable, "", nil},
		{"nothing acknowledged - undecided", denied, of("order"), durable,
			"no operation was acknowledged", nil},
		{"of the thing that was acknowledged - pass", withUnit, of("order", unit(3)), durable, "", nil},
		{"of another thing - fail", withUnit, of("order", unit(4)), durable,
			"acknowledged as item 3 at 20ns; at the end it is item 4", []uint64{0, 2}},
		{"no such table - undecided", twoBuys, of("buyer"), durable, "the audit has no orders", nil},

		{"asked for - pass", twoBuys, of("order", o1, o2), phantom, "", nil},
		{"never asked for - fail", twoBuys, of("order", made(9, "o9", "", "", 0)), phantom,
			"o9 of operation 9 (key \"\", client \"\") was never requested", nil},
		{"refused and dropped - fail", denied, of("order", made(5, "o5", "", "", 0)), phantom,
			"the operation was refused", []uint64{0, 1}},
		{"unknown, then refused - pass", retried, of("order", made(5, "o5", "", "", 0)), phantom, "",
			nil},
		{"another's owner - fail", twoBuys, of("order", eve), phantom, `by client "bob"`, []uint64{1}},
		{"another's key - fail", twoBuys, of("order", made(8, "o2", "thing", "bob", 0)), phantom,
			`with key "item"`, []uint64{1}},
		{"no rows that could be phantoms - undecided", twoBuys, of("order"), phantom,
			"no effect at the end", nil},

		{"each once - pass", twoBuys, of("order", o1, o2), check.AtMostOnce("order", check.ByOp), "",
			nil},
		{"one twice - fail", twoBuys, of("order", o1, made(7, "o3", "item", "ann", 0)),
			check.AtMostOnce("order", check.ByOp),
			"operation 7: there are order o1 of ann and order o3 of ann", []uint64{0, 2}},
		{"one key twice - fail", twoBuys, of("order", o1, o2), check.AtMostOnce("order", check.ByKey),
			"item: there are", []uint64{0, 1, 2}},
		{"no rows - undecided", twoBuys, of("order"), check.AtMostOnce("order", check.ByOp),
			"there is no order", nil},
	})
	resting := orders
	resting.AtRest = true
	for name, clause := range map[string]check.Clause{"durable": durable, "phantom": phantom} {
		v := familyCase{history: twoBuys, facts: of("order", o1, o2), clause: clause}.judge(t)
		if v.Unknown != 1 {
			t.Errorf("%s: one of unknown outcome was allowed for: %+v", name, v)
		}
	}
	gone := familyCase{history: twoBuys, facts: of("order", o2), clause: check.AckedDurable(resting)}
	if v := gone.judge(t); v.Unfinished != 1 {
		t.Errorf("what may come until rest is unfinished: %+v", v)
	}
	// That is said of one clause, and not of the next one.
	if v := gone.judge(t, durable); v.Count != 2 || v.Unfinished != 1 {
		t.Errorf("what may come until rest is unfinished, and nothing else: %+v", v)
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
	losing := func(bound int64) check.Clause {
		return check.AckedDurable(check.Effects{Table: "order", Kind: check.Named("buy"),
			Losses: func(r *check.Run) ([]check.Loss, error) {
				loss, err := check.NewLoss("likes", "AOF is synced every second", bound,
					check.Around(r.Faults(), 2*time.Second))
				return []check.Loss{loss}, err
			}})
	}
	left := func(ops ...uint64) store {
		s := of("order")
		for _, op := range ops {
			s.rows["order"] = append(s.rows["order"], check.Fact{Op: op})
		}
		return s
	}
	judgeFamilies(t, []familyCase{
		{"within the window and the bound - pass", lossy, left(1, 4), losing(2), "", nil},
		{"nothing lost - pass", lossy, left(1, 2, 3, 4), losing(2), "", nil},
		{"beyond the bound - fail", lossy, left(1, 4), losing(1), "operation 3", []uint64{2}},
		{"before the window - fail", lossy, left(2, 3, 4), losing(2), "operation 1", []uint64{0}},
		{"after the window - fail", lossy, left(1, 2, 3), losing(2), "operation 4", []uint64{3}},
		{"within both, but another's - fail", lossy, of("order", check.Fact{Op: 1}, check.Fact{Op: 4},
			check.Fact{Op: 9, Name: "o2"}, check.Fact{Op: 5, Name: "o3"}), losing(2),
			`("o3"); at the end there is o3 of operation 5`, []uint64{2}},
		{"bound that nothing can exceed - undecided", lossy, left(1, 4), losing(4),
			"no loss could exceed it", nil},
	})
	v := familyCase{history: lossy, facts: left(1, 2, 4), clause: losing(3)}.judge(t)
	want := check.AcceptedLoss{What: "likes", Why: "AOF is synced every second", Count: 1, Bound: 3}
	if len(v.Accepted) != 1 || v.Accepted[0] != want {
		t.Errorf("accepted %+v, want %+v", v.Accepted, want)
	}
}

func TestCapacityFamily(t *testing.T) {
	state := func(f check.Fact, state string, from, to int64) check.Fact {
		f.State, f.From, f.To = state, from, to
		return f
	}
	ann, bob := made(7, "o1", "item", "ann", 1), made(8, "o2", "item", "bob", 1)
	of1 := check.Capacity{Table: "order", Kind: check.Named("buy"), By: check.ByKey, Most: 1,
		Live: []string{"held", "sold"}, Final: []string{"sold"}}
	unit, of2, slow := of1, of1, of1
	unit.By = check.ByKey | check.ByThing
	unit.Counts = func(f *check.Fact) bool { return f.Thing != 0 }
	of2.Most = 2
	slow.Slack = "slack_ns"
	both := strings.Replace(twoBuys, `"unknown","start_ns":12`, `"ok","start_ns":12,"end_ns":25`, 1)
	cid := made(9, "o3", "item", "cid", 2)
	day := int64(24 * time.Hour)
	slowly := func(slack time.Duration, rows ...check.Fact) store {
		s := of("order", rows...)
		s.slack = slack
		return s
	}
	judgeFamilies(t, []familyCase{
		{"one is back - pass", twoBuys, of("order", state(ann, "sold", 1, 2), state(bob, "back", 1, 2)),
			of1.AtEnd(), "", nil},
		{"both have it - fail", twoBuys, of("order", state(ann, "sold", 1, 2), state(bob, "held", 3, 0)),
			of1.AtEnd(), "item: order o1 of ann (sold) and order o2 of bob (held) both have it",
			[]uint64{0, 1, 2}},
		{"two of two - pass", twoBuys, of("order", state(ann, "sold", 1, 2), state(bob, "held", 3, 0)),
			of2.AtEnd(), "", nil},
		{"three of two - fail", twoBuys, of("order", state(ann, "sold", 1, 2), state(bob, "held", 3, 0),
			state(cid, "held", 1, 0)), of2.AtEnd(), "3 orders have a unit at the end, but only 2", nil},
		{"three of two for good - fail", twoBuys, of("order", state(ann, "sold", 1, 2),
			state(bob, "sold", 3, 0), state(cid, "sold", 1, 0)), of2.AtEnd(), "have one for good", nil},
		{"what does not count - pass", twoBuys, of("order", state(made(7, "o1", "item", "ann", 0), "sold",
			1, 2), state(made(8, "o2", "item", "bob", 0), "sold", 1, 2)), unit.AtEnd(), "", nil},

		{"held one after the other - pass", both, of("order", state(ann, "back", 100, 101),
			state(bob, "sold", 100, 0)), of1.Held(), "", nil},
		{"held at once - fail", both, of("order", state(ann, "back", 100, 190),
			state(bob, "sold", 100, 0)), of1.Held(), "at 25ns 2 were certainly held at once", nil},
		{"held at once, one not acknowledged - pass", twoBuys, of("order", state(ann, "sold", 1, 2),
			state(bob, "sold", 1, 2)), of1.Held(), "", nil},

		{"nights in a row - pass", twoBuys, of("order", state(ann, "", 5, 7), state(bob, "", 7, 9)),
			of1.Spans(), "", nil},
		{"a night shared - fail", twoBuys, of("order", state(bob, "", 6, 9), state(ann, "", 5, 7)),
			of1.Spans(), "2 at once, of at most 1: order o1 of ann and order o2 of bob overlap from 6 to 7",
			[]uint64{0, 1, 2}},
		{"a day shared - fail", twoBuys, of("order", state(bob, "", 20*day, 22*day),
			state(ann, "", 19*day, 21*day)), of1.Spans(), "overlap for 24h0m0s", nil},
		{"a night shared in a larger room - pass", twoBuys, of("order", state(bob, "", 6, 9),
			state(ann, "", 5, 7)), of2.Spans(), "", nil},
		{"no night - pass", twoBuys, of("order", state(bob, "", 5, 9), state(ann, "", 6, 6)),
			of1.Spans(), "", nil},
		{"backwards - fail", twoBuys, of("order", state(bob, "", 5, 3)), of1.Spans(),
			"ends at 3, before it begins at 5", []uint64{1}},
		// The slowest operation took 10 ns.
		{"overlap within the slack - pass", twoBuys, slowly(20, state(ann, "back", 5, 100),
			state(bob, "back", 70, 200)), slow.Spans(), "", nil},
		{"overlap beyond the slack - fail", twoBuys, slowly(19, state(ann, "back", 5, 100),
			state(bob, "back", 69, 200)), slow.Spans(), "overlap for 31ns", nil},
		{"overlap for ever - fail", twoBuys, slowly(19, state(ann, "held", 5, 0),
			state(bob, "sold", 69, 70)), slow.Spans(), "for ever", nil},
		{"a clock that was set back - pass", twoBuys, slowly(19, state(ann, "back", 500, 100),
			state(bob, "back", 200, 400)), slow.Spans(), "", nil},
		{"a slack that excuses all - undecided", twoBuys, slowly(time.Minute, state(ann, "back", 5, 100),
			state(bob, "back", 69, 200)), slow.Spans(), "the most allowed is 1s", nil},
	})
	cured := familyCase{history: twoBuys + `
{"window":{"kind":"fault","name":"pause","start_ns":500,"end_ns":600,"recovered_ns":640}}`,
		facts: slowly(19, state(ann, "back", 5, 300), state(bob, "back", 131, 400)), clause: slow.Spans()}
	if v := cured.judge(t); v.Status != check.Held {
		t.Errorf("a fault may have held a lock for 140ns: %s", v.First())
	}
}

// change is an entry of a log.
func change(seq int64, name, from, to, cause string) check.Fact {
	return check.Fact{Seq: seq, Name: name, Before: from, State: to, Cause: cause, Key: "room",
		Version: seq}
}

func TestPathFamily(t *testing.T) {
	path := check.Path{Log: "step", Start: "free", Owners: "hold", Moves: []check.Move{
		{From: "free", To: "held", Cause: "hold"}, {From: "held", To: "sold", Cause: "confirm"},
		{From: "held", To: "free", Cause: "expire"}}}
	track := check.Track{By: check.ByKey, Rows: "room", Held: true}
	once := check.Track{By: check.ByName, Rows: "hold", Once: true, Strict: true,
		Ends: map[string]string{"expired": "free"}}
	log := func(state string, version int64, steps ...check.Fact) store {
		return store{rows: map[string][]check.Fact{"step": steps,
			"room": {{Key: "room", State: state, Version: version}},
			"hold": {{Op: 7, Name: "h1", State: "sold"}, {Op: 8, Name: "h2", State: "expired"}}}}
	}
	took, back := change(1, "h2", "free", "held", "hold"), change(2, "h2", "held", "free", "expire")
	again, sold := change(3, "h1", "free", "held", "hold"), change(4, "h1", "held", "sold", "confirm")
	version := func(f check.Fact, n int64) check.Fact { f.Version = n; return f }
	named := func(f check.Fact, name string) check.Fact { f.Name = name; return f }
	stray := store{rows: map[string][]check.Fact{"step": {took, back, again, sold,
		change(5, "h3", "free", "held", "hold")}, "hold": log("", 0).rows["hold"]}}
	judgeFamilies(t, []familyCase{
		{"moves - pass", twoBuys, log("sold", 4, took, back, again, sold), path.Causes(), "", nil},
		{"no such move - fail", twoBuys, log("", 0, change(1, "h1", "free", "sold", "confirm")),
			path.Causes(), "step 1: h1 room went from free to sold because of \"confirm\", which may not " +
				"be: confirm leads from held to sold", []uint64{0, 2}},
		{"out of an absorbing state - fail", twoBuys, log("", 0, change(1, "h1", "sold", "free", "")),
			path.Causes(), "sold may be followed by nothing", nil},

		{"to the end - pass", twoBuys, log("sold", 4, took, back, again, sold), path.Follow(track), "",
			nil},
		{"a gap - fail", twoBuys, log("sold", 4, took, sold), path.Follow(track), "", nil},
		{"not from the start - fail", twoBuys, log("sold", 4, sold), path.Follow(track),
			"nothing had happened to it, so that it was free", []uint64{0, 2}},
		{"taken while held - fail", twoBuys, log("held", 3, took, again), path.Follow(track),
			"step 3 leads from free to held because of \"hold\", but it was held since 1",
			[]uint64{0, 1, 2}},
		{"changed by another - fail", twoBuys, log("free", 2, took, named(back, "h1")),
			path.Follow(track), "h2 had it since 1", nil},
		{"a version left out - fail", twoBuys, log("free", 3, took, version(back, 3)),
			path.Follow(track), "it made version 3 of version 1", nil},
		{"elsewhere at the end - fail", twoBuys, log("held", 2, took, back), path.Follow(track),
			"room room (held) is held at the end, but step 2 left it free", nil},
		{"another version at the end - fail", twoBuys, log("free", 3, took, back), path.Follow(track),
			"its version is 3 and step 2 left it at 2", nil},
		{"never mentioned, and at the start - pass", twoBuys, log("free", 0,
			func() check.Fact { f := took; f.Key = "other"; return f }()), path.Follow(track), "", nil},
		{"never mentioned, and elsewhere - fail", twoBuys, log("sold", 0,
			func() check.Fact { f := took; f.Key = "other"; return f }()), path.Follow(track),
			"no step mentions it", nil},

		{"each once - pass", twoBuys, log("", 0, took, back, again, sold), path.Follow(once), "", nil},
		{"again after its end - fail", twoBuys, log("", 0, took, back, named(again, "h2"),
			change(4, "h2", "held", "free", "expire")), path.Follow(once), "it had come back to free at 2",
			nil},
		{"resurrected - fail", twoBuys, log("", 0, took, back, again, sold,
			change(5, "h2", "held", "sold", "confirm")), path.Follow(once), "it was free since 2", nil},
		{"a row that is not mentioned - fail", twoBuys, log("", 0, took, back), path.Follow(once),
			"hold h1 (sold) is sold at the end, but no step mentions it", []uint64{0, 2}},
		{"of a row that is not there - fail", twoBuys, stray, path.Follow(once),
			"step 5 is about h3, which does not exist", nil},
		{"without rows - undecided", twoBuys, of("step", took), path.Follow(once),
			"the audit has no holds", nil},
		{"without rows that a design may not keep - pass", twoBuys, of("step", took),
			path.Follow(track), "", nil},
	})
}

// held is a hold of operation 7 for a second, which may end a second late.
func held(state string, lasted time.Duration) store {
	s := of("hold", check.Fact{Op: 7, Name: "h1", State: state, From: 1000, To: 1000 + int64(lasted)},
		check.Fact{Op: 8, Name: "h2", State: "expired", From: 1000, To: 1000 + int64(time.Second)})
	s.slack, s.now = time.Second, 1000+int64(lasted)
	return s
}

func TestInTimeFamily(t *testing.T) {
	clause := check.InTime(check.Bound{Table: "hold", Kind: check.Named("buy"), Slack: "slack_ns",
		Ended: []string{"expired"}, Open: []string{"held"}, NotBefore: time.Second,
		Within: time.Second, Grain: time.Millisecond})
	const slow = `
{"id":9,"kind":"read","client":"eve","outcome":"ok","start_ns":0,"end_ns":50000000}`
	const fault = `
{"window":{"kind":"fault","name":"pause","start_ns":500000000,"end_ns":600000000,"recovered_ns":700000000}}`
	const ms = time.Millisecond
	undeclared, generous := held("expired", time.Second), held("expired", time.Hour)
	undeclared.slack, generous.slack = 0, time.Minute
	judgeFamilies(t, []familyCase{
		{"in time - pass", twoBuys, held("expired", 2*time.Second), clause,
			"2 holds came to the end of their time, the slowest 1s after it; the promise is 1s", nil},
		{"early by less than the clock's grain - pass", twoBuys, held("expired", 999*ms), clause, "",
			nil},
		{"early - fail", twoBuys, held("expired", 998*ms), clause,
			"hold h1 (expired) was over after 998ms, before its time of 1s was", []uint64{0, 2}},
		{"sold early - pass", twoBuys, held("sold", ms), clause, "", nil},
		{"late - fail", twoBuys, held("expired", 2001*ms), clause, "was over after 2.001s",
			[]uint64{0, 2}},
		{"late by the slowest operation - pass", twoBuys + slow, held("expired", 2050*ms), clause, "",
			nil},
		{"later than that - fail", twoBuys + slow, held("expired", 2051*ms), clause, "2.05s", nil},
		{"late by a fault and the slack - pass", twoBuys + fault, held("expired", 3200*ms), clause, "",
			nil},
		{"later than that fault excuses - fail", twoBuys + fault, held("expired", 3201*ms), clause, "",
			nil},
		{"still open - fail", twoBuys, held("held", 2001*ms), clause,
			"hold h1 (held) has not ended after 2.001s", nil},
		{"nothing came to its end - undecided", twoBuys,
			func() store { s := of("hold", made(7, "h1", "", "", 0)); s.slack = 1; return s }(), clause,
			"no hold came to the end of its time", nil},
		{"no promise - undecided", twoBuys, undeclared, clause, "the audit has no slack_ns", nil},
		{"a promise that excuses all - undecided", twoBuys, generous, clause,
			"declares slack_ns of 1m0s; the most allowed is 1s", nil},
	})
	for state, want := range map[string][2]int{"expired": {1, 0}, "held": {0, 1}} {
		v := familyCase{history: twoBuys, facts: held(state, 3*time.Second), clause: clause}.judge(t)
		if v.Late != want[0] || v.Unfinished != want[1] {
			t.Errorf("%s: %d late and %d unfinished, want %v", state, v.Late, v.Unfinished, want)
		}
	}
}

func TestAgreeAndQuiescent(t *testing.T) {
	night := func(name string, n int64) check.Fact {
		return check.Fact{Op: 7, Name: name, Thing: n, State: "held"}
	}
	two := func(a, b []check.Fact) store {
		return store{rows: map[string][]check.Fact{"night": a, "stay": b}}
	}
	pair := check.Pair{A: "night", B: "stay", By: check.ByName | check.ByThing}
	subset, rest, some := pair, pair, pair
	subset.Subset, rest.AtRest = true, true
	some.OfA = func(f *check.Fact) bool { return f.Thing > 1 }
	n1, n2 := night("s1", 1), night("s1", 2)
	judgeFamilies(t, []familyCase{
		{"the same - pass", twoBuys, two([]check.Fact{n1, n2}, []check.Fact{n2, n1}),
			check.Agree(pair), "", nil},
		{"one more - fail", twoBuys, two([]check.Fact{n1, n2}, []check.Fact{n1}), check.Agree(pair),
			"s1 2: there is night s1 (held), but no such stay", []uint64{0, 2}},
		{"one less - fail", twoBuys, two([]check.Fact{n1}, []check.Fact{n1, n2}), check.Agree(pair),
			"there is stay s1 (held), but no such night", nil},
		{"one less of a subset - pass", twoBuys, two([]check.Fact{n1}, []check.Fact{n1, n2}),
			check.Agree(subset), "", nil},
		{"one that is not compared - fail", twoBuys, two([]check.Fact{n1, n2}, []check.Fact{n1, n2}),
			check.Agree(some), "s1 1: there is stay", nil},
		{"one table - undecided", twoBuys, of("night", n1), check.Agree(pair), "the audit has no stays",
			nil},
		{"nothing is left - pass", twoBuys, of("night", n1), check.Quiescent("night", "running"), "",
			nil},
		{"one is left - fail", twoBuys, of("night", n1), check.Quiescent("night", "held"),
			"night s1 (held) is left at rest", []uint64{0, 2}},
	})
	for name, clause := range map[string]check.Clause{
		"agree": check.Agree(rest), "quiescent": check.Quiescent("night", "held"),
	} {
		facts := two([]check.Fact{n1}, []check.Fact{})
		v := familyCase{history: twoBuys, facts: facts, clause: clause}.judge(t)
		if v.Unfinished != 1 {
			t.Errorf("%s: what may come until rest is unfinished: %+v", name, v)
		}
	}
}

// TestParts: a record that stands for several operations is judged as these.
func TestParts(t *testing.T) {
	// Of a cart each letter of the body is an order, a capital one is acknowledged.
	carts := check.Named("cart", "buy")
	carts.Parts = func(r *history.Record) []history.Record {
		if r.Op.Kind != "cart" {
			return nil
		}
		parts := []history.Record{}
		for _, letter := range string(r.Op.Body) {
			part := *r
			part.Op.ID, part.Outcome = uint64(letter|0x20), history.Refused
			if letter < 'a' {
				part.Outcome = history.OK
			}
			parts = append(parts, part)
		}
		return parts
	}
	orders := check.Effects{Table: "order", Kind: carts}
	durable, phantom := check.AckedDurable(orders), check.NoPhantom(orders)
	const cart = `{"id":1,"kind":"cart","body":"Ab","outcome":"ok","start_ns":1,"end_ns":9}
		{"id":7,"kind":"buy","outcome":"ok","start_ns":1,"end_ns":9}`
	a, b, alone := check.Fact{Op: 'a'}, check.Fact{Op: 'b'}, check.Fact{Op: 7}
	judgeFamilies(t, []familyCase{
		{"each acknowledged one is there - pass", cart, of("order", a, alone), durable, "", nil},
		{"the one of a cart is gone - fail", cart, of("order", alone), durable, "operation 97 ",
			[]uint64{0}},
		{"the one alone is gone - fail", cart, of("order", a), durable, "operation 7 ",
			[]uint64{1}},
		{"nothing was refused - pass", cart, of("order", a, alone), phantom, "", nil},
		{"a refused one is there - fail", cart, of("order", a, b, alone), phantom,
			"the operation was refused", nil},
		{"one is in two carts - pass", cart + "\n" + strings.Replace(cart, `"id":1`, `"id":2`, 1), store{},
			check.SameReply(check.Replies{Kind: carts, What: "order", Sent: true}), "", nil},
	})
}

func TestReplyFamilies(t *testing.T) {
	same := check.Replies{Kind: check.Named("buy"), What: "key", Same: check.ByName | check.ByThing,
		Denied: func(r *history.Record) bool { return r.Code == "sold_out" }, Sent: true}
	over, once := same, same
	over.Excused = func(uint64) bool { return true }
	once.Sent = false
	asked := func(second string) string {
		return `{"id":7,"kind":"buy","outcome":"ok","start_ns":10,"end_ns":20,"reply":{"key":"o1","value":1}}
{"id":7,"kind":"buy","start_ns":30,"end_ns":40,` + second + `}`
	}
	const again, refused = `"outcome":"ok","reply":{"key":"o1","value":1}`, `"outcome":"refused","code":`
	total := func(r *history.Record) ([]check.Term, error) {
		var terms []check.Term
		err := json.Unmarshal(r.Reply.Body, &terms)
		return terms, err
	}
	read := func(body string) string {
		return `{"id":7,"kind":"stock","key":"item","outcome":"ok","start_ns":1,"end_ns":9,"reply":{"body":` + strconv.Quote(body) + `}}`
	}
	count := func(state string, n int64) check.Fact {
		return check.Fact{Key: "item", State: state, Thing: n}
	}
	nameless := func(key string) string {
		return `{"id":7,"kind":"buy","key":"` + key + `","start_ns":30,"end_ns":40,` + refused + `"gone"}`
	}
	unknown := check.Known(check.Named("buy"), "item-", 2, func(r *history.Record) bool {
		return r.Code == "gone"
	})
	had := check.HadAnother(check.Named("buy"), func(r *history.Record) bool {
		return r.Code == "gone"
	})
	attempt := func(what string) string {
		return nameless("a") + "\n" + `{"kind":"buy","key":"a","end_ns":50,` + what + `}`
	}
	judgeFamilies(t, []familyCase{
		{"told of another one, which may be - pass", attempt(`"id":8,"start_ns":40,"outcome":"unknown"`),
			store{}, had, "", nil},
		{"told of another one, which was refused - fail",
			attempt(`"id":8,"start_ns":40,"outcome":"refused"`), store{}, had,
			"a was told at 40ns to have one by another operation, and never had one", []uint64{0}},
		{"told of another one, which is its own - fail",
			attempt(`"id":7,"start_ns":40,"outcome":"unknown"`), store{}, had, "never had one", nil},
		{"told of another one, which came after - fail",
			attempt(`"id":8,"start_ns":41,"outcome":"unknown"`), store{}, had, "never had one", nil},
		{"the same - pass", asked(again), store{}, check.SameReply(same), "", nil},
		{"another name - fail", asked(strings.Replace(again, "o1", "o2", 1)), store{},
			check.SameReply(same), "the key 7 was answered with o1 1 and with o2 1", []uint64{0, 1}},
		{"another thing - fail", asked(strings.Replace(again, ":1", ":2", 1)), store{},
			check.SameReply(same), "with o1 1 and with o1 2", nil},
		{"denied - fail", asked(refused + `"sold_out"`), store{}, check.SameReply(same),
			"denied when it was sent again", nil},
		{"denied when it is over - pass", asked(refused + `"sold_out"`), store{},
			check.SameReply(check.Replies{Kind: over.Kind, Same: over.Same, Denied: over.Denied,
				Excused: over.Excused}), "", nil},
		{"overloaded - undecided", asked(refused + `"overloaded"`), store{}, check.SameReply(same),
			"no key was acknowledged again", nil},
		{"an item that exists is unknown - fail", nameless("item-2"), store{}, unknown,
			"buy of item-2 at 30ns was refused as if there were no such thing", []uint64{0}},
		{"an item beyond the last is unknown - undecided", nameless("item-3"), store{}, unknown,
			"nothing to check", nil},
		{"of another name - undecided", nameless("2"), store{}, unknown, "nothing to check", nil},
		{"overloaded, and sent again by chance - pass", asked(refused + `"overloaded"`), store{},
			check.SameReply(once), "", nil},

		{"adds up - pass", read(`[{"Name":"free","Count":2}]`), store{},
			check.Conserved(check.Named("stock"), 2, total), "", nil},
		{"does not add up - fail", read(`[{"Name":"free","Count":1}]`), store{},
			check.Conserved(check.Named("stock"), 2, total), "item in a reply at 9ns: 1 free = 1, want 2",
			[]uint64{0}},
		{"no counts - fail", read(`7`), store{}, check.Conserved(check.Named("stock"), 2, total),
			"a reply cannot be read", []uint64{0}},
		{"rows add up - pass", twoBuys, of("count", count("free", 1), count("sold", 1)),
			check.ConservedRows("count", check.ByKey, 2), "", nil},
		{"rows do not - fail", twoBuys, of("count", count("free", 1), count("sold", 2)),
			check.ConservedRows("count", check.ByKey, 2), "item at the end: 1 free + 2 sold = 3, want 2",
			nil},
		{"a negative row - fail", twoBuys, of("count", count("free", -1), count("sold", 3)),
			check.ConservedRows("count", check.ByKey, 2), "a count is negative", nil},

		{"a needed record - pass", twoBuys, of("order", made(7, "o1", "", "", 0)), needs("ann", "o1"), "",
			nil},
		{"no such record - undecided", twoBuys, of("order", made(7, "o1", "", "", 0)),
			needs("gil", "o1"), "nobody bought", nil},
		{"no such row - undecided", twoBuys, of("order", made(7, "o1", "", "", 0)), needs("ann", "o2"),
			"no such order", nil},
	})
}

// needs is a clause that checks a row and needs a client and an order.
func needs(client, order string) check.Clause {
	clauses := []check.Clause{check.AtMostOnce("order", check.ByOp),
		check.NeedRecord("buy", "nobody bought", func(r *history.Record) bool {
			return r.Op.Client == client
		}),
		check.NeedFact("order", "no such order", func(f *check.Fact) bool { return f.Name == order })}
	return func(r *check.Run) func() {
		var ends []func()
		for _, c := range clauses {
			if end := c(r); end != nil {
				ends = append(ends, end)
			}
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
}

// TestRowsByTags: integers and texts of a row become columns, and a tag that fits none panics.
func TestRowsByTags(t *testing.T) {
	type row struct {
		ID    int64  `fact:"name,thing"`
		Op    uint64 `fact:"op"`
		Who   string `fact:"owner"`
		At    uint32 `fact:"from"`
		Other bool
	}
	table := check.Rows("order", []row{{7, 8, "ann", 9, true}, {70, 8, "bob", 1, false}})
	want := check.Fact{Op: 8, Name: "7", Thing: 7, Owner: "ann", From: 9}
	if table.Rows[0] != want || table.Op(8) != &table.Rows[0] || table.Named("70") != &table.Rows[1] {
		t.Errorf("got %+v", table.Rows)
	}
	if !table.Has(check.ByOp|check.ByThing) || table.Has(check.ByKey) {
		t.Error("a table has the columns of its tags")
	}
	for name, rows := range map[string]func(){
		"no such column": func() {
			check.Rows("x", []struct {
				A string `fact:"colour"`
			}{})
		},
		"wrong type": func() {
			check.Rows("x", []struct {
				A bool `fact:"op"`
			}{})
		},
		"a text": func() {
			check.Rows("x", []struct {
				A string `fact:"op"`
			}{})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it did not panic", name)
				}
			}()
			rows()
		}()
	}
}

// TestOneReading: invariants of one subject are judged in one reading of audit and history;
// one of them that panics leaves the others judged.
func TestOneReading(t *testing.T) {
	reads := 0
	s := &check.Subject{Read: func(json.RawMessage) (check.Facts, error) {
		reads++
		return check.Facts{Tables: []*check.Table{check.TableOf("order", []check.Fact{{Op: 7}})}}, nil
	}}
	orders := check.Effects{Table: "order", Kind: check.Named("buy")}
	two := []check.Invariant{s.State("a", "", check.AckedDurable(orders)),
		s.State("b", "", check.NoPhantom(orders))}
	for _, v := range check.All(t.Context(), two, parse(t, twoBuys), nil) {
		if v.Status != check.Held {
			t.Errorf("%s is %s: %s", v.Invariant, v.Status, v.Reason)
		}
	}
	if reads != 1 {
		t.Errorf("the audit was read %d times", reads)
	}
	three := append(slices.Clone(two), s.State("c", "", func(r *check.Run) func() {
		return func() { panic("no such thing") }
	}))
	got := check.All(t.Context(), three, parse(t, twoBuys), nil)
	if got[0].Status != check.Held || got[1].Status != check.Held ||
		!strings.Contains(got[2].Reason, "the check panicked: no such thing") {
		t.Errorf("got %+v", got)
	}
}

// TestUnreadableFacts: what needs no facts is judged although they cannot be read, and what
// holds is left open.
func TestUnreadableFacts(t *testing.T) {
	torn := store{broken: errors.New("the final audit cannot be read: torn")}
	same := check.SameReply(check.Replies{Kind: check.Named("buy"), What: "key", Same: check.ByName})
	two := strings.Replace(twoBuys, `"start_ns":30,"end_ns":40,"reply":{"key":"o1"`,
		`"start_ns":30,"end_ns":40,"reply":{"key":"o2"`, 1)
	judgeFamilies(t, []familyCase{
		{"the replies prove it - fail", two, torn, same, "was answered with o1 and with o2", nil},
		{"the replies are right - undecided", twoBuys, torn, same, "the final audit cannot be read: torn",
			nil},
		{"a family of rows - undecided", twoBuys, torn, check.Quiescent("order", "held"), "torn", nil},
		{"a clause about the audit - undecided", twoBuys, torn,
			check.OnAudit(func(*check.Run, *int) func() { panic("there is none") }), "torn", nil},
	})
}

// TestDeaths: the effects of a fault say how many processes died of it.
func TestDeaths(t *testing.T) {
	for _, c := range []struct {
		fault, effects string
		want           int
	}{
		{"kill api", "", 1}, {"kill api", `{"pids":[7,8]}`, 2}, {"kill redis", `{"pids":[7]}`, 0},
		{"crash api-2 at sent passage 3", "", 1}, {"crash api-2 at sent passage 3", `{}`, 0},
		{"crash api-2 at sent passage 3", `{"crashes":[{"pid":7}]}`, 1},
		{"churn api 1s mixed", `{"stops":2,"kills":3}`, 3}, {"churn api 1s mixed", "", 1},
		{"churn api 1s kill", "{", 1}, {"churn api 1s stop", "", 0}, {"pause api", `{"pids":[7]}`, 0},
	} {
		w := history.Window{Fault: c.fault, Effects: json.RawMessage(c.effects)}
		if got := check.Deaths(w, "api"); got != c.want {
			t.Errorf("%q with %s: %d, want %d", c.fault, c.effects, got, c.want)
		}
	}
}

// TestStrikes: a fault is of a kind, on a target or a replica of it.
func TestStrikes(t *testing.T) {
	for text, want := range map[string]bool{
		"kill api": true, "crash api-2 at applied passage 3": true, "pause api": false,
		"kill apiary": false, "kill redis": false, "kill": false, "": false,
	} {
		if got := check.Strikes(history.Window{Fault: text}, "api", "kill", "crash"); got != want {
			t.Errorf("%q strikes: %v", text, got)
		}
	}
}

// TestFailsWhileReading: what a clause could not read leaves the verdict open, before the history
// is read, during it and after it.
func TestFailsWhileReading(t *testing.T) {
	s := &check.Subject{Read: func(json.RawMessage) (check.Facts, error) { return check.Facts{}, nil }}
	for name, clause := range map[string]check.Clause{
		"before": func(r *check.Run) func() {
			r.Fail("before")
			return nil
		},
		"during": func(r *check.Run) func() {
			r.See(func(*history.Record) { r.Fail("during") })
			return nil
		},
		"after": func(r *check.Run) func() { return func() { r.Fail("after") } },
	} {
		checked := func(r *check.Run) func() {
			r.Checked(1)
			return func() {
				if name != "after" {
					r.Violate(nil, "what follows is no proof")
				}
			}
		}
		v := s.State("x", "", clause, checked).Check(t.Context(), parse(t, twoBuys), nil)
		if v.Status != check.Undecided || v.Reason != name {
			t.Errorf("%s is %s: %s", name, v.Status, v.Reason)
		}
	}
}
