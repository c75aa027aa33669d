package reports_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/schema/schematest"
	"stampede/reports/answer"
	"stampede/reports/compare"
)

// compareRuns compares two runs that are not copies of one, though made from one fixture.
func compareRuns(base, candidate compare.Labelled) compare.Comparison {
	candidate.Data.Summary.Run.ID += "-2"
	return compare.Runs(base, candidate)
}

// against compares b with a, which are called so.
func against(a, b answer.Data) compare.Comparison {
	return compareRuns(compare.Labelled{Label: "a", Data: a}, compare.Labelled{Label: "b", Data: b})
}

// told is what a format says of comparisons.
func told(t testing.TB, write func(io.Writer, bool, ...compare.Comparison) error, across bool,
	all ...compare.Comparison,
) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, across, all...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSimulatedBesideMeasured: no flag lets them be compared.
func TestSimulatedBesideMeasured(t *testing.T) {
	a := fixture{designs: flashSale()[:1], repeats: 6, ops: 2000}.build(t)
	b := fixture{designs: flashSale()[:1], repeats: 6, ops: 2000}.build(t)
	env := &b.Summary.Environment
	env.Backend, env.Fingerprint = rundir.Simulation, "another"
	c := against(a, b)
	const why = "the kind of times differs: measured and simulated"
	if got := c.Undecided(true); len(got) != 1 || got[0] != why {
		t.Errorf("undecided %q", got)
	}
	if got := told(t, compare.Text, true, c); !strings.Contains(got, "! not comparable: "+why) {
		t.Errorf("%s", got)
	}
}

func TestCompareRuns(t *testing.T) {
	base := fixture{designs: flashSale()[:3], repeats: 6, ops: 2000}.build(t)
	slower := flashSale()[:3]
	slower[0].p50 *= 2
	candidate := fixture{designs: slower[:2], repeats: 6, ops: 2000}.build(t)
	candidate.Summary.Variants[0].Invariants[3].Status = check.Broken
	c := against(base, candidate)
	if len(c.Mismatches) != 0 {
		t.Errorf("mismatches %v", c.Mismatches)
	}
	if len(c.Changes) != 1 || len(c.Worsened(false)) != 1 || c.Changes[0].Name != "paid-has-unit" {
		t.Errorf("changes %+v", c.Changes)
	}
	if len(c.OnlyBase) != 1 || c.OnlyBase[0] != "counter_in_place" || len(c.OnlyCandidate) != 0 {
		t.Errorf("only %q %q", c.OnlyBase, c.OnlyCandidate)
	}
	p99 := c.Metrics[0].Comparisons[1]
	if p99.Metric != "p99" || p99.Ratio < 1.5 || p99.Ratio > 2.6 || !p99.Significant || !p99.Large {
		t.Errorf("a doubled latency: %+v", p99)
	}
	if len(c.Regressions) != 2 || c.Regressions[1].Metric != "p99" || len(c.Undecided(false)) != 0 {
		t.Errorf("regressions %v, undecided %q", c.Regressions, c.Undecided(false))
	}
	if back := against(candidate, base); len(back.Regressions) != 0 {
		t.Errorf("what got better is a regression: %v", back.Regressions)
	}
	if same := c.Metrics[1].Comparisons[1]; same.Large && same.Significant {
		t.Errorf("an unchanged design: %+v", same)
	}
}

func TestCompareFlagsWhatIsNotComparable(t *testing.T) {
	base, other := one(t), one(t)
	other.Summary.Environment.Fingerprint = "another machine"
	other.Summary.Run.Profile = "smoke"
	c := against(base, other)
	var what []string
	for _, m := range c.Mismatches {
		what = append(what, m.What)
	}
	for _, want := range []string{"environment fingerprint", "profile"} {
		if !slices.Contains(what, want) {
			t.Errorf("no %q in %q", want, what)
		}
	}
}

// TestDifferencesOfStores: what differs in a store is one line, a store that one run alone
// had is one thing, long values are cut, and a setting without a limit has a word.
func TestDifferencesOfStores(t *testing.T) {
	base, other := one(t), one(t)
	e := &other.Summary.Environment
	e.Fingerprint, e.CPU = "another", strings.Repeat("very ", 20)+"fast"
	e.Components = map[string]rundir.Component{
		"postgres": {Kind: "postgres", Version: "17.2", Settings: map[string]string{"fsync": "off"}},
		"kafka": {Kind: "kafka", Version: "3.9.1", Settings: map[string]string{"a": "1", "b": "2",
			"c": "3"}},
		"redis": {Kind: "redis", Version: "7.0.15", Settings: map[string]string{
			"appendfsync": "9223372036854775807"}},
	}
	c := compareRuns(compare.Labelled{Label: "old", Data: base},
		compare.Labelled{Label: "new", Data: other})
	text := told(t, compare.Text, false, c)
	for _, want := range []string{"! not comparable: kafka: only in new\n",
		"appendfsync everysec and never",
		"! not comparable: postgres differs: postgres 15.14 and postgres 17.2; fsync on and off",
		"very very…\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "! not comparable"); n != 4 {
		t.Errorf("%d lines of differences in\n%s", n, text)
	}
}

// TestUndecided: no regression is claimed, or ruled out, where the runs cannot
// tell.
func TestUndecided(t *testing.T) {
	few := fixture{designs: flashSale()[:1], repeats: 4, ops: 2000}.build(t)
	slower := flashSale()[:1]
	slower[0].p50 *= 3
	worse := fixture{designs: slower, repeats: 4, ops: 2000}.build(t)
	a, b := compare.Labelled{Label: "a", Data: few}, compare.Labelled{Label: "b", Data: worse}
	c := compareRuns(a, b)
	if why := c.Undecided(false); len(c.Regressions) != 0 || len(why) != 1 ||
		!strings.Contains(why[0], "4 and 4 repeats can never show a regression") ||
		!strings.Contains(why[0], "5 a side can") {
		t.Errorf("four repeats: %v, %q", c.Regressions, why)
	}
	enough := fixture{designs: flashSale()[:1], repeats: 5, ops: 2000}.build(t)
	a.Data, b.Data = enough, fixture{designs: slower, repeats: 5, ops: 2000}.build(t)
	b.Data.Summary.Environment.Fingerprint = "other"
	c = compareRuns(a, b)
	if len(c.Undecided(false)) != 1 || len(c.Undecided(true)) != 0 || len(c.Regressions) == 0 {
		t.Errorf("another machine: %q, allowed: %q, %v", c.Undecided(false), c.Undecided(true),
			c.Regressions)
	}
	b.Data.Summary.Run.ScenarioDigest = "other"
	if why := compareRuns(a, b).Undecided(true); len(why) != 1 {
		t.Errorf("another scenario: %q", why)
	}
	b.Data.Summary.Variants = nil
	if why := compareRuns(a, b).Undecided(true); len(why) != 2 {
		t.Errorf("nothing in common: %q", why)
	}
}

// TestARegressionIsAnAnswer: that of one design is not hidden by another's want of
// repeats, on the page or in the exit code.
func TestARegressionIsAnAnswer(t *testing.T) {
	base := fixture{designs: flashSale()[2:4], repeats: 5, ops: 2000}.build(t)
	slower := flashSale()[2:4]
	slower[0].p50 *= 3
	worse := fixture{designs: slower, repeats: 5, ops: 2000}.build(t)
	worse.Summary.Variants[1].Repeats = worse.Summary.Variants[1].Repeats[:1]
	c := against(base, worse)
	if len(c.Few) != 1 || len(c.Regressions) == 0 || len(c.Undecided(false)) != 0 {
		t.Errorf("few %q, regressions %v, undecided %q", c.Few, c.Regressions, c.Undecided(false))
	}
	if page := told(t, compare.HTML, false, c); !strings.Contains(page,
		"<title>REGRESSION") {
		t.Error("the page has another word")
	}
}

// TestWhatIsExpectedIsNoChange: a design is excused for breaking what both runs expect it
// to break, and for nothing else.
func TestWhatIsExpectedIsNoChange(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string
		word          string
	}{
		"neither expects it":   {nil, nil, "WORSE VERDICT"},
		"the candidate alone":  {nil, []string{"paid-has-unit"}, "WORSE VERDICT"},
		"both expect another":  {[]string{"no-oversell"}, []string{"no-oversell"}, "WORSE VERDICT"},
		"both expect this one": {[]string{"paid-has-unit"}, []string{"paid-has-unit"}, "UNDECIDED"},
	} {
		a := fixture{designs: flashSale()[2:4], repeats: 2, ops: 2000}.build(t)
		b := fixture{designs: flashSale()[2:4], repeats: 2, ops: 2000}.build(t)
		b.Summary.Variants[0].Invariants[3].Status = check.Broken
		a.Summary.Variants[0].ExpectedBroken = test.before
		b.Summary.Variants[0].ExpectedBroken = test.after
		page := told(t, compare.HTML, false, against(a, b))
		if !strings.Contains(page, "<title>"+test.word) {
			t.Errorf("%s: not %s", name, test.word)
		}
	}
}

// TestWhatObjectivesProve: a missed objective is about times, which runs of different
// machines do not compare; an invariant that is broken is, wherever it broke. What held
// and is not decided is no answer.
func TestWhatObjectivesProve(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(v *rundir.Variant)
		like, unlike string
	}{
		"an objective is missed": {func(v *rundir.Variant) { v.SLOs[0].Status = check.Broken },
			"WORSE VERDICT", "NOT COMPARABLE"},
		"an invariant is broken": {func(v *rundir.Variant) { v.Invariants[0].Status = check.Broken },
			"WORSE VERDICT", "WORSE VERDICT"},
		"an invariant is undecided": {
			func(v *rundir.Variant) { v.Invariants[0].Status = check.Undecided },
			"UNDECIDED", "NOT COMPARABLE"},
		"an objective is undecided": {func(v *rundir.Variant) { v.SLOs[0].Status = check.Undecided },
			"UNDECIDED", "NOT COMPARABLE"},
	} {
		base := fixture{designs: flashSale()[2:4], repeats: 6, ops: 2000}.build(t)
		after := fixture{designs: flashSale()[2:4], repeats: 6, ops: 2000}.build(t)
		test.change(&after.Summary.Variants[0])
		compareAs := func(want string) {
			t.Helper()
			c := against(base, after)
			page := told(t, compare.HTML, false, c)
			if !strings.Contains(page, "<title>"+want) || (len(c.Worsened(false)) > 0) !=
				(want == "WORSE VERDICT") || want == "UNDECIDED" && len(c.Undecided(false)) == 0 {
				t.Errorf("%s: not %s; undecided %q", name, want, c.Undecided(false))
			}
		}
		compareAs(test.like)
		after.Summary.Environment.Cores, after.Summary.Environment.Fingerprint = 64, "another"
		compareAs(test.unlike)
	}
}

// TestAChangeHasOneMark: in text, Markdown and page alike, and what is undecided is called
// neither better nor worse.
func TestAChangeHasOneMark(t *testing.T) {
	for _, c := range []struct {
		from, to check.Status
		expected bool
		mark     string
	}{
		{check.Held, check.Broken, false, "✗"}, {check.Held, check.Undecided, false, "?"},
		{check.Undecided, check.Broken, false, "✗"}, {check.Broken, check.Undecided, false, "?"},
		{check.Broken, check.Held, false, "✓"}, {check.Undecided, check.Held, false, "✓"},
		{check.Held, check.Broken, true, "⚑"}, {check.Broken, check.Undecided, true, "⚑"},
	} {
		sides := [2]compare.Labelled{{Label: "a", Data: one(t)}, {Label: "b", Data: one(t)}}
		for i, status := range []check.Status{c.from, c.to} {
			v := &sides[i].Data.Summary.Variants[0]
			v.Invariants = slices.Clone(v.Invariants)
			v.Invariants[0].Status = status
			if c.expected {
				v.ExpectedBroken = []string{v.Invariants[0].Invariant}
			}
		}
		all := compareRuns(sides[0], sides[1])
		text, md := told(t, compare.Text, false, all), told(t, compare.Markdown, false, all)
		line := fmt.Sprintf(": no-oversell was %s, is %s\n", c.from, c.to)
		page := outline(told(t, compare.HTML, false, all))
		if !strings.Contains(text, c.mark+" conditional_update"+line) ||
			!strings.Contains(md, "- "+c.mark+" conditional\\_update"+line) ||
			!strings.Contains(page, fmt.Sprintf("| %s | %s | %s ", c.from, c.to, c.mark)) {
			t.Errorf("%s to %s, not %s:\n%s%s", c.from, c.to, c.mark, text, md)
		}
	}
}

// comparisonScenes are comparisons that every format must be able to tell.
func comparisonScenes(t testing.TB) map[string][]compare.Comparison {
	side := func(label string, d answer.Data) compare.Labelled {
		return compare.Labelled{Label: label, Data: d}
	}
	slower := flashSale()[:3]
	slower[0].p50 *= 2
	base := fixture{designs: flashSale()[:3], repeats: 6, ops: 2000}.build(t)
	worse := fixture{designs: slower, repeats: 6, ops: 2000}.build(t)
	same := fixture{designs: flashSale()[:3], repeats: 6, ops: 2000}.build(t)
	moved := fixture{designs: slower, repeats: 6, ops: 2000}.build(t)
	e := &moved.Summary.Environment
	e.Fingerprint, e.CPU, e.Cores = "another", "EPYC 9B14", 8
	e.Components = map[string]rundir.Component{"postgres": {Kind: "postgres", Version: "17.2",
		Settings: map[string]string{"fsync": "off", "jit": "off"}}}
	moved.Summary.Run.Seed, moved.Summary.Tool.Dirty = 43, true
	moved.Summary.Run.ScenarioDigest = "0123456789abcdef0123456789abcdef"
	moved.Scenario = strings.Replace(moved.Scenario, "512", "64", 1)
	broken := fixture{designs: slower[:2], repeats: 2, ops: 2000}.build(t)
	broken.Summary.Variants[0].Invariants = slices.Clone(broken.Summary.Variants[0].Invariants)
	broken.Summary.Variants[0].Invariants[3].Status = check.Broken
	dropped := fixture{designs: slower[:1], repeats: 6, ops: 100}.build(t)
	for i := range dropped.Summary.Variants[0].Repeats {
		dropped.Summary.Variants[0].Repeats[i].Operations[0].Latency.Response.P99 = rundir.Infinite
	}
	bad := hostiles(t)
	return map[string][]compare.Comparison{
		"regression": {compareRuns(side("main", base), side("branch", worse))},
		"same":       {compareRuns(side("main", base), side("branch", same))},
		"unlike":     {compareRuns(side("main", base), side("elsewhere", moved))},
		"several": {compareRuns(side("main", base), side("same", same)),
			compareRuns(side("main", base), side("broken", broken)),
			compareRuns(side("main", base), side("dropped", dropped))},
		"hostile": {compareRuns(side(hostile, bad), side("::error::"+hostile, base)),
			compareRuns(side("x", bad), side("y", bad))},
		"nothing": {},
	}
}

func TestComparePageGolden(t *testing.T) {
	for name, all := range comparisonScenes(t) {
		t.Run(name, func(t *testing.T) {
			page := told(t, compare.HTML, false, all...)
			golden(t, "compare_"+name+".html.txt", outline(page))
			keepsPolicy(t, name, page)
			keepsAnchors(t, name, page)
			if len(all) > 0 {
				keepsTables(t, page)
			}
		})
	}
}

func TestCompareFormatsGolden(t *testing.T) {
	scenes := comparisonScenes(t)
	for _, name := range []string{"regression", "unlike", "several", "hostile"} {
		all := scenes[name]
		t.Run(name, func(t *testing.T) {
			golden(t, "compare_"+name+".md", told(t, compare.Markdown, false, all...))
			golden(t, "compare_"+name+".txt", told(t, compare.Text, false, all...))
		})
	}
	golden(t, "compare_several.json", told(t, compare.JSON, false, scenes["several"]...))
}

func TestSchemaIsCurrent(t *testing.T) {
	schematest.Current(t, "reports/compare/compare.schema.json", compare.Schema(),
		"..", compare.MakeSchema, "reports/compare", "harness/rundir", "harness/check")
}

// TestComparisonSchemaTakesWhatIsWritten, and nothing else.
func TestComparisonSchemaTakesWhatIsWritten(t *testing.T) {
	s := schematest.Compile(t, compare.Schema())
	for name, scenes := range comparisonScenes(t) {
		if err := s.JSON([]byte(told(t, compare.JSON, false, scenes...))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	right := told(t, compare.JSON, false, comparisonScenes(t)["regression"]...)
	for _, change := range [][2]string{{`"regression"`, `"worse-ish"`}, {`"base_median"`,
		`"base_mean"`},
		{`"1.1.0"`, `"1"`}, {`"seed": `, `"sead": `}} {
		wrong := strings.Replace(right, change[0], change[1], 1)
		if wrong == right || s.JSON([]byte(wrong)) == nil {
			t.Errorf("%s for %s is taken", change[1], change[0])
		}
	}
}

// TestUnlikeRunsAreMarked: every number of runs that cannot be compared is, unless it is
// allowed, and what differs is named.
func TestUnlikeRunsAreMarked(t *testing.T) {
	unlike := comparisonScenes(t)["unlike"]
	page := told(t, compare.HTML, false, unlike...)
	if n := strings.Count(page, "not comparable:</span>"); n != 9 {
		t.Errorf("%d of 9 ratios are marked", n)
	}
	// The seed differs, which no flag excuses.
	if !strings.Contains(told(t, compare.HTML, true, unlike...), "NOT COMPARABLE") {
		t.Error("another seed was taken for another machine")
	}
	unlike[0].Mismatches = slices.DeleteFunc(unlike[0].Mismatches,
		func(m compare.Mismatch) bool { return !m.Machine })
	got := told(t, compare.Text, true, unlike...)
	if !strings.Contains(got, "! compared all the same: ") ||
		strings.Contains(got, "unlike runs") || strings.Contains(got, "not comparable") {
		t.Errorf("allowed, the text says\n%s", got)
	}
	got = told(t, compare.Markdown, true, unlike...)
	if !strings.Contains(got, "- compared all the same: CPU differs") ||
		strings.Contains(got, "unlike runs") || strings.Contains(got, "not comparable") {
		t.Errorf("allowed, the Markdown says\n%s", got)
	}
	allowed := told(t, compare.HTML, true, unlike...)
	if !strings.Contains(allowed, "<strong>REGRESSION</strong>") ||
		strings.Contains(allowed, "not comparable:</span>") ||
		!strings.Contains(allowed, "Allowed by --across-machines") {
		t.Error("another machine, allowed")
	}
}

// TestWhatComparisonsSayOnce: designs without times are named in one line, and where the
// scenario differs nothing else is listed.
func TestWhatComparisonsSayOnce(t *testing.T) {
	of := func(scenario string) answer.Data {
		d := fixture{designs: flashSale()[:6], repeats: 2, ops: 1000}.build(t)
		d.Summary.Run.Scenario = scenario
		d.Summary.Verdict.Timing = rundir.NoTimes
		for i := range d.Summary.Variants {
			for k := range d.Summary.Variants[i].Repeats {
				d.Summary.Variants[i].Repeats[k].Timing = rundir.NoTimes
			}
		}
		return d
	}
	c := against(of("same"), of("same"))
	if len(c.Few) != 0 || len(c.WithoutTimes) != 6 || !c.Untimed() || len(c.Undecided(false)) != 0 {
		t.Errorf("few %q, without times %q, undecided %q", c.Few, c.WithoutTimes, c.Undecided(false))
	}
	page := outline(told(t, compare.HTML, false, c))
	for _, want := range []string{"No design has clean times in both runs", "without times on both " +
		"sides: conditional_update, naive_select, counter_in_place, for_update and 2 more",
		"No design has times in both runs."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	b := of("another")
	b.Summary.Run.Seed, b.Summary.Run.Profile = 7, "smoke"
	c = against(of("same"), b)
	if why := c.Undecided(false); len(why) != 1 ||
		why[0] != "scenario differs: same and another, and 2 more" {
		t.Errorf("undecided: %q", why)
	}
	page = outline(told(t, compare.HTML, false, c))
	if !strings.Contains(page, "And 2 more") || strings.Contains(page, "| seed |") {
		t.Error("the page lists what does not matter")
	}
	for name, write := range map[string]func(io.Writer, bool, ...compare.Comparison) error{
		"text": compare.Text, "Markdown": compare.Markdown} {
		if out := told(t, write, false, c); strings.Count(out, "not comparable: ") != 1 ||
			!strings.Contains(out, "another, and 2 more\n") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// TestCopiesOfOneRun: that is all that is said of them, in every format.
func TestCopiesOfOneRun(t *testing.T) {
	c := compare.Runs(compare.Labelled{Label: "old", Data: three(t)},
		compare.Labelled{Label: "new", Data: three(t)})
	if !c.SameRun || len(c.Regressions)+len(c.Metrics)+len(c.Mismatches) > 0 || c.Untimed() ||
		!slices.Equal(c.Undecided(true), []string{"both are the same run"}) {
		t.Errorf("%+v, undecided %q", c, c.Undecided(true))
	}
	if text := told(t, compare.Text, false, c); text !=
		"new against old\n= both are the same run\n" {
		t.Errorf("the text is %q", text)
	}
	if md := told(t, compare.Markdown, false, c); md !=
		"## = SAME RUN · new against old\n\n- old and new: both are the same run.\n" {
		t.Errorf("the Markdown is %q", md)
	}
	if doc := told(t, compare.JSON, false, c); !strings.Contains(doc, `"verdict": "same-run"`) {
		t.Errorf("the document is %s", doc)
	}
	page := told(t, compare.HTML, false, c)
	if !strings.Contains(page, "SAME RUN") || strings.Contains(page, "Times and throughput") {
		t.Error("the page says more of one run")
	}
}

// noisyIn makes the times of a design noisy.
func noisyIn(d answer.Data, design int) {
	v := &d.Summary.Variants[design]
	v.Timing = rundir.Noisy
	for i := range v.Repeats {
		v.Repeats[i].Timing = rundir.Noisy
	}
	d.Summary.Verdict.Timing = rundir.Noisy
}

// TestANoisyDesignTakesNothingFromOthers: it is marked, shows no regression, and has a ratio
// only beyond both runs' noise floors; the others are compared as ever.
func TestANoisyDesignTakesNothingFromOthers(t *testing.T) {
	slower := flashSale()[2:4]
	slower[0].p50, slower[1].p50 = 3*slower[0].p50, 3*slower[1].p50
	base := fixture{designs: flashSale()[2:4], repeats: 6, ops: 2000}.build(t)
	worse := fixture{designs: slower, repeats: 6, ops: 2000}.build(t)
	noisyIn(worse, 0)
	c := against(base, worse)
	if !slices.Equal(c.Noisy, []string{"counter_in_place"}) || c.Judged != 1 || c.Untimed() ||
		len(c.Regressions) == 0 || len(c.Mismatches) > 0 {
		t.Errorf("noisy %q, judged %d, regressions %v", c.Noisy, c.Judged, c.Regressions)
	}
	for _, r := range c.Regressions {
		if r.Variant != "for_update" {
			t.Errorf("a regression of %s", r.Variant)
		}
	}
	p99 := c.Metrics[0].Comparisons[1]
	if p99.Ratio != 0 || p99.PExact != nil || !p99.Approximate {
		t.Errorf("without a noise floor noisy times have %+v", p99)
	}
	base.Summary.NoiseFloor = &rundir.NoiseFloor{P50: 1.1, P99: 1.2}
	worse.Summary.NoiseFloor = &rundir.NoiseFloor{P50: 1.1, P99: 1.6}
	if p99 = against(base, worse).Metrics[0].Comparisons[1]; p99.Ratio < 2 {
		t.Errorf("beyond the noise floor: %+v", p99)
	}
	base.Summary.NoiseFloor.P99 = 9
	if p99 = against(base, worse).Metrics[0].Comparisons[1]; p99.Ratio != 0 {
		t.Errorf("within the wider noise floor: %+v", p99)
	}
	noisyIn(worse, 1)
	if c = against(base, worse); !c.Untimed() || len(c.Regressions)+len(c.Undecided(false)) > 0 {
		t.Errorf("all are noisy: %v, %q", c.Regressions, c.Undecided(false))
	}
	text := told(t, compare.Text, false, c)
	if !strings.Contains(text, "≈ noisy times, which show no regression: counter_in_place "+
		"and for_update\n") || strings.Count(text, "\nall rows: ≈ noisy\n") != 1 ||
		strings.Count(text, "noisy times: no p-value") != 1 {
		t.Errorf("the text is\n%s", text)
	}
}

// TestNoiseChangesNoVerdict: what noise leaves unjudged is neither worse nor an open question,
// and a promise of time counts as an objective.
func TestNoiseChangesNoVerdict(t *testing.T) {
	a, b := one(t), one(t)
	v := &b.Summary.Variants[0]
	v.SLOs[0].Status, v.SLOs[0].NotJudged = check.Undecided, true
	v.Invariants[4].Status, v.Invariants[4].Late = check.Undecided, 3
	if c := against(a, b); len(c.Changes) > 0 {
		t.Errorf("noise changed %v", c.Changes)
	}
	v.Invariants[4].Status, v.Invariants[4].Count = check.Broken, 3
	if c := against(a, b); len(c.Changes) != 1 || !c.Changes[0].Objective {
		t.Errorf("a promise that is missed: %+v", c.Changes)
	}
}
