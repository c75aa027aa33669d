package scenarios_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/fault"
	"stampede/harness/judge"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
	"stampede/scenarios"
)

// TestSimulations runs the models of every scenario, with those of its faults that a simulation
// knows, with several seeds: what is right is never broken, and what is known to be wrong is
// caught where it must be, as for designs, by one seed at least: a small load leaves a race to
// luck.
func TestSimulations(t *testing.T) {
	seeds := number(t, "STAMPEDE_SEEDS", 3)
	modelled := 0
	for _, name := range scenarios.All() {
		p := decode(t, name)
		if !keepModels(&p) || !keepFaults(&p) {
			continue
		}
		modelled++
		t.Run(name, func(t *testing.T) {
			caught := map[string]int{}
			for seed := range uint64(seeds) {
				_, summary := simulated(t, p, seed+1)
				judgeSimulated(t, summary, caught)
			}
			for what, n := range caught {
				if n == 0 {
					t.Errorf("%s in none of %d seeds", what, seeds)
				}
			}
		})
	}
	if modelled == 0 {
		t.Error("no scenario was simulated")
	}
}

// TestSimulationsOutliveSilence: each store in turn loses answers, and later all messages, for a
// while, and nothing of a model waits for them for ever. The scenarios are those with faults of
// stores, and last long enough that all have given up what was lost before the next fault.
func TestSimulationsOutliveSilence(t *testing.T) {
	for _, name := range scenarios.All() {
		p := decode(t, name)
		if !strings.HasSuffix(name, "-store-faults") || !keepModels(&p) {
			continue
		}
		for _, design := range p.scenario.Variants {
			p.scenario.Variants, p.scenario.Baseline = []string{design}, design
			t.Run(name+"/"+design, func(t *testing.T) {
				_, summary := simulated(t, silent(p), 1)
				for _, v := range summary.Variants {
					for _, inv := range v.Invariants { // of which quiescence is one
						judgeInvariant(t, 1, v, inv, neverBroken)
					}
				}
			})
		}
	}
}

// silent is a plan in which stores do not answer for a while.
func silent(p plan) plan {
	p.scenario.Faults, p.scenario.Provokes = nil, []string{}
	slot := p.scenario.Load.Timeout + scenario.Duration(2*time.Second)
	for _, kind := range []fault.Kind{fault.LostAck, fault.Partition} {
		for _, store := range p.needs() {
			at := slot*scenario.Duration(len(p.scenario.Faults)) + scenario.Duration(500*time.Millisecond)
			p.scenario.Faults = append(p.scenario.Faults, scenario.Fault{
				Name: fmt.Sprintf("%s-%s", store, kind), Kind: string(kind), Target: string(store),
				At: at, For: scenario.Duration(time.Second)})
		}
	}
	p.scenario.Load.Arrival.Over = scenario.Over(slot * scenario.Duration(len(p.scenario.Faults)))
	return p
}

// TestSameSeed: a simulation leaves the same history, byte by byte, but for the run's name.
func TestSameSeed(t *testing.T) {
	p := decode(t, "views-store-faults")
	p.scenario.Variants, p.scenario.Baseline = []string{"video_key"}, "video_key"
	p.scenario.Faults = nil
	var histories [2][]byte
	for i := range histories {
		path, summary := simulated(t, p, 1)
		text, err := os.ReadFile(filepath.Join(path, "history", "video_key.0.history"))
		if err != nil {
			t.Fatal(err)
		}
		_, histories[i], _ = bytes.Cut(text, []byte(summary.Run.ID))
	}
	if len(histories[0]) < 1000 || !bytes.Equal(histories[0], histories[1]) {
		t.Errorf("histories of %d and %d bytes differ", len(histories[0]), len(histories[1]))
	}
}

// keepModels leaves out the designs that have no model. It is false if none is left.
func keepModels(p *plan) bool {
	p.scenario.Variants = slices.DeleteFunc(slices.Clone(p.scenario.Variants), func(v string) bool {
		variant, _ := p.resolved.System.Variant(v)
		return variant.Model == nil
	})
	if len(p.scenario.Variants) == 0 || p.resolved.System.Costs == nil || p.scenario.SideBySide {
		return false
	}
	if !slices.Contains(p.scenario.Variants, p.scenario.Baseline) {
		p.scenario.Baseline = p.scenario.Variants[0]
	}
	return true
}

// keepFaults leaves out the faults that no simulation knows or that no design feels, and then what
// they alone may provoke. It is false if nothing is left of them.
func keepFaults(p *plan) bool {
	all := p.scenario.Faults
	p.scenario.Faults = slices.DeleteFunc(slices.Clone(all), func(f scenario.Fault) bool {
		needed := f.Target == string(sut.Postgres)
		for _, name := range p.scenario.Variants {
			v, _ := p.resolved.System.Variant(name)
			needed = needed || judge.Feels(v, f)
		}
		return !needed || run.CheckSimulated([]scenario.Fault{f}) != nil
	})
	if len(p.scenario.Faults) < len(all) {
		p.scenario.Provokes = slices.DeleteFunc(slices.Clone(p.scenario.Provokes),
			func(t string) bool { return t != string(sut.Load) })
	}
	return len(all) == 0 || len(p.scenario.Faults) > 0
}

// simulated runs a scenario's models and says where the run is.
func simulated(t *testing.T, p plan, seed uint64) (string, rundir.Summary) {
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
	return path, summary
}

// judgeSimulated fails where a right model broke something, or where a fault had no effect. What a
// seed leaves open is told: two cores and a small load are not always enough. How often a wrong
// one was caught is added to caught.
func judgeSimulated(t *testing.T, s rundir.Summary, caught map[string]int) {
	t.Helper()
	for i, v := range s.Variants {
		if missed(v) {
			t.Errorf("seed %d: %s: a fault has no evidence: %v", s.Run.Seed, v.Name, v.Reasons)
		}
		s.Variants[i].Invariants = slices.DeleteFunc(v.Invariants, func(inv check.Verdict) bool {
			if !slices.Contains(v.ExpectedBroken, inv.Invariant) {
				return false
			}
			what := v.Name + " breaks " + inv.Invariant
			caught[what] += 0
			if inv.Status == check.Broken {
				caught[what]++
			}
			return inv.Status != check.Broken
		})
	}
	judgeSummary(t, s, neverBroken)
}
