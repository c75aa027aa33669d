package judge

import (
	"slices"
	"strings"
	"testing"

	"stampede/harness/check"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

func held(name string) check.Verdict { return check.Verdict{Invariant: name, Status: check.Held} }

func broken(name string, count int) check.Verdict {
	v := check.Verdict{Invariant: name, Status: check.Broken, Count: count}
	if count > 0 {
		v.Violations = []check.Violation{{Text: "proof of " + name}}
		v.Witness = []uint64{7}
	}
	return v
}

func undecided(name string) check.Verdict {
	return check.Verdict{Invariant: name, Reason: "never exercised"}
}

func TestAnswer(t *testing.T) {
	untried := undecided("b")
	untried.NotExercised = true
	untriedA := check.Verdict{Invariant: "a", NotExercised: true, Reason: "nothing expired"}
	late := broken("b", 2)
	late.Late = 2
	excused := undecided("b")
	excused.Late = 2
	unjudged := undecided("b")
	unjudged.Unjudged = true
	untriedLate, untriedExcused := late, excused
	untriedLate.Open, untriedLate.NotExercised = "nothing expired", true
	untriedExcused.Open, untriedExcused.NotExercised = "nothing expired", true
	unfinished := undecided("a")
	unfinished.Unfinished = 1
	short := []rundir.Validity{{Name: rundir.Operations, Class: rundir.Evidence, Detail: "3 of 9"}}
	unproven := []rundir.Validity{{Name: "fault x", Class: rundir.Evidence, Detail: "no proof"}}
	known := map[string]string{"a": "role-crash"}
	for _, test := range []struct {
		name     string
		verdicts []check.Verdict
		expected []string
		known    map[string]string
		missing  []rundir.Validity
		want     string
		reason   string
	}{
		{"all held", []check.Verdict{held("a"), held("b")}, nil, nil, nil, rundir.Holds, ""},
		{"nothing judged", nil, nil, nil, nil, rundir.Undecided, "no invariant"},
		{"a control that was only late", []check.Verdict{held("a"), late}, []string{"b"}, nil, nil,
			rundir.Undecided, "known to break b but was not caught: it was only late"},
		{"undecided is not success", []check.Verdict{held("a"), undecided("b")}, nil, nil, nil,
			rundir.Undecided, "b is undecided: never exercised"},
		{"not exercised is not success", []check.Verdict{held("a"), untried}, nil, nil, nil,
			rundir.NotExercised, "b is not exercised"},
		{"undecided outranks not exercised", []check.Verdict{undecided("a"), untried}, nil, nil, nil,
			rundir.Undecided, "a is undecided"},
		{"broken outranks undecided", []check.Verdict{undecided("a"), broken("b", 2)}, nil, nil, nil,
			rundir.Violated, "violated b: proof of b (and 1 more)"},
		{"broken then undecided", []check.Verdict{broken("b", 1), undecided("a")}, nil, nil, nil,
			rundir.Violated, "violated b"},
		{"a promise of time is no matter of correctness", []check.Verdict{held("a"), late}, nil, nil,
			nil, rundir.Holds, ""},
		{"nor is one that noise excuses", []check.Verdict{held("a"), excused}, nil, nil, nil,
			rundir.Holds, ""},
		{"nor is one that there was no occasion for", []check.Verdict{held("a"), unjudged}, nil, nil,
			nil, rundir.Holds, ""},
		{"a control of lateness without an occasion", []check.Verdict{unjudged}, []string{"b"}, nil,
			nil, rundir.Undecided, "not caught"},
		{"late, and the rest was not tried", []check.Verdict{untriedLate}, nil, nil, nil,
			rundir.NotExercised, "b is not exercised: nothing expired"},
		{"late and excused, and the rest was not tried", []check.Verdict{untriedExcused}, nil, nil,
			nil, rundir.NotExercised, "b is not exercised: nothing expired"},
		{"what is not finished is open", []check.Verdict{unfinished}, nil, nil, nil,
			rundir.Undecided, "a is undecided"},
		{"too few operations", []check.Verdict{held("a")}, nil, nil, short, rundir.NotExercised, ""},
		{"a fault without proof", []check.Verdict{held("a")}, nil, nil,
			append(short, unproven...), rundir.Undecided, ""},
		{"a violation stands without evidence", []check.Verdict{broken("a", 1)}, nil, nil, short,
			rundir.Violated, "violated a"},

		{"a control is caught", []check.Verdict{broken("a", 1), held("b")}, []string{"a"}, nil, nil,
			rundir.Caught, "violated as expected: a"},
		{"caught without a fault's proof", []check.Verdict{broken("a", 1)}, []string{"a"}, nil,
			unproven, rundir.Caught, "violated as expected: a"},
		{"without witness", []check.Verdict{broken("a", 0)}, []string{"a"}, nil, nil,
			rundir.Undecided, "not caught"},
		{"without a named operation", []check.Verdict{
			{Invariant: "a", Status: check.Broken, Count: 1}}, []string{"a"}, nil, nil,
			rundir.Undecided, "no operation is named as a witness"},
		{"not caught", []check.Verdict{held("a")}, []string{"a"}, nil, nil, rundir.NotCaught,
			"known to break a but was not caught: it is held"},
		{"a check that does not finish blames no control", []check.Verdict{undecided("a")},
			[]string{"a"}, nil, nil, rundir.Undecided, "it is undecided: never exercised"},
		{"a control that was not exercised", []check.Verdict{untriedA}, []string{"a"}, nil, nil,
			rundir.NotExercised, "it is not exercised: nothing expired"},
		{"not exercised, and no proof of a fault", []check.Verdict{untriedA}, []string{"a"}, nil,
			unproven, rundir.Undecided, "not caught"},
		{"undecided, and too few operations", []check.Verdict{undecided("a")}, []string{"a"}, nil,
			short, rundir.Undecided, "not caught"},
		{"one not caught, one not exercised", []check.Verdict{held("a"), untried},
			[]string{"a", "b"}, nil, nil, rundir.NotCaught, "known to break b"},
		{"not judged", []check.Verdict{held("b")}, []string{"a"}, nil, nil, rundir.Undecided,
			"it was not judged"},
		{"one of two is caught", []check.Verdict{broken("a", 1), held("b")}, []string{"a", "b"}, nil,
			nil, rundir.NotCaught, "known to break b"},
		{"collateral is told", []check.Verdict{broken("a", 1), broken("b", 1)}, []string{"a"}, nil,
			nil, rundir.Caught, "also broke b"},
		{"not provoked by a fault without proof", []check.Verdict{held("a")}, []string{"a"}, nil,
			unproven, rundir.Undecided, "not caught"},
		{"not provoked by a load without races", []check.Verdict{held("a")}, []string{"a"}, nil,
			short, rundir.NotExercised, "not caught"},
		{"not finished", []check.Verdict{unfinished}, []string{"a"}, nil, nil, rundir.Undecided,
			"not caught"},

		{"wrong elsewhere", []check.Verdict{held("a"), held("b")}, nil, known, nil,
			rundir.NotProvoked, ""},
		{"wrong elsewhere, and here", []check.Verdict{broken("a", 1), held("b")}, nil, known, nil,
			rundir.NotProvoked, "known to be under role-crash: a"},
		{"wrong here without witness", []check.Verdict{broken("a", 0)}, nil, known, nil,
			rundir.Violated, "violated a"},
		{"wrong in another way", []check.Verdict{broken("a", 1), broken("b", 1)}, nil, known, nil,
			rundir.Violated, "violated b"},
		{"wrong elsewhere, undecided here", []check.Verdict{undecided("a"), held("b")}, nil, known,
			nil, rundir.Undecided, "a is undecided"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, reasons := answer(test.verdicts, test.expected, test.known, nil, test.missing)
			if got != test.want {
				t.Errorf("%s, want %s (%q)", got, test.want, reasons)
			}
			if !strings.Contains(strings.Join(reasons, "\n"), test.reason) {
				t.Errorf("reasons %q do not mention %q", reasons, test.reason)
			}
		})
	}
}

func TestMergeTakesTheWorstRepeat(t *testing.T) {
	a := check.Verdict{Invariant: "x", Status: check.Held, Checked: 3}
	b := check.Verdict{Invariant: "x", Checked: 4, Reason: "why"}
	c := broken("x", 1)
	if got := merge([]check.Verdict{a, b}); got.Status != check.Undecided || got.Checked != 7 {
		t.Errorf("held and undecided: %+v", got)
	}
	if got := merge([]check.Verdict{a, c, b}); got.Status != check.Broken || got.Count != 1 {
		t.Errorf("with a broken one: %+v", got)
	}
	if got := merge([]check.Verdict{c, broken("x", 5), a}); got.Count != 5 {
		t.Errorf("the largest count is kept: %+v", got)
	}
	late := broken("x", 500)
	late.Late = 500
	for _, order := range [][]check.Verdict{{late, c}, {c, late}} {
		if got := merge(order); got.OnlyLate() || got.Count != 1 {
			t.Errorf("lateness hides a violation: %+v", got)
		}
	}
	a.Accepted = []check.AcceptedLoss{{What: "likes", Count: 2, Bound: 9}}
	if got := merge([]check.Verdict{c, a}); len(got.Accepted) != 1 || got.Accepted[0].Count != 2 {
		t.Errorf("a loss of another repeat is not shown: %+v", got)
	}
}

func TestObjectives(t *testing.T) {
	slo := func(s check.Status) check.SLOVerdict { return check.SLOVerdict{Name: "n", Status: s} }
	noise := slo(check.Undecided)
	noise.NotJudged = true
	late := broken("b", 2)
	late.Late = 2
	excused, unjudged := undecided("b"), undecided("c")
	excused.Late, unjudged.Unjudged = 2, true
	for _, test := range []struct {
		slos       []check.SLOVerdict
		invariants []check.Verdict
		want       string
	}{
		{nil, nil, rundir.Pass},
		{[]check.SLOVerdict{slo(check.Held)}, []check.Verdict{held("a"), broken("b", 1)}, rundir.Pass},
		{[]check.SLOVerdict{slo(check.Held), noise}, nil, rundir.NotJudged},
		{[]check.SLOVerdict{slo(check.Undecided), noise}, nil, rundir.Inconclusive},
		{[]check.SLOVerdict{slo(check.Broken), slo(check.Undecided)}, nil, rundir.Fail},
		{nil, []check.Verdict{excused}, rundir.NotJudged},
		{nil, []check.Verdict{unjudged}, rundir.NotJudged},
		{nil, []check.Verdict{excused, late}, rundir.Fail},
	} {
		if got, _ := objectives(test.slos, test.invariants); got != test.want {
			t.Errorf("%v, %v: %s, want %s", test.slos, test.invariants, got, test.want)
		}
	}
}

// TestOneSided: interference only delays, and a late generator sends a gentler load.
func TestOneSided(t *testing.T) {
	for _, test := range []struct {
		timing    string
		was, want check.Status
		notJudged bool
	}{
		{rundir.Clean, check.Held, check.Held, false},
		{rundir.Clean, check.Broken, check.Broken, false},
		{rundir.Noisy, check.Held, check.Held, false},
		{rundir.Noisy, check.Broken, check.Undecided, true},
		{rundir.NoTimes, check.Held, check.Undecided, true},
		{rundir.NoTimes, check.Broken, check.Undecided, true},
		{rundir.Noisy, check.Undecided, check.Undecided, false},
	} {
		got := oneSided(check.SLOVerdict{Status: test.was}, test.timing, false)
		if got.Status != test.want || got.NotJudged != test.notJudged {
			t.Errorf("%s on %s times: %s, not judged %v", test.was, test.timing, got.Status, got.NotJudged)
		}
	}
}

func TestWorse(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{rundir.Pass, rundir.Pass, rundir.Pass},
		{rundir.Pass, rundir.Inconclusive, rundir.Inconclusive},
		{rundir.Invalid, rundir.Inconclusive, rundir.Invalid},
		{rundir.Invalid, rundir.Fail, rundir.Fail},
	} {
		if got := worse(severity, test.a, test.b); got != test.want {
			t.Errorf("%s and %s: %s, want %s", test.a, test.b, got, test.want)
		}
	}
}

func TestOverall(t *testing.T) {
	const pass, fail, open, invalid = rundir.Pass, rundir.Fail, rundir.Inconclusive, rundir.Invalid
	for _, test := range []struct{ correctness, objectives, want string }{
		{pass, pass, pass},
		{fail, pass, fail},
		{pass, fail, fail},
		{open, fail, open},
		{invalid, pass, invalid},
		{pass, open, open},
		{pass, rundir.NotJudged, pass},
	} {
		if got := overall(test.correctness, test.objectives); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	for _, test := range []struct {
		answer string
		failed bool
		want   string
	}{
		{rundir.Holds, false, pass}, {rundir.NotProvoked, false, pass}, {rundir.Caught, false, pass},
		{rundir.Caught, true, invalid}, {rundir.Violated, true, fail}, {rundir.NotCaught, false, fail},
		{rundir.NotExercised, false, open}, {rundir.Undecided, true, invalid},
	} {
		if got := decided(test.answer, test.failed); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// TestUse: the times are of the best runs of each repeat, in the best state that there is,
// and never of the control.
func TestUse(t *testing.T) {
	first := 0
	of := func(timings ...string) (list []rundir.Repeat) {
		for i, timing := range timings {
			list = append(list, rundir.Repeat{Index: i, Timing: timing})
		}
		return list
	}
	again := of(rundir.Noisy, rundir.Clean, rundir.Clean)
	again[2].Again = &first
	worse := of(rundir.Noisy, rundir.NoTimes)
	worse[1].Again = &first
	unproven := of(rundir.Noisy, rundir.Clean)
	unproven[1].Again = &first
	unproven[1].Validity = []rundir.Validity{{Name: "accounting", Class: rundir.Evidence}}
	control := of(rundir.Noisy, rundir.Clean)
	control[1].Control = true
	for name, test := range map[string]struct {
		repeats []rundir.Repeat
		state   string
		used    []int
	}{
		"none":                   {nil, rundir.NoTimes, nil},
		"clean":                  {of(rundir.Clean, rundir.Clean), rundir.Clean, []int{0, 1}},
		"noisy":                  {of(rundir.Noisy, rundir.Noisy), rundir.Noisy, []int{0, 1}},
		"one is noisy":           {of(rundir.Clean, rundir.Noisy), rundir.Clean, []int{0}},
		"one has no times":       {of(rundir.NoTimes, rundir.Noisy), rundir.Noisy, []int{1}},
		"clean when run again":   {again, rundir.Clean, []int{1, 2}},
		"no better when run so":  {worse, rundir.Noisy, []int{0}},
		"without evidence again": {unproven, rundir.Noisy, []int{0}},
		"a control is not times": {control, rundir.Noisy, []int{0}},
	} {
		state, used := use(test.repeats)
		var indexes []int
		for _, r := range used {
			indexes = append(indexes, r.Index)
		}
		if state != test.state || !slices.Equal(indexes, test.used) {
			t.Errorf("%s: %s, used %v; want %s, %v", name, state, indexes, test.state, test.used)
		}
	}
}

// TestPartsOfARepeatThatRanAgain: whatever another attempt finds counts, and what it leaves open
// takes nothing away.
func TestPartsOfARepeatThatRanAgain(t *testing.T) {
	index := 0
	sound := sut.Variant{Name: "sound"}
	wrong := sut.Variant{Name: "wrong", Breaks: []sut.Break{{Invariant: "a", Under: sut.Load}}}
	j := &Judge{run: &rundir.Run{}, system: sut.System{Variants: []sut.Variant{sound, wrong}},
		scenario: scenario.Scenario{Provokes: []string{string(sut.Load)}}}
	late := broken("a", 2)
	late.Late = 2
	for name, c := range map[string]struct {
		variant      string
		first, again check.Verdict
		want, part   string
	}{
		"still holds":       {"sound", held("a"), held("a"), rundir.Holds, rundir.Pass},
		"violated at last":  {"sound", held("a"), broken("a", 1), rundir.Violated, rundir.Fail},
		"violated at first": {"sound", broken("a", 1), held("a"), rundir.Violated, rundir.Fail},
		"open at last":      {"sound", held("a"), undecided("a"), rundir.Holds, rundir.Pass},
		"open at first": {"sound", undecided("a"), held("a"), rundir.Undecided,
			rundir.Inconclusive},
		"caught both times": {"wrong", broken("a", 1), broken("a", 1), rundir.Caught, rundir.Pass},
		"caught at first":   {"wrong", broken("a", 1), held("a"), rundir.Caught, rundir.Pass},
		"only late at last": {"wrong", broken("a", 1), late, rundir.Caught, rundir.Pass},
		"caught at last":    {"wrong", held("a"), broken("a", 1), rundir.Caught, rundir.Pass},
		"never caught":      {"wrong", held("a"), held("a"), rundir.NotCaught, rundir.Fail},
	} {
		repeats := []rundir.Repeat{{Invariants: []check.Verdict{c.first}},
			{Index: 1, Again: &index, Invariants: []check.Verdict{c.again}}}
		p := j.Verdict(c.variant, repeats)
		if p.Answer != c.want || p.Correctness != c.part {
			t.Errorf("%s: %s, %s; want %s, %s (%v)", name, p.Answer, p.Correctness, c.want, c.part,
				p.Reasons)
		}
	}
}

func TestNoiseFloor(t *testing.T) {
	repeat := func(control bool, timing string, p50, p99 int64) rundir.Repeat {
		return rundir.Repeat{Control: control, Used: !control, Timing: timing,
			Operations: []rundir.Operation{{Kind: "buy", Latency: rundir.Latencies{
				Response: rundir.Percentiles{Count: 9, P50: p50, P99: p99}}}}}
	}
	v := func(repeats ...rundir.Repeat) rundir.Variant {
		return rundir.Variant{Name: "base", Repeats: repeats,
			Operations: []rundir.Operation{{Kind: "buy"}}}
	}
	one := repeat(false, rundir.Noisy, 100, 1000)
	if f := noiseFloor(v(one, repeat(true, rundir.Clean, 80, 1600)), false); f == nil ||
		f.P50 != 1.25 || f.P99 != 1.6 || f.Of("throughput") != 1.6 {
		t.Errorf("%+v", f)
	}
	bought := repeat(true, rundir.Clean, 80, 1600)
	bought.Operations[0].Successful = &rundir.Percentiles{Count: 3, P50: 300, P99: 5000}
	if f := noiseFloor(v(one, bought), true); f == nil || f.P50 != 3 || f.P99 != 5 {
		t.Errorf("of successful operations: %+v", f)
	}
	for name, w := range map[string]rundir.Variant{
		"no control":                  v(one),
		"a control without times":     v(one, repeat(true, rundir.NoTimes, 80, 1600)),
		"operations that never ended": v(one, repeat(true, rundir.Clean, 80, rundir.Infinite)),
		"nothing":                     {},
	} {
		if f := noiseFloor(w, false); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestVerdictOnQuiescence: a system that leaves operations or work behind breaks it; what
// the generator or the question is to blame for decides nothing.
func TestVerdictOnQuiescence(t *testing.T) {
	for name, c := range map[string]struct {
		trial Trial
		want  check.Status
	}{
		"at rest":   {Trial{}, check.Held},
		"work left": {Trial{Pending: "2 carts"}, check.Broken},
		"deaf, and work is done": {Trial{Abandoned: 8, Inside: true, Pending: "2 carts",
			Falling: "from 3 to 2"}, check.Broken},
		"work being done":       {Trial{Pending: "2 carts", Falling: "from 3 to 2"}, check.Undecided},
		"deaf operations":       {Trial{Abandoned: 8, Inside: true}, check.Broken},
		"deaf, and not closed":  {Trial{Abandoned: 8, Inside: true, Error: "closing"}, check.Broken},
		"deaf requests of ours": {Trial{Abandoned: 8}, check.Undecided},
		"no answer":             {Trial{Unasked: "connection refused"}, check.Undecided},
		"no answer any more":    {Trial{Unasked: "no route", Pending: "2 carts"}, check.Undecided},
		"done after its deadline": {Trial{Overdue: "30s after the load work was pending"},
			check.Broken},
		"interrupted":  {Trial{Interrupted: true, Pending: "2 carts"}, check.Undecided},
		"not finished": {Trial{Error: "panic", Pending: "2 carts"}, check.Undecided},
	} {
		v := quiescence{c.trial}.Check(t.Context(), nil, nil)
		if v.Status != c.want || v.Status == check.Undecided && v.Reason == "" {
			t.Errorf("%s: %s %q, want %s", name, v.Status, v.Reason, c.want)
		}
	}
}

// TestVerdictInTime: what was only late on a machine that was busy with something else, and
// what was only not finished when the run ended, proves nothing; anything else does.
func TestVerdictInTime(t *testing.T) {
	others := func(ns int64) Trial {
		m := &rundir.Machine{SpanNS: 10e9, Cores: 2, OthersNS: ns}
		return Trial{Processor: &rundir.Processor{Machine: m}}
	}
	crowd, quiet := others(6e9), others(4e9)
	stolen := Trial{Generator: rundir.Generator{StealShare: 0.1}}
	falls := Trial{Pending: "2", Falling: "from 3 to 2"}
	both := crowd
	both.Falling = falls.Falling
	broken := func(count, late, unfinished int) check.Verdict {
		return check.Verdict{Invariant: "any", Status: check.Broken, Count: count, Late: late,
			Unfinished: unfinished, Violations: []check.Violation{{Text: "the first"}}}
	}
	for name, c := range map[string]struct {
		trial   Trial
		verdict check.Verdict
		want    check.Status
		says    string
	}{
		"late":                    {Trial{}, broken(3, 3, 0), check.Broken, ""},
		"late, little was taken":  {quiet, broken(3, 3, 0), check.Broken, ""},
		"late in a crowd":         {crowd, broken(3, 3, 0), check.Undecided, "2 cores, 30 %"},
		"late on a crowded host":  {stolen, broken(1, 1, 0), check.Undecided, "hypervisor"},
		"wrong in a crowd":        {crowd, broken(3, 2, 0), check.Broken, ""},
		"unfinished in a crowd":   {crowd, broken(3, 0, 3), check.Broken, ""},
		"unfinished":              {Trial{Pending: "2"}, broken(3, 0, 3), check.Broken, ""},
		"unfinished, but falling": {falls, broken(3, 0, 3), check.Undecided, "from 3 to 2"},
		"unfinished, interrupted": {Trial{Interrupted: true}, broken(3, 0, 3), check.Undecided,
			"interrupted"},
		"unfinished, perhaps": {Trial{Unasked: "no route"}, broken(3, 0, 3), check.Undecided,
			"no route"},
		"wrong, interrupted":  {Trial{Interrupted: true}, broken(3, 0, 2), check.Broken, ""},
		"wrong while falling": {falls, broken(3, 0, 2), check.Broken, ""},
		"late while falling":  {falls, broken(3, 1, 2), check.Broken, ""},
		"both":                {both, broken(3, 1, 2), check.Undecided, "the first"},
		"held":                {crowd, check.Verdict{Status: check.Held}, check.Held, ""},
	} {
		v := c.trial.inTime(c.verdict,
			measure.Facts{Generator: c.trial.Generator, Machine: c.trial.machine()}.Crowded())
		if v.Status != c.want || v.Late != c.verdict.Late || v.Unfinished != c.verdict.Unfinished ||
			c.want == check.Undecided && (!strings.Contains(v.Reason, c.says) || v.Count > 0) {
			t.Errorf("%s: %s %q, want %s that says %q", name, v.Status, v.Reason, c.want, c.says)
		}
	}
}
