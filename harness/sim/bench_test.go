package sim_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stampede/harness/sim"
)

// used is the CPU time of this program so far: other programs share the cores.
func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what the heap and the stacks of coroutines need, in MB, after a collection.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
}

// BenchmarkEvents measures events per second of CPU with so many processes in flight, each of
// which takes chains of five delays. The memory in the middle and at the end shows that it is
// flat.
func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{1, 256, 10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s := sim.New(1)
				gaps := s.Stream("gaps")
				mean := time.Duration(n) * time.Microsecond
				for range n {
					s.Go(func(p *sim.Process) {
						for {
							p.Do(s.Delay(gaps.Exp(mean)), s.Delay(gaps.Exp(mean)), s.Delay(gaps.Exp(mean)),
								s.Delay(gaps.Exp(mean)), s.Delay(gaps.Exp(mean)))
						}
					})
				}
				run := func(until time.Duration) {
					if err := s.Run(b.Context(), until); err != nil {
						b.Fatal(err)
					}
				}
				run(time.Second / 10)
				events, begun, before := s.Events(), used(), memory()
				run(4 * time.Second)
				took := used() - begun
				b.ReportMetric(float64(s.Events()-events)/took.Seconds()/1e6, "Mevents/CPU-s")
				b.ReportMetric(before, "MB-begin")
				b.ReportMetric(memory(), "MB-end")
				s.Close()
			}
		})
	}
}

// BenchmarkBuyers measures buyers of a flash sale on a large machine, per second of CPU.
func BenchmarkBuyers(b *testing.B) {
	designs := []struct {
		name string
		rate float64
		buy  func(shop, *sim.Process, int) bool
	}{
		{"units_skip_locked", 50_000, shop.unitsSkipLocked},
		{"counter_row", 1_500, shop.counterRow},
	}
	for _, d := range designs {
		b.Run(d.name, func(b *testing.B) {
			for b.Loop() {
				const n = 1_000_000
				m := sim.DefaultMachine()
				m.Cores, m.Postgres.Connections = 32, 256
				s := sim.New(3)
				shop := newShop(b, s, m)
				begun := used()
				open(b, s, d.rate, n, func(p *sim.Process, i int) { d.buy(shop, p, i%shopItems) })
				took := used() - begun
				b.ReportMetric(n/took.Seconds()/1e3, "kbuyers/CPU-s")
				b.ReportMetric(float64(s.Events())/n, "events/buyer")
				b.ReportMetric(float64(s.Events())/took.Seconds()/1e6, "Mevents/CPU-s")
				b.ReportMetric(memory(), "MB")
				s.Close()
			}
		})
	}
}

// BenchmarkFormulas is TestQueues and the others with as many operations as their formulas'
// tolerances need: 1 %, and 2 % at 0.95.
func BenchmarkFormulas(b *testing.B) {
	for _, q := range queues() {
		q.hold(b, 0.3, 500_000, 0.01)
		q.hold(b, 0.7, 1_000_000, 0.01)
		q.hold(b, 0.95, 4_000_000, 0.02)
	}
	for _, perMS := range []float64{0.3, 1, 4} {
		holdLog(b, perMS, 500_000, 0.01)
		holdLinger(b, perMS, 500_000, 0.01)
	}
	for _, pipeline := range []int{1, 16} {
		for _, rho := range []float64{0.3, 0.7, 0.9} {
			holdLoop(b, pipeline, rho, 1_000_000, 0.01)
		}
	}
}
