package views

import (
	"errors"
	"fmt"
	"math"
	"time"

	"stampede/harness/sut"
)

// The values of Params.VideoSkew.
const (
	SkewUniform = "uniform" // every video is watched as much
	SkewZipf    = "zipf"    // video k is watched in proportion to 1/k
	SkewHot     = "hot"     // HotShare of the sessions watch the first video
)

// The values of Params.Balancing.
const (
	// Cooperative: a rebalance takes only the partitions that move.
	Cooperative = "cooperative"
	// Eager: a rebalance takes all partitions from everyone first.
	Eager = "eager"
)

// The bounds of Params.
const (
	maxVideos     = 100_000
	maxUsers      = 100_000_000
	maxHeartbeats = 16
	maxRetries    = 15
	maxReads      = 8
	maxDuration   = 24 * time.Hour
)

// DefaultParams is a pipeline in which event time runs 50 times as fast as the
// clock: a window of 10 s is over in 200 ms.
func DefaultParams() Params {
	return Params{
		Videos: 200, Users: 200_000, VideoSkew: SkewZipf, HotShare: 0.5,
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
	v := &validation{}
	v.count("videos", p.Videos, 1, maxVideos)
	v.count("users", p.Users, 1, maxUsers)
	switch p.VideoSkew {
	case SkewUniform, SkewZipf:
	case SkewHot:
		if p.Videos < 2 {
			v.add("videos", "expected 2 or more where video_skew is hot, got %d", p.Videos)
		}
	default:
		v.add("video_skew", "expected uniform, zipf or hot, got %q", p.VideoSkew)
	}
	v.number("hot_share", p.HotShare, 0, 1)
	v.number("event_rate", p.EventRate, 1e-3, 1e6)
	v.number("time_scale", p.TimeScale, 1, 1e5)
	p.validateSessions(v)
	p.validatePipeline(v)
	return errors.Join(v.errs...)
}

func (p Params) validateSessions(v *validation) {
	v.count("heartbeats", p.Heartbeats, 1, maxHeartbeats)
	v.duration("heartbeat_every", p.HeartbeatEvery, time.Millisecond)
	for _, share := range []struct {
		field string
		got   float64
	}{
		{"brief", p.Brief}, {"return", p.Return}, {"creators", p.Creators}, {"bots", p.Bots},
		{"farm", p.Farm},
	} {
		v.number(share.field, share.got, 0, 1)
	}
	if p.Creators+p.Bots+p.Farm > 1 {
		v.add("farm", "creators, bots and farm add up to %g, more than 1",
			p.Creators+p.Bots+p.Farm)
	}
	v.count("farm_addresses", p.FarmAddresses, 1, 1000)
	v.number("view_reads", p.ViewReads, 0, maxReads)
	v.number("resend", p.Resend, 0, 1)
	v.count("retry_on_lost", p.RetryOnLost, 0, maxRetries)
	v.count("rules_after", p.RulesAfter, 0, math.MaxInt)
	v.count("reprocess_after", p.ReprocessAfter, 0, math.MaxInt)
	if p.RulesAfter > 0 && p.RulesAfter == p.ReprocessAfter {
		v.add("reprocess_after", "expected another number than rules_after, got %d for both",
			p.RulesAfter)
	}
}

func (p Params) validatePipeline(v *validation) {
	v.duration("min_watch", p.MinWatch, 0)
	v.duration("repeat_window", p.RepeatWindow, time.Second)
	v.count("ip_views", p.IPViews, 1, 1_000_000)
	v.duration("ip_window", p.IPWindow, time.Second)
	v.duration("rules_reload", p.RulesReload, time.Millisecond)
	v.duration("count_window", p.CountWindow, time.Second)
	v.count("flush_at", p.FlushAt, 1, 10_000_000)
	v.duration("session_timeout", p.SessionTimeout, time.Second)
	if p.Balancing != Cooperative && p.Balancing != Eager {
		v.add("balancing", "expected cooperative or eager, got %q", p.Balancing)
	}
	v.duration("visible_within", p.VisibleWithin, time.Millisecond)
	v.duration("retention", p.Retention, time.Minute)
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
