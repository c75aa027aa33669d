package likes

import (
	"errors"
	"fmt"
	"math"
	"time"

	"stampede/harness/sut"
)

// The values of Params.VideoSkew.
const (
	SkewUniform = "uniform" // every video is equally liked
	SkewZipf    = "zipf"    // video k is liked in proportion to 1/k
	SkewHot     = "hot"     // four of five likes are for the first video
	SkewMoving  = "moving"  // four of five are for one video, which changes every 2,000 likes
)

// The bounds of Params. They keep operation identities unique (see NewWorkload)
// and the state within what a store holds.
const (
	maxVideos  = 10_000
	maxRetries = 15
	maxReads   = 16
	maxShards  = 1000
	maxBuffer  = 1_000_000
	maxHeat    = 1_000_000_000
	maxTime    = time.Hour
	maxBeta    = 100
)

// DefaultParams is one video that takes everything.
func DefaultParams() Params {
	return Params{
		Videos: 1, VideoSkew: SkewUniform,
		ClickTwice: 0.1, Unlike: 0.1, Relike: 0.3,
		Think: sut.Duration(500 * time.Millisecond),
		Reads: 0.1, Views: 0.2, Resend: 0.02, RetryOnLost: 3,
		Shards: 100, FirstShards: 10, MaxShards: maxShards, HeatPerShard: 100,
		ReadTTL: 0, EarlyBeta: 1, Buffer: 1000,
		RepairEvery: sut.Duration(200 * time.Millisecond),
		MergeEvery:  sut.Duration(50 * time.Millisecond),
	}
}

// Validate returns every bad field at once, each named as in a scenario, or
// nil.
func (p Params) Validate() error {
	v := &validation{}
	p.validateJourney(v)
	p.validateDesigns(v)
	return errors.Join(v.errs...)
}

func (p Params) validateJourney(v *validation) {
	v.count("videos", int64(p.Videos), 1, maxVideos)
	v.count("users", int64(p.Users), 0, math.MaxInt64)
	switch p.VideoSkew {
	case SkewUniform, SkewZipf, SkewHot, SkewMoving:
	default:
		v.add("video_skew", "expected uniform, zipf, hot or moving, got %q", p.VideoSkew)
	}
	v.share("click_twice", p.ClickTwice, 1)
	v.share("unlike", p.Unlike, 1)
	v.share("relike", p.Relike, 1)
	v.duration("think", p.Think, 0)
	v.share("reads", p.Reads, maxReads)
	v.share("views", p.Views, 1)
	v.share("resend", p.Resend, 1)
	v.count("retry_on_lost", int64(p.RetryOnLost), 0, maxRetries)
}

func (p Params) validateDesigns(v *validation) {
	v.count("shards", int64(p.Shards), 1, maxShards)
	v.count("first_shards", int64(p.FirstShards), 1, maxShards)
	v.count("max_shards", int64(p.MaxShards), 1, maxShards)
	if p.FirstShards > p.MaxShards {
		v.add("first_shards", "expected at most max_shards (%d), got %d", p.MaxShards, p.FirstShards)
	}
	v.count("heat_per_shard", int64(p.HeatPerShard), 1, maxHeat)
	v.duration("read_ttl", p.ReadTTL, 0)
	v.share("early_beta", p.EarlyBeta, maxBeta)
	v.count("buffer", int64(p.Buffer), 1, maxBuffer)
	v.duration("repair_every", p.RepairEvery, time.Millisecond)
	v.duration("merge_every", p.MergeEvery, time.Millisecond)
}

func paramsOf(params any) (Params, error) {
	switch p := params.(type) {
	case Params:
		return p, nil
	case *Params:
		if p != nil {
			return *p, nil
		}
	}
	return Params{}, fmt.Errorf("expected the parameters of likes, got %T", params)
}

// validation gathers errors that name their field.
type validation struct{ errs []error }

func (v *validation) add(field, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

func (v *validation) count(field string, got, low, high int64) {
	if got < low || got > high {
		v.add(field, "expected %d to %d, got %d", low, high, got)
	}
}

// share also refuses NaN, which compares false with everything.
func (v *validation) share(field string, got, high float64) {
	if !(got >= 0 && got <= high) {
		v.add(field, "expected a number from 0 to %g, got %g", high, got)
	}
}

func (v *validation) duration(field string, got sut.Duration, low time.Duration) {
	if got.D() < low || got.D() > maxTime {
		v.add(field, "expected a duration from %s to %s, got %s", low, maxTime, got)
	}
}
