package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

const (
	// samplePeriod is how often a gauge is asked, from one question to the
	// next.
	samplePeriod = 250 * time.Millisecond
	// sampleTimeout bounds one answer.
	sampleTimeout = time.Second
	// sampleRest is how many times as long as an answer took the gauge is left
	// alone, so that looking takes a tenth of the time at most; restAtMost
	// bounds that.
	sampleRest = 9
	restAtMost = 10 * samplePeriod
)

// openGauge connects the variant's gauge, if it has one.
func (p *place) openGauge(ctx context.Context, v sut.Variant) error {
	if v.Gauge == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	gauge, err := v.Gauge(ctx, p.config)
	if err != nil {
		return fmt.Errorf("opening the gauge of %s: %w", v.Name, err)
	}
	p.gauge = gauge
	return nil
}

// watch asks a gauge, if there is one, until the returned function is called,
// and keeps what it says. Times are since base. What cannot be kept is told by
// whoever keeps it.
func watch(
	ctx context.Context, gauge sut.Gauge, base time.Time, keep func(history.Sample) error,
) (stop func()) {
	if gauge == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		for wait := time.Duration(0); pause(ctx, wait); {
			s := take(ctx, gauge, base)
			if ctx.Err() != nil || keep(s) != nil {
				return
			}
			wait = rest(s)
		}
	})
	return func() { cancel(); ended.Wait() }
}

// pause waits and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// take asks a gauge once.
func take(ctx context.Context, gauge sut.Gauge, base time.Time) history.Sample {
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
func sample(ctx context.Context, gauge sut.Gauge) (body json.RawMessage, err error) {
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

// rest is how long a gauge is left alone after a sample.
func rest(s history.Sample) time.Duration {
	if !s.Seen() {
		return samplePeriod
	}
	took := s.To - s.From
	return min(max(samplePeriod-took, sampleRest*took), restAtMost)
}
