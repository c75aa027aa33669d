package calibrate

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/rundir"
)

// A window is quiet if the hypervisor and other programs took at most these shares of all cores.
const (
	stealLimit   = 0.01
	foreignLimit = 0.02
)

// Least is how many quiet windows a load is to have; fewer are not enough.
const Least = 5

// Window is about a second of a load.
type Window struct {
	// Seconds is how long it was.
	Seconds float64
	// CPU is the CPU time that parts used, in seconds.
	CPU map[string]float64
	// Ended is how many operations ended.
	Ended float64
	// Steal and Foreign are the shares of all cores that were taken; Known says that they are.
	Steal, Foreign float64
	Known          bool
}

// Quiet says that nobody else used the machine.
func (w Window) Quiet() bool {
	return w.Known && w.Steal <= stealLimit && w.Foreign <= foreignLimit
}

// Windows are those of a repeat, between two readings of the CPU times each, that lie between
// two times of its clock.
func Windows(t rundir.Telemetry, line rundir.Timeline, from, to time.Duration, cores int,
) (all []Window) {
	i := slices.IndexFunc(t.Sources, func(s rundir.TelemetrySource) bool { return s.Name == "cpu" })
	if i < 0 {
		return nil
	}
	of := map[[2]string]rundir.Series{}
	for _, s := range t.Sources[i].Series {
		of[[2]string{s.Quantity, s.Part}] = s
	}
	own := of[[2]string{used, rundir.GeneratorPart}]
	for k := 1; k < len(own.AtNS); k++ {
		begin, end := time.Duration(own.AtNS[k-1]), time.Duration(own.AtNS[k])
		if begin < from || end > to {
			continue
		}
		w := Window{Seconds: (end - begin).Seconds(), CPU: map[string]float64{}, Known: true,
			Ended: ended(line, begin, end)}
		for key, s := range of {
			at, is := slices.BinarySearch(s.AtNS, own.AtNS[k])
			switch {
			case key[0] == used && is:
				w.CPU[key[1]] = s.Values[at] * w.Seconds
			case key[0] != rundir.Taken:
			case !is:
				w.Known = false
			case key[1] == rundir.Hypervisor:
				w.Steal = s.Values[at] / float64(cores)
			case key[1] == rundir.OtherPrograms:
				w.Foreign = s.Values[at] / float64(cores)
			}
		}
		all = append(all, w)
	}
	return all
}

// used is the quantity of CPU times.
const used = "processor"

// ended is how many operations ended between two times, where those of a bucket are spread
// evenly over it.
func ended(line rundir.Timeline, from, to time.Duration) (n float64) {
	width := float64(line.BucketNS)
	for _, kind := range line.Kinds {
		for i, b := range kind.Buckets {
			begin := float64(i) * width
			inside := min(float64(to), begin+width) - max(float64(from), begin)
			if inside > 0 {
				n += float64(b.Ended) * inside / width
			}
		}
	}
	return n
}

// Choose returns the windows to use, all quiet if there are enough of them. Otherwise they are
// the quieter half.
func Choose(all []Window) (chosen []Window, quiet bool) {
	for _, w := range all {
		if w.Quiet() {
			chosen = append(chosen, w)
		}
	}
	if len(chosen) >= Least {
		return chosen, true
	}
	chosen = slices.Clone(all)
	slices.SortStableFunc(chosen, func(a, b Window) int {
		return cmp.Compare(a.Steal+a.Foreign, b.Steal+b.Foreign)
	})
	return chosen[:(len(chosen)+1)/2], false
}

// Demand is the CPU time for each operation, by part, over some windows.
func Demand(windows []Window) map[string]float64 {
	sum, n := map[string]float64{}, 0.0
	for _, w := range windows {
		n += w.Ended
		for part, cpu := range w.CPU {
			sum[part] += cpu
		}
	}
	for part := range sum {
		sum[part] /= max(n, 1)
	}
	return sum
}

// Taken is the mean share of all cores that the hypervisor and other programs had.
func Taken(windows []Window) float64 {
	sum, seconds := 0.0, 0.0
	for _, w := range windows {
		sum += (w.Steal + w.Foreign) * w.Seconds
		seconds += w.Seconds
	}
	return sum / max(seconds, 1e-9)
}
