package run

import (
	"errors"
	"sync"
	"time"

	"stampede/harness/fault"
	"stampede/harness/rundir"
)

// together are trials that run at the same time: they begin their loads at once and meet
// the same faults of the stores; see
// docs/decisions/2026-11-26-designs-side-by-side.md.
type together struct {
	// base is where the run's clock of all of them begins. It waits until each of them is
	// ready for its load or has failed; leave says that one is past it, whatever came of it.
	base  func() time.Time
	leave func()
	// joint breaks the stores once for all of them; nil for one that runs alone.
	joint *fault.Joint
}

// alone is a trial that runs by itself.
func alone() *together { return &together{base: time.Now, leave: func() {}} }

// groups are the slots that run at the same time, one group after the other: the designs
// of a repeat where the scenario lets them run side by side, else each slot by itself.
func (r *runner) groups(slots []rundir.Slot) (groups [][]rundir.Slot) {
	for i, slot := range slots {
		if i == 0 || !r.Scenario.SideBySide || slot.Repeat != slots[i-1].Repeat {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], slot)
	}
	return groups
}

// trials runs the slots of a group at the same time.
func (r *runner) trials(group []rundir.Slot) error {
	if len(group) == 1 {
		return r.trial(group[0], alone())
	}
	var ready, ended sync.WaitGroup
	ready.Add(len(group))
	joint, begun := &fault.Joint{}, sync.OnceValue(time.Now)
	errs := make([]error, len(group))
	for i, slot := range group {
		leave := sync.OnceFunc(ready.Done)
		beside := &together{leave: leave, joint: joint, base: func() time.Time {
			leave()
			ready.Wait()
			return begun()
		}}
		ended.Go(func() { errs[i] = r.trial(slot, beside) })
	}
	ended.Wait()
	return errors.Join(errs...)
}
