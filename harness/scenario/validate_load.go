package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
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
	if length := l.length(); l.WarmUp > 0 && l.WarmUp.D() >= length {
		v.reject(fmt.Sprintf("warm_up %s leaves nothing to measure", l.WarmUp),
			fmt.Sprintf("less than the load's %s", length), "load", "warm_up")
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
		return []string{"rate", "to", "at", "for", "over"}, []string{"poisson"}
	case "sine":
		return []string{"rate", "to", "period", "over"}, []string{"poisson"}
	case "burst":
		return []string{"ops", "over"}, nil
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
	needs, may := arrivalFields(a.Process)
	arrival, _ := v.at("load", "arrival")
	for _, name := range needs {
		v.missing(name+" is missing", "it for process "+a.Process, "load", "arrival", name)
	}
	known := append([]string{"process"}, slices.Concat(needs, may)...)
	for _, name := range arrival.names() {
		if !slices.Contains(known, name) {
			v.reject(fmt.Sprintf("%s does not belong to process %s", name, a.Process),
				oneOf(known), "load", "arrival", name)
		}
	}
	v.rates(a)
	v.times(a)
}

func (v *validation) rates(a Arrival) {
	v.rate(a.Rate, "load", "arrival", "rate")
	v.rate(a.To, "load", "arrival", "to")
	for i, step := range a.Steps {
		path := []string{"load", "arrival", "steps", strconv.Itoa(i)}
		v.rate(step.Rate, append(path, "rate")...)
		v.positive(step.For, append(path, "for")...)
	}
	if a.Process == "burst" {
		v.between(a.Ops, 1, maxOps, "load", "arrival", "ops")
	}
	if ops := a.expectedOps(); ops > maxOps {
		v.reject(fmt.Sprintf("the load has about %.3g operations", ops),
			fmt.Sprintf("at most %d", maxOps), "load", "arrival")
	} else if ops < 1 {
		v.reject("the load has less than one operation", "a higher rate or a longer time",
			"load", "arrival")
	}
}

func (v *validation) rate(rate float64, path ...string) {
	if rate < 0 || rate > maxRate {
		v.reject(fmt.Sprintf("rate %v is out of range", rate),
			fmt.Sprintf("operations per second from 0 to %d", maxRate), path...)
	}
}

// times checks the durations and due times of a process.
func (v *validation) times(a Arrival) {
	if _, found := v.at("load", "arrival", "over"); found {
		v.positive(a.Over, "load", "arrival", "over")
	}
	switch a.Process {
	case "spike":
		v.positive(a.For, "load", "arrival", "for")
		if a.At+a.For > a.Over {
			v.reject("the spike ends after the load", fmt.Sprintf("at + for of at most %s", a.Over),
				"load", "arrival", "at")
		}
	case "sine":
		v.positive(a.Period, "load", "arrival", "period")
		if a.To < a.Rate {
			v.reject("the peak lies below the mean", fmt.Sprintf("at least %v", a.Rate),
				"load", "arrival", "to")
		}
		if a.To > 2*a.Rate {
			v.reject("the rate would become negative", fmt.Sprintf("at most %v", 2*a.Rate),
				"load", "arrival", "to")
		}
	case "trace":
		if !slices.IsSorted(a.Trace) {
			v.reject("the due times are not in order", "ascending times", "load", "arrival", "trace")
		}
	}
}

// length is the time from the first possible due time to the end of load.
func (l Load) length() time.Duration {
	if l.Users > 0 {
		return l.Duration.D()
	}
	return l.Arrival.length()
}

func (a Arrival) length() time.Duration {
	switch a.Process {
	case "step":
		var sum time.Duration
		for _, step := range a.Steps {
			sum += step.For.D()
		}
		return sum
	case "trace":
		if len(a.Trace) == 0 {
			return 0
		}
		return a.Trace[len(a.Trace)-1].D()
	}
	return a.Over.D()
}

// expectedOps is the integral of the rate over the process.
func (a Arrival) expectedOps() float64 {
	over := a.Over.D().Seconds()
	switch a.Process {
	case "burst":
		return float64(a.Ops)
	case "trace":
		return float64(len(a.Trace))
	case "step":
		var sum float64
		for _, step := range a.Steps {
			sum += step.Rate * step.For.D().Seconds()
		}
		return sum
	case "ramp":
		return (a.Rate + a.To) / 2 * over
	case "spike":
		return a.Rate*over + (a.To-a.Rate)*a.For.D().Seconds()
	case "sine":
		return math.Max(a.Rate, a.To) * over // an upper bound
	}
	return a.Rate * over
}
