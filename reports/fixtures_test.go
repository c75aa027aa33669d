package reports_test

import (
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// hostile is text that must never become markup, a header or an escape.
const hostile = "\"><script>alert(1)</script><img src=x onerror=alert(2)>' " +
	"`|_*[x](http://e.x)\x1b[31m\u202e]]>\n::error::x##[error]y"

// scene is a named Data that every report must be able to tell. Tests that
// only read it share one, and one page made of it.
type scene struct {
	name string
	make func(t testing.TB) answer.Data
	once *sync.Once
	d    *answer.Data
	html *string
}

func (s scene) build(t testing.TB) {
	s.once.Do(func() {
		*s.d = s.make(t)
		*s.html = render(t, *s.d)
	})
}

func (s scene) data(t testing.TB) answer.Data {
	s.build(t)
	return *s.d
}

func (s scene) page(t testing.TB) string {
	s.build(t)
	return *s.html
}

// scenes returns the same scenes each time.
var scenes = sync.OnceValue(func() []scene {
	all := []scene{
		{name: "three", make: three}, {name: "one", make: one}, {name: "nothing", make: nothing},
		{name: "no_operations", make: noOperations}, {name: "all_failed", make: allFailed},
		{name: "interrupted", make: interrupted}, {name: "invalid", make: invalid},
		{name: "undecided", make: undecided}, {name: "broken_histograms", make: brokenHistograms},
		{name: "hostile", make: hostiles}, {name: "latent", make: latent},
		{name: "faults", make: withFaults}, {name: "missed", make: missed},
		{name: "noisy", make: noisy},
	}
	for i := range all {
		all[i].once, all[i].d, all[i].html = new(sync.Once), new(answer.Data), new(string)
	}
	return all
})

// sceneOf returns a scene by its name.
func sceneOf(t testing.TB, name string) scene {
	t.Helper()
	for _, s := range scenes() {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scene %s", name)
	return scene{}
}

// three is the usual case, small: a baseline, a faster design, a wrong one.
func three(t testing.TB) answer.Data {
	designs := flashSale()
	chosen := []design{designs[0], designs[8], designs[7]}
	return fixture{designs: chosen, repeats: 6, ops: 1000}.build(t)
}

func one(t testing.TB) answer.Data {
	return fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
}

func nothing(testing.TB) answer.Data {
	s := emptySummary()
	s.Verdict = rundir.Verdict{Overall: rundir.Invalid, Correctness: rundir.Inconclusive,
		Objectives: rundir.Pass, Timing: rundir.NoTimes}
	s.Run.Reproduce = ""
	return answer.Data{Summary: s}
}

func noOperations(t testing.TB) answer.Data {
	return fixture{designs: flashSale()[:2], repeats: 2, ops: 0}.build(t)
}

// allFailed has nothing but violations and dropped operations.
func allFailed(t testing.TB) answer.Data {
	designs := flashSale()[:2]
	designs[0].breaks, designs[0].drops = []string{"no-oversell"}, 1
	designs[1].expect, designs[1].drops = nil, 1
	return fixture{designs: designs, repeats: 1, ops: 1000}.build(t)
}

func interrupted(t testing.TB) answer.Data {
	d := fixture{designs: flashSale()[:2], repeats: 2, ops: 1000}.build(t)
	s := &d.Summary
	s.Run.Interrupted = true
	s.Run.Finished = time.Time{}
	s.Verdict.Overall, s.Verdict.Correctness = rundir.Inconclusive, rundir.Inconclusive
	last := &s.Variants[1].Repeats[1]
	s.Variants[1].Correctness, s.Variants[1].Verdict = rundir.Undecided, rundir.Inconclusive
	*last = rundir.Repeat{Index: 1, Order: 3, Verdict: rundir.Inconclusive, Timing: rundir.NoTimes,
		Error: "the run was interrupted"}
	delete(d.Timelines, answer.RepeatRef{Variant: s.Variants[1].Name, Repeat: 1})
	// The other variant is of a version that kept no windows.
	delete(d.Windows, answer.RepeatRef{Variant: s.Variants[0].Name})
	return d
}

func invalid(t testing.TB) answer.Data {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
	s := &d.Summary
	s.Verdict.Overall, s.Verdict.Correctness = rundir.Invalid, rundir.Invalid
	s.Verdict.Timing = rundir.NoTimes
	v := &s.Variants[0]
	v.Verdict, v.Correctness, v.Timing = rundir.Invalid, rundir.Undecided, rundir.NoTimes
	v.Repeats[0].Timing = rundir.NoTimes
	v.Reasons = []string{"schedule kept: 71.2 % started, limit 99 %"}
	v.Repeats[0].Validity[1] = rundir.Validity{Name: "schedule kept", Class: rundir.Evidence,
		Detail: "71.2 % started, limit 99 %"}
	v.Repeats[0].Validity[2] = rundir.Validity{Name: "start lag", Class: rundir.Times,
		Detail: "p50 81 ms, limit 1 ms"}
	s.Warnings = []string{"the machine was busy: load average 7.1"}
	return d
}

func undecided(t testing.TB) answer.Data {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
	s := &d.Summary
	s.Verdict.Overall, s.Verdict.Correctness = rundir.Inconclusive, rundir.Inconclusive
	v := &s.Variants[0]
	v.Verdict, v.Correctness = rundir.Inconclusive, rundir.NotExercised
	v.Reasons = []string{"refund-when-late is not exercised: no payment came late"}
	v.Objectives, s.Verdict.Objectives = rundir.Inconclusive, rundir.Inconclusive
	open := check.Verdict{Invariant: "refund-when-late", Status: check.Undecided,
		Reason: "no payment came late", NotExercised: true}
	v.Invariants[4] = open
	v.SLOs[0] = check.SLOVerdict{Name: "buy-p99", Objective: "p99(response, buy) <= 500ms",
		Status: check.Undecided, Limit: "500ms", Reason: "no buy in steady"}
	return d
}

// brokenHistograms has one that cannot be decoded and one that is missing.
func brokenHistograms(t testing.TB) answer.Data {
	d := fixture{designs: flashSale()[:2], repeats: 2, ops: 1000}.build(t)
	d.Summary.Variants[0].Operations[0].HDR = "HISTFAAAnonsense"
	d.Summary.Variants[1].Operations[0].HDR = ""
	d.Summary.Variants[1].Repeats[0].Operations[0].HDR = "%%%"
	d.Gaps = []string{"numbers over time of naive_select, repeat 1: truncated"}
	return d
}

// hostiles has hostile text wherever a system or a user can put it.
func hostiles(t testing.TB) answer.Data {
	designs := flashSale()[:2]
	designs[0].name, designs[0].idea = hostile, hostile
	designs[1].name = "größe_日本_" + hostile + "2"
	d := fixture{designs: designs, repeats: 1, ops: 1000, faults: true}.build(t)
	s := &d.Summary
	s.Run.Scenario, s.Run.Question, s.Run.Reproduce, s.Run.Target = hostile, hostile, hostile, hostile
	s.Run.System, s.Run.Profile, s.Run.ID = hostile, hostile, hostile
	s.Tool = rundir.Tool{Name: hostile, Version: hostile, Commit: hostile, Go: hostile}
	s.Environment = rundir.Environment{Backend: hostile, BackendReason: hostile, OS: hostile,
		Kernel: hostile, CPU: hostile, Governor: hostile, Fingerprint: hostile, Deploy: hostile,
		Components: map[string]rundir.Component{hostile: {Kind: hostile, Version: hostile,
			Source: hostile, Settings: map[string]string{hostile: hostile}}}}
	s.Warnings = []string{hostile}
	s.Statements["no-oversell"], s.Verdict.Reasons = hostile, []string{hostile}
	d.Scenario, d.Place = hostile, hostile
	d.Files, d.Gaps = append(d.Files, "logs/"+hostile, "javascript:alert(1)"), []string{hostile}
	s.Statements["no-oversell"+hostile] = hostile
	s.Variants[0].ExpectedBroken = []string{"one-per-buyer"}
	s.Variants[0].Correctness = rundir.NotCaught
	s.Variants[1].ExpectedBroken, s.Variants[1].KnownWrong = nil, map[string]string{hostile: hostile}
	for v := range s.Variants {
		hostileVariant(d, v)
		hostileRecords(d, &s.Variants[v])
	}
	return d
}

// hostileVariant has hostile text in a variant's part of the summary.
func hostileVariant(d answer.Data, v int) {
	variant := &d.Summary.Variants[v]
	variant.Needs = []string{hostile}
	variant.Roles = []rundir.Role{{Name: hostile, Summary: hostile, Replicas: 2}}
	variant.Guarantees, variant.GivesUp = hostile, hostile
	slo := &variant.SLOs[0]
	slo.Objective, slo.Name, slo.Limit, slo.Actual = hostile, hostile, hostile, hostile
	slo.Reason, slo.Status = hostile, check.Undecided
	variant.NotApplicable = map[string]string{"stock-never-negative" + hostile: hostile}
	for i := range variant.ExpectedBroken {
		variant.ExpectedBroken[i] += hostile
	}
	for o := range variant.Operations {
		variant.Operations[o].Kind += hostile
		variant.Operations[o].Errors = []rundir.ErrorClass{
			{Outcome: "unknown", Class: hostile, Count: 1, Sample: hostile}}
	}
	repeat := &variant.Repeats[0]
	repeat.Error, repeat.Validity[0].Detail = hostile, hostile
	repeat.Validity[0].Name, repeat.Validity[1].OK = hostile, false
	repeat.Faults[0].Name, repeat.Faults[0].Evidence = hostile, []string{hostile}
	repeat.Faults[0].Fault = hostile
	watch(d, v)
	for i := range repeat.Invariants {
		repeat.Invariants[i].Invariant += hostile
		repeat.Invariants[i].Reason = hostile
		repeat.Invariants[i].Accepted = []check.AcceptedLoss{{What: hostile, Why: hostile,
			Count: 1, Bound: 2}}
		if w := repeat.Invariants[i].Watched; w != nil {
			w.Quantity, w.Unit = hostile, hostile
		}
		for k := range repeat.Invariants[i].Violations {
			repeat.Invariants[i].Violations[k].Text = hostile
		}
	}
	variant.Invariants = repeat.Invariants
}

// hostileRecords has it in what was recorded of a variant's first repeat.
func hostileRecords(d answer.Data, variant *rundir.Variant) {
	ref, repeat := answer.RepeatRef{Variant: variant.Name}, &variant.Repeats[0]
	timeline := d.Timelines[ref]
	timeline.Watched = rundir.WatchedLines(repeat.Invariants)
	d.Timelines[ref] = timeline
	repeat.Processor.Parts[1].Name += hostile
	for _, k := range d.Windows[ref].Kinds {
		for i := range k.Errors {
			k.Errors[i].Class, k.Errors[i].Outcome = hostile, hostile
		}
	}
	said := d.Telemetry[ref]
	for i := range said.Sources {
		said.Sources[i].Name += hostile
		said.Sources[i].Missed, said.Sources[i].Trouble = 1, hostile
		for k := range said.Sources[i].Series {
			series := &said.Sources[i].Series[k]
			series.Quantity, series.Part = series.Quantity+hostile, series.Part+hostile
			series.Unit = hostile
		}
	}
	for i := range d.Deeds[ref] {
		r := &d.Deeds[ref][i]
		r.Op.Key, r.Op.Client, r.Op.Kind = hostile, hostile, hostile
	}
	for seq, r := range d.Records[ref] {
		r.Op.Key, r.Op.Client, r.Op.Kind, r.Err = hostile, hostile, hostile, hostile
		r.Reply = history.Reply{Key: hostile, Body: []byte(hostile)}
		d.Records[ref][seq] = r
	}
}

// latent has a design that is wrong under what this scenario does not do.
func latent(t testing.TB) answer.Data {
	designs := flashSale()
	lucky := designs[12]
	lucky.breaks, lucky.expect = nil, nil
	d := fixture{designs: []design{designs[0], lucky}, repeats: 1, ops: 1000}.build(t)
	v := &d.Summary.Variants[1]
	v.KnownWrong, v.Correctness = map[string]string{"no-oversell": "redis-loss"}, rundir.NotProvoked
	d.Summary.Run.ProvokedBy = map[string][]string{v.Name: {"flash-sale-redis-power-loss"}}
	return d
}

// missed has a design that should have been caught and was not, beside one that was.
func missed(t testing.TB) answer.Data {
	designs := flashSale()
	lucky := designs[12]
	lucky.breaks = nil
	d := fixture{designs: []design{designs[0], lucky, designs[7]}, repeats: 2, ops: 1000}.build(t)
	s := &d.Summary
	s.Verdict.Overall, s.Verdict.Correctness = rundir.Fail, rundir.Fail
	s.Variants[1].Verdict = rundir.Fail
	return d
}

func withFaults(t testing.TB) answer.Data {
	d := fixture{designs: flashSale()[:2], repeats: 1, ops: 1000, faults: true}.build(t)
	d.Summary.Variants[0].Repeats[0].Faults = append(d.Summary.Variants[0].Repeats[0].Faults,
		history.Window{Kind: history.FaultWindow, Name: "cut", Fault: "partition postgres",
			Start: 8 * time.Second, End: history.Never})
	watch(d, 0)
	ref := answer.RepeatRef{Variant: d.Summary.Variants[0].Name}
	d.Telemetry[ref] = lagging(d.Telemetry[ref])
	return d
}

// watch gives a variant a quantity that an invariant followed: up during the
// fault, where nothing is seen for a while, and too low after it.
func watch(d answer.Data, variant int) {
	v := &d.Summary.Variants[variant]
	w := check.Watched{Quantity: "drift", Unit: "units", Gaps: 4}
	for i := range 48 {
		at, high := time.Duration(i)*time.Second/4, int64(i%3)
		switch {
		case i >= 20 && i < 24:
			continue
		case i >= 16 && i < 30:
			high += 40
		case i == 40:
			high = -2
		}
		w.Look(at, high-int64(i%2), high, i >= 16 && i < 36)
	}
	broken := check.Verdict{Invariant: "redis-drift", Status: check.Broken, Checked: 24, Count: 1,
		Violations: []check.Violation{{Text: "2 more than exist could be sold", AtNS: int64(1e10)}},
		Watched:    &w}
	v.Repeats[0].Invariants = append(v.Repeats[0].Invariants, broken)
	ref := answer.RepeatRef{Variant: v.Name}
	timeline := d.Timelines[ref]
	timeline.Watched = rundir.WatchedLines(v.Repeats[0].Invariants)
	d.Timelines[ref] = timeline
}
