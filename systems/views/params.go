package views

import (
	"errors"
	"fmt"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// The values of Params.Balancing.
const (
	// Cooperative: a rebalance takes only the partitions that move.
	Cooperative = "cooperative"
	// Eager: a rebalance takes all partitions from everyone first.
	Eager = "eager"
)

// DefaultParams is a pipeline in which event time runs 50 times as fast as the
// clock: a window of 10 s is over in 200 ms.
func DefaultParams() Params {
	return Params{
		Videos: 200, Users: 200_000, VideoSkew: keys.SkewZipf, HotShare: 0.5,
		EventRate: 30, TimeScale: 50,
		Heartbeats: 5, HeartbeatEvery: sut.Duration(10 * time.Second),
		Brief: 0.15, Return: 0.1, Creators: 0.02, Bots: 0.05, Farm: 0.05, FarmAddresses: 4,
		ViewReads: 0.1, Resend: 0.02, RetryOnLost: 3,
		MinWatch:     sut.Duration(10 * time.Second),
		RepeatWindow: sut.Duration(5 * time.Minute),
		IPViews:      10, IPWindow: sut.Duration(time.Minute),
		RulesReload:    sut.Duration(time.Minute),
		CountWindow:    sut.Duration(10 * time.Second),
		FlushAt:        10_000,
		SessionTimeout: sut.Duration(6 * time.Second), Balancing: Cooperative,
		VisibleWithin: sut.Duration(5 * time.Second),
		Retention:     sut.Duration(24 * time.Hour),
	}
}

// clock turns a duration of events into one of the clock, at least a
// millisecond.
func (p Params) clock(d sut.Duration) time.Duration {
	return max(time.Millisecond, time.Duration(float64(d)/p.TimeScale))
}

// Validate returns every bad field at once, each named as in a scenario, or
// nil.
func (p Params) Validate() error {
	errs := []error{bounds.Check(p)}
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(p.VideoSkew == keys.SkewHot && p.Videos < 2,
		"videos: expected 2 or more where video_skew is hot, got %d", p.Videos)
	sum := p.Creators + p.Bots + p.Farm
	refuse(sum > 1, "farm: creators, bots and farm add up to %g, more than 1", sum)
	refuse(p.RulesAfter > 0 && p.RulesAfter == p.ReprocessAfter,
		"reprocess_after: expected another number than rules_after, got %d for both", p.RulesAfter)
	return errors.Join(errs...)
}

// rules are the rules that are in force from the beginning.
func (p Params) rules() Rules {
	return Rules{
		Version: 1, MinWatchMS: p.MinWatch.D().Milliseconds(),
		RepeatWindowMS: p.RepeatWindow.D().Milliseconds(),
		IPViews:        int64(p.IPViews), IPWindowMS: p.IPWindow.D().Milliseconds(),
		Blocked: botAddresses(), Creators: true,
	}
}
