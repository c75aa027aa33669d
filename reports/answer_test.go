package reports_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/export"
	"stampede/reports/words"
)

// noisy is a run on a machine that interfered: one repeat of a design has noisy times and
// was run again, an objective is not judged, a control was caught, another not provoked.
func noisy(t testing.TB) answer.Data {
	designs := flashSale()
	lucky := designs[12]
	lucky.breaks, lucky.expect = nil, nil
	d := fixture{designs: []design{designs[0], designs[8], designs[7], lucky}, repeats: 1,
		ops: 1000}.build(t)
	s := &d.Summary
	s.Run.ProvokedBy = map[string][]string{lucky.name: {"flash-sale-redis-power-loss", "another"}}
	s.NoiseFloor = &rundir.NoiseFloor{Variant: designs[0].name, P50: 1.2, P99: 1.6}
	s.Verdict.Timing, s.Verdict.Objectives = rundir.Noisy, rundir.NotJudged
	dormant := &s.Variants[3]
	dormant.Correctness = rundir.NotProvoked
	dormant.KnownWrong = map[string]string{"no-oversell": "power-loss"}
	v := &s.Variants[0]
	v.Timing, v.Objectives = rundir.Noisy, rundir.NotJudged
	v.SLOs[0].Status, v.SLOs[0].NotJudged = check.Undecided, true
	v.SLOs[0].Reason = "8 % were dropped while the host took 14 % of the CPU"
	first, again := &v.Repeats[0], v.Repeats[0]
	first.Timing, first.Used, first.Generator.StealShare = rundir.Noisy, false, .33
	again.Index, again.Order, again.Again, again.Timing = 1, 4, new(int), rundir.Noisy
	again.Generator.StealShare = .07
	v.Repeats = append(v.Repeats, again)
	return d
}

func textOf(t *testing.T, d answer.Data, o words.TextOptions) []string {
	t.Helper()
	var out bytes.Buffer
	if err := export.Text(&out, d, o); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

// TestTextFits: the terminal says the three answers within 80 columns but for the last line.
func TestTextFits(t *testing.T) {
	lines := textOf(t, sceneOf(t, "noisy").data(t), words.TextOptions{})
	for _, line := range lines[:len(lines)-1] {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestTimingNamesEachCause: each cause has the number of repeats in which it failed, and no
// share of the CPU stands beside the repeats that were noisy for another reason.
func TestTimingNamesEachCause(t *testing.T) {
	failed := func(r *rundir.Repeat, timing string, names ...string) {
		r.Timing = timing
		for _, name := range names {
			r.Validity = append(r.Validity, rundir.Validity{Name: name, Class: rundir.Times})
		}
	}
	timing := func(others ...float64) string {
		d := fixture{designs: flashSale()[:3], repeats: 2, ops: 1000}.build(t)
		again := d.Summary.Variants[0].Repeats[1]
		again.Index, again.Control = 2, true
		d.Summary.Variants[0].Repeats = append(d.Summary.Variants[0].Repeats, again)
		a, b := d.Summary.Variants[0].Repeats, d.Summary.Variants[1].Repeats
		failed(&a[0], rundir.Noisy, "pacer-lag")
		failed(&b[0], rundir.Noisy, "pacer-lag", "interference")
		failed(&b[1], rundir.NoTimes, "pacer-lag", "core-wait")
		for i, share := range others {
			b[i].Processor = &rundir.Processor{Machine: &rundir.Machine{SpanNS: 100, Cores: 1,
				OthersNS: int64(100 * share)}}
		}
		_, text, _ := strings.Cut(strings.Join(textOf(t, d, words.TextOptions{Width: 1000}), "\n"),
			"\nTIMING      ")
		text, _, _ = strings.Cut(text, "\n")
		return text
	}
	const begin = "7 repeats, 3 of them the baseline's; 2 are noisy, 1 has no usable times: "
	for want, got := range map[string]string{
		begin + "the CPU was taken part of the time (interference) in 1, dispatch was late " +
			"(pacer-lag) in 3, a core came late (core-wait) in 1": timing(),
		begin + "other programs took 47 % of the CPU in 1, dispatch was late (pacer-lag) in 3, " +
			"a core came late (core-wait) in 1": timing(.47, .1),
	} {
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestFaultsAreOnTheFirstScreen: with their proof, or without; what a design does not have is
// not struck.
func TestFaultsAreOnTheFirstScreen(t *testing.T) {
	d := fixture{designs: flashSale()[:3], repeats: 1, ops: 1000}.build(t)
	window := func(name, fault string, start time.Duration, evidence ...string) history.Window {
		return history.Window{Kind: history.FaultWindow, Name: name, Fault: fault, Start: start,
			End: start + time.Second, Evidence: evidence}
	}
	for i := range d.Summary.Variants {
		r := &d.Summary.Variants[i].Repeats[0]
		r.Faults = []history.Window{
			window("dies", "crash api-1 at admitted passage 5", 1020*time.Millisecond, "killed"),
			window("silence", "lost-ack redis", 3*time.Second)}
		r.Validity = append(r.Validity, rundir.Validity{Name: "fault silence",
			Class: rundir.Evidence, OK: true, Detail: "the design does not use redis"})
	}
	says := func(want string) {
		t.Helper()
		lines := strings.Join(textOf(t, d, words.TextOptions{Width: 200}), "\n")
		page, summary := outline(render(t, d)), write(t, export.Markdown, d)
		if !strings.Contains(lines, "\n            "+want+"\n") ||
			!strings.Contains(page, "| "+want) || !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, lines)
		}
	}
	says("faults: 1 injected, proved: dies (crash api-1 at 1.02 s)")
	if page := outline(render(t, d)); !strings.Contains(page, "| the design does not use redis") {
		t.Error("the table of faults does not say why one is idle")
	}
	r := &d.Summary.Variants[0].Repeats[0]
	r.Validity = r.Validity[:len(r.Validity)-1]
	says("faults: 2 injected, 1 not proved: silence")
	r.Faults[1].Evidence = []string{"3 bytes of replies were lost"}
	says("faults: 2 injected, all proved: dies (crash api-1 at 1.02 s) and silence (lost-ack redis " +
		"at 3.00 s)")
}

// TestSummariesOfWhatHeld: what an invariant says of itself stands in its row and, of the
// first that says something, on the first screen, with ranges over designs and repeats.
func TestSummariesOfWhatHeld(t *testing.T) {
	d := fixture{designs: flashSale()[:4], repeats: 2, ops: 1000}.build(t)
	for i := range d.Summary.Variants {
		for k := range d.Summary.Variants[i].Repeats {
			v := &d.Summary.Variants[i].Repeats[k].Invariants[0]
			if v.Reason = fmt.Sprintf("%d of 1000 units were sold; %d bought", 997+i+k, 1200+i); i == 2 {
				v.Reason = fmt.Sprintf("%d of 1000 units were sold", 997)
			}
		}
	}
	clause := "no-oversell: 997 to 1,001 of 1,000 units were sold"
	page := outline(render(t, d))
	for _, want := range []string{"| " + clause + " |",
		"\n| no-oversell 997 to 1,001 of 1,000 units were sold; 1,200 to 1,203 bought |",
		"| Checked operations or rows of a repeat\n", "| 1,000\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if text := write(t, export.Markdown, d); !strings.Contains(text, clause) {
		t.Errorf("the summary does not say %q", clause)
	}
	// The scenario is about what its controls break.
	about := d
	about.Summary.Statements = map[string]string{"stock-conserved": "No unit is lost."}
	about.Summary.Variants = slices.Clone(d.Summary.Variants)
	about.Summary.Variants[1].ExpectedBroken = []string{"stock-conserved"}
	if page := outline(render(t, about)); !strings.Contains(page,
		"| stock-conserved: No unit is lost |") || strings.Contains(page, "| "+clause+" |") {
		t.Error("the first screen is about what no control breaks")
	}
	d.Summary.Variants[3].Repeats[0].Invariants[0].Reason = "not counted"
	if page = outline(render(t, d)); strings.Contains(page, "units were sold") {
		t.Error("one design says something else, and the page speaks for all")
	}
}

// TestViolationsAreInTime: whatever order the checker found them in, with one time each.
func TestViolationsAreInTime(t *testing.T) {
	d := sceneOf(t, "three").make(t)
	v := &d.Summary.Variants[2].Repeats[0].Invariants[0]
	v.Violations = []check.Violation{{Text: "paid twice"},
		{Text: "late: at 2.847622807s 230 were held, the first at 1.25s", AtNS: 2_847_622_807},
		{Text: "early: between 1.123456789s and 1.3s", AtNS: 1_300_000_000}}
	v.Count = 3
	page := outline(render(t, d))
	for _, want := range []string{"first at 1,300.00 ms", "1 early: between 1,123.45 ms and 1.3s " +
		"at 1,300.00 ms", "2 late: 230 were held, the first at 1.25s at 2,847.62 ms", "3 paid twice"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestTheFloorSaysWhereItRan: as which of all repeats the baseline ran, and ran again.
func TestTheFloorSaysWhereItRan(t *testing.T) {
	d := fixture{designs: flashSale()[:3], repeats: 1, ops: 1000}.build(t)
	again := d.Summary.Variants[0].Repeats[0]
	again.Index, again.Order, again.Control, again.Used = 1, 3, true, false
	d.Summary.Variants[0].Repeats[0].Order = 2
	d.Summary.Variants[2].Repeats[0].Order = 0
	d.Summary.Variants[0].Repeats = append(d.Summary.Variants[0].Repeats, again)
	d.Summary.NoiseFloor = &rundir.NoiseFloor{Variant: "conditional_update", P50: 1.2, P99: 1.6}
	page := outline(render(t, d))
	for _, want := range []string{"\nconditional_update ran 3rd and, for comparison with itself, " +
		"4th of 4 repeats, and differed from itself by 1.20× at p50 and by 1.60× at p99.",
		"\nOne repeat each: a slow minute of the machine hits one design alone.",
		"| baseline again |"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	d.Summary.Run.Repeats = 2
	if page = outline(render(t, d)); !strings.Contains(page, "\nDesigns take turns, so that a ") {
		t.Error("with two repeats designs do not take turns")
	}
}

// TestSuccessfulTimes: where a design refuses operations, the times are of those that were
// successful, in one order everywhere, and the ratio says that it is not; without their times
// the page says that refusals are in them.
func TestSuccessfulTimes(t *testing.T) {
	d := noisy(t)
	page := strings.ReplaceAll(outline(render(t, d)), "\u00a0", " ")
	if want := "p50 to p99 of buy, refusals included\n"; !strings.Contains(page, want) {
		t.Errorf("no %q in\n%s", want, page)
	}
	for i := range d.Summary.Variants {
		v := &d.Summary.Variants[i]
		op := &v.Operations[0]
		ms := int64(1+i) * 1e6 // the design that was slowest with refusals is fastest
		op.Successful = &rundir.Percentiles{Count: op.Load.OK, P50: ms, P90: ms, P99: 10 * ms,
			P999: 10 * ms, Max: 10 * ms}
		v.Repeats[0].Operations[0].Successful = op.Successful
	}
	page = strings.ReplaceAll(outline(render(t, d)), "\u00a0", " ")
	for _, want := range []string{
		"conditional_update answers successful buy operations fastest: p99 ≈ 10.0 ms",
		"p50 to p99 of successful buy\n", "| ✓holds conditional_update A  |  | ≈ 1.00 ms – 10.0 ms\n",
		"| ✓holds redis_lua B  |  | 2.00 ms – 20.0 ms\n", "| p99 to baseline |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	text := strings.Join(textOf(t, d, words.TextOptions{}), "\n")
	want := "\ntimes are of successful buy operations\n"
	if !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// TestNoiseHidesDifferences: what differs by less than the baseline from itself has no winner,
// clean or not.
func TestNoiseHidesDifferences(t *testing.T) {
	d := noisy(t)
	d.Summary.NoiseFloor.P99 = 20
	want := "Their p99 of buy cannot be told apart"
	if page := outline(render(t, d)); !strings.Contains(page, want) {
		t.Errorf("%.3000s", page)
	}
}

// TestTwoRunsAgreeByLuck: two runs of one design that hardly differ do not make small
// differences mean something.
func TestTwoRunsAgreeByLuck(t *testing.T) {
	d := noisy(t)
	d.Summary.NoiseFloor.P99 = 1.02
	want := "the same design differed from itself by 1.02× at p99: differences below 1.05× mean " +
		"nothing here"
	if page := outline(render(t, d)); !strings.Contains(page, want) {
		t.Errorf("%.3000s", page)
	}
}

// TestColumnsWithoutNumbers: a column that would have nothing but dashes is left out, and why
// is said once.
func TestColumnsWithoutNumbers(t *testing.T) {
	d := noisy(t)
	for i := range d.Summary.Comparisons {
		c := &d.Summary.Comparisons[i]
		c.Ratio, c.Note = 0, "every difference is within the noise"
	}
	for i := range d.Summary.Variants {
		d.Summary.Variants[i].Races = nil
	}
	page := outline(render(t, d))
	if strings.Contains(page, "| p99 to baseline") || strings.Contains(page, "| Raced") {
		t.Error("a column has nothing but dashes")
	}
	want := "No ratio to the baseline conditional_update: every difference is within the noise."
	if strings.Count(page, want) != 1 {
		t.Errorf("no %q", want)
	}
}

// TestRatiosUnderOverload: where most of a p99 is the wait for a free place, the headline and
// the tables say that a ratio to it depends on how long the load lasted.
func TestRatiosUnderOverload(t *testing.T) {
	d := fixture{designs: flashSale()[:4], repeats: 1, ops: 1000}.build(t)
	base := &d.Summary.Variants[0].Operations[0].Latency
	base.Service.P99 = base.Response.P99 / 4
	jitter := &d.Summary.Variants[2].Operations[0].Latency
	jitter.Service.P99 = jitter.Response.P99 / 4 // by less than a tenth of a second
	base.Response.P99 += 1e9
	const note = "conditional_update could not keep up: most of its p99 is waiting for a free " +
		"place, so the ratio depends on how long the load lasted."
	page := outline(render(t, d))
	if n := strings.Count(page, note); n != 2 {
		t.Errorf("the page says it %d times", n)
	}
	if !strings.Contains(page, " the baseline conditional_update. "+note) {
		t.Error("the headline does not say it")
	}
	text := strings.Join(textOf(t, d, words.TextOptions{Width: 300}), "\n")
	if !strings.Contains(text, "\n"+note+"\n") {
		t.Errorf("no %q in\n%s", note, text)
	}
	if text = write(t, export.Markdown, d); !strings.Contains(strings.ReplaceAll(text, `\`, ""),
		"Times are of buy, refusals included. "+note) {
		t.Errorf("no %q in\n%s", note, text)
	}
}

// TestTheVersionIsSaidOnce: without a tag it is the beginning of the commit.
func TestTheVersionIsSaidOnce(t *testing.T) {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
	d.Summary.Tool = rundir.Tool{Name: "stampede", Version: "57cce02", Commit: "57cce023649541930ae1"}
	if page := outline(render(t, d)); !strings.Contains(page, "| stampede 57cce023649541930ae1\n") {
		t.Error("the commit is said twice")
	}
}

// TestCountedEvidence: of a count that rose above its limit the page shows how, which
// operation crossed it and which two raced, and no other picture.
func TestCountedEvidence(t *testing.T) {
	d := sceneOf(t, "three").make(t)
	const ms = 1_000_000
	v := &d.Summary.Variants[2].Repeats[0].Invariants[0]
	v.Violations[0].Counted = check.CountUp("units of item-1 certainly sold", 2, []check.CountedStep{
		{Op: 900_000, StartNS: 2000 * ms, AtNS: 2003 * ms},
		{Op: 900_001, StartNS: 2010 * ms, AtNS: 2013 * ms},
		{Op: 900_010, StartNS: 2011 * ms, AtNS: 2014 * ms}})
	page := render(t, d)
	for _, want := range []string{"<h4>Units of item-1 certainly sold</h4>",
		"3, of at most 2. Operation 900010 " +
			"was the one above the limit, at 2,014.00 ms. Operation 900010 was sent while " +
			"operation 900001 was still in execution: they overlapped for 2.00 ms",
		">limit 2<", ">3 by operation 900010<", ">900001<"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	table := between(t, page, `aria-label="Violation of no-oversell by redis_get_decr"`,
		"This design again")
	for _, one := range []struct {
		op    string
		shown bool
	}{{"<td>900001<", true}, {"<td>900010<", true}, {"<td>900000<", false}} {
		if strings.Contains(table, one.op) != one.shown {
			t.Errorf("the tables of the operations that decide have %s: %v", one.op, !one.shown)
		}
	}
	if n := strings.Count(table, " in the file."); n != 1 {
		t.Errorf("the tables say %d times how many are in the file", n)
	}
	exhibit := between(t, page, `id="v-no-oversell-redis_get_decr"`, "<table")
	if strings.Contains(exhibit, "Interleaving of the operations") {
		t.Error("the operations that raced are drawn twice")
	}
}
