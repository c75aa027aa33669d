package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/history"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// Bounds of bringing a target back. They hold also when the run is being
// stopped: nothing stays broken.
const (
	injectBound  = 3 * time.Minute // an orderly restart may write a checkpoint
	healBound    = 150 * time.Second
	recoverBound = time.Minute
	recoverEvery = 5 * time.Millisecond
)

// Schedule is the faults of one run.
type Schedule struct {
	Faults  []scenario.Fault
	Targets map[sut.Service]Target
	// Absent are the names of faults that aim at what the variant does not have, a
	// role or a place that it passes: their windows pass without them.
	Absent map[string]bool
	// Base is the run's base: windows are offsets from it on its monotonic
	// clock. Start is the offset of the first due time, from which the
	// scenario counts.
	Base  time.Time
	Start time.Duration
	// Seed decides the jitter of latency.
	Seed uint64
	// OnChange, if set, is told the names of the faults in force whenever
	// they change. It is called from one goroutine at a time.
	OnChange func(inForce []string)
	// Joint, if set, is that of other schedules with the same faults, stores and base which
	// run at the same time.
	Joint *Joint
}

// Check says why the schedule cannot be run: a fault that makes no sense, is
// not available on its target, or overlaps with another on the same target,
// where neither would know what it had done.
func (s Schedule) Check() error {
	var errs []error
	for _, f := range s.Faults {
		made, err := Of(f)
		if err == nil && !s.Absent[f.Name] {
			err = made.Available(s.Targets[made.spot()])
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, Overlaps(s.Faults))...)
}

// Overlaps says which faults are in force on one target at the same time.
func Overlaps(faults []scenario.Fault) error {
	var errs []error
	sorted := slices.SortedStableFunc(slices.Values(faults), func(a, b scenario.Fault) int {
		return cmp.Compare(a.At, b.At)
	})
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if b.At < a.At+a.For && a.From == b.From &&
				sut.Service(a.Target).Shares(sut.Service(b.Target)) {
				errs = append(errs, fmt.Errorf("faults %q and %q overlap on %s", a.Name, b.Name, b.Target))
			}
		}
	}
	return errors.Join(errs...)
}

// Run injects each fault at its time, heals it after its own, and returns
// their windows in the scenario's order. When it returns, everything is
// healed and every store answers, also when ctx was cancelled meanwhile;
// what could not be brought back is an error. A fault whose time never came,
// or that did not fire, has a window without evidence.
func (s Schedule) Run(ctx context.Context) ([]history.Window, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	windows, errs := make([]history.Window, len(s.Faults)), make([]error, len(s.Faults))
	force := &inForce{tell: s.OnChange}
	var group sync.WaitGroup
	for _, target := range s.byTarget() {
		group.Go(func() {
			for _, i := range target {
				windows[i], errs[i] = s.run(ctx, i, force)
			}
		})
	}
	group.Wait()
	return windows, errors.Join(errs...)
}

// byTarget returns the indices of each target's faults in order of time. They
// run one after the other: a slow recovery delays the next fault rather than
// being cut short by it. Brokers are targets of their own unless something
// happens to all of them.
func (s Schedule) byTarget() [][]int {
	targets := map[sut.Service][]int{}
	for i, f := range s.Faults {
		target := sut.Service(f.Target)
		if s.aimsAt(target.Whole(), f.From) {
			target = target.Whole()
		}
		spot := Spot(target, sut.Service(f.From))
		targets[spot] = append(targets[spot], i)
	}
	lists := slices.Collect(maps.Values(targets))
	for _, list := range lists {
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Compare(s.Faults[a].At, s.Faults[b].At)
		})
	}
	return lists
}

// aimsAt says whether a fault has this very target, and store if it is from one.
func (s Schedule) aimsAt(target sut.Service, from string) bool {
	return slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool {
		return f.Target == string(target) && f.From == from
	})
}

// now is the offset from the base.
func (s Schedule) now() time.Duration { return time.Since(s.Base) }

// until waits for an offset from the base; false if ctx was over first.
func (s Schedule) until(ctx context.Context, offset time.Duration) bool {
	return sut.Pause(ctx, offset-s.now())
}

// NoEffects are the effects of a fault that did not happen. check.Deaths counts a fault without
// effects as one death.
func NoEffects() json.RawMessage { return json.RawMessage("{}") }

// run runs one fault.
func (s Schedule) run(ctx context.Context, i int, force *inForce) (history.Window, error) {
	f := s.Faults[i]
	made, err := Of(f)
	if err != nil {
		return history.Window{}, err
	}
	at := s.Start + f.At.D()
	w := history.Window{Kind: history.FaultWindow, Name: f.Name, Fault: made.String(),
		Start: at, End: at, Effects: NoEffects()}
	if s.Absent[f.Name] {
		s.until(ctx, at+f.For.D())
		w.End = max(at, s.now())
		return w, nil
	}
	if !s.until(ctx, at-made.lead()) {
		return w, nil
	}
	target, stop, err := made.watch(ctx, s.Targets[made.spot()])
	if err != nil {
		return w, fmt.Errorf("fault %q: %w", f.Name, err)
	}
	defer stop()
	if !s.until(ctx, max(at, s.now()+made.lead())) || !target.await(ctx, made) {
		return w, nil
	}
	force.add(f.Name)
	defer force.remove(f.Name)
	injection, start, err := s.Joint.inject(i, made, func() (*Injection, time.Duration, error) {
		start := s.now()
		injection, err := s.inject(ctx, made, target, uint64(i))
		return injection, start, err
	})
	w.Start, w.Effects = start, nil
	if err != nil {
		w.End = s.now()
		return w, fmt.Errorf("fault %q: %w", f.Name, err)
	}
	s.until(ctx, w.Start+f.For.D()) // when ctx is over it heals at once
	return s.heal(ctx, w, injection, target)
}

// inject finishes what it began also when ctx is cancelled meanwhile: half a
// fault is harder to heal than a whole one.
func (s Schedule) inject(
	ctx context.Context, f Fault, t Target, number uint64,
) (*Injection, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), injectBound)
	defer cancel()
	return f.Inject(ctx, t, s.Seed+number)
}

// heal undoes an injection and completes its window.
func (s Schedule) heal(
	ctx context.Context, w history.Window, in *Injection, target Target,
) (history.Window, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healBound)
	defer cancel()
	w.End = s.now()
	err := in.Heal(ctx)
	if err == nil && in.fault.Kind != Latency { // which never stopped the store
		var recovered bool
		if recovered, err = awaitReady(ctx, target); recovered {
			w.Recovered = s.now()
		}
	}
	w.Evidence, w.Effects = in.Evidence(), in.Effects()
	if err != nil {
		return w, fmt.Errorf("fault %q: %w", w.Name, err)
	}
	return w, nil
}

// atWork asks the target as clients see it: a store for an answer, a role for a
// step of its work.
func atWork(ctx context.Context, t Target) error {
	if role, ok := t.Component.(env.Laborer); ok {
		return role.AtWork(ctx)
	}
	return readyThrough(ctx, t)
}

// awaitReady polls until the target is at work. A store that does not answer is an
// error. A role that answers and does not work is not: another fault may keep it
// from its work, or its design, which is for the drain to show.
func awaitReady(ctx context.Context, t Target) (recovered bool, err error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, recoverBound)
	defer cancel()
	for {
		err := atWork(ctx, t)
		if err == nil {
			return true, nil
		}
		if sut.Pause(ctx, recoverEvery) {
			continue
		}
		if _, role := t.Component.(env.Laborer); role && t.Component.Ready(outer) == nil {
			return false, nil
		}
		return false, fmt.Errorf("it did not answer within %v of being healed: %w", recoverBound, err)
	}
}

// inForce keeps the names of the faults in force.
type inForce struct {
	mu    sync.Mutex
	names []string
	tell  func([]string)
}

func (f *inForce) add(name string) {
	f.change(func() { f.names = append(f.names, name) })
}

func (f *inForce) remove(name string) {
	f.change(func() {
		f.names = slices.DeleteFunc(f.names, func(n string) bool { return n == name })
	})
}

func (f *inForce) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	if f.tell != nil {
		f.tell(slices.Clone(f.names))
	}
}
