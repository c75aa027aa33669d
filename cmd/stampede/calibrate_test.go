package main

import (
	"testing"

	"stampede/harness/calibrate"
	"stampede/harness/sim"
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
