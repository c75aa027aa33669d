package scheduler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"stampede/harness/sut"
)

// The values of Params.Recurrence.
const (
	// Reset: the end of an occurrence turns its row into the next one.
	Reset = "reset"
	// Insert: whoever picks an occurrence inserts the next one.
	Insert = "insert"
)

// The bounds of Params.
const (
	maxQueues    = 1000
	maxRetries   = 15
	maxTimes     = 1_000_000
	maxExecutors = 1000
	maxBatch     = 10_000
	maxDuration  = 14 * 24 * time.Hour
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
	v := &validation{}
	if _, err := time.Parse(time.RFC3339, p.Day); err != nil {
		v.add("day", "expected a time such as 2026-01-05T08:55:00Z, got %q", p.Day)
	}
	v.number("time_scale", p.TimeScale, 1, 1e5)
	v.number("rate", p.Rate, 1e-3, 1e6)
	p.validateTasks(v)
	p.validateMachinery(v)
	return errors.Join(v.errs...)
}

func (p Params) validateTasks(v *validation) {
	v.count("queues", p.Queues, 1, maxQueues)
	v.duration("nine_after", p.NineAfter, 0)
	v.duration("ahead", p.Ahead, 0)
	for _, share := range []struct {
		field string
		got   float64
	}{
		{"aligned", p.Aligned}, {"recurring", p.Recurring}, {"long", p.Long}, {"awaits", p.Awaits},
		{"reads", p.Reads}, {"cancel", p.Cancel}, {"pause", p.Pause}, {"poison", p.Poison},
		{"resend", p.Resend},
	} {
		v.number(share.field, share.got, 0, 1)
	}
	if sum := p.Cancel + p.Pause + p.Poison; sum > 1 {
		v.add("poison", "cancel, pause and poison add up to %g, more than 1", sum)
	}
	if p.Recurring > 0 && (len(p.Crons) == 0 || len(p.Zones) == 0) {
		v.add("crons", "expected expressions and zones where tasks recur")
	}
	for _, expression := range p.Crons {
		for _, zone := range p.Zones {
			if _, err := parseCron(expression, zone); err != nil {
				v.add("crons", "%v", err)
			}
		}
	}
	v.count("times", p.Times, 1, maxTimes)
	v.duration("work", p.Work, 0)
	v.duration("long_work", p.LongWork, 0)
	v.duration("await_for", p.AwaitFor, time.Millisecond)
	v.count("retry_on_lost", p.RetryOnLost, 0, maxRetries)
	v.duration("granularity", p.Granularity, time.Second)
}

func (p Params) validateMachinery(v *validation) {
	v.duration("sla", p.SLA, time.Millisecond)
	v.duration("late_allowed", p.LateAllowed, 0)
	v.duration("look_ahead", p.LookAhead, 0)
	if p.Recurrence != Reset && p.Recurrence != Insert {
		v.add("recurrence", "expected reset or insert, got %q", p.Recurrence)
	}
	v.duration("poll_every", p.PollEvery, time.Millisecond)
	v.count("pick_batch", p.PickBatch, 1, maxBatch)
	v.count("executors", p.Executors, 1, maxExecutors)
	v.duration("hand_again", p.HandAgain, 10*time.Millisecond)
	v.duration("lease", p.Lease, 10*time.Millisecond)
	v.duration("rescue_every", p.RescueEvery, time.Millisecond)
	v.duration("rescue_within", p.RescueWithin, p.RescueEvery.D())
	v.count("max_attempts", p.MaxAttempts, 1, math.MaxInt32)
	v.duration("starve_within", p.StarveWithin, time.Millisecond)
	v.duration("clock_skew", p.ClockSkew, 0)
	v.duration("retention", p.Retention, time.Second)
	v.duration("predict", p.Predict, time.Second)
	v.duration("provision", p.Provision, 0)
	v.count("fleet_step", p.FleetStep, 1, maxExecutors)
	v.count("max_fleet", p.MaxFleet, p.Executors, maxExecutors)
}

// validation gathers errors that name their field.
type validation struct{ errs []error }

func (v *validation) add(field, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

func (v *validation) count(field string, got, low, high int) {
	if got < low || got > high {
		v.add(field, "expected %d to %d, got %d", low, high, got)
	}
}

// number also refuses NaN, which compares false with everything.
func (v *validation) number(field string, got, low, high float64) {
	if !(got >= low && got <= high) {
		v.add(field, "expected a number from %g to %g, got %g", low, high, got)
	}
}

func (v *validation) duration(field string, got sut.Duration, low time.Duration) {
	if got.D() < low || got.D() > maxDuration {
		v.add(field, "expected a duration from %s to %s, got %s", low, maxDuration, got)
	}
}
