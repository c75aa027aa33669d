package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"stampede/harness/events"
	"stampede/harness/judge"
	"stampede/harness/load"
	"stampede/harness/rundir"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// Simulation is the machine that models run on, and what the steps of each design's model cost.
type Simulation struct {
	Machine sim.Machine
	Costs   map[string]sim.Costs
	// Known says how the costs are known.
	Known string
}

// repeatSeed tells the seeds of repeats apart: an odd number without a pattern.
const repeatSeed = 0x9E3779B97F4A7C15

// environment is the machine and the costs, in place of this computer.
func (m *Simulation) environment(reason string) (rundir.Environment, error) {
	e := rundir.Environment{Backend: rundir.Simulation, BackendReason: reason,
		Cores: m.Machine.Cores, Components: map[string]rundir.Component{}}
	for name, what := range map[string]any{"machine": m.Machine, "costs": m.Costs} {
		text, err := json.Marshal(what)
		if err != nil {
			return e, fmt.Errorf("writing the simulated %s: %w", name, err)
		}
		e.Components[name] = rundir.Component{Kind: "simulated " + name,
			Settings: map[string]string{"json": string(text)}}
	}
	e.Fingerprint = fingerprint(e)
	return e, nil
}

// processor is the CPU time that the components needed.
func (m *Simulation) processor(c *sim.Cluster, design string, result load.Result,
) *rundir.Processor {
	p := &rundir.Processor{Operations: result.Load.Started}
	drawn := c.Drawn()
	for _, part := range []struct {
		name, component string
		costs           map[string]sim.Cost
	}{
		{rundir.GeneratorPart, "app", m.Costs[design].App},
		{string(sut.Postgres), "postgres", m.Costs[design].Postgres},
		{string(sut.Redis), "redis", m.Costs[design].Redis},
		{string(sut.Kafka), "kafka", m.Costs[design].Kafka},
	} {
		ns := 0.0
		for name, cost := range part.costs {
			ns += float64(drawn[part.component][name] * cost.MeanNS)
		}
		if ns > 0 {
			p.Parts = append(p.Parts, rundir.ProcessorPart{Name: part.name, NS: int64(ns)})
		}
	}
	return p
}

// simulate is the life of a trial in virtual time: the variant's model under the scenario's
// load and faults, drained and audited, with a history like any other.
func (r *runner) simulate(slot rundir.Slot, t *trial) (err error) {
	defer recovered(&err)
	v, _ := r.variant(slot.Variant)
	t.Simulated, t.Inside, t.Cores, t.Empty = true, true, r.Simulate.Machine.Cores, judge.NotAsked
	s := sim.New(r.Seed + repeatSeed*uint64(slot.Repeat))
	defer s.Close()
	c, inst, err := v.Simulated(s, r.Simulate.Machine, r.Simulate.Costs[v.Name], sut.Config{
		Params: r.Params, MaxConns: r.Scenario.Stores.MaxConns,
		Timeout: r.Scenario.Load.Timeout.D(), Kafka: r.Scenario.Stores.Kafka,
		Replicas: r.Scenario.Replicas})
	if err != nil {
		return err
	}
	if err := r.recordSimulated(slot, t, c, inst); err != nil {
		return err
	}
	if err := r.settleSimulated(t, s, inst); err != nil {
		return err
	}
	t.teller.phase(events.Audit)
	return r.audit(slot, inst)
}

// recordSimulated sends the load and keeps the history. The run's clock is the simulation's, and
// its zero is that of Unix time, so that the same seed gives the same history.
func (r *runner) recordSimulated(
	slot rundir.Slot, t *trial, c *sim.Cluster, inst sut.Instance,
) (err error) {
	workload, err := r.System.Workload(r.plan.WorkloadSeed, r.Params)
	if err != nil {
		return fmt.Errorf("making the workload: %w", err)
	}
	base := time.Unix(0, 0)
	h, err := r.createHistory(slot, base)
	if err != nil {
		return err
	}
	h.WaitForDisk()
	defer func() {
		err = errors.Join(err, h.Close())
		t.Lost = h.Lost()
	}()
	live := &load.Live{}
	stop := t.teller.follow(live.Snapshot)
	defer stop()
	ctx, cancel := untilFailed(r.soft, h)
	defer cancel()
	if t.faults, err = r.breakSimulated(c, slot.Variant); err != nil {
		return err
	}
	if gauge, is := inst.(sut.Gauge); is {
		defer sut.WatchSimulated(ctx, c.Sim, gauge, samplePeriod, h.Sample)()
	}
	plan := loadPlan(r.Scenario, r.plan, base, workload, r.inside())
	result, err := load.Simulate(ctx, plan, c.Sim, inst.Do, h.Shard(), live)
	t.fill(result)
	t.Bottleneck, t.Processor = c.Sim.Bottleneck(), r.Simulate.processor(c, slot.Variant, result)
	for _, w := range t.faults { // what outlasts the load is healed too
		if err == nil && w.Over() > c.Sim.Now() {
			err = c.Sim.Run(ctx, w.Over())
		}
	}
	return errors.Join(err, keepWindows(h, slices.Concat(t.faults, r.phases(result))))
}

// settleSimulated lets the simulation go on until nothing is pending.
func (r *runner) settleSimulated(t *trial, s *sim.Sim, inst sut.Instance) error {
	own, ok := inst.(sut.Quiescer)
	if !ok {
		return nil
	}
	t.teller.phase(events.Settle)
	began := s.Now()
	for limit := began + r.Scenario.Load.Drain.D(); ; {
		pending, err := own.Quiesced(r.hard)
		if err != nil {
			return err
		}
		if t.Pending = pending; pending == "" || s.Now() >= limit {
			break
		}
		if err := s.Run(r.hard, min(limit, s.Now()+quiescePoll)); err != nil {
			return fmt.Errorf("draining %s: %w", t.Variant, err)
		}
	}
	t.DrainNS = int64(s.Now() - began)
	return nil
}
