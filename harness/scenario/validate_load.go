package scenario

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"stampede/harness/arrival"
)

// load checks how operations are scheduled and sent.
func (v *validation) load() {
	if _, found := v.at("load"); !found {
		return
	}
	l := v.sc.Load
	_, closed := v.at("load", "users")
	_, open := v.at("load", "arrival")
	switch {
	case closed && open:
		v.reject("users and arrival exclude each other",
			"users for a closed loop or arrival for an open one", "load", "users")
	case closed:
		n, _ := v.at("load")
		v.missing(n, "duration", durationForm)
	default:
		v.openLoop()
	}
	if length := l.Length(); length > 0 && l.WarmUp.D() >= length {
		v.rejectTogether(fmt.Sprintf("warm_up %s leaves nothing to measure", l.WarmUp),
			fmt.Sprintf("less than the load's %s", length), []string{"load", "warm_up"}, "load.arrival",
			"load.duration")
	}
}

func (v *validation) openLoop() {
	for _, name := range []string{"think", "duration"} {
		if _, found := v.at("load", name); found {
			v.reject(name+" belongs to a closed loop", "it with users only", "load", name)
		}
	}
	n, _ := v.at("load")
	v.missing(n, "arrival", "a mapping with process, or users")
	if n, found := v.at("load", "arrival"); !found || n.kind != mapping {
		return
	}
	before := len(v.list)
	a := v.sc.Load.Arrival
	if !v.shaped(arrivalShapes(), "load", "arrival") {
		return
	}
	if a.Over == Fit {
		v.fit(a)
	}
	if n, _ := v.at("load", "arrival"); len(v.list) == before && !v.troubled(n) {
		v.schedule(a)
		if a.Over == Fit {
			v.schedule(a.Lasting(a.OverMost.D()))
		}
	}
}

// fit checks a load whose length the machine decides.
func (v *validation) fit(a Arrival) {
	path := []string{"load", "arrival", "over"}
	least, most := []string{"load", "arrival", "over_least"}, "load.arrival.over_most"
	switch {
	case a.Process != "burst":
		v.reject("over is fit, and process "+a.Process+" has no number of operations to keep",
			durationForm, path...)
		return
	case v.sc.Profile == FullProfile:
		v.reject("over is fit in the profile full, which sends the same on every machine",
			durationForm, path...)
		return
	}
	n, _ := v.at("load", "arrival")
	for _, name := range []string{"over_least", "over_most"} {
		v.missing(n, name, "it where over is fit")
	}
	if a.OverMost > 0 && a.OverLeast > a.OverMost {
		v.rejectTogether(fmt.Sprintf("over_least %s is more than over_most %s", a.OverLeast,
			a.OverMost), "", least, most)
	}
}

// schedule lets package arrival judge the process as a whole.
func (v *validation) schedule(a Arrival) {
	path := []string{"load", "arrival"}
	process, err := a.Schedule()
	switch {
	case err != nil:
		v.rejectTogether(strings.TrimPrefix(err.Error(), "arrival: "), "", path)
	case process.Over() > maxLength:
		v.rejectTogether(fmt.Sprintf("the load lasts %s", process.Over()),
			fmt.Sprintf("at most %s", maxLength), path)
	case process.Mean() > maxOps:
		v.rejectTogether(fmt.Sprintf("the load has about %.3g operations", process.Mean()),
			fmt.Sprintf("at most %d", maxOps), path)
	}
}

// Length is the time from the base to the end of the load, the shortest one for a load
// that is to be fitted. It is zero for a load that Decode would refuse.
func (l Load) Length() time.Duration {
	if l.Users > 0 {
		return l.Duration.D()
	}
	process, err := l.Arrival.Schedule()
	if err != nil {
		return 0
	}
	return process.Over()
}

// Lasting returns the arrival process with another length.
func (a Arrival) Lasting(over time.Duration) Arrival {
	a.Over = Over(over)
	return a
}

// PeakPerS is the highest rate of the process, if it is a burst of one that lasts so long
// and without its operations that are due at once. A trace has that of its busiest second.
func (a Arrival) PeakPerS(over time.Duration) float64 {
	switch a.Process {
	case "burst":
		return cmp.Or(a.Peak, arrival.SteepestPeak) * float64(a.Ops-a.AtOnce) / over.Seconds()
	case "step":
		highest := 0.0
		for _, s := range a.Steps {
			highest = max(highest, s.Rate)
		}
		return highest
	case "trace":
		most, first := 0, 0
		for last, due := range a.Trace {
			for due-a.Trace[first] >= Duration(time.Second) {
				first++
			}
			most = max(most, last-first+1)
		}
		return float64(most)
	}
	return max(a.Rate, a.To)
}

// Schedule makes the arrival process, that of the shortest length if the length is to be
// fitted. An error says what is wrong with it.
func (a Arrival) Schedule() (arrival.Process, error) {
	process, err := a.regular()
	if err == nil && (a.Poisson || a.Process == "poisson") {
		return arrival.Poisson(process)
	}
	return process, err
}

// regular makes the process without the exponential gaps.
func (a Arrival) regular() (arrival.Process, error) {
	over := a.Over.D()
	if a.Over == Fit {
		over = a.OverLeast.D()
	}
	switch a.Process {
	case "constant", "poisson":
		return arrival.Constant(a.Rate, over)
	case "ramp":
		return arrival.Ramp(a.Rate, a.To, over)
	case "step":
		steps := make([]arrival.Step, len(a.Steps))
		for i, s := range a.Steps {
			steps[i] = arrival.Step{Rate: s.Rate, For: s.For.D()}
		}
		return arrival.Steps(steps)
	case "spike":
		return arrival.Spike(a.Rate, a.To, a.At.D(), a.For.D(), over)
	case "sine":
		return arrival.Sine(a.Rate, a.To, a.Period.D(), over)
	case "burst":
		return arrival.Burst(a.Ops, a.AtOnce, over, cmp.Or(a.Peak, arrival.SteepestPeak))
	case "trace":
		times := make([]time.Duration, len(a.Trace))
		for i, due := range a.Trace {
			times[i] = due.D()
		}
		return arrival.Trace(times)
	}
	return arrival.Process{}, fmt.Errorf("arrival: there is no process %q", a.Process)
}
