package judge

import (
	"fmt"
	"time"

	"stampede/harness/check"
	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// clockErrorMost is how far the times of several generators may be from one clock, for what held
// to mean anything: the order of operations that are less far apart is not known.
const clockErrorMost = 5 * time.Millisecond

// clockError is how far a time in the history may be from the clock of the run, 0 if one process
// read them all. What is judged is each operation with that much more time at both ends, so that
// no claim about order rests on two clocks.
func (t Trial) clockError() (most time.Duration) {
	for _, p := range t.Generators {
		most = max(most, time.Duration(p.ClockErrorNS))
	}
	return most
}

// oneClock: the times of all generators are by one clock, nearly.
func oneClock(t Trial) rundir.Validity {
	off := t.clockError()
	return rundir.Validity{Name: rundir.Clocks, OK: off <= clockErrorMost, Detail: fmt.Sprintf(
		"the times of %d generators are right to %.3f ms by this machine's clock (at most %.0f ms), and "+
			"order is judged with that much leeway", len(t.Generators), ms(off), ms(clockErrorMost))}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// orderedBy leaves open what held where the order of operations was not known well enough. A
// violation is one whatever the clocks say.
func (t Trial) orderedBy(v check.Verdict) check.Verdict {
	if v.Status == check.Held && t.clockError() > clockErrorMost {
		v.Status, v.NotExercised, v.Reason = check.Undecided, true, oneClock(t).Detail
	}
	return v
}

// gate judges the assumptions of measure.Gate, those about times by each generator's own machine:
// the first one that fails is told. Timing is the worst of all.
func gate(f measure.Facts, parts []Part) (list []rundir.Validity, timing string) {
	if len(parts) == 0 {
		return measure.Gate(f), f.Timing()
	}
	timing = rundir.Clean
	used := map[string]float64{} // cores, by machine
	for _, p := range parts {
		used[p.Host] += p.Generator.CPUCores
	}
	for i, p := range parts {
		f := f
		f.Generator, f.Cores = p.Generator, p.Cores
		f.Generator.CPUCores = used[p.Host]
		if len(used) > 1 && p.Generator.StealShare > measure.StealMost {
			f.Quiet = nil // the quiet seconds are those of one machine
		}
		for k, v := range measure.Gate(f) {
			if v.Class == rundir.Times {
				v.Detail = fmt.Sprintf("generator %d of %d on %s: %s", i+1, len(parts), p.Host, v.Detail)
			}
			if i == 0 {
				list = append(list, v)
			} else if list[k].OK && !v.OK {
				list[k] = v
			}
		}
		timing = worse(timings, timing, f.Timing())
	}
	return list, timing
}
