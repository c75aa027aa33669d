package scenarios_test

import (
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/sim"
	"stampede/harness/sut"
	"stampede/scenarios"
)

// TestSimulations runs the models of every scenario whose faults a simulation knows, with several
// seeds: what is right is never broken, and what is known to be wrong is caught where it must
// be, as for designs.
func TestSimulations(t *testing.T) {
	seeds := number(t, "STAMPEDE_SEEDS", 3)
	modelled := 0
	for _, name := range scenarios.All() {
		p := decode(t, name)
		costs := p.resolved.System.Costs
		if costs == nil || p.scenario.SideBySide || !simulable(p) {
			continue
		}
		p.scenario.Variants = slices.DeleteFunc(slices.Clone(p.scenario.Variants), func(v string) bool {
			variant, _ := p.resolved.System.Variant(v)
			return variant.Model == nil
		})
		if len(p.scenario.Variants) == 0 {
			continue
		}
		modelled++
		if !slices.Contains(p.scenario.Variants, p.scenario.Baseline) {
			p.scenario.Baseline = p.scenario.Variants[0]
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				judgeSimulated(t, simulated(t, p, seed+1))
			}
		})
	}
	if modelled == 0 {
		t.Error("no scenario was simulated")
	}
}

// simulable says that a simulation knows each fault of a scenario, and that they strike Postgres.
func simulable(p plan) bool {
	for _, f := range p.scenario.Faults {
		if f.Target != string(sut.Postgres) {
			return false
		}
	}
	return run.CheckSimulated(p.scenario.Faults) == nil
}

func simulated(t *testing.T, p plan, seed uint64) rundir.Summary {
	t.Helper()
	costs := map[string]sim.Costs{}
	for _, name := range p.scenario.Variants {
		costs[name] = p.resolved.System.Costs()
	}
	path, summary, err := run.Run(t.Context(), t.Context(), run.Options{Scenario: p.scenario,
		System: p.resolved.System, Params: p.resolved.Params, Seed: seed, Root: t.TempDir(),
		BackendReason: "tests", Observer: logger{t}, Now: time.Now,
		Simulate: &run.Simulation{Machine: sim.DefaultMachine(), Costs: costs}})
	if err != nil {
		t.Errorf("seed %d: %v (%s)", seed, err, path)
	}
	return summary
}

// judgeSimulated fails where a right model broke something, or where a fault had no effect. What a
// seed leaves open is told: two cores and a small load are not always enough.
func judgeSimulated(t *testing.T, s rundir.Summary) {
	t.Helper()
	for _, v := range s.Variants {
		if missed(v) {
			t.Errorf("seed %d: %s: a fault has no evidence: %v", s.Run.Seed, v.Name, v.Reasons)
		}
		for _, inv := range v.Invariants {
			if slices.Contains(v.ExpectedBroken, inv.Invariant) && inv.Status == check.Held {
				t.Errorf("seed %d: %s is known to break %s and does not", s.Run.Seed, v.Name,
					inv.Invariant)
			}
		}
	}
	judgeSummary(t, s, neverBroken)
}
