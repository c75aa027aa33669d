package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
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

func TestCorrectness(t *testing.T) {
	tests := []struct {
		name     string
		verdicts []check.Verdict
		expected []string
		want     string
		reason   string
	}{
		{"all held", []check.Verdict{held("a"), held("b")}, nil, rundir.Pass, ""},
		{"nothing judged", nil, nil, rundir.Inconclusive, "no invariant"},
		{"undecided is not success", []check.Verdict{held("a"), undecided("b")}, nil,
			rundir.Inconclusive, "b is undecided: never exercised"},
		{"broken outranks undecided", []check.Verdict{undecided("a"), broken("b", 2)}, nil,
			rundir.Fail, "broke b: proof of b (and 1 more)"},
		{"broken then undecided", []check.Verdict{broken("b", 1), undecided("a")}, nil,
			rundir.Fail, "broke b"},
		{"known wrong is caught", []check.Verdict{broken("a", 1), held("b")}, []string{"a"},
			rundir.Pass, "violated as expected: a"},
		{"known wrong without witness", []check.Verdict{broken("a", 0)}, []string{"a"},
			rundir.Fail, "not caught"},
		{"known wrong without a named operation", []check.Verdict{
			{Invariant: "a", Status: check.Broken, Count: 1}}, []string{"a"},
			rundir.Fail, "no operation is named as a witness"},
		{"known wrong is not caught", []check.Verdict{held("a")}, []string{"a"},
			rundir.Fail, "known to break a but was not caught: it is held"},
		{"known wrong is undecided", []check.Verdict{undecided("a")}, []string{"a"},
			rundir.Fail, "it is undecided: never exercised"},
		{"known wrong is not judged", []check.Verdict{held("b")}, []string{"a"},
			rundir.Fail, "it was not judged"},
		{"one of two is caught", []check.Verdict{broken("a", 1), held("b")},
			[]string{"a", "b"}, rundir.Fail, "known to break b"},
		{"collateral is told", []check.Verdict{broken("a", 1), broken("b", 1)}, []string{"a"},
			rundir.Pass, "also broke b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, reasons := correctness(test.verdicts, test.expected, nil, true)
			if got != test.want {
				t.Errorf("verdict %s, want %s (%q)", got, test.want, reasons)
			}
			if !strings.Contains(strings.Join(reasons, "\n"), test.reason) {
				t.Errorf("reasons %q do not mention %q", reasons, test.reason)
			}
		})
	}
}

// TestKnownWrongWhereNothingProvokesIt: what a variant is known to break elsewhere
// is told and not held against it; what else it breaks is.
func TestKnownWrongWhereNothingProvokesIt(t *testing.T) {
	known := map[string]string{"a": "role-crash"}
	for _, test := range []struct {
		verdicts     []check.Verdict
		want, reason string
	}{
		{[]check.Verdict{held("a"), held("b")}, rundir.Pass, ""},
		{[]check.Verdict{broken("a", 1), held("b")}, rundir.Pass, "known to be under role-crash: a"},
		{[]check.Verdict{broken("a", 0), held("b")}, rundir.Fail, "broke a"},
		{[]check.Verdict{broken("a", 1), broken("b", 1)}, rundir.Fail, "broke b"},
		{[]check.Verdict{undecided("a"), held("b")}, rundir.Inconclusive, "a is undecided"},
	} {
		got, reasons := correctness(test.verdicts, nil, known, true)
		if got != test.want || !strings.Contains(strings.Join(reasons, "\n"), test.reason) {
			t.Errorf("%v: %s %q, want %s with %q", test.verdicts, got, reasons, test.want, test.reason)
		}
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
	a.Accepted = []check.AcceptedLoss{{What: "likes", Count: 2, Bound: 9}}
	if got := merge([]check.Verdict{c, a}); len(got.Accepted) != 1 || got.Accepted[0].Count != 2 {
		t.Errorf("a loss of another repeat is not shown: %+v", got)
	}
}

func TestExpectedBrokenFollowsTheTriggers(t *testing.T) {
	v := sut.Variant{Breaks: []sut.Break{
		{Invariant: "a", Under: sut.Load}, {Invariant: "b", Under: sut.LostAck},
		{Invariant: "a", Under: sut.LostAck},
	}}
	for _, test := range []struct{ provokes, want []string }{
		{nil, []string{}},
		{[]string{"load"}, []string{"a"}},
		{[]string{"load", "lost-ack"}, []string{"a", "b"}},
		{[]string{"redis-loss"}, []string{}},
	} {
		if got := expectedBroken(v, test.provokes); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.provokes, got, test.want)
		}
	}
}

func TestSLAAndMeasurement(t *testing.T) {
	slo := func(s check.Status) check.SLOVerdict { return check.SLOVerdict{Name: "n", Status: s} }
	for _, test := range []struct {
		slos []check.SLOVerdict
		want string
	}{
		{nil, rundir.Pass},
		{[]check.SLOVerdict{slo(check.Held)}, rundir.Pass},
		{[]check.SLOVerdict{slo(check.Undecided), slo(check.Held)}, rundir.Inconclusive},
		{[]check.SLOVerdict{slo(check.Broken), slo(check.Undecided)}, rundir.Fail},
	} {
		if got, _ := sla(test.slos); got != test.want {
			t.Errorf("%v: %s, want %s", test.slos, got, test.want)
		}
	}
	if got, why := measurement([]rundir.Validity{{OK: true}, {Name: "lag", Detail: "9 ms"}}); got !=
		rundir.Invalid || why[0] != "lag: 9 ms" {
		t.Errorf("%s %q", got, why)
	}
	if got, _ := measurement([]rundir.Validity{{OK: true}}); got != rundir.Pass {
		t.Error(got)
	}
}

func TestWorst(t *testing.T) {
	for _, test := range []struct {
		verdicts []string
		want     string
	}{
		{nil, rundir.Pass},
		{[]string{rundir.Pass, rundir.Inconclusive}, rundir.Inconclusive},
		{[]string{rundir.Invalid, rundir.Inconclusive}, rundir.Invalid},
		{[]string{rundir.Invalid, rundir.Fail, rundir.Pass}, rundir.Fail},
	} {
		if got := worst(test.verdicts...); got != test.want {
			t.Errorf("%v: %s, want %s", test.verdicts, got, test.want)
		}
	}
}

func TestAnInterruptedRepeatCatchesNothing(t *testing.T) {
	verdict, reasons := correctness([]check.Verdict{undecided("a")}, []string{"a"}, nil, false)
	if verdict != rundir.Inconclusive || len(reasons) != 1 {
		t.Errorf("%s %q", verdict, reasons)
	}
	if verdict, _ := correctness([]check.Verdict{broken("b", 1)}, nil, nil, false); verdict !=
		rundir.Fail {
		t.Errorf("a proven violation is %s", verdict)
	}
}

func TestOverall(t *testing.T) {
	const pass, fail, open, invalid = rundir.Pass, rundir.Fail, rundir.Inconclusive, rundir.Invalid
	for _, test := range []struct{ correctness, sla, measurement, want string }{
		{pass, pass, pass, pass},
		{fail, pass, invalid, fail},
		{pass, fail, invalid, invalid},
		{open, pass, invalid, invalid},
		{pass, fail, pass, fail},
		{open, pass, pass, open},
		{pass, pass, open, open},
	} {
		if got := overall(test.correctness, test.sla, test.measurement); got != test.want {
			t.Errorf("%+v: %s", test, got)
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
		"deaf requests of ours": {Trial{Abandoned: 8}, check.Undecided},
		"no answer":             {Trial{Unasked: "connection refused"}, check.Undecided},
		"interrupted":           {Trial{Interrupted: true, Pending: "2 carts"}, check.Undecided},
		"not finished":          {Trial{Error: "panic", Pending: "2 carts"}, check.Undecided},
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
		"wrong while falling":     {falls, broken(3, 0, 2), check.Broken, ""},
		"late while falling":      {falls, broken(3, 1, 2), check.Broken, ""},
		"both":                    {both, broken(3, 1, 2), check.Undecided, "the first"},
		"held":                    {crowd, check.Verdict{Status: check.Held}, check.Held, ""},
	} {
		v := c.trial.inTime(c.verdict)
		if v.Status != c.want || v.Late != c.verdict.Late || v.Unfinished != c.verdict.Unfinished ||
			c.want == check.Undecided && (!strings.Contains(v.Reason, c.says) || v.Count > 0) {
			t.Errorf("%s: %s %q, want %s that says %q", name, v.Status, v.Reason, c.want, c.says)
		}
	}
}

// TestEbb: a backlog falls if it reached new lows in the last quarter of the time, and
// would be gone soon.
func TestEbb(t *testing.T) {
	steady := make([]int64, 40)
	for i := range steady {
		steady[i] = int64(1000 - 20*i)
	}
	for name, c := range map[string]struct {
		left []int64 // once a second, from the beginning; 0 is not counted
		want string
	}{
		"never counted":         {nil, ""},
		"stands still":          {[]int64{9, 9, 9, 9, 9, 9, 9, 9}, ""},
		"falls":                 {[]int64{9, 8, 7, 6, 5, 4, 3, 2}, "it fell from 9 to 2"},
		"falls for long":        {steady, "it fell from 1000 to 220"},
		"counted late":          {append(make([]int64, 30), steady...), "it fell from 1000 to 220"},
		"fell, and stuck":       {[]int64{9, 8, 7, 2, 2, 2, 2, 2}, ""},
		"fell, and not counted": {[]int64{9, 8, 7, 2, 0, 0, 0, 0}, ""},
		"goes up and down":      {[]int64{9, 2, 9, 2, 9, 2, 9, 2}, ""},
		"grows":                 {[]int64{2, 3, 4, 5, 6, 7, 8, 9}, ""},
		"one of a few is done":  {[]int64{9, 9, 9, 9, 9, 9, 9, 8}, ""},
		"two of many are done":  {[]int64{99, 99, 99, 99, 99, 99, 98, 97}, ""},
		"two of a few are done": {[]int64{9, 9, 9, 9, 9, 9, 8, 7}, "it fell from 9 to 7"},
		"fell at the beginning": {[]int64{9, 8, 8, 8, 8, 8, 8, 8}, ""},
		"counted at the end":    {[]int64{0, 0, 0, 0, 0, 0, 0, 8}, ""},
		"what is stuck is most": {[]int64{80, 79, 78, 77, 76, 75, 74, 73}, ""},
	} {
		var e ebb
		began := time.Unix(0, 0)
		for i, n := range c.left {
			e.note(began.Add(time.Duration(i)*time.Second), n)
		}
		if got := e.falling(began.Add(time.Duration(len(c.left)-1) * time.Second)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
