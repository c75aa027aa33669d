package sut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/sim"
)

const (
	// sampleTimeout bounds one answer.
	sampleTimeout = time.Second
	// sampleRest is how many times as long as an answer takes the gauge is left
	// alone, so that looking takes a tenth of the time at most; restAtMost
	// periods bound that. The quickest of the last restOver answers counts: what
	// a fault delays is no work.
	sampleRest = 9
	restAtMost = 10
	restOver   = 8
)

// Watch samples a gauge, if there is one, once a period until the returned
// function is called, and keeps the samples. Times are since base. An error of
// keep ends it.
func Watch(
	ctx context.Context, gauge Gauge, base time.Time, period time.Duration,
	keep func(history.Sample) error,
) (stop func()) {
	if gauge == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		p := pace{period: period}
		for wait := time.Duration(0); Pause(ctx, wait); {
			s := take(ctx, gauge, base)
			if ctx.Err() != nil || keep(s) != nil {
				return
			}
			wait = p.rest(s)
		}
	})
	return func() { cancel(); ended.Wait() }
}

// WatchSimulated is Watch in the virtual time of a simulation, from now on. The gauge is asked in
// a process of it.
func WatchSimulated(
	ctx context.Context, s *sim.Sim, gauge Gauge, period time.Duration,
	keep func(history.Sample) error,
) (stop func()) {
	over := false
	s.Go(func(p *sim.Process) {
		pace := pace{period: period}
		for {
			seen := history.Sample{From: s.Now()}
			var err error
			failed := p.Within(sampleTimeout, func() { seen.Body, err = gauge.Sample(p.Context(ctx)) })
			if err = errors.Join(err, failed); err != nil {
				seen.Body, seen.Err = nil, err.Error()
			}
			seen.To = s.Now()
			if over || keep(seen) != nil {
				return
			}
			p.Do(s.Delay(pace.rest(seen)))
		}
	})
	return func() { over = true }
}

// pace is how often a gauge is asked, from how long its last answers took.
type pace struct {
	period time.Duration
	took   []time.Duration
}

// rest is how long the gauge is left alone after a sample.
func (p *pace) rest(s history.Sample) time.Duration {
	last := s.To - s.From
	if s.Seen() {
		p.took = append(p.took[max(0, len(p.took)+1-restOver):], last)
	}
	return rest(p.period, last, p.took)
}

// take asks a gauge once.
func take(ctx context.Context, gauge Gauge, base time.Time) history.Sample {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	s := history.Sample{From: time.Since(base)}
	body, err := sample(ctx, gauge)
	s.To = time.Since(base)
	if err != nil {
		s.Err = err.Error()
		return s
	}
	s.Body = body
	return s
}

// sample makes errors of a panic and of what is no JSON.
func sample(ctx context.Context, gauge Gauge) (body json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	body, err = gauge.Sample(ctx)
	if err == nil && !json.Valid(body) {
		err = errors.New("the gauge's answer is not JSON")
	}
	return body, err
}

// rest is how long a gauge is left alone after a sample that took so long, and
// recent ones that saw something.
func rest(period, last time.Duration, took []time.Duration) time.Duration {
	work := time.Duration(0)
	if len(took) > 0 {
		work = min(sampleRest*slices.Min(took), restAtMost*period)
	}
	return max(period-last, work)
}
