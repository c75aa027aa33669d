package knee

import (
	"fmt"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
)

// Judge says what a run in which a variant was offered a constant rate, once, came
// to; t is the repeat's timeline. Rate, step, seed and run are the caller's to fill
// in.
//
// A violation stands whatever the measurement was worth; an objective that was
// missed, or work that piled up, does not: a late generator misses it as well.
func Judge(v rundir.Variant, t rundir.Timeline) Window {
	w := Window{Verdict: Undecided, Reasons: []string{"it did not run"}}
	if len(v.Repeats) == 0 {
		return w
	}
	r := v.Repeats[0]
	unsteady, open := pace(r, t, &w)
	broken, openInvariants := invariants(r)
	missed, openSLOs := objectives(r)
	missed = append(missed, unsteady...)
	open = slices.Concat(openInvariants, openSLOs, open)
	invalid := invalidities(r)
	switch {
	case len(broken) > 0:
		w.Verdict, w.Reasons = Broke, broken
	case len(invalid) > 0:
		w.Verdict, w.Reasons = Undecided, invalid
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

func invariants(r rundir.Repeat) (broken, open []string) {
	if len(r.Invariants) == 0 {
		return nil, []string{"no invariant was judged"}
	}
	for _, v := range r.Invariants {
		switch v.Status {
		case check.Held:
		case check.Broken:
			text := "broke " + v.Invariant + ": " + v.Reason
			if len(v.Violations) > 0 {
				text = "broke " + v.Invariant + ": " + v.Violations[0].Text
			}
			if v.Count > 1 {
				text += fmt.Sprintf(" (and %d more)", v.Count-1)
			}
			broken = append(broken, text)
		default:
			open = append(open, v.Invariant+" is undecided: "+v.Reason)
		}
	}
	return broken, open
}

func objectives(r rundir.Repeat) (missed, open []string) {
	if len(r.SLOs) == 0 {
		return nil, []string{"no objective was judged"}
	}
	for _, v := range r.SLOs {
		switch v.Status {
		case check.Held:
		case check.Broken:
			missed = append(missed, "missed "+v.Name+": "+v.Actual+", limit "+v.Limit)
		default:
			open = append(open, v.Name+" is undecided: "+v.Reason)
		}
	}
	return missed, open
}

// invalidities are the assumptions about the measurement that do not hold.
func invalidities(r rundir.Repeat) (list []string) {
	for _, v := range r.Validity {
		if !v.OK {
			list = append(list, "the measurement is not valid: "+v.Name+": "+v.Detail)
		}
	}
	if len(r.Validity) == 0 {
		list = append(list, "whether the measurement is valid was not judged")
	}
	return list
}
