package knee

import (
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
)

// Judge says what a run in which a variant was offered a constant rate, once, came
// to; t is the repeat's timeline. Rate, step, seed and run are the caller's to fill
// in.
//
// A window in which everything due was done and every objective was met held, however
// noisy the machine: interference only delays. A miss on noisy times is marked: it may not
// be the design's. Whether the load was fierce enough to exercise every invariant is no
// matter here; what a rate violated is.
func Judge(v rundir.Variant, t rundir.Timeline) Window {
	w := Window{Verdict: Undecided, Reasons: []string{"it did not run"}}
	if len(v.Repeats) == 0 {
		return w
	}
	r := v.Repeats[0]
	unsteady, open := pace(r, t, &w)
	broken, late, openInvariants := invariants(r)
	missed, openSLOs := objectives(r)
	missed = slices.Concat(missed, late, unsteady)
	open = slices.Concat(openInvariants, openSLOs, open)
	unproven := withoutEvidence(r)
	w.Noisy = r.Timing != rundir.Clean
	switch {
	case len(broken) > 0:
		w.Verdict, w.Reasons = Broke, broken
	case len(unproven) > 0:
		w.Verdict, w.Reasons = Undecided, unproven
	case len(missed) > 0:
		w.Verdict, w.Reasons = Missed, missed
	case len(open) > 0:
		w.Verdict, w.Reasons = Undecided, open
	default:
		w.Verdict, w.Reasons = Held, []string{}
	}
	return w
}

// pace fills in a window's numbers, and says how work piled up, or why that is
// not known.
func pace(r rundir.Repeat, t rundir.Timeline, w *Window) (unsteady, open []string) {
	if len(r.Operations) == 0 {
		return nil, []string{"no operation was measured"}
	}
	main := r.Operations[0]
	w.Count = main.Latency.Response.Count
	w.P50NS, w.P99NS = main.Latency.Response.P50, main.Latency.Response.P99
	i := slices.IndexFunc(main.Phases, func(p rundir.Phase) bool { return p.Name == "steady" })
	if i < 0 {
		return nil, []string{"the window had no steady phase"}
	}
	steady := main.Phases[i]
	p, ok := PaceOf(t, time.Duration(steady.StartNS), time.Duration(steady.EndNS))
	if !ok {
		return nil, []string{"the window is too short to see whether work piles up"}
	}
	w.OfferedPerS, w.AchievedPerS = p.OfferedPerS, p.AchievedPerS
	if text := p.Unsteady(); text != "" {
		unsteady = []string{text}
	}
	return unsteady, nil
}

// invariants sorts what does not hold: what is violated, what came too late, and what is
// open.
func invariants(r rundir.Repeat) (broken, late, open []string) {
	if len(r.Invariants) == 0 {
		return nil, nil, []string{"no invariant was judged"}
	}
	for _, v := range r.Invariants {
		switch {
		case v.Status == check.Held || v.NotExercised || v.Unjudged:
		case v.OnlyLate():
			late = append(late, "missed the promise "+v.Invariant+": "+v.First())
		case v.NotJudged():
			late = append(late, "missed the promise "+v.Invariant+" on noisy times: "+v.Reason)
		case v.Status == check.Broken:
			broken = append(broken, "violated "+v.Invariant+": "+v.First())
		default:
			open = append(open, v.Invariant+" is undecided: "+v.Reason)
		}
	}
	return broken, late, open
}

func objectives(r rundir.Repeat) (missed, open []string) {
	if len(r.SLOs) == 0 {
		return nil, []string{"no objective was judged"}
	}
	for _, v := range r.SLOs {
		switch {
		case v.Status == check.Held, v.NotJudged && v.Margin > 0: // a late generator only delays
		case v.Status == check.Broken, v.NotJudged:
			missed = append(missed, "missed "+v.Name+": "+v.Actual+", limit "+v.Limit)
		default:
			open = append(open, v.Name+" is undecided: "+v.Reason)
		}
	}
	return missed, open
}

// withoutEvidence are the assumptions about evidence that do not hold, apart from those
// that say how much was done.
func withoutEvidence(r rundir.Repeat) (list []string) {
	for _, v := range r.Validity {
		if !v.OK && v.Class == rundir.Evidence && !rundir.Exercise(v.Name) {
			list = append(list, v.Name+": "+v.Detail)
		}
	}
	if len(r.Validity) == 0 {
		list = append(list, "it was not judged whether there is evidence")
	}
	return list
}
