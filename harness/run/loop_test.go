package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

func TestACorrectDesignPasses(t *testing.T) {
	answers := []string{"2 jobs", "", "1 job"}
	e := newBench(t, nil, design{name: "good"}, design{name: "bare", bare: true},
		design{name: "busy", quiesced: func() (pending string, err error) {
			if len(answers) == 0 {
				return "", nil
			}
			pending, answers = answers[0], answers[1:]
			if pending == "" {
				err = errBroken // for a moment
			}
			return pending, err
		}}).finish(t)
	e.overall(t, rundir.Pass)
	for _, name := range []string{"good", "bare", "busy"} {
		e.is(t, name, rundir.Pass)
		if n := len(e.records(t, name, 0)); n != 30 {
			t.Errorf("%d operations of %s are recorded, want 30", n, name)
		}
	}
	if e.summary.Run.Interrupted || e.summary.Environment.Backend != "memory" {
		t.Errorf("%+v in %+v", e.summary.Run, e.summary.Environment)
	}
}

func TestTheOrderOfSlots(t *testing.T) {
	want := []string{"a 0", "b 0", "a 1", "b 1"}
	b := newBench(t, []string{"repeats=2"}, // what fails at once is in order too
		design{name: "a", open: fails}, design{name: "b", open: fails})
	ran := []string{}
	b.watcher.entering = func(s step) {
		if s.phase == events.Prepare {
			ran = append(ran, fmt.Sprintf("%s %d", s.Variant, s.Repeat.Repeat))
		}
	}
	e := b.finish(t)
	planned := []string{}
	for i, slot := range e.stored.Manifest.Slots {
		planned = append(planned, fmt.Sprintf("%s %d", slot.Variant, slot.Repeat))
		r := e.variant(t, slot.Variant).Repeats[slot.Repeat]
		if r.Order != i || slot.Order != i || r.Index != slot.Repeat {
			t.Errorf("slot %d: %+v, repeat %d of order %d", i, slot, r.Index, r.Order)
		}
	}
	if !slices.Equal(ran, want) || !slices.Equal(planned, want) {
		t.Errorf("ran %q, planned %q, want %q", ran, planned, want)
	}
}

// offered is what an operation is, without what became of it.
type offered struct {
	id       uint64
	key      string
	intended time.Duration
}

func (e ended) offered(t *testing.T, name string, repeat int) []offered {
	t.Helper()
	out := []offered{}
	for _, rec := range e.records(t, name, repeat) {
		out = append(out, offered{rec.Op.ID, rec.Op.Key, rec.Intended})
	}
	return out
}

func TestASeedDecidesTheOperations(t *testing.T) {
	under := func(seed uint64, repeats string, designs ...design) ended {
		b := newBench(t, []string{"load.arrival.poisson=true", repeats}, designs...)
		b.opts.Seed = seed
		return b.finish(t)
	}
	a := design{name: "a"}
	first := under(7, "repeats=2", a, design{name: "b"})
	second, other := under(7, "repeats=1", a), under(8, "repeats=1", a)
	want := first.offered(t, "a", 0)
	for name, got := range map[string][]offered{
		"another repeat":  first.offered(t, "a", 1),
		"another variant": first.offered(t, "b", 0),
		"another run":     second.offered(t, "a", 0),
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s with the same seed: %v, want %v", name, got, want)
		}
	}
	got := other.offered(t, "a", 0)
	if got[0].key == want[0].key && got[1].key == want[1].key || got[0].intended == want[0].intended {
		t.Errorf("another seed gives the same operations: %v", got[:2])
	}
	if a, b := first.summary.Run.ArrivalDigest, other.summary.Run.ArrivalDigest; a == b {
		t.Error("another seed has the same arrival digest")
	}
}

// errBroken is what goes wrong in the designs below.
var errBroken = errors.New("it is broken")

func fails() error { return errBroken }

func panics() error { panic("boom") }

// failure is a design that fails, and what the reasons mention.
type failure struct {
	design
	mentions string
}

// failing are designs that do not come to their end, or prove nothing: each
// is INVALID, and its correctness is open.
func failing() map[string]failure {
	return map[string]failure{
		"open":           {design{open: fails}, "opening open: it is broken"},
		"open_panics":    {design{open: panics}, "panic: boom"},
		"prepare":        {design{prepare: fails}, "preparing prepare: it is broken"},
		"prepare_panics": {design{prepare: panics}, "panic: boom"},
		"empty": {design{empty: func() (string, error) { return "", errBroken }},
			"asking empty whether it is empty: it is broken"},
		"empty_panics": {design{empty: func() (string, error) { panic("boom") }}, "panic: boom"},
		"not_empty": {design{empty: func() (string, error) { return "3 numbers", nil }},
			"the stores were not empty before the load: 3 numbers"},
		"unknown": {design{do: func(context.Context, uint64) error { return errBroken }},
			"0 add operations succeeded"},
		"refused": {design{do: func(context.Context, uint64) error { return sut.ErrRefused }},
			"0 add operations succeeded"},
		"do_panics": {design{do: func(_ context.Context, id uint64) error {
			if id == 3 {
				panic("boom")
			}
			return nil
		}, close: fails}, "panic in the design: boom on operation 3"},
		"quiesced_panics": {design{quiesced: func() (string, error) { panic("boom") }}, "panic: boom"},
		"audit": {design{audit: func() (json.RawMessage, error) { return nil, errBroken }},
			"auditing audit: it is broken"},
		"audit_panics": {design{audit: func() (json.RawMessage, error) { panic("boom") }},
			"panic: boom"},
		"no_audit": {design{audit: func() (json.RawMessage, error) { return nil, nil }},
			"auditing no_audit: the audit is not JSON"},
		"not_json": {design{audit: func() (json.RawMessage, error) { return []byte("[1"), nil }},
			"auditing not_json: the audit is not JSON"},
		"gauge": {design{gauge: func() (sut.Gauge, error) { return nil, errBroken }},
			"opening the gauge of gauge: it is broken"},
		"gauge_panics": {design{gauge: func() (sut.Gauge, error) { panic("boom") }}, "panic: boom"},
		"role": {design{roles: role(func(context.Context) error { return errBroken })},
			"role sweeper: it is broken"},
		"role_ends": {design{roles: role(func(context.Context) error { return nil })},
			"role sweeper: ended by itself"},
		"role_panics": {design{roles: role(func(context.Context) error { panic("boom") })},
			"role sweeper: panic: boom"},
		"role_at_the_end": {design{roles: role(func(ctx context.Context) error {
			<-ctx.Done()
			return errBroken
		})}, "role sweeper: it is broken"},
	}
}

func TestWhatFailsIsUndecidedAndTheOthersGoOn(t *testing.T) {
	rows := failing()
	designs := []design{{name: "first"}}
	for name, row := range rows {
		row.name = name
		designs = append(designs, row.design)
	}
	designs = append(designs, design{name: "last"})
	e := newBench(t, nil, designs...).finish(t)
	e.overall(t, rundir.Inconclusive)
	e.is(t, "first", rundir.Pass)
	e.is(t, "last", rundir.Pass)
	for name, row := range rows {
		e.is(t, name, rundir.Inconclusive, row.mentions)
		v := e.variant(t, name)
		if v.Correctness != rundir.Undecided {
			t.Errorf("%s: correctness %s", name, v.Correctness)
		}
		if n := strings.Count(v.Repeats[0].Error, row.mentions); n > 1 {
			t.Errorf("%s: told %d times: %s", name, n, v.Repeats[0].Error)
		}
	}
}

// TestLostBeforeADeath: what is lost is found also where a role has died.
func TestLostBeforeADeath(t *testing.T) {
	e := newBench(t, nil, design{name: "lossy", forgets: func(id uint64) bool { return id == 4 },
		roles: role(func(ctx context.Context) error {
			<-ctx.Done()
			panic("boom")
		})}).finish(t)
	e.is(t, "lossy", rundir.Fail, "role sweeper: panic: boom",
		"violated kept: 4 was acknowledged and is gone")
}

// gauge answers.
type gauge struct {
	answer func() (json.RawMessage, error)
}

func (g gauge) Sample(context.Context) (json.RawMessage, error) { return g.answer() }
func (gauge) Close() error                                      { return nil }

func one() (json.RawMessage, error) { return json.RawMessage("1"), nil }

// closer is a gauge that says what becomes of closing it.
type closer struct {
	gauge

	close func() error
}

func (c closer) Close() error { return c.close() }

// level is an invariant that follows what a gauge says.
type level struct{}

func (level) Name() string      { return "level" }
func (level) Statement() string { return "The level is never above 1." }

func (level) Check(ctx context.Context, h history.History, _ json.RawMessage) check.Verdict {
	c, w := check.Collect(ctx, "level", h), &check.Watched{Quantity: "level", Unit: "metres"}
	for _, s := range c.Samples() {
		if !s.Seen() {
			w.Gaps++
			continue
		}
		var n int64
		if json.Unmarshal(s.Body, &n) != nil || n > 1 {
			c.ViolateAt(s.To, nil, "the level is %s", s.Body)
		}
		c.Checked(1)
		w.Look(s.To, n, n, false)
	}
	c.Watched(w)
	return c.Verdict()
}

// What a gauge says during the load is kept, judged, summed up over the
// repeats and put into the timeline; a gauge that says nothing harms no other.
func TestWhatAGaugeSaysIsJudged(t *testing.T) {
	says := func(answer func() (json.RawMessage, error)) func() (sut.Gauge, error) {
		return func() (sut.Gauge, error) { return gauge{answer}, nil }
	}
	b := newBench(t, []string{"repeats=2"}, design{name: "calm", gauge: says(one)},
		design{name: "flood", gauge: says(func() (json.RawMessage, error) { return []byte("7"), nil })},
		design{name: "blind", gauge: says(func() (json.RawMessage, error) { return nil, errBroken })},
		design{name: "none"})
	b.opts.System.Invariants = func(any) []check.Invariant { return []check.Invariant{level{}} }
	e := b.finish(t)
	e.is(t, "calm", rundir.Pass)
	e.is(t, "flood", rundir.Fail, "violated level: the level is 7")
	e.is(t, "blind", rundir.Inconclusive, "level is not exercised")
	e.is(t, "none", rundir.Inconclusive, "level is not exercised")
	for name, want := range map[string]int64{"calm": 1, "flood": 7} {
		v := e.variant(t, name)
		w := status(t, v.Invariants, "level").Watched
		if w == nil || w.Lowest != want || w.Highest != want || w.Gaps > 0 {
			t.Fatalf("%s: %+v is summed up", name, w)
		}
		points := 0
		for _, r := range v.Repeats {
			timeline, err := e.stored.Timeline(r.Timeline)
			if err != nil || len(timeline.Watched) != 1 || timeline.Watched[0].Unit != "metres" {
				t.Fatalf("%s: the timeline has %+v, %v", name, timeline.Watched, err)
			}
			points += len(timeline.Watched[0].Points)
		}
		if points != w.Judged || points < 2 {
			t.Errorf("%s: %d looks and %d points in two repeats", name, w.Judged, points)
		}
	}
	if w := status(t, e.variant(t, "blind").Invariants, "level").Watched; w == nil || w.Gaps < 2 {
		t.Errorf("blind: %+v is summed up", w)
	}
}

func TestWhatOperationsMayReturn(t *testing.T) {
	third := func(err error) func(context.Context, uint64) error {
		return func(_ context.Context, id uint64) error {
			if id%3 == 0 {
				return err
			}
			return nil
		}
	}
	e := newBench(t, nil,
		design{name: "unknown", do: third(errBroken)},
		design{name: "refused", do: third(fmt.Errorf("sold out: %w", sut.ErrRefused))},
		design{name: "lossy", forgets: func(id uint64) bool { return id == 4 }},
	).finish(t)
	e.overall(t, rundir.Fail)
	for name, want := range map[string]rundir.Load{
		"unknown": {Scheduled: 30, Started: 30, OK: 20, Unknown: 10},
		"refused": {Scheduled: 30, Started: 30, OK: 20, Refused: 10},
	} {
		e.is(t, name, rundir.Pass)
		if got := e.variant(t, name).Load; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	rec := e.records(t, "unknown", 0)[2]
	if rec.Outcome != history.Unknown || rec.Err != errBroken.Error() {
		t.Errorf("the third is %s: %q", rec.Outcome, rec.Err)
	}
	e.is(t, "lossy", rundir.Fail, "violated kept: 4 was acknowledged and is gone")
	v := status(t, e.variant(t, "lossy").Invariants, "kept")
	if v.Count != 1 || !slices.Equal(v.Violations[0].Ops, []uint64{3}) {
		t.Errorf("the witness is %v", v.Violations)
	}
}

// A place that is not empty proves nothing against a design: who made what is
// there cannot be told.
func TestLeftoversProveNothing(t *testing.T) {
	leave := func(b *bench) func() error {
		return func() error {
			return b.ledger.store.update("dirty_0", func(set map[uint64]bool) { set[999] = true })
		}
	}
	var b *bench
	b = newBench(t, []string{"provokes=[load]"},
		design{name: "dirty", prepare: func() error { return leave(b)() }},
		design{name: "wrong", breaks: []sut.Break{{Invariant: "asked", Under: sut.Load}},
			empty: func() (string, error) { return "a number", nil }})
	e := b.finish(t)
	e.is(t, "dirty", rundir.Inconclusive, "stores were not empty before the load: 1 numbers",
		"999 came by itself")
	e.is(t, "wrong", rundir.Inconclusive, "known to break asked but was not caught")
	for _, name := range []string{"dirty", "wrong"} {
		if v := e.variant(t, name); v.Correctness != rundir.Undecided {
			t.Errorf("the correctness of %s is %s", name, v.Correctness)
		}
	}
}

func TestQuiescence(t *testing.T) {
	e := newBench(t, []string{"load.drain=200ms"},
		design{name: "pending", quiesced: func() (string, error) { return "3 jobs", nil }},
		design{name: "silent", quiesced: func() (string, error) { return "", errBroken }},
		design{name: "mute", bare: true, roles: role(func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})},
	).finish(t)
	e.is(t, "pending", rundir.Fail, "work was still pending: 3 jobs")
	if v := status(t, e.variant(t, "pending").Invariants, "quiescence"); v.Status != check.Broken {
		t.Errorf("quiescence of pending is %s", v.Status)
	}
	// Nobody knows whether work is left where nobody could be asked.
	e.is(t, "silent", rundir.Inconclusive, "quiescence is undecided", "it is broken")
	e.is(t, "mute", rundir.Inconclusive, "quiescence is undecided", "see sut.Quiescer")
}

// falling is an instance whose work gets less each time that somebody counts it, but for
// what is stuck.
type falling struct {
	sut.Instance

	left atomic.Int64
}

func (*falling) Quiesced(context.Context) (string, error) { return "some jobs", nil }

func (f *falling) Backlog(context.Context) (int64, error) { return f.left.Add(-1), nil }

// halving is an instance whose work gets less, and never nothing.
type halving struct{ falling }

func (f *halving) Backlog(context.Context) (int64, error) {
	f.left.Store(f.left.Load() / 8 * 7)
	return f.left.Load(), nil
}

// TestABacklogThatFalls: what is still being done when the drain ends is undecided, and
// with it what was not finished; what stands still is broken.
func TestABacklogThatFalls(t *testing.T) {
	b := newBench(t, []string{"load.drain=1600ms"},
		design{name: "slow", as: func(inst sut.Instance) sut.Instance {
			f := &halving{falling{Instance: inst}}
			f.left.Store(8 << 50)
			return f
		}},
		design{name: "stuck", as: func(inst sut.Instance) sut.Instance {
			f := &falling{Instance: inst}
			f.left.Store(40_000)
			return f
		}})
	inner := b.opts.System.Invariants
	b.opts.System.Invariants = func(params any) []check.Invariant {
		return append(inner(params), never{})
	}
	e := b.finish(t)
	e.is(t, "slow", rundir.Inconclusive, "quiescence is undecided", "never is undecided")
	e.is(t, "stuck", rundir.Fail, "work was still pending", "violated never: not done")
}

// finishing is an instance whose work is done at last.
type finishing struct{ falling }

func (f *finishing) Quiesced(context.Context) (string, error) {
	if f.left.Load() <= 0 {
		return "", nil
	}
	return "some jobs", nil
}

// TestADrainThatTakesLonger: work that is still being done at the drain's deadline is waited
// for. What it leaves is judged, and the deadline is a promise of time that was missed.
func TestADrainThatTakesLonger(t *testing.T) {
	e := newBench(t, []string{"load.drain=1600ms"}, design{name: "slow",
		as: func(inst sut.Instance) sut.Instance {
			f := &finishing{falling{Instance: inst}}
			f.left.Store(40) // counted, and one less, every 50 ms
			return f
		}}).finish(t)
	v := e.variant(t, "slow")
	inv := status(t, v.Invariants, "quiescence")
	if v.Correctness != rundir.Holds || !inv.OnlyLate() && !inv.NotJudged() {
		t.Errorf("correctness %s, quiescence %+v", v.Correctness, inv)
	}
	if len(inv.Violations) > 0 &&
		!strings.Contains(inv.Violations[0].Text, "after the load work was still pending") {
		t.Errorf("%+v", inv.Violations)
	}
}

// TestLateInACrowd: lateness is a missed promise on a quiet machine and not judged on one
// that others used; it makes no design wrong. Nor does it catch a control, on either.
func TestLateInACrowd(t *testing.T) {
	b := newBench(t, []string{"provokes=[load]"}, design{name: "good"},
		design{name: "wrong", breaks: []sut.Break{{Invariant: "slow", Under: sut.Load}}})
	inner := b.opts.System.Invariants
	b.opts.System.Invariants = func(params any) []check.Invariant {
		return append(inner(params), tardy{})
	}
	e := b.finish(t)
	e.is(t, "good", rundir.Fail, "missed the promise slow: late")
	const late = "known to break slow but was not caught: it was only late"
	e.is(t, "wrong", rundir.Inconclusive, late)
	if v := e.summary.Verdict; v.Correctness != rundir.Inconclusive || v.Objectives != rundir.Fail {
		t.Errorf("on a quiet machine: %+v", v)
	}
	e.tamper(t, b.opts.System, func(trial *judge.Trial) {
		m := &rundir.Machine{SpanNS: 1e9, Cores: 1, OthersNS: 5e8}
		trial.Processor = &rundir.Processor{Machine: m}
	})
	e.is(t, "good", rundir.Pass, "slow is not judged: other programs took 0.50")
	e.is(t, "wrong", rundir.Inconclusive, late)
	if v := e.variant(t, "good"); v.Correctness != rundir.Holds || v.Objectives != rundir.NotJudged {
		t.Errorf("in a crowd: correctness %s, objectives %s", v.Correctness, v.Objectives)
	}
}

// tardy finds that an operation was late.
type tardy struct{}

func (tardy) Name() string      { return "slow" }
func (tardy) Statement() string { return "nothing is late" }

func (tardy) Check(ctx context.Context, h history.History, _ json.RawMessage) check.Verdict {
	c := check.Collect(ctx, "slow", h)
	for rec := range c.Records() {
		c.Checked(1)
		c.Late([]uint64{rec.Op.ID}, "late")
	}
	return c.Verdict()
}

// never finds that something is not done.
type never struct{}

func (never) Name() string      { return "never" }
func (never) Statement() string { return "everything is done" }

func (never) Check(ctx context.Context, h history.History, _ json.RawMessage) check.Verdict {
	c := check.Collect(ctx, "never", h)
	c.Checked(1)
	c.Unfinished(nil, "not done")
	return c.Verdict()
}

func TestAnOperationThatNeverReturns(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	e := newBench(t, []string{"load.drain=50ms"},
		design{name: "stuck", do: func(_ context.Context, id uint64) error {
			if id == 2 {
				<-forever
			}
			return nil
		}}).finish(t)
	e.is(t, "stuck", rundir.Fail, "1 operations did not return even when they were cancelled")
	if rec := e.records(t, "stuck", 0)[1]; rec.Outcome != history.Unknown || rec.End != history.Never {
		t.Errorf("it is recorded as %+v", rec)
	}
}

func TestObjectivesOfWhatDidNotRun(t *testing.T) {
	b := newBench(t, nil, design{name: "open", open: fails}, design{name: "good"})
	b.opts.Scenario.SLOs = []scenario.SLO{{Name: "fast", Objective: "p50(response, add) <= 1h"}}
	e := b.finish(t)
	e.is(t, "good", rundir.Pass)
	if v := e.variant(t, "open"); v.Objectives != rundir.Inconclusive {
		t.Errorf("the objectives of what did not run are %s: %q", v.Objectives, v.Reasons)
	}
}

func TestKnownWrongDesigns(t *testing.T) {
	some := func(id uint64) bool { return id%5 == 0 }
	wrong := []sut.Break{{Invariant: "kept", Under: sut.Load}}
	opened := 0
	designs := []design{
		{name: "caught", breaks: wrong, forgets: some},
		{name: "missed", breaks: wrong},
		{name: "once", breaks: wrong, open: func() error { opened++; return nil },
			forgets: func(id uint64) bool { return opened == 1 && some(id) }},
	}
	provoked := newBench(t, []string{"repeats=2", "provokes=[load]"}, designs...).finish(t)
	provoked.overall(t, rundir.Fail)
	provoked.is(t, "caught", rundir.Pass,
		"violated as expected: kept: ", "was acknowledged and is gone")
	provoked.is(t, "missed", rundir.Fail, "known to break kept but was not caught: it is held")
	provoked.is(t, "once", rundir.Fail, "violated as expected", "not caught")
	calm := newBench(t, nil, designs[:2]...).finish(t)
	calm.is(t, "caught", rundir.Pass, "violated, as it is known to be under load: kept: ")
	calm.is(t, "missed", rundir.Pass)
	if v := calm.variant(t, "missed"); v.KnownWrong["kept"] != "load" || len(v.ExpectedBroken) != 0 {
		t.Errorf("known wrong: %v, expected: %v", v.KnownWrong, v.ExpectedBroken)
	}
}

// noRuns checks that nothing is left of a run.
func (b *bench) noRuns(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(b.opts.Root, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			t.Errorf("%s is left", path)
		}
	}
}
