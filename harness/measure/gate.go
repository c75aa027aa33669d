package measure

import (
	"fmt"
	"math"
	"strings"
	"time"

	"stampede/harness/rundir"
)

// Facts is what the validity of a measurement is judged by.
type Facts struct {
	// Generator is what the generator used and how late it was.
	Generator rundir.Generator
	// Counted is what the generator counted as it went, Recorded what the
	// history holds (Result.Recorded).
	Counted, Recorded rundir.Load
	// Cut is how many operations of the schedule were never offered.
	Cut int64
	// CutFollowUps is how many follow-ups had not become due when the drain ended.
	CutFollowUps int64
	// Response and Service are the times of all measured operations. Without
	// Response the service time takes its place, which is the stricter rule.
	Response, Service rundir.Percentiles
	// Cores is how many cores this process may use.
	Cores int
	// SideBySide says that several designs shared the machine and its stores.
	SideBySide bool
	// Simulated says that time was virtual: the generator took none, and nothing interfered.
	Simulated bool
	// Inside says that the system's own code (at least its drivers) ran in
	// this process, so that its processor time is part of the generator's.
	Inside bool
	// Machine is what others used of this machine, nil if it is unknown.
	Machine *rundir.Machine
	// Sampled says that the machine was sampled each second, Quiet what the operations
	// outside of the seconds with interference came to, nil if there was none.
	Sampled bool
	Quiet   *rundir.QuietTimes
}

// The limits of the gate.
const (
	lagFloor    = int64(time.Millisecond)
	lagShare    = 0.05 // of the response time at the same percentile
	schedShare  = 0.10 // of the response time's p99
	offerShare  = 0.99
	cpuShare    = 0.80
	gcPauseMax  = int64(time.Millisecond)
	nanoPerMSec = 1e6

	// StealMost and OthersMost are the shares of the CPU that the hypervisor and other
	// programs may take before they count as interference, in a second as on average.
	StealMost  = 0.05
	OthersMost = 0.25

	// A p99 may lie rundir.QuietShare from the p99 without interference. quietLeast is how many
	// operations, and quietLeastShare which share of all, the latter needs.
	quietLeast      = 200
	quietLeastShare = 0.2
)

// Gate judges the assumptions under which the numbers of a repeat mean anything.
// Accounting and schedule are evidence: without them there is no answer. The others are
// about the times alone. Operations that the system was too slow for, which were dropped
// because every worker was busy, are the system's; they fail no assumption.
func Gate(f Facts) []rundir.Validity {
	evidence := []rundir.Validity{f.accounting(), f.schedule()}
	for i := range evidence {
		evidence[i].Class = rundir.Evidence
	}
	if f.SideBySide {
		return append(evidence, rundir.Validity{Name: SideBySideName, Class: rundir.Times,
			Detail: "the designs ran side by side: each had only a part of the machine and its stores"})
	}
	if f.Simulated {
		return append(evidence, rundir.Validity{Name: SimulatedName, Class: rundir.Times,
			Detail: "no time was measured: it was virtual, and costs were assumed"})
	}
	times := []rundir.Validity{f.pacerLag(), f.coreWait(), f.gcPause(), f.interference()}
	if !f.Inside {
		times = append(times, f.processor())
	}
	for i := range times {
		times[i].Class = rundir.Times
	}
	return append(evidence, times...)
}

// Timing is the state of the times: none if designs ran side by side, and if the generator
// was late at the median or offered less than the plan, so that the load was another one;
// noisy if an assumption about the times fails otherwise; else clean.
func (f Facts) Timing() string {
	if f.SideBySide || f.Counted.Scheduled == 0 || !f.schedule().OK ||
		f.Generator.LagP50NS > relative(lagFloor, lagShare, f.reported().P50) {
		return rundir.NoTimes
	}
	for _, v := range Gate(f) {
		if v.Class == rundir.Times && !v.OK {
			return rundir.Noisy
		}
	}
	return rundir.Clean
}

// accounting: no operation got lost between the generator and the history.
func (f Facts) accounting() rundir.Validity {
	n := f.Recorded
	sums := n.Scheduled == n.Started+n.Dropped && n.Started == n.OK+n.Refused+n.Unknown
	detail := fmt.Sprintf("scheduled %d = started %d + dropped %d; started = ok %d + refused %d "+
		"+ unknown %d; the history agrees with the generator",
		n.Scheduled, n.Started, n.Dropped, n.OK, n.Refused, n.Unknown)
	if n != f.Counted {
		detail = fmt.Sprintf("the generator counted %+v, the history holds %+v", f.Counted, n)
	}
	return rundir.Validity{Name: AccountingName, OK: sums && n == f.Counted, Detail: detail}
}

// schedule: nearly all of what was planned was offered.
func (f Facts) schedule() rundir.Validity {
	planned := f.Counted.Scheduled + f.Cut
	share := float64(f.Counted.Scheduled) / math.Max(1, float64(planned))
	detail := fmt.Sprintf("%d of %d planned operations were offered, %.2f %% (at least %.0f %%)",
		f.Counted.Scheduled, planned, 100*share, 100*offerShare)
	if f.CutFollowUps > 0 {
		detail += fmt.Sprintf("; %d follow-ups did not become due within the drain", f.CutFollowUps)
	}
	return rundir.Validity{Name: ScheduleName, OK: planned > 0 && share >= offerShare, Detail: detail}
}

// reported is the distribution that the generator's own delays would falsify.
func (f Facts) reported() rundir.Percentiles {
	if f.Response.Count == 0 {
		return f.Service
	}
	return f.Response
}

// pacerLag: operations were dispatched on time, where "on time" is little
// compared with the response times that are reported, percentile by percentile.
// The lag is part of them, so a generator that is the slowest part cannot
// excuse itself; nor need it be precise to a millisecond where operations wait
// for seconds.
func (f Facts) pacerLag() rundir.Validity {
	g, of := f.Generator, f.reported()
	verdict := rundir.Validity{Name: PacerLagName, OK: true}
	var late, limits []string
	limit := lagFloor
	for _, at := range []struct{ lag, of int64 }{
		{g.LagP50NS, of.P50}, {g.LagP90NS, of.P90}, {g.LagP99NS, of.P99},
	} {
		// A higher percentile never has a lower limit: one that is infinite,
		// because operations were dropped, keeps that of the one before.
		limit = relative(limit, lagShare, at.of)
		verdict.OK = verdict.OK && at.lag <= limit
		late, limits = append(late, ms(at.lag)), append(limits, ms(limit))
	}
	verdict.Detail = fmt.Sprintf("operations were dispatched %s after their due time at p50, "+
		"p90 and p99 (at most %s: 5 %% of the response time at the same percentile, or 1 ms)",
		strings.Join(late, ", "), strings.Join(limits, ", "))
	return verdict
}

// coreWait: a goroutine that is ready gets a core soon. One that does not is
// late in starting an operation or in noting its end, and the system under test
// gets the blame, be it in this process or another on the same machine.
func (f Facts) coreWait() rundir.Validity {
	of := f.reported()
	limit := lagFloor
	for _, percentile := range []int64{of.P50, of.P90, of.P99} {
		limit = relative(limit, schedShare, percentile)
	}
	detail := fmt.Sprintf("99 %% of the ready goroutines got a CPU within %s (at most "+
		"%s: 10 %% of the response time's p99, or 1 ms)", ms(f.Generator.SchedP99NS), ms(limit))
	if f.Inside {
		detail += fmt.Sprintf(". The design's code ran in the generator's process, so the %.2f of "+
			"%d cores used are of both", f.Generator.CPUCores, f.Cores)
	}
	return rundir.Validity{Name: CoreWaitName, OK: f.Generator.SchedP99NS <= limit, Detail: detail}
}

// processor: the generator was not short of processor time. Where the system's
// own code shares the process, its consumption cannot be told apart, and a
// variant that burns processor time is slow rather than mismeasured; then only
// the wait for a core is judged.
func (f Facts) processor() rundir.Validity {
	used := f.Generator.CPUCores / math.Max(1, float64(f.Cores))
	return rundir.Validity{
		Name: GeneratorCPUName, OK: used < cpuShare,
		Detail: fmt.Sprintf("%.2f of %d cores, %.0f %% (below %.0f %%)",
			f.Generator.CPUCores, f.Cores, 100*used, 100*cpuShare),
	}
}

func (f Facts) gcPause() rundir.Validity {
	return rundir.Validity{
		Name: GCPauseName, OK: f.Generator.GCPauseP99NS < gcPauseMax,
		Detail: fmt.Sprintf("99 %% of the garbage collector's pauses took at most %s (below %s)",
			ms(f.Generator.GCPauseP99NS), ms(gcPauseMax)),
	}
}

// interference: the machine was there for this run. Where it was sampled, only what the
// interference did to the times counts, by the operations that it could have delayed.
func (f Facts) interference() rundir.Validity {
	v := rundir.Validity{Name: InterferenceName, Detail: fmt.Sprintf(
		"the hypervisor took %.1f %% of the CPU (at most %.0f %%)", 100*f.Generator.StealShare,
		100*StealMost)}
	above := "it was above that"
	if f.Machine != nil {
		v.Detail += fmt.Sprintf(", other programs %s (at most %.0f %%)", f.others(), 100*OthersMost)
		above = "one of them was above that"
	} else {
		v.Detail += "; the CPU use of other programs is not known here"
	}
	switch q := f.Quiet; {
	case !f.Sampled || q == nil:
		v.OK = f.Crowded() == "" && f.Machine.OthersMost() <= OthersMost
		if v.OK && f.Sampled {
			v.Detail += "; in no second was it more"
		}
	default:
		with, without := f.reported(), q.Response
		enough := without.Count >= quietLeast &&
			float64(without.Count) >= quietLeastShare*float64(with.Count)
		v.OK = enough && near(with.P99, without.P99)
		v.Detail += fmt.Sprintf("; %s for %.0f %% of the time", above, 100*float64(q.TakenNS)/
			math.Max(1, float64(q.SpanNS)))
		if enough {
			v.Detail += fmt.Sprintf(": p99 is %s, and %s without the operations that were due then",
				ms(with.P99), ms(without.P99))
		}
	}
	return v
}

// others is the share of the CPU that other programs took, as far as it is known.
func (f Facts) others() string {
	least, most := 100*f.Machine.OthersShare(), 100*f.Machine.OthersMost()
	if most-least < 1 {
		return fmt.Sprintf("%.1f %%", least)
	}
	return fmt.Sprintf("between %.1f %% and %.1f %%, because some store CPU samples are missing",
		least, most)
}

// near says that two times differ by less than rundir.QuietShare of the second one. Two
// infinite ones need not be alike: more operations may have had no answer in one case.
func near(a, b int64) bool {
	return a != rundir.Infinite && b != rundir.Infinite &&
		(a == b || math.Abs(float64(a)-float64(b)) < rundir.QuietShare*float64(b))
}

// The names of the assumptions about times: that operations were dispatched when they were
// due, that a goroutine which is ready soon gets a CPU, that the generator was not short of
// CPU, that its garbage collector did not pause it, and that the machine was there for the run.
const (
	PacerLagName     = "pacer-lag"
	CoreWaitName     = "core-wait"
	GeneratorCPUName = "generator-cpu"
	GCPauseName      = "gc-pause"
	InterferenceName = "interference"
	// SideBySideName is there alone, and fails, where designs ran side by side.
	SideBySideName = "one-at-a-time"
	// SimulatedName is there alone, and fails, in a simulation.
	SimulatedName = "virtual-time"
)

// AccountingName and ScheduleName are the names of the assumptions that every operation is
// accounted for, and that the schedule was offered.
const (
	AccountingName = "accounting"
	ScheduleName   = "schedule"
)

// Crowded returns how much of the machine was not there for the run, on average, so that
// lateness need not be the design's doing; "" if it was there.
func (f Facts) Crowded() (why string) {
	if share := f.Generator.StealShare; share > StealMost {
		return fmt.Sprintf("the hypervisor took %.1f %% of the CPU (at most %.0f %%)", 100*share,
			100*StealMost)
	}
	if share := f.Machine.OthersShare(); share > OthersMost {
		return fmt.Sprintf("other programs took %.2f of this machine's %d cores, %.0f %% (at most "+
			"%.0f %%)", share*float64(f.Machine.Cores), f.Machine.Cores, 100*share, 100*OthersMost)
	}
	return ""
}

// relative is a share of a duration, but no less than the floor, which is
// what it is for an infinite duration.
func relative(floor int64, share float64, of int64) int64 {
	if of == rundir.Infinite {
		return floor
	}
	return max(floor, int64(share*float64(of)))
}

func ms(ns int64) string {
	if ns == rundir.Infinite {
		return "∞"
	}
	return fmt.Sprintf("%.3f ms", float64(ns)/nanoPerMSec)
}
