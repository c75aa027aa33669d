package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/arrival"
)

// load checks how operations are scheduled and sent.
func (v *validation) load() {
	v.missing("load is missing", "a mapping with arrival or users", "load")
	if _, found := v.at("load"); !found {
		return
	}
	l := v.sc.Load
	v.between(l.MaxInFlight, 1, maxInFlight, "load", "max_in_flight")
	v.between(l.Queue, 0, maxQueue, "load", "queue")
	v.between(l.MinOperations, 0, maxOps, "load", "min_operations")
	v.positive(l.Timeout, "load", "timeout")
	v.positive(l.Drain, "load", "drain")
	_, closed := v.at("load", "users")
	_, open := v.at("load", "arrival")
	switch {
	case closed && open:
		v.reject("users and arrival exclude each other",
			"users for a closed loop or arrival for an open one", "load", "users")
	case closed:
		v.closedLoop()
	default:
		v.openLoop()
	}
	if length := l.Length(); length > 0 && l.WarmUp.D() >= length {
		v.rejectTogether(fmt.Sprintf("warm_up %s leaves nothing to measure", l.WarmUp),
			fmt.Sprintf("less than the load's %s", length), []string{"load", "warm_up"}, "load.arrival",
			"load.duration")
	}
}

func (v *validation) closedLoop() {
	v.between(v.sc.Load.Users, 1, maxUsers, "load", "users")
	v.missing("duration is missing", durationForm, "load", "duration")
	if _, found := v.at("load", "duration"); found {
		v.positive(v.sc.Load.Duration, "load", "duration")
	}
}

func (v *validation) openLoop() {
	for _, name := range []string{"think", "duration"} {
		if _, found := v.at("load", name); found {
			v.reject(name+" belongs to a closed loop", "it with users only", "load", name)
		}
	}
	v.missing("arrival is missing", "a mapping with process, or users", "load", "arrival")
	if n, found := v.at("load", "arrival"); !found || n.kind != mapping {
		return
	}
	v.missing("process is missing", oneOf(processes()), "load", "arrival", "process")
	if _, found := v.at("load", "arrival", "process"); found {
		v.arrival()
	}
}

// processes lists the arrival processes.
func processes() []string {
	return []string{"constant", "ramp", "step", "spike", "sine", "poisson", "burst", "trace"}
}

// arrivalFields says which fields a process needs and which it may have.
func arrivalFields(process string) (needs, may []string) {
	switch process {
	case "constant":
		return []string{"rate", "over"}, []string{"poisson"}
	case "poisson":
		return []string{"rate", "over"}, nil
	case "ramp":
		return []string{"rate", "to", "over"}, []string{"poisson"}
	case "step":
		return []string{"steps"}, []string{"poisson"}
	case "spike":
		return []string{"rate", "to", "for", "over"}, []string{"at", "poisson"}
	case "sine":
		return []string{"rate", "to", "period", "over"}, []string{"poisson"}
	case "burst":
		return []string{"ops", "over"}, []string{"over_least", "over_most", "peak", "poisson"}
	case "trace":
		return []string{"trace"}, nil
	}
	return nil, nil
}

func (v *validation) arrival() {
	a := v.sc.Load.Arrival
	if !slices.Contains(processes(), a.Process) {
		v.unknownName("arrival process", a.Process, processes(), "load", "arrival", "process")
		return
	}
	before := len(v.list)
	needs, may := arrivalFields(a.Process)
	given, _ := v.at("load", "arrival")
	for _, name := range needs {
		v.missing(name+" is missing", "it for process "+a.Process, "load", "arrival", name)
	}
	known := append([]string{"process"}, slices.Concat(needs, may)...)
	for _, name := range given.names() {
		if !slices.Contains(known, name) {
			what := fmt.Sprintf("%s does not belong to process %s", name, a.Process)
			if name == "rate" && slices.Contains(known, "ops") {
				what += ", which has a number of operations (--set load.arrival.ops=...)"
			}
			v.reject(what, oneOf(known), "load", "arrival", name)
		}
	}
	v.rate(a.Rate, "load", "arrival", "rate")
	v.rate(a.To, "load", "arrival", "to")
	if a.Process == "burst" {
		v.between(a.Ops, 1, maxOps, "load", "arrival", "ops")
		v.peak(a.Peak)
	}
	if a.Over == Fit {
		v.fit(a)
	}
	for i, step := range a.Steps {
		v.rate(step.Rate, "load", "arrival", "steps", strconv.Itoa(i), "rate")
	}
	if len(v.list) == before && !v.troubled(given) {
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
	for _, name := range []string{"over_least", "over_most"} {
		v.missing(name+" is missing", "it where over is fit", "load", "arrival", name)
	}
	if _, found := v.at(least...); found {
		v.positive(a.OverLeast, least...)
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

func (v *validation) rate(rate float64, path ...string) {
	if rate < 0 || rate > maxRate {
		v.reject(fmt.Sprintf("rate %v is out of range", rate),
			fmt.Sprintf("operations per second from 0 to %d", maxRate), path...)
	}
}

// peak checks how steep a burst is. Zero stands for the default unless it was
// given.
func (v *validation) peak(peak float64) {
	path := []string{"load", "arrival", "peak"}
	if _, given := v.at(path...); given && !(peak >= 1 && peak <= arrival.SteepestPeak) {
		v.reject(fmt.Sprintf("peak is %v", peak),
			fmt.Sprintf("1 to %d times the mean rate", arrival.SteepestPeak), path...)
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

// PeakPerS is the highest rate of the process, if it is a burst of one that lasts so long. A
// trace has that of its busiest second.
func (a Arrival) PeakPerS(over time.Duration) float64 {
	switch a.Process {
	case "burst":
		return cmp.Or(a.Peak, arrival.SteepestPeak) * float64(a.Ops) / over.Seconds()
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
		return arrival.Burst(a.Ops, over, cmp.Or(a.Peak, arrival.SteepestPeak))
	case "trace":
		times := make([]time.Duration, len(a.Trace))
		for i, due := range a.Trace {
			times[i] = due.D()
		}
		return arrival.Trace(times)
	}
	return arrival.Process{}, fmt.Errorf("arrival: there is no process %q", a.Process)
}
