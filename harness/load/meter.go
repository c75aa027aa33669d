package load

import (
	"math"
	"os"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"

	"stampede/harness/rundir"
	"stampede/harness/telemetry"
)

// The runtime's histograms that say how much the generator held itself up.
const (
	gcPauses     = "/sched/pauses/total/gc:seconds"
	schedLatency = "/sched/latencies:seconds"
)

// meter measures what this process uses between two moments.
type meter struct {
	began time.Time
	usage usage
	runs  []metrics.Sample
}

// usage is what the operating system says; zero where it does not.
type usage struct {
	// cpu is the time this process has been executing on all cores.
	cpu time.Duration
	// machine is what the whole machine has used.
	machine telemetry.Machine
}

func startMeter() *meter {
	return &meter{began: time.Now(), usage: usageNow(), runs: readRuntime()}
}

// usageNow reads what the operating system says.
func usageNow() usage {
	machine, _ := telemetry.ReadMachine() // where there is none the report shows zero
	return usage{cpu: cpuTime(), machine: machine}
}

// cpuTime is the time this process has been executing on all cores, or is 0 if it cannot
// be told.
func cpuTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// openFiles counts this process's file descriptors, or is 0 if it cannot.
func openFiles() int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names) - 1 // one is dir itself
}

// stop returns what was used since the start, but for the pacer's lag.
func (m *meter) stop() rundir.Generator {
	span, used, runs := time.Since(m.began), usageNow(), readRuntime()
	g := rundir.Generator{OpenFiles: openFiles()}
	if span > 0 {
		g.CPUCores = float64(used.cpu-m.usage.cpu) / float64(span)
	}
	if whole := span * time.Duration(used.machine.Cores); whole > 0 {
		g.StealShare = float64(used.machine.Stolen-m.usage.machine.Stolen) / float64(whole)
	}
	g.GCPauseP99NS = histogramP99(m.runs[0], runs[0])
	g.SchedP99NS = histogramP99(m.runs[1], runs[1])
	return g
}

func readRuntime() []metrics.Sample {
	samples := []metrics.Sample{{Name: gcPauses}, {Name: schedLatency}}
	metrics.Read(samples)
	return samples
}

// histogramP99 is the 99th percentile, in nanoseconds, of what two readings of
// a histogram of seconds differ by: the upper bound of its bucket.
func histogramP99(before, after metrics.Sample) int64 {
	if after.Value.Kind() != metrics.KindFloat64Histogram {
		return 0 // a later Go may drop the metric
	}
	old, now := before.Value.Float64Histogram(), after.Value.Float64Histogram()
	total := uint64(0)
	for i := range now.Counts {
		total += now.Counts[i] - old.Counts[i]
	}
	if total == 0 {
		return 0
	}
	rank, seen := (total*99+99)/100, uint64(0)
	for i := range now.Counts {
		if seen += now.Counts[i] - old.Counts[i]; seen >= rank {
			return bucketBound(now.Buckets[i], now.Buckets[i+1])
		}
	}
	return 0
}

// bucketBound is a bucket's upper bound in nanoseconds, or its lower one if
// there is none.
func bucketBound(low, high float64) int64 {
	if math.IsInf(high, 1) {
		high = low
	}
	return int64(math.Ceil(max(0, high) * 1e9))
}
