package run

import (
	"testing"
	"time"

	"stampede/harness/deploy"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

func TestEstimate(t *testing.T) {
	const s = time.Second
	quick := sut.System{}
	slow := sut.System{GoesOn: func(any) time.Duration { return 20 * s }}
	constant := scenario.Scenario{Deploy: deploy.InProcess, Load: scenario.Load{
		Arrival: scenario.Arrival{Process: "constant", Rate: 100, Over: scenario.Over(10 * s)}}}
	apart := constant
	apart.Deploy = deploy.Processes
	fitted := constant
	fitted.Load.Arrival = scenario.Arrival{Process: "burst", Ops: 10, Over: scenario.Fit,
		OverLeast: scenario.Duration(6 * s), OverMost: scenario.Duration(9 * s)}
	users := scenario.Scenario{Deploy: deploy.InProcess,
		Load: scenario.Load{Users: 5, Duration: scenario.Duration(30 * s)}}
	for name, c := range map[string]struct {
		sc          scenario.Scenario
		sys         sut.System
		least, most time.Duration
	}{
		"a rate":    {constant, quick, 5*s + 3*14*s, 5*s + 3*14*s},
		"goes on":   {constant, slow, 5*s + 3*34*s, 5*s + 3*34*s},
		"processes": {apart, quick, 5*s + 3*16*s, 5*s + 3*16*s},
		"users":     {users, quick, 5*s + 3*34*s, 5*s + 3*34*s},
		"fitted":    {fitted, quick, 5*s + 3*10*s, 5*s + 3*13*s},
	} {
		least, most, err := Estimate(c.sc, c.sys, nil, 3)
		if err != nil || least != c.least || most != c.most {
			t.Errorf("%s: %s to %s, %v; want %s to %s", name, least, most, err, c.least, c.most)
		}
	}
}

// TestFitIsNotRun: who runs a scenario has given its load a length before.
func TestFitIsNotRun(t *testing.T) {
	var sc scenario.Scenario
	sc.Load.Arrival = scenario.Arrival{Process: "burst", Ops: 10, Over: scenario.Fit,
		OverLeast: 1, OverMost: 2}
	if path, _, err := Run(t.Context(), t.Context(), Options{Scenario: sc}); err == nil || path != "" {
		t.Errorf("a load without a length was run in %q: %v", path, err)
	}
}
