package knee_test

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/knee"
	"stampede/harness/rundir"
)

// good is a variant whose window holds.
func good() rundir.Variant {
	return rundir.Variant{Name: "v", Repeats: []rundir.Repeat{{
		Timing:     rundir.Clean,
		Validity:   []rundir.Validity{{Name: "pacer-lag", Class: rundir.Times, OK: true}},
		Invariants: []check.Verdict{{Invariant: "no-oversell", Status: check.Held}},
		SLOs:       []check.SLOVerdict{{Name: "quick", Status: check.Held}},
		Operations: []rundir.Operation{{Kind: "buy",
			Latency: rundir.Latencies{Response: rundir.Percentiles{Count: 9, P50: 3, P99: 7}},
			Phases: []rundir.Phase{{Name: "warm-up"},
				{Name: "steady", EndNS: int64(4 * time.Second)}}}},
	}}}
}

func TestJudge(t *testing.T) {
	steady, piling := line(constant(5), constant(5)), line(constant(5), constant(3))
	violated := func(r *rundir.Repeat) {
		r.Invariants = append(r.Invariants, check.Verdict{Invariant: "once", Status: check.Broken,
			Count: 3, Violations: []check.Violation{{Text: "op 7 twice"}}})
	}
	invalid := func(r *rundir.Repeat) {
		r.Validity = append(r.Validity, rundir.Validity{Name: "accounting", Class: rundir.Evidence,
			Detail: "9 are missing"})
	}
	noisy := func(r *rundir.Repeat) {
		r.Timing = rundir.Noisy
		r.Validity = append(r.Validity, rundir.Validity{Name: "interference", Class: rundir.Times})
	}
	idle := func(r *rundir.Repeat) {
		r.Validity = append(r.Validity, rundir.Validity{Name: "races", Class: rundir.Evidence})
		r.Invariants = append(r.Invariants, check.Verdict{Invariant: "race", NotExercised: true})
	}
	notJudged := func(r *rundir.Repeat) {
		r.SLOs = append(r.SLOs, check.SLOVerdict{Name: "p99", Actual: "9 s", Limit: "1 s",
			Margin: -8, NotJudged: true})
	}
	metLate := func(r *rundir.Repeat) {
		r.Timing = rundir.NoTimes
		r.SLOs = append(r.SLOs, check.SLOVerdict{Name: "p99", Actual: "0.5 s", Limit: "1 s",
			Margin: 0.5, NotJudged: true})
	}
	missedLate := func(r *rundir.Repeat) {
		r.Timing = rundir.NoTimes
		notJudged(r)
	}
	late := func(r *rundir.Repeat) {
		r.Invariants = append(r.Invariants, check.Verdict{Invariant: "soon", Status: check.Broken,
			Count: 2, Late: 2, Reason: "1 s late"})
	}
	missed := func(r *rundir.Repeat) {
		r.SLOs = append(r.SLOs, check.SLOVerdict{Name: "p99", Status: check.Broken, Actual: "9 s",
			Limit: "1 s"})
	}
	openSLO := func(r *rundir.Repeat) {
		r.SLOs = append(r.SLOs, check.SLOVerdict{Name: "p99", Reason: "few samples"})
	}
	for name, c := range map[string]struct {
		change   []func(*rundir.Repeat)
		timeline rundir.Timeline
		want     knee.Verdict
		reason   string
	}{
		"holds":                   {nil, steady, knee.Held, ""},
		"met by a late generator": {[]func(*rundir.Repeat){metLate}, steady, knee.Held, ""},
		"missed by a late generator": {[]func(*rundir.Repeat){missedLate}, steady, knee.Missed,
			"missed p99"},
		"broken": {[]func(*rundir.Repeat){violated}, steady, knee.Broke,
			"violated once: op 7 twice (and 2 more)"},
		"piles up": {nil, piling, knee.Missed, "work piled up"},
		"objective": {[]func(*rundir.Repeat){missed}, steady, knee.Missed,
			"missed p99: 9 s, limit 1 s"},
		"no evidence": {[]func(*rundir.Repeat){invalid}, steady, knee.Undecided,
			"accounting: 9 are missing"},
		"holds on a noisy machine":          {[]func(*rundir.Repeat){noisy}, steady, knee.Held, ""},
		"holds at a rate too low for races": {[]func(*rundir.Repeat){idle}, steady, knee.Held, ""},
		"missed on a noisy machine": {[]func(*rundir.Repeat){noisy, notJudged}, steady, knee.Missed,
			"missed p99: 9 s, limit 1 s"},
		"late": {[]func(*rundir.Repeat){late}, steady, knee.Missed, "missed the promise soon: 1 s late"},
		"a violation stands without evidence": {[]func(*rundir.Repeat){violated, invalid}, steady,
			knee.Broke, "violated once"},
		"a missed objective does not": {[]func(*rundir.Repeat){missed, invalid}, piling,
			knee.Undecided, "accounting"},
		"few samples": {[]func(*rundir.Repeat){openSLO}, steady, knee.Undecided, "few samples"},
		"few samples, and piles up": {[]func(*rundir.Repeat){openSLO}, piling, knee.Missed,
			"work piled"},
		"an undecided invariant": {[]func(*rundir.Repeat){func(r *rundir.Repeat) {
			r.Invariants[0] = check.Verdict{Invariant: "i", Reason: "not seen"}
		}}, steady, knee.Undecided, "i is undecided: not seen"},
		"no invariants": {[]func(*rundir.Repeat){func(r *rundir.Repeat) { r.Invariants = nil }},
			steady, knee.Undecided, "no invariant"},
		"no objectives": {[]func(*rundir.Repeat){func(r *rundir.Repeat) { r.SLOs = nil }},
			steady, knee.Undecided, "no objective"},
		"no validity": {[]func(*rundir.Repeat){func(r *rundir.Repeat) { r.Validity = nil }},
			steady, knee.Undecided, "was not judged"},
		"no operations": {[]func(*rundir.Repeat){func(r *rundir.Repeat) { r.Operations = nil }},
			steady, knee.Undecided, "no operation"},
		"no steady phase": {[]func(*rundir.Repeat){func(r *rundir.Repeat) {
			r.Operations[0].Phases = nil
		}}, steady, knee.Undecided, "no steady phase"},
		"no timeline": {nil, rundir.Timeline{}, knee.Undecided, "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			v := good()
			for _, change := range c.change {
				change(&v.Repeats[0])
			}
			w := knee.Judge(v, c.timeline)
			if w.Verdict != c.want || !strings.Contains(strings.Join(w.Reasons, "; "), c.reason) ||
				(c.reason == "") != (len(w.Reasons) == 0) {
				t.Errorf("%s: %q", w.Verdict, w.Reasons)
			}
		})
	}
	w := knee.Judge(good(), steady)
	if w.Count != 9 || w.P50NS != 3 || w.P99NS != 7 || w.OfferedPerS != 500 || w.AchievedPerS != 500 {
		t.Errorf("%+v", w)
	}
	if w := knee.Judge(rundir.Variant{}, steady); w.Verdict != knee.Undecided {
		t.Errorf("nothing ran: %+v", w)
	}
}
