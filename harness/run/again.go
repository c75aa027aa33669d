package run

import (
	"fmt"
	"time"

	"stampede/harness/rundir"
	"stampede/harness/sut"
	"stampede/harness/telemetry"
)

const (
	// againShare bounds the time for running repeats again, as a share of what the run has
	// taken so far.
	againShare = 0.25
	// keptTime is the limit for runs that are planned within it. closingTime of it is for what
	// comes after the last repeat: the verdicts, the page and the end of the stores.
	keptTime    = 4 * time.Minute
	closingTime = 10 * time.Second
	// missedTries is how often a repeat runs again that did not catch a known-wrong design.
	missedTries = 2
	// quietWait is how long a quiet machine is waited for, quietFor how long it must be
	// quiet, in steps of quietStep.
	quietWait = 30 * time.Second
	quietFor  = 2
	quietStep = time.Second
	// quietSteal and quietBusy are the shares of the CPU that a quiet machine may lose to
	// the hypervisor and use, with the stores idle.
	quietSteal = 0.02
	quietBusy  = 0.25
)

// retries is what decides which repeats run again.
type retries struct {
	// most is how often one does, took how long the run has taken so far, left for how
	// long repeats may run again, and bound names the time that left is a part of.
	most       int
	took, left time.Duration
	bound      string
	// timing is the state of a repeat's times, quiet waits for a quiet machine for a time at
	// most, and once runs a repeat again and returns the state of its times.
	timing func(rundir.Slot) string
	quiet  func(most time.Duration) (waited time.Duration, quiet bool)
	once   func(rundir.Slot) (timing string, err error)
}

// run runs the repeats again whose times the machine interfered with, in their order. Only
// what is known of the machine decides, never a result. It ends when the machine does not
// become quiet or its time is used up, and then returns which repeats it leaves and why. A
// variant of which a repeat came out no better may disturb its times itself, and does not
// run again.
func (r retries) run(slots []rundir.Slot) (gaveUp string, err error) {
	if r.most < 1 || len(slots) == 0 {
		return "", nil
	}
	each := r.took / time.Duration(len(slots))
	left := r.left
	hopeless := map[string]bool{}
	for i, slot := range slots {
		if hopeless[slot.Variant] {
			continue
		}
		timing := r.timing(slot)
		for try := 0; try < r.most && timing != rundir.Clean; try++ {
			rest := slots[i+min(try, 1):]
			noTime := "no time left within " + r.bound
			if left < each {
				return r.leave(rest, hopeless, noTime), nil
			}
			most := min(quietWait, left-each)
			waited, quiet := r.quiet(most)
			left -= waited + each
			if !quiet && most > quietFor*quietStep {
				return r.leave(rest, hopeless, fmt.Sprintf("no quiet machine within %.0f s",
					most.Seconds())), nil
			}
			if !quiet || left < 0 {
				return r.leave(rest, hopeless, noTime), nil
			}
			if timing, err = r.once(slot); err != nil {
				return "", err
			}
		}
		hopeless[slot.Variant] = hopeless[slot.Variant] || timing != rundir.Clean
	}
	return "", nil
}

// leave says how many of the rest would have run again and why they do not; "" if none would.
func (r retries) leave(rest []rundir.Slot, hopeless map[string]bool, why string) string {
	n := 0
	for _, slot := range rest {
		if !hopeless[slot.Variant] && r.timing(slot) != rundir.Clean {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 repeat without clean times was not run again: " + why
	}
	return fmt.Sprintf("%d repeats without clean times were not run again: %s", n, why)
}

// againFor is for how long repeats may run again where all of them took a time, and the
// time that it is a part of. The run was planned for a time and began some time ago, with
// the start of its stores.
func againFor(took, planned, ago time.Duration) (left time.Duration, bound string) {
	left, bound = time.Duration(againShare*float64(took)), "a quarter of the run's time"
	if kept := keptTime - closingTime - ago; planned <= keptTime && kept < left {
		left, bound = kept, "four minutes"
	}
	return left, bound
}

// runMissed runs repeats again that did not catch a known-wrong design: a design with a race
// may be lucky, and one violation proves its error.
func (r *runner) runMissed(slots []rundir.Slot) error {
	if r.Again < 1 {
		return nil
	}
	for _, slot := range slots {
		why := slot.Variant + " is known to be wrong and was not caught: it runs again"
		for try := 0; try < missedTries && r.soft.Err() == nil &&
			r.judge.SoFar(slot.Variant, slot.Repeat).Answer == rundir.NotCaught; try++ {
			if _, err := r.onceMore(slot, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// runAgain runs repeats again, and records and reports it if some should have and did not.
func (r *runner) runAgain(slots []rundir.Slot, began, loaded time.Time) error {
	if err := r.runMissed(slots); err != nil {
		return err
	}
	if r.Scenario.SideBySide {
		return nil // there are no times to disturb
	}
	took := time.Since(loaded)
	again := retries{most: r.Again, took: took, timing: r.timing, quiet: r.quiet,
		once: func(slot rundir.Slot) (string, error) {
			next, err := r.onceMore(slot, fmt.Sprintf("the machine interfered with repeat %d of %s: "+
				"it runs again", slot.Repeat+1, slot.Variant))
			return r.timing(next), err
		}}
	again.left, again.bound = againFor(took, r.planned(len(slots)), time.Since(began))
	gaveUp, err := again.run(slots)
	if err != nil || gaveUp == "" || r.soft.Err() != nil {
		return err
	}
	r.Observer.Logf("%s", gaveUp)
	manifest := r.judge.Manifest()
	manifest.Warnings = append(manifest.Warnings, gaveUp)
	return r.dir.WriteManifest(*manifest)
}

// planned is about how long a run of so many repeats takes, without those that run again.
func (r *runner) planned(repeats int) time.Duration {
	least, _, err := Estimate(r.Scenario, r.System, r.Params, repeats)
	if err != nil {
		return 0 // the run itself would have failed
	}
	return least
}

// timing is the state of a repeat's times; clean if running it again would not help,
// because it did not come to its end.
func (r *runner) timing(slot rundir.Slot) string {
	repeat, ok := r.judge.Judged(slot.Order)
	if !ok || repeat.Error != "" {
		return rundir.Clean
	}
	return repeat.Timing
}

// onceMore says why a repeat runs again, runs it, and returns its new slot.
func (r *runner) onceMore(slot rundir.Slot, why string) (next rundir.Slot, err error) {
	manifest := r.judge.Manifest()
	manifest.Slots = rundir.WithAgain(manifest.Slots, slot)
	if err := r.dir.WriteManifest(*manifest); err != nil {
		return next, err
	}
	r.Observer.Logf("%s", why)
	next = manifest.Slots[len(manifest.Slots)-1]
	if err := r.trial(next, alone()); err != nil {
		return next, fmt.Errorf("running %s again: %w", slot.Variant, err)
	}
	return next, nil
}

// quiet waits until the machine is quiet, at most for a time. One that does not say is.
func (r *runner) quiet(most time.Duration) (waited time.Duration, quiet bool) {
	began := time.Now()
	before, err := telemetry.ReadMachine()
	if err != nil {
		return 0, most > 0 && !r.stopped()
	}
	for calm := 0; calm < quietFor; {
		if time.Since(began) > most || !sut.Pause(r.soft, quietStep) {
			return time.Since(began), false
		}
		now, err := telemetry.ReadMachine()
		if err != nil {
			return time.Since(began), true
		}
		span := float64(quietStep) * float64(max(1, now.Cores))
		calm++
		if float64(now.Stolen-before.Stolen) > quietSteal*span ||
			float64(now.Busy-before.Busy) > quietBusy*span {
			calm = 0
		}
		before = now
	}
	return time.Since(began), true
}
