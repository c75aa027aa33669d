// Package telemetry asks stores and processes, while a variant is under load, what
// they do: transactions, locks, memory, lag, processor time. It explains what was
// measured; no verdict rests on it, but that what was late proves nothing on a machine
// which others used.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"stampede/harness/rundir"
	"stampede/harness/sut"
)

const (
	// Period is how often a source is asked, from one question to the next. Postgres
	// counts what a session has done about once a second.
	Period = time.Second
	// answerBound bounds one answer.
	answerBound = time.Second
	// rest is how many times as long as an answer took a source is left alone. Most of
	// an answer's time it waits for its turn, so that asking is less work than that.
	rest = 3
)

// Source is something that can be asked how it is. It is asked by one goroutine.
type Source interface {
	// Name is the service, or what else it is.
	Name() string
	// Read returns what is so at this moment. It may connect first. An error, which
	// a broken store's is, leaves a gap.
	Read(ctx context.Context) ([]Value, error)
	// Close ends the connections. It is called once.
	Close()
}

// Value is one quantity at one moment.
type Value struct {
	// Quantity, Part and Unit are those of rundir.Series. Together with the first
	// two, no value is there twice.
	Quantity, Part, Unit string
	Amount               float64
	// Counts says that the amount only grows, as long as its owner lives: what is
	// kept is how much it grew a second, and the unit is that of the growth.
	Counts bool
}

// Watch asks the sources again and again, until the returned function is called or
// ctx is over; the function closes the sources, waits, and returns what they said.
// Times are since base.
func Watch(ctx context.Context, base time.Time, sources ...Source) (stop func() rundir.Telemetry) {
	ctx, cancel := context.WithCancel(ctx)
	said := make([]rundir.TelemetrySource, len(sources))
	var ended sync.WaitGroup
	for i, source := range sources {
		ended.Go(func() {
			defer source.Close()
			said[i] = follow(ctx, base, source)
		})
	}
	return sync.OnceValue(func() rundir.Telemetry {
		cancel()
		ended.Wait()
		return rundir.Telemetry{PeriodNS: Period.Nanoseconds(), Sources: said}
	})
}

// follow asks one source until ctx is over.
func follow(ctx context.Context, base time.Time, source Source) rundir.TelemetrySource {
	f := &following{seen: map[seriesKey]*series{}}
	f.Name = source.Name()
	for wait := time.Duration(0); sut.Pause(ctx, wait); {
		from := time.Since(base)
		values, err := read(ctx, source)
		to := time.Since(base)
		if ctx.Err() != nil {
			break
		}
		f.note(from+(to-from)/2, values, err)
		took := to - from
		if err != nil {
			took = 0 // what a fault delays is no work
		}
		wait = max(Period-took, rest*took)
	}
	return f.result()
}

// read bounds an answer, and makes an error of a panic.
func read(ctx context.Context, source Source) (values []Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	return source.Read(ctx)
}

// following is what one source has said so far.
type following struct {
	rundir.TelemetrySource
	seen  map[seriesKey]*series
	order []*series
}

type seriesKey struct{ quantity, part string }

// series is a quantity, with what its counter showed when it was read last.
type series struct {
	rundir.Series
	counted bool
	last    float64
	at      time.Duration
}

// note keeps an answer. After a gap, and where a counter has gone back because its
// owner was started again, growth is not known.
func (f *following) note(at time.Duration, values []Value, err error) {
	f.Asked++
	if err != nil {
		f.Missed++
		if f.Trouble == "" {
			f.Trouble = err.Error()
		}
		for _, s := range f.order {
			s.counted = false
		}
		return
	}
	for _, v := range values {
		s := f.of(v)
		if !v.Counts {
			s.add(at, v.Amount)
			continue
		}
		if passed := (at - s.at).Seconds(); s.counted && v.Amount >= s.last && passed > 0 {
			s.add(at, (v.Amount-s.last)/passed)
		}
		s.counted, s.last, s.at = true, v.Amount, at
	}
}

// of finds or makes a value's series.
func (f *following) of(v Value) *series {
	key := seriesKey{v.Quantity, v.Part}
	s := f.seen[key]
	if s == nil {
		s = &series{Series: rundir.Series{Quantity: v.Quantity, Part: v.Part, Unit: v.Unit,
			AtNS: []int64{}, Values: []float64{}}}
		f.seen[key] = s
		f.order = append(f.order, s)
	}
	return s
}

func (s *series) add(at time.Duration, value float64) {
	s.AtNS, s.Values = append(s.AtNS, at.Nanoseconds()), append(s.Values, value)
}

// result is all that was said, in the order in which it came up.
func (f *following) result() rundir.TelemetrySource {
	f.Series = make([]rundir.Series, 0, len(f.order))
	for _, s := range f.order {
		f.Series = append(f.Series, s.Series)
	}
	return f.TelemetrySource
}

// dialer connects to where a store is now, wherever that was when its URL was written.
func dialer(addr func() string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		at := addr()
		if at == "" {
			return nil, errDown
		}
		return (&net.Dialer{Timeout: answerBound}).DialContext(ctx, network, at)
	}
}

// errDown says that a store has no address.
var errDown = errors.New("it is down")

// errNothing says that a source had nothing to say.
var errNothing = errors.New("it returned no samples")

// sorted returns values in the order of their parts, for sources that have them in
// none.
func sorted(values []Value) []Value {
	slices.SortStableFunc(values, func(a, b Value) int {
		if a.Quantity != b.Quantity {
			return 0
		}
		return naturally(a.Part, b.Part)
	})
	return values
}
