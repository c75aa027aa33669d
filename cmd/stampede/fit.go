package main

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/fit"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/reports/words"
)

// fitAs gives the load of a plan the length that it had in a run whose load was fitted, so
// that the two can be compared.
func (r *resolved) fitAs(base rundir.RunInfo) {
	if a := r.Scenario.Load.Arrival; a.Over == scenario.Fit && base.Fitted != nil {
		r.Scenario.Load.Arrival = a.Lasting(time.Duration(base.Fitted.OverNS))
	}
}

// fitLoad gives the load of a plan a length if the scenario leaves that to the machine, or
// else finds whether the machine carries it. It says what follows.
func fitLoad(
	ctx context.Context, plan resolved, probe fit.Probe, logf func(string, ...any),
) (resolved, error) {
	arrival := plan.Scenario.Load.Arrival
	switch {
	case plan.Scenario.SideBySide: // promises of time are not judged anyway
		if arrival.Over == scenario.Fit {
			plan.Scenario.Load.Arrival = arrival.Lasting(arrival.OverMost.D())
		}
		return plan, nil
	case arrival.Process == "": // a closed loop
		return plan, nil
	case arrival.Over != scenario.Fit:
		return carry(ctx, plan, probe, logf)
	}
	clean, err := fit.CleanRate(ctx, probe)
	if err != nil {
		return plan, fmt.Errorf("fitting the load to this machine: %w", err)
	}
	over, capped := fit.Over(arrival, clean)
	plan.Scenario.Load.Arrival = arrival.Lasting(over)
	plan.fitted = &rundir.Fitted{CleanPerS: clean, OverNS: over.Nanoseconds(),
		LeastNS: arrival.OverLeast.D().Nanoseconds(), MostNS: arrival.OverMost.D().Nanoseconds(),
		Capped: capped}
	text := fmt.Sprintf("the load was fitted: %s operations over %s; this machine sends %s a "+
		"second cleanly", words.Grouped(arrival.Ops), over, words.Grouped(int(clean)))
	if capped {
		text += ", and the load is more than half of that: " + rundir.OfCapped
	}
	logf("%s", text)
	return plan, nil
}

// shortest gives the load of a plan the least length if the scenario leaves that to the machine.
func (r resolved) shortest() resolved {
	if a := r.Scenario.Load.Arrival; a.Over == scenario.Fit {
		r.Scenario.Load.Arrival = a.Lasting(a.OverLeast.D())
	}
	return r
}

// carry finds whether the machine carries a load whose length is given.
func carry(
	ctx context.Context, plan resolved, probe fit.Probe, logf func(string, ...any),
) (resolved, error) {
	arrival := plan.Scenario.Load.Arrival
	peak := arrival.PeakPerS(arrival.Over.D())
	carried, err := fit.Carries(ctx, probe, peak)
	if err != nil {
		return plan, fmt.Errorf("finding whether this machine carries the load: %w", err)
	}
	plan.fitted = &rundir.Fitted{PeakPerS: peak, OverNS: arrival.Over.D().Nanoseconds(),
		Capped: !carried}
	if !carried {
		logf("%s", rundir.Uncarried(peak))
	}
	return plan, nil
}
