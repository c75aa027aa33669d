package judge

import (
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
)

// Trial is what a repeat leaves beside its history and its audit.
type Trial struct {
	Variant string `json:"variant"`
	Repeat  int    `json:"repeat"`
	Order   int    `json:"order"`
	// Load is what the generator counted itself; the history must agree.
	Load      rundir.Load      `json:"load"`
	Generator rundir.Generator `json:"generator"`
	// Generators are the processes of their own that offered the load; none if this one did.
	Generators []Part `json:"generators,omitempty"`
	// Cut operations were never offered because the load was stopped, CutFollowUps had not become
	// due when the drain ended, and Abandoned ones did not return even when cancelled.
	Cut          int64 `json:"cut"`
	CutFollowUps int64 `json:"cut_follow_ups,omitempty"`
	Abandoned    int64 `json:"abandoned"`
	// StartNS is when operations began to be scheduled, EndNS when the last one
	// ended, on the run's clock; DrainNS is how long quiescence took.
	StartNS int64 `json:"start_ns"`
	EndNS   int64 `json:"end_ns"`
	DrainNS int64 `json:"drain_ns"`
	// Lost counts records that could not be written to the history.
	Lost uint64 `json:"lost_records"`
	// Empty is what is known of the state before the load, Found what was
	// there if it was not empty.
	Empty Emptiness `json:"empty,omitempty"`
	Found string    `json:"found,omitempty"`
	// Pending is what had not settled when the drain's deadline passed, Unasked
	// why that is not known.
	Pending string `json:"pending,omitempty"`
	Unasked string `json:"unasked,omitempty"`
	// Falling says how the pending work was still decreasing then, or why that cannot be told. It is
	// empty if the work did not decrease.
	Falling string `json:"falling,omitempty"`
	// Overdue says what was left when the drain's deadline passed, if it was being done and
	// was waited for.
	Overdue string `json:"overdue,omitempty"`
	// StoresAsked says that the stores were asked who they are, before and
	// after the load; StoreTrouble is what happened to them that no fault did.
	StoresAsked  bool   `json:"stores_asked,omitempty"`
	StoreTrouble string `json:"store_trouble,omitempty"`
	// Interrupted is true when the load was stopped before its end.
	Interrupted bool `json:"interrupted"`
	// Cores is how many cores this process could use.
	Cores int `json:"cores"`
	// Simulated is true when the time was virtual; Bottleneck is then what was waited for, in words.
	Simulated  bool   `json:"simulated,omitempty"`
	Bottleneck string `json:"bottleneck,omitempty"`
	// Inside is true when the system under test runs in this process.
	Inside bool `json:"inside"`
	// Processor is the processor time that it all took.
	Processor *rundir.Processor `json:"processor,omitempty"`
	// Error is why the repeat could not be finished.
	Error string `json:"error,omitempty"`
}

// Part is one of several generators.
type Part struct {
	// Host is its machine, of which it could use so many Cores.
	Host  string `json:"host"`
	Cores int    `json:"cores"`
	// ClockErrorNS is how far its times may be from the clock of the run.
	ClockErrorNS int64            `json:"clock_error_ns"`
	Generator    rundir.Generator `json:"generator"`
}

// Emptiness says what an instance answered when it was asked, after Prepare,
// whether anything had been done to it. Runs from before it was asked have "".
type Emptiness string

// The answers.
const (
	// Empty: nothing was there.
	Empty Emptiness = "empty"
	// NotEmpty: something was there already.
	NotEmpty Emptiness = "not empty"
	// NotAsked: the instance cannot say; see sut.Emptier.
	NotAsked Emptiness = "not asked"
)

// TrialName is where a repeat's Trial goes in the run directory.
func TrialName(slot rundir.Slot) string {
	return strings.TrimSuffix(slot.Audit, ".json") + ".trial.json"
}

// WarmUp is the phase that is judged and not measured.
const WarmUp = "warm-up"

// inTime leaves open what was only late, if noise excuses it, and what was only not
// finished, if it was still being done at the end or nobody knows. One violation of another kind
// is enough to prove the design wrong.
func (t Trial) inTime(v check.Verdict, noise string) check.Verdict {
	if v.Status != check.Broken {
		return v
	}
	rest, excuses := v.Count, []string{}
	if v.Late > 0 && noise != "" {
		rest, excuses = rest-v.Late, append(excuses, noise)
	}
	if unfinished := t.unfinished(); v.Unfinished > 0 && unfinished != "" {
		rest -= v.Unfinished
		excuses = append(excuses, unfinished)
	}
	if rest > 0 {
		return v
	}
	open := leftOpen(v, strings.Join(excuses, "; "))
	open.Watched, open.Accepted = v.Watched, v.Accepted
	open.Late, open.Unfinished = v.Late, v.Unfinished
	open.Open, open.NotExercised = v.Open, v.NotExercised
	return open
}

// unfinished says why background work that was not finished proves nothing, "" if it does.
func (t Trial) unfinished() string {
	switch {
	case t.Falling != "":
		return "the run ended before background work was finished: " + t.Falling
	case t.Interrupted:
		return "the run was interrupted before background work was finished"
	case t.Unasked != "":
		return "it is not known whether background work was finished: " + t.Unasked
	}
	return ""
}

// machine is what others used of the machine, nil if nobody knows.
func (t Trial) machine() *rundir.Machine {
	if t.Processor == nil {
		return nil
	}
	return t.Processor.Machine
}

// doubt says why a violation in a repeat proves nothing against the design:
// who did what is there cannot be told. It is "" if nothing is in doubt.
func (t Trial) doubt() string {
	if t.Empty == NotEmpty {
		return "the stores were not empty before the load: " + t.Found
	}
	return t.StoreTrouble
}

// unproven leaves open what would be broken if nothing were in doubt.
func unproven(verdicts []check.Verdict, doubt string) []check.Verdict {
	for i, v := range verdicts {
		if doubt != "" && v.Status == check.Broken {
			verdicts[i] = leftOpen(v, doubt)
		}
	}
	return verdicts
}

// leftOpen is a broken verdict as one that proves nothing.
func leftOpen(v check.Verdict, doubt string) check.Verdict {
	return check.Verdict{Invariant: v.Invariant, Checked: v.Checked, Unknown: v.Unknown,
		Reason: doubt + "; that may be the cause of: " + v.First()}
}
