package load_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/sut"
)

const (
	// benchLead is where due time 0 lies, benchWarm how much of the load after
	// it is not measured, benchOver how long the load is.
	benchLead = 100 * time.Millisecond
	benchWarm = 500 * time.Millisecond
	benchOver = 3500 * time.Millisecond
)

// plain is a workload of one kind without follow-ups.
type plain struct{}

func (plain) Kinds() []string        { return []string{"get"} }
func (plain) Op(i uint64) history.Op { return history.Op{ID: i + 1, Kind: "get", Key: "k"} }
func (plain) Follow(history.Op, history.Outcome, history.Reply) []sut.FollowUp {
	return nil
}

// aim is what a benchmark should reach on a quiet machine of two cores: at most
// such a share of drops, in percent, and such times, where they are not zero. A
// miss fails nothing.
type aim struct {
	drops              float64
	lagP99, respondP50 time.Duration
}

// report puts the aims and whether all were met beside the figures.
func (a aim) report(b *testing.B, drops float64, lagP99, respondP50 int64) {
	b.Helper()
	reached := 0.0
	if drops <= a.drops && (a.lagP99 == 0 || lagP99 <= int64(a.lagP99)) &&
		(a.respondP50 == 0 || respondP50 <= int64(a.respondP50)) {
		reached = 1
	}
	b.ReportMetric(a.drops, "aim-drops-%")
	if a.lagP99 > 0 {
		b.ReportMetric(float64(a.lagP99)/1e3, "aim-lag-p99-µs")
	}
	if a.respondP50 > 0 {
		b.ReportMetric(float64(a.respondP50)/1e3, "aim-p50-µs")
	}
	b.ReportMetric(reached, "met")
}

// BenchmarkDispatch offers operations that do nothing: what is lost or late is
// the generator's own doing.
func BenchmarkDispatch(b *testing.B) {
	nothing := func(context.Context, history.Op) (history.Reply, error) {
		return history.Reply{}, nil
	}
	punctual := aim{lagP99: 100 * time.Microsecond}
	b.Run("20000 per s", func(b *testing.B) { offer(b, 20_000, nothing, punctual) })
	b.Run("200000 per s", func(b *testing.B) { offer(b, 200_000, nothing, aim{}) })
}

// BenchmarkHTTP offers requests to a trivial server in a process of its own,
// on the same cores.
func BenchmarkHTTP(b *testing.B) {
	server := startServer(b, serveTrivial)
	quick := aim{drops: 0.1, respondP50: 500 * time.Microsecond}
	for _, rate := range []float64{10_000, 25_000} {
		b.Run(fmt.Sprintf("%.0f per s", rate), func(b *testing.B) {
			offer(b, rate, httpDo(server), quick)
		})
	}
}

// offer sends a constant rate, once for each iteration, and reports what
// became of it.
func offer(b *testing.B, rate float64, do load.Do, a aim) {
	b.Helper()
	stats := newStats(benchLead + benchWarm)
	var total, drops, errors int64
	var spent, cores float64
	var pacer time.Duration
	for b.Loop() {
		process, err := arrival.Constant(rate, benchOver)
		if err != nil {
			b.Fatal(err)
		}
		result, err := load.Run(b.Context(), load.Plan{
			Base: time.Now(), Start: benchLead, Arrivals: process.Start(1), Workload: plain{},
			MaxInFlight: 256, Queue: 4096, Timeout: 2 * time.Second, Drain: 10 * time.Second,
		}, do, stats.shard, nil)
		if err != nil {
			b.Fatal(err)
		}
		total += result.Load.Scheduled
		drops += result.Load.Dropped
		errors += result.Load.Unknown
		spent += (result.End - result.Start).Seconds()
		cores = result.Generator.CPUCores
		pacer = time.Duration(result.PacerLag.ValueAtPercentile(99))
	}
	micros := func(v int64) float64 { return float64(v) / 1e3 }
	lag, response := stats.merged()
	b.ReportMetric(0, "ns/op") // an iteration's length is chosen, not measured
	b.ReportMetric(float64(total-drops)/spent, "kept/s")
	b.ReportMetric(100*float64(drops)/float64(total), "drops-%")
	b.ReportMetric(100*float64(errors)/float64(total), "errors-%")
	b.ReportMetric(micros(int64(pacer)), "pacer-p99-µs")
	b.ReportMetric(micros(lag.ValueAtPercentile(50)), "lag-p50-µs")
	b.ReportMetric(micros(lag.ValueAtPercentile(99)), "lag-p99-µs")
	b.ReportMetric(micros(response.ValueAtPercentile(50)), "p50-µs")
	b.ReportMetric(micros(response.ValueAtPercentile(99)), "p99-µs")
	b.ReportMetric(cores, "cores")
	a.report(b, 100*float64(drops)/float64(total), lag.ValueAtPercentile(99),
		response.ValueAtPercentile(50))
	if errors == total-drops {
		b.Errorf("none of %d operations was answered", total)
	}
}
