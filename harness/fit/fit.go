// Package fit finds how fast this machine can send operations on time, and how long a
// load with a fixed number of operations must last for that.
//
// The number of operations is a scenario's question and stays. A machine that cannot send
// them in the time that the scenario's author had measures itself, so the time is what
// gives way, within the scenario's bounds.
package fit

import (
	"context"
	"fmt"
	"math"
	"time"

	"stampede/harness/scenario"
)

// Sample is what came of sending a constant rate for a moment.
type Sample struct {
	// LagP50 and LagP99 say how long after their due time operations were sent.
	LagP50, LagP99 time.Duration
	// CPUShare is how much of all CPUs this process used, from 0 to 1.
	CPUShare float64
	// Behind is how long after the last due time the last operation ended.
	Behind time.Duration
}

// Probe sends a constant rate for a moment.
type Probe func(ctx context.Context, perS float64) (Sample, error)

// A rate is clean if 99 of 100 operations are sent within lagLimit of their due time, if
// this process uses less than cpuLimit of all CPUs, and if no queue of operations is left
// that takes behindLimit. The gate of package measure has the same floor for the lag.
const (
	lagLimit    = time.Millisecond
	cpuLimit    = 0.60
	behindLimit = 20 * time.Millisecond
)

// most says that this process had the CPU that the rate takes and sent most operations on
// time. What is late beside them may be late because another program or another guest of
// the host had the CPU, so that a higher rate may still be clean.
func (s Sample) most() bool {
	return s.LagP50 < lagLimit && s.CPUShare < cpuLimit && s.Behind < behindLimit
}

func (s Sample) clean() bool { return s.most() && s.LagP99 < lagLimit }

// The first rate and the number of probes, of which each takes a fifth of a second. The
// search ends earlier where two rates are closer than near times each other.
const (
	lowestPerS = 1000
	probes     = 12
	near       = 1.1
)

// CleanRate is the highest rate per second, of those that were tried, that was sent
// cleanly. Rates are doubled until one is too much, and what lies between is bisected. A
// rate that is not clean is tried twice, because a busy machine may just have had something
// else to do. If none is clean, the answer is the highest one that was sent on time for the
// most part, else the lowest one. An error is the probe's.
func CleanRate(ctx context.Context, probe Probe) (perS float64, err error) {
	s := search{ctx: ctx, probe: probe, left: probes, most: lowestPerS}
	if err := s.rise(); err != nil {
		return 0, err
	}
	if s.clean == 0 {
		return s.most, nil
	}
	err = s.bisect()
	return s.clean, err
}

// Carries says whether a load of this highest rate needs at most half of what is sent
// cleanly: whether twice the rate is, at the best of three tries.
func Carries(ctx context.Context, probe Probe, peakPerS float64) (yes bool, err error) {
	s := search{ctx: ctx, probe: probe, left: tries}
	for s.left > 0 && s.clean == 0 && err == nil {
		_, err = s.try(peakPerS/share, Sample.clean)
	}
	return s.clean > 0, err
}

// tries is how often a rate is tried before it is not clean.
const tries = 3

// search is a search under way.
type search struct {
	ctx   context.Context
	probe Probe
	left  int // probes
	// clean is the highest rate that was clean, most the highest that was so for the most
	// part, tooMuch the lowest that was not even that.
	clean, most, tooMuch float64
}

// try probes a rate, a second time if good does not hold at first.
func (s *search) try(perS float64, good func(Sample) bool) (is bool, err error) {
	for again := false; s.left > 0; again = true {
		s.left--
		sample, err := s.probe(s.ctx, perS)
		if err != nil {
			return false, fmt.Errorf("sending %.0f operations a second: %w", perS, err)
		}
		if sample.clean() {
			s.clean = max(s.clean, perS)
		}
		if sample.most() {
			s.most = max(s.most, perS)
		}
		if good(sample) {
			return true, nil
		}
		if again || sample.CPUShare >= cpuLimit {
			break
		}
	}
	return false, nil
}

// rise doubles the rate until it is too much.
func (s *search) rise() error {
	for perS := float64(lowestPerS); s.left > 0; perS *= 2 {
		ok, err := s.try(perS, Sample.most)
		if err != nil {
			return err
		}
		if !ok {
			s.tooMuch = perS
			return nil
		}
	}
	return nil
}

// bisect looks for a clean rate between the highest that is known and what is too much.
func (s *search) bisect() error {
	for s.left > 0 && s.tooMuch > near*s.clean {
		middle := math.Sqrt(s.clean * s.tooMuch)
		ok, err := s.try(middle, Sample.clean)
		if err != nil {
			return err
		}
		if !ok {
			s.tooMuch = middle
		}
	}
	return nil
}

// share is how much of the clean rate a load may need at its peak. What is left is for
// the stores, which run on the same machine.
const share = 0.5

// step is what the length of a load is a multiple of; rounding keeps an error in the last
// digit from adding one.
const (
	step     = 100 * time.Millisecond
	rounding = 1e-9
)

// Over is how long an arrival process that is to be fitted lasts: the shortest time within
// its bounds, in steps of 100 ms, in which its peak is at most half of the clean rate.
// Capped says that even the longest is too short for that.
func Over(a scenario.Arrival, cleanPerS float64) (over time.Duration, capped bool) {
	least, most := a.OverLeast.D(), a.OverMost.D()
	// The peak of a burst is its steepness times its mean rate.
	needed := a.PeakPerS(step) / (share * cleanPerS) // in steps
	if needed*(1-rounding) > most.Seconds()/step.Seconds() {
		return most, true
	}
	over = time.Duration(math.Ceil(needed*(1-rounding))) * step
	return min(max(over, least), most), false
}
