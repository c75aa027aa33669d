package reports_test

import (
	"html"
	"strings"
	"testing"
	"time"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/export"
	"stampede/reports/words"
)

// TestBesides: what a known-wrong design breaks beyond what was expected of it is not
// called expected, and is not held against it.
func TestBesides(t *testing.T) {
	designs := flashSale()
	wrong := designs[7] // expected to break no-oversell alone
	wrong.breaks = []string{"no-oversell", "paid-has-unit"}
	d := fixture{designs: []design{designs[0], wrong}, repeats: 1, ops: 1000}.build(t)
	d.Summary.Variants[1].Verdict = rundir.Pass
	d.Summary.Verdict.Overall, d.Summary.Verdict.Correctness = rundir.Pass, rundir.Pass

	for name, text := range map[string]string{"page": outline(render(t, d)),
		"Markdown": write(t, export.Markdown, d)} {
		if !strings.Contains(text, "1 of 1 known-wrong one was caught") {
			t.Errorf("the %s does not say that the control was caught", name)
		}
	}
	page := outline(render(t, d))
	for _, want := range []string{"⚑ caught · no-oversell by",
		"⚐ also broken · paid-has-unit by", "units sold; also broke paid-has-unit\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, suite := range junitOf(t, d) {
		for _, c := range suite.Tests {
			if c.Name == "invariant: paid-has-unit" && suite.Name == "flash-sale-100k/redis_get_decr" &&
				!strings.HasPrefix(c.SystemOut, "also broken\n") {
				t.Errorf("JUnit says %q, %v", c.SystemOut, c.Error)
			}
		}
	}
}

// TestWhenItBroke: of a violation the page says in which phase and during which fault.
func TestWhenItBroke(t *testing.T) {
	for atNS, want := range map[int64]string{
		4_500_000_000:  "at 4,500.00 ms, in steady, during F1 stall",
		500_000_000:    "at 500.00 ms, in warm-up",
		12_500_000_000: "at 12,500.00 ms",
	} {
		d := fixture{designs: flashSale()[:2], repeats: 1, ops: 1000, faults: true}.build(t)
		repeat := &d.Summary.Variants[1].Repeats[0]
		repeat.Operations[0].Phases = append(repeat.Operations[0].Phases,
			rundir.Phase{Name: "during stall", StartNS: 4e9, EndNS: 6e9})
		repeat.Invariants[0].Violations = repeat.Invariants[0].Violations[:1]
		repeat.Invariants[0].Violations[0].AtNS = atNS
		page := outline(render(t, d))
		for _, want := range []string{"· first " + want + "\n", "units sold " + want + "\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	}
}

// TestBrokenElsewhere: what a design breaks that nothing here provokes, and that it is
// known to break under another trigger, is not called expected either.
func TestBrokenElsewhere(t *testing.T) {
	designs := flashSale()
	wrong := designs[7]
	wrong.expect = nil
	d := fixture{designs: []design{designs[0], wrong}, repeats: 1, ops: 1000}.build(t)
	d.Summary.Variants[1].KnownWrong = map[string]string{"no-oversell": "redis-loss"}
	d.Summary.Variants[1].Correctness = rundir.NotProvoked
	d.Summary.Variants[1].Verdict = rundir.Pass
	d.Summary.Verdict.Overall, d.Summary.Verdict.Correctness = rundir.Pass, rundir.Pass

	page := outline(render(t, d))
	for _, want := range []string{"⚐violated as known elsewhere | ",
		"⚐ violated as known elsewhere · no-oversell by",
		"broke no-oversell, as it is known to elsewhere"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestNoObjective: where no objective was asked, none is called met.
func TestNoObjective(t *testing.T) {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
	d.Summary.Variants[0].SLOs, d.Summary.Variants[0].Repeats[0].SLOs = nil, nil
	page := render(t, d)
	if got := between(t, page, "<title>", "</title>"); !strings.Contains(got, "– objectives") {
		t.Errorf("the title is %q", got)
	}
	if got := outline(page); !strings.Contains(got, "– Objectives none asked") {
		t.Errorf("the card does not say that none was asked:\n%.2000s", got)
	}
	if got := write(t, export.Markdown, d); !strings.Contains(got, "- Objectives: – **none asked**") {
		t.Errorf("Markdown does not say that none was asked:\n%s", got)
	}
	if got := strings.Join(textOf(t, d, words.TextOptions{}), "\n"); strings.Contains(got,
		"OBJECTIVES") || strings.Contains(got, "objectives=") {
		t.Errorf("the text has objectives:\n%s", got)
	}
	icon := html.UnescapeString(between(t, page, `<link rel="icon" href="`, `"`))
	if n := strings.Count(icon, "%3Ccircle"); n != 2 {
		t.Errorf("the icon has %d discs, of correctness and measurement", n)
	}
}

// TestNoWinnerWithoutADifference: the fastest is named where it is faster by 5 %, and
// where times count.
func TestNoWinnerWithoutADifference(t *testing.T) {
	fixed := func(p99s ...time.Duration) answer.Data {
		designs := flashSale()
		d := fixture{designs: []design{designs[0], designs[2], designs[5], designs[7]}, repeats: 1,
			ops: 1000}.build(t)
		for i, p99 := range p99s {
			d.Summary.Variants[i].Operations[0].Latency.Response.P99 = int64(p99)
		}
		return d
	}
	invalid := fixed(40*time.Millisecond, 30*time.Millisecond, 20*time.Millisecond, time.Millisecond)
	invalid.Summary.Verdict.Timing = rundir.NoTimes
	for i := range invalid.Summary.Variants {
		invalid.Summary.Variants[i].Timing = rundir.NoTimes
	}
	for name, c := range map[string]struct {
		d         answer.Data
		want, not string
	}{
		"equal": {fixed(time.Second, time.Second, time.Second, time.Second),
			"Their p99 of buy cannot be told apart: 1.00 s.", "fast but wrong"},
		"two": {fixed(time.Second, 500*time.Millisecond, 510*time.Millisecond, 490*time.Millisecond),
			"counter_in_place and units_skip_locked answer buy fastest and cannot be told apart: " +
				"p99 500 ms to 510 ms", "fast but wrong"},
		"one": {fixed(time.Second, 500*time.Millisecond, 600*time.Millisecond, 400*time.Millisecond),
			"counter_in_place answers buy fastest: p99 500 ms", "told apart"},
		"wrong": {fixed(time.Second, time.Second, time.Second, 400*time.Millisecond),
			"fast but wrong", "answers buy fastest"},
		"invalid": {invalid, "no\u00a0usable\u00a0times", "fast but wrong"},
	} {
		page := outline(render(t, c.d))
		if !strings.Contains(page, c.want) || strings.Contains(page, c.not) {
			t.Errorf("%s: no %q, or %q", name, c.want, c.not)
		}
	}
}

// TestWatchedWords: a quantity comes first and the invariant that it was looked at for
// after it, and bounds are told where there are any.
func TestWatchedWords(t *testing.T) {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
	watch(d, 0)
	d.Summary.Statements["redis-drift"] = "Redis never offers more than exist."
	page := outline(render(t, d))
	for _, want := range []string{"\nDrift, in units\nSampled during the load for redis-drift: " +
		"Redis never offers more than exist. From outside",
		"From outside it is known only within bounds", "Repeat 1: drift between −2 and 42 units ("} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	line := &d.Timelines[answer.RepeatRef{Variant: d.Summary.Variants[0].Name}].Watched[0]
	for i := range line.Points {
		line.Points[i].High = line.Points[i].Low
	}
	page = outline(render(t, d))
	for _, want := range []string{". Hatched: ", "Repeat 1: drift between −2 and 42 units ("} {
		if !strings.Contains(page, want) {
			t.Errorf("of what is known exactly the page does not say %q", want)
		}
	}
}

// TestOneLineForEachAssumption: what failed of many designs is told once, and not in what
// the designs do.
func TestOneLineForEachAssumption(t *testing.T) {
	d := fixture{designs: flashSale()[:4], repeats: 1, ops: 1000}.build(t)
	for i := range d.Summary.Variants {
		v := &d.Summary.Variants[i]
		lag := &v.Repeats[0].Validity[2]
		lag.OK, lag.Detail = false, "p99 7 ms, limit 1 ms, of "+v.Name
		v.Reasons = []string{"broke nothing", "start lag: " + lag.Detail}
		for _, r := range v.Reasons {
			d.Summary.Verdict.Reasons = append(d.Summary.Verdict.Reasons, v.Name+": "+r)
		}
	}
	page := outline(render(t, d))
	if n := strings.Count(page, "start lag: all 4 designs; the first, A "); n != 1 {
		t.Errorf("%d lines about start lag", n)
	}
	if n := strings.Count(page, "1 ms, of for_update"); n != 1 {
		t.Errorf("the detail of another design is told %d times, not in the table alone", n)
	}
	if n := strings.Count(page, "broke nothing"); n != 4 {
		t.Errorf("other reasons are told %d times", n)
	}
}
