package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	// sampleRest is how many times as long as an answer takes the gauge is left
	// alone, so that looking takes a tenth of the time at most; restAtMost
	// bounds that. The quickest of the last restOver answers counts: what a
	// fault delays is no work.
	sampleRest = 9
	restAtMost = 10 * samplePeriod
	restOver   = 8
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
		var took []time.Duration
		for wait := time.Duration(0); sut.Pause(ctx, wait); {
			s := take(ctx, gauge, base)
			if ctx.Err() != nil || keep(s) != nil {
				return
			}
			last := s.To - s.From
			if s.Seen() {
				took = append(took[max(0, len(took)+1-restOver):], last)
			}
			wait = rest(last, took)
		}
	})
	return func() { cancel(); ended.Wait() }
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

// rest is how long a gauge is left alone after a sample that took so long, and
// recent ones that saw something.
func rest(last time.Duration, took []time.Duration) time.Duration {
	work := time.Duration(0)
	if len(took) > 0 {
		work = min(sampleRest*slices.Min(took), restAtMost)
	}
	return max(samplePeriod-last, work)
}
