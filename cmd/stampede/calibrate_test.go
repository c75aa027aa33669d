package main

import (
	"math"
	"testing"
	"time"

	"stampede/harness/calibrate"
	"stampede/harness/sim"
	"stampede/harness/sut"
	"stampede/systems"
)

// TestDigests: each model that can be calibrated has a digest of its own, the same every time and
// whatever costs are assumed.
func TestDigests(t *testing.T) {
	of := map[string]string{}
	for _, s := range systems.All() {
		if s.Calibration == nil {
			continue
		}
		for _, v := range s.Variants {
			if !calibratable(v) {
				continue
			}
			name := s.Name + " " + v.Name
			once, err := calibrate.Digest(t.Context(), s, v)
			if err != nil {
				t.Fatal(name, err)
			}
			costs, dear := s.Costs, s
			dear.Costs = func() sim.Costs {
				c := costs()
				for cost := range c.Postgres {
					c.Postgres[cost] = sim.Assumed(1e4)
				}
				return c
			}
			if again, err := calibrate.Digest(t.Context(), dear, v); err != nil || again != once {
				t.Errorf("%s: %s and then %s, %v", name, once, again, err)
			}
			if other := of[once]; other != "" {
				t.Errorf("%s has the digest of %s", name, other)
			}
			of[once] = name
		}
	}
	if len(of) == 0 {
		t.Error("no model can be calibrated")
	}
}

// TestFlushCV: how much flushes vary is found from what commits wait for beside a load.
func TestFlushCV(t *testing.T) {
	const mean, cv, commitNS = 250 * time.Microsecond, 1.5, 60_000
	system, _ := findSystem("flashsale")
	c := &calibration{system: system, drain: time.Second}
	v, _ := system.Variant("conditional_update")
	plan, err := c.plan(v, system.Calibration.Loads[1], poisson(1500, 4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	l := c.modelled(plan, v, sim.DefaultMachine(), system.Costs())
	l.Machine.Postgres.Fsync, l.Machine.Postgres.FsyncCV = sut.Duration(mean), cv
	took, err := l.Commits(t.Context(), commitNS)
	if err != nil {
		t.Fatal(err)
	}
	loads := []calibrate.Committing{{Load: l, Took: took}, {Load: l, Took: took[:10]}}
	found, err := calibrate.FlushCV(t.Context(), loads, commitNS)
	if err != nil || math.Abs(math.Log(found/cv)) > 0.15 {
		t.Errorf("found %.2f for %.2f, %v", found, cv, err)
	}
	if found, err = calibrate.FlushCV(t.Context(), loads[1:], commitNS); found != 0 || err != nil {
		t.Errorf("ten commits say %.2f, %v", found, err)
	}
}
