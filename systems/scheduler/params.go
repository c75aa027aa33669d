package scheduler

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/sut"
)

// The values of Params.Recurrence.
const (
	// Reset: the end of an occurrence turns its row into the next one.
	Reset = "reset"
	// Insert: whoever picks an occurrence inserts the next one.
	Insert = "insert"
)

// DefaultParams is a morning that runs ten times as fast as the clock: 30 s are
// 3 s of it.
func DefaultParams() Params {
	return Params{
		Day: "2026-01-05T08:58:00Z", TimeScale: 10, Rate: 200,
		Queues: 3, NineAfter: sut.Duration(2 * time.Minute), Aligned: 0.3,
		Ahead: sut.Duration(time.Minute), Recurring: 0.02,
		Crons: []string{"* * * * *", "*/2 * * * *"}, Zones: []string{"UTC", "Europe/Berlin"}, Times: 2,
		Work: sut.Duration(2 * time.Millisecond), Long: 0.01,
		LongWork: sut.Duration(100 * time.Millisecond),
		Cancel:   0.05, Pause: 0.02, Poison: 0.02, Awaits: 0.05,
		AwaitFor: sut.Duration(30 * time.Second), Reads: 0.05, Resend: 0.02, RetryOnLost: 3,
		Granularity: sut.Duration(time.Minute), SLA: sut.Duration(30 * time.Second),
		LookAhead: sut.Duration(2 * time.Minute), Recurrence: Reset,
		PollEvery: sut.Duration(50 * time.Millisecond), PickBatch: 50, Executors: 20,
		HandAgain:   sut.Duration(2 * time.Second),
		Lease:       sut.Duration(2 * time.Second),
		RescueEvery: sut.Duration(200 * time.Millisecond), RescueWithin: sut.Duration(3 * time.Second),
		MaxAttempts: 10, StarveWithin: sut.Duration(20 * time.Second),
		Retention: sut.Duration(24 * time.Hour),
		Predict:   sut.Duration(10 * time.Minute), Provision: sut.Duration(75 * time.Second),
		FleetStep: 20, MaxFleet: 60,
	}
}

// clock turns a duration of business time into one of the clock.
func (p Params) clock(d sut.Duration) time.Duration {
	return time.Duration(float64(d) / p.TimeScale)
}

// day is the business time of the first request.
func (p Params) day() time.Time {
	at, err := time.Parse(time.RFC3339, p.Day)
	if err != nil {
		panic(err) // it was validated
	}
	return at.UTC()
}

// QueueKey names the n-th queue, from 1: "queue-1".
func QueueKey(n int) string { return "queue-" + strconv.Itoa(n) }

// Validate returns every bad field at once, each named as in a scenario, or
// nil.
func (p Params) Validate() error {
	errs := []error{bounds.Check(p)}
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := time.Parse(time.RFC3339, p.Day)
	refuse(err != nil, "day: expected a time such as 2026-01-05T08:55:00Z, got %q", p.Day)
	sum := p.Cancel + p.Pause + p.Poison
	refuse(sum > 1, "poison: cancel, pause and poison add up to %g, more than 1", sum)
	refuse(p.Recurring > 0 && (len(p.Crons) == 0 || len(p.Zones) == 0),
		"crons: expected expressions and zones where tasks recur")
	for _, expression := range p.Crons {
		for _, zone := range p.Zones {
			_, err := parseCron(expression, zone)
			refuse(err != nil, "crons: %v", err)
		}
	}
	refuse(p.RescueWithin < p.RescueEvery, "rescue_within: expected rescue_every (%s) or more, got %s",
		p.RescueEvery, p.RescueWithin)
	refuse(p.MaxFleet < p.Executors, "max_fleet: expected executors (%d) or more, got %d", p.Executors,
		p.MaxFleet)
	return errors.Join(errs...)
}
