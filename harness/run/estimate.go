package run

import (
	"time"

	"stampede/harness/deploy"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// What a run takes beside its load, on two cores that do little else: starting the stores,
// preparing, settling, auditing and judging a repeat, and starting its processes where it
// has some.
const (
	startingTakes = 5 * time.Second
	repeatTakes   = 4 * time.Second
	deployTakes   = 2 * time.Second
)

// Estimate is about how long so many repeats of a scenario's designs take: their loads, how
// long they go on afterwards, and what a repeat takes beside. Where the load is to be fitted
// it depends on the machine, from least to most. A design that cannot keep up takes longer.
func Estimate(
	sc scenario.Scenario, sys sut.System, params any, repeats int,
) (least, most time.Duration, err error) {
	longest := sc
	if a := sc.Load.Arrival; a.Over == scenario.Fit {
		longest.Load.Arrival = a.Lasting(a.OverMost.D())
	}
	if least, err = estimate(sc, sys, params, repeats); err == nil {
		most, err = estimate(longest, sys, params, repeats)
	}
	return least, most, err
}

func estimate(
	sc scenario.Scenario, sys sut.System, params any, repeats int,
) (time.Duration, error) {
	// What is due when differs little from seed to seed.
	const seed = 1
	plan, err := PlanOf(sc, seed)
	if err != nil {
		return 0, err
	}
	over, beside, turns := plan.Over, repeatTakes, repeats
	if sys.GoesOn != nil {
		over += sys.GoesOn(params)
	}
	if sc.Deploy != deploy.InProcess {
		beside += deployTakes
	}
	if sc.SideBySide {
		turns = min(repeats, sc.Repeats)
	}
	return startingTakes + time.Duration(turns)*over + time.Duration(repeats)*beside, nil
}
