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
		var took []time.Duration
		for wait := time.Duration(0); Pause(ctx, wait); {
			s := take(ctx, gauge, base)
			if ctx.Err() != nil || keep(s) != nil {
				return
			}
			last := s.To - s.From
			if s.Seen() {
				took = append(took[max(0, len(took)+1-restOver):], last)
			}
			wait = rest(period, last, took)
		}
	})
	return func() { cancel(); ended.Wait() }
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
