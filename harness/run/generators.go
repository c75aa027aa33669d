package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/env"
	"stampede/harness/generators"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/load"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

const (
	// beginBound is how long generators may take from being placed to being ready.
	beginBound = 90 * time.Second
	// collectBound is how long they may take at most to hand over what they recorded; only an engine
	// that can end them holds them to it (env.Batch.Within).
	collectBound = 15 * time.Minute
)

// Within is how long generators take at most, from being placed to having handed over what they
// recorded, whose operations are scheduled over so long.
func Within(over time.Duration, l scenario.Load) time.Duration {
	return beginBound + over + l.Timeout.D() + l.Drain.D() + collectBound
}

// Generators says that processes of their own offer the load, in place of this one.
type Generators struct {
	Count  int
	Engine env.Engine
	// Host is the address of this machine at which they reach the coordinator and the API's
	// servers; "" is loopback.
	Host string
	// TargetCA are the authorities of a target in PEM, "" for the system's.
	TargetCA string
}

// fleet are the generators of one trial.
type fleet struct {
	*generators.Coordinator
	placed   env.Placed
	count    int
	folder   string
	recorded []*generators.Recorded
}

// assemble places the generators of a trial and waits until all are ready. What goes wrong before
// the first load of a run is its environment's.
func (r *runner) assemble(slot rundir.Slot, workload sut.Workload, urls []string) (
	_ *fleet, err error,
) {
	defer func() {
		if err != nil && slot.Order == 0 && r.soft.Err() == nil {
			err = &EnvironmentError{err}
		}
	}()
	name := strings.TrimSuffix(filepath.Base(rundir.AuditName(slot.Variant, slot.Repeat)), ".json")
	f := &fleet{count: r.Generators.Count, folder: r.dir.File("generators/" + name)}
	operations := operationsOf(r.plan, workload)
	f.Coordinator, err = generators.Coordinate(generators.Settings{Count: r.Generators.Count,
		Operations: operations, Host: r.Generators.Host, Folder: f.folder, Targets: urls,
		Logf: r.progress.Logf})
	if err != nil {
		return nil, err
	}
	text, err := r.Scenario.YAML()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing the scenario: %w", err), f.Close())
	}
	plan := generators.Plan{Run: r.dir.ID(), Generators: r.Generators.Count, Seed: r.Seed,
		Operations: operations, Coordinator: f.URL(), Token: f.Token(),
		TargetCA: r.Generators.TargetCA, Scenario: string(text)}
	f.placed, err = r.Generators.Engine.Start(r.soft, env.Batch{RunID: r.dir.ID(), Name: name,
		Count: r.Generators.Count, Plan: plan.File(), Folder: f.folder, Ended: f.Lose,
		Within: Within(r.plan.Over, r.Scenario.Load)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting generators: %w", err), f.Close())
	}
	ctx, cancel := context.WithTimeout(r.soft, beginBound)
	defer cancel()
	if err := f.Ready(ctx); err != nil {
		return nil, errors.Join(f.explained(err), f.close(r.hard))
	}
	return f, nil
}

// explained adds what the engine knows of those that did not become ready.
func (f *fleet) explained(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, i := range f.Missing() {
		err = fmt.Errorf("%w; %d: %s", err, i+1, f.placed.State(ctx, i))
	}
	return err
}

// metered are the generators of this machine; none where there is no fleet.
func (f *fleet) metered() []env.Metered {
	if f == nil {
		return nil
	}
	return f.placed.Metered()
}

// collect waits for what all generators have recorded, and adds it up.
func (f *fleet) collect(soft, hard context.Context, t *trial) (sum load.Result, err error) {
	if f.recorded, err = f.Collect(soft, hard); err != nil {
		return sum, err
	}
	for _, one := range f.recorded {
		if one.Result.PacerLag, err = hdrhistogram.Decode(one.Lag); err != nil {
			return sum, fmt.Errorf("decoding the pacer's lag of generator %d: %w", one.Index+1, err)
		}
		t.Lost += one.Lost
		t.Generators = append(t.Generators, judge.Part{Host: one.Host, Cores: one.Cores,
			ClockErrorNS: one.ClockError.Nanoseconds(), Generator: one.Result.Generator})
		add(&sum, one.Result)
	}
	g := &sum.Generator
	g.LagP50NS, g.LagP90NS = sum.PacerLag.ValueAtPercentile(50), sum.PacerLag.ValueAtPercentile(90)
	g.LagP99NS = sum.PacerLag.ValueAtPercentile(99)
	return sum, nil
}

// add adds what one generator did to what others did. The lag's percentiles are those of the
// histogram of all, of which it takes over the first one.
func add(sum *load.Result, one load.Result) {
	if sum.PacerLag == nil {
		*sum = one
		return
	}
	sum.PacerLag.Merge(one.PacerLag)
	sum.Load.Add(one.Load)
	sum.FollowUps, sum.Cut = sum.FollowUps+one.FollowUps, sum.Cut+one.Cut
	sum.CutFollowUps, sum.Abandoned = sum.CutFollowUps+one.CutFollowUps, sum.Abandoned+one.Abandoned
	sum.LastDue, sum.End = max(sum.LastDue, one.LastDue), max(sum.End, one.End)
	sum.Stopped = sum.Stopped || one.Stopped
	if sum.FirstPanic == "" {
		sum.FirstPanic = one.FirstPanic
	}
	g, o := &sum.Generator, one.Generator
	g.CPUCores, g.OpenFiles = g.CPUCores+o.CPUCores, g.OpenFiles+o.OpenFiles
	g.GCPauseP99NS = max(g.GCPauseP99NS, o.GCPauseP99NS)
	g.SchedP99NS, g.StealShare = max(g.SchedP99NS, o.SchedP99NS), max(g.StealShare, o.StealShare)
}

// merge writes the histories of all generators into that of the repeat.
func (f *fleet) merge(w *history.Writer) (err error) {
	var parts []*history.File
	defer func() {
		for _, part := range parts {
			err = errors.Join(err, part.Close())
		}
	}()
	for i := range f.recorded {
		part, err := history.Open(f.HistoryFile(i))
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	if err := history.Merge(w, parts); err != nil {
		return fmt.Errorf("merging what the generators recorded: %w", err)
	}
	return nil
}

// close ends the generators and removes what they recorded, which is merged by now or of no use.
func (f *fleet) close(ctx context.Context) error {
	if f == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := errors.Join(f.placed.Stop(ctx), f.Close())
	for i := range f.count {
		err = errors.Join(err, os.RemoveAll(f.HistoryFile(i)))
	}
	if err != nil {
		return fmt.Errorf("ending the generators: %w", err)
	}
	return nil
}
