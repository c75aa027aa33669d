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

// plain is a workload of one kind without follow-ups.
type plain struct{}

func (plain) Kinds() []string        { return []string{"get"} }
func (plain) Op(i uint64) history.Op { return history.Op{ID: i + 1, Kind: "get", Key: "k"} }
func (plain) Follow(history.Op, history.Outcome, history.Reply) []sut.FollowUp {
	return nil
}

func constant(tb testing.TB, rate float64, over time.Duration) load.Arrivals {
	tb.Helper()
	p, err := arrival.Constant(rate, over)
	if err != nil {
		tb.Fatal(err)
	}
	return p.Start(1)
}

// BenchmarkDispatch offers operations that do nothing: what is lost or late is
// the generator's own doing. One iteration is one operation.
func BenchmarkDispatch(b *testing.B) {
	for _, rate := range []float64{20_000, 100_000, 200_000} {
		b.Run(fmt.Sprintf("%.0f per s", rate), func(b *testing.B) {
			nothing := func(context.Context, history.Op) (history.Reply, error) {
				return history.Reply{}, nil
			}
			benchmark(b, rate, 256, nothing)
		})
	}
}

// benchmark offers b.N operations, each a rate'th of a second apart, and
// reports what became of them.
func benchmark(b *testing.B, rate float64, inFlight int, do load.Do) {
	b.Helper()
	b.ReportAllocs()
	over := time.Duration(float64(b.N) / rate * 1e9)
	stats := newStats()
	result, err := load.Run(b.Context(), load.Plan{
		Base: time.Now(), Arrivals: constant(b, rate, max(over, time.Millisecond)),
		Workload: plain{}, MaxInFlight: inFlight, Queue: 16 * inFlight,
		Timeout: 2 * time.Second, Drain: 10 * time.Second,
	}, do, stats.shard, nil)
	if err != nil {
		b.Fatal(err)
	}
	n := result.Load
	micros := func(v int64) float64 { return float64(v) / 1e3 }
	b.ReportMetric(100*float64(n.Dropped)/float64(n.Scheduled), "drops%")
	b.ReportMetric(100*float64(n.Unknown)/float64(n.Scheduled), "errors%")
	b.ReportMetric(micros(result.PacerLag.ValueAtPercentile(99)), "pacer-p99-µs")
	lag, response := stats.merged()
	b.ReportMetric(micros(lag.ValueAtPercentile(50)), "lag-p50-µs")
	b.ReportMetric(micros(lag.ValueAtPercentile(99)), "lag-p99-µs")
	b.ReportMetric(micros(response.ValueAtPercentile(50)), "p50-µs")
	b.ReportMetric(micros(response.ValueAtPercentile(99)), "p99-µs")
	b.ReportMetric(float64(n.Started)/(result.End-result.Start).Seconds(), "ops/s")
	b.ReportMetric(result.Generator.CPUCores, "cores")
}

// BenchmarkHTTP offers requests to a trivial server in a process of its own,
// on the same cores. One iteration is one request.
func BenchmarkHTTP(b *testing.B) {
	server := startServer(b)
	for _, rate := range []float64{10_000, 25_000, 30_000} {
		b.Run(fmt.Sprintf("%.0f per s", rate), func(b *testing.B) {
			benchmark(b, rate, 256, httpDo(server))
		})
	}
}
