package run

import "time"

// Event is a report on the progress of a run.
type Event struct {
	// Variant and Repeat (from 0) name the trial; Order is its place among
	// Total trials, from 0.
	Variant              string
	Repeat, Order, Total int
	// Phase is prepare, load, drain, audit, judge or done.
	Phase string
	// Elapsed is the time since the first due operation, Length how long the
	// load will last; both zero outside the load.
	Elapsed, Length time.Duration
	// The counts so far.
	Scheduled, Started, Dropped, OK, Refused, Unknown, InFlight int64
	// P99 is the response time's 99th percentile of late.
	P99 time.Duration
	// Faults names the faults in force.
	Faults []string
	// Verdict and Reasons belong to phase done.
	Verdict string
	Reasons []string
}

// Observer is told of a run's progress. Observe is called at every change of
// phase and about ten times a second during the load; Logf adds a line.
type Observer interface {
	Observe(Event)
	Logf(format string, args ...any)
}
