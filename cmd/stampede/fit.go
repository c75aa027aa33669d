package main

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/fit"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/reports"
)

// fitAs gives the load of a plan the length that it had in a run whose load was fitted, so
// that the two can be compared.
func (r *resolved) fitAs(base rundir.RunInfo) {
	if a := r.Scenario.Load.Arrival; a.Over == scenario.Fit && base.Fitted != nil {
		r.Scenario.Load.Arrival = a.Lasting(time.Duration(base.Fitted.OverNS))
		r.fitted = base.Fitted
	}
}

// fitLoad gives the load of a plan a length if the scenario leaves that to the machine,
// and says which.
func fitLoad(
	ctx context.Context, plan resolved, probe fit.Probe, logf func(string, ...any),
) (resolved, error) {
	arrival := plan.Scenario.Load.Arrival
	if arrival.Over != scenario.Fit {
		return plan, nil
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
		"second cleanly", reports.Grouped(arrival.Ops), over, reports.Grouped(int(clean)))
	if capped {
		text += ", and the load is more than half of that: " + rundir.OfCapped
	}
	logf("%s", text)
	return plan, nil
}
