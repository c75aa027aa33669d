package fit

import (
	"context"
	"runtime"
	"time"

	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/sut"
)

const (
	// window is how long a rate is sent. All probes take two and a half seconds.
	window = 200 * time.Millisecond
	// inFlight and waiting bound a probe's operations as a scenario bounds its own. What
	// still waits after drain is given up.
	inFlight = 64
	waiting  = 100_000
	drain    = 50 * time.Millisecond
	// turns is how often the work of an operation goes round. A core of 3 GHz takes about
	// 40 µs for it, which is what a client of Postgres or Redis needs to write a request and
	// to read its answer. Without any work the generator alone would be measured, which
	// sends ten times as much.
	turns = 20_000
)

// Send is the Probe of the real generator. Its operations only compute for a moment: no
// store and no system takes part.
func Send(ctx context.Context, perS float64) (Sample, error) {
	process, err := arrival.Constant(perS, window)
	if err != nil {
		return Sample{}, err
	}
	result, err := load.Run(ctx, load.Plan{
		Base: time.Now(), Arrivals: process.Start(1), Workload: workload{},
		MaxInFlight: inFlight, Queue: waiting, Drain: drain,
	}, work, func() load.Recorder { return forget{} }, nil)
	if err != nil {
		return Sample{}, err
	}
	if result.Stopped {
		return Sample{}, context.Cause(ctx)
	}
	g := result.Generator
	return Sample{
		LagP50: time.Duration(g.LagP50NS), LagP99: time.Duration(g.LagP99NS),
		CPUShare: g.CPUCores / float64(runtime.NumCPU()), Behind: result.End - result.LastDue,
	}, nil
}

// work is what an operation does.
func work(_ context.Context, op history.Op) (history.Reply, error) {
	x := op.ID | 1
	for range turns {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	// The result is used, so that the compiler keeps the loop.
	return history.Reply{Value: int64(x)}, nil
}

// workload makes operations without follow-ups.
type workload struct{}

func (workload) Kinds() []string        { return []string{"probe"} }
func (workload) Op(i uint64) history.Op { return history.Op{ID: i + 1, Kind: "probe"} }
func (workload) Follow(history.Op, history.Outcome, history.Reply) []sut.FollowUp {
	return nil
}

// forget records nothing.
type forget struct{}

func (forget) Append(*history.Record) {}
