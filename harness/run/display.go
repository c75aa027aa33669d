package run

import (
	"sync"
	"time"

	"stampede/harness/load"
	"stampede/harness/rundir"
)

// display tells an observer of one trial's progress.
type display struct {
	observer Observer
	mu       sync.Mutex
	event    Event
}

// phase tells of a change of phase.
func (d *display) phase(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event.Phase = name
	d.observer.Observe(d.event)
}

// follow tells of the load ten times a second until the returned function is
// called.
func (d *display) follow(live *load.Live) (stop func()) {
	d.phase("load")
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(time.Second / 10)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				d.snapshot(live.Snapshot())
			}
		}
	})
	return sync.OnceFunc(func() { close(done); ended.Wait() })
}

// faults tells of the faults in force.
func (d *display) faults(inForce []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event.Faults = inForce
}

func (d *display) snapshot(s load.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.event
	e.Elapsed, e.InFlight, e.P99 = max(0, s.Elapsed), s.InFlight, s.P99
	e.count(s.Load)
	d.observer.Observe(*e)
}

func (e *Event) count(l rundir.Load) {
	e.Scheduled, e.Started, e.Dropped = l.Scheduled, l.Started, l.Dropped
	e.OK, e.Refused, e.Unknown = l.OK, l.Refused, l.Unknown
}

// done tells of a trial's verdict.
func (d *display) done(repeat rundir.Repeat, verdict string, reasons []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event.Phase, d.event.Verdict, d.event.Reasons = "done", verdict, reasons
	d.event.count(repeat.Load)
	d.event.P99 = time.Duration(repeat.Latency.Response.P99)
	if repeat.Latency.Response.P99 == rundir.Infinite {
		d.event.P99 = 0
	}
	d.observer.Observe(d.event)
}
