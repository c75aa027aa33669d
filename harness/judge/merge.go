package judge

import (
	"slices"

	"stampede/harness/check"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/stats"
)

// timings orders the states of times, the best first.
var timings = []string{rundir.Clean, rundir.Noisy, rundir.NoTimes}

// use marks the repeats whose times are the variant's and returns their state: of each
// repeat the run of it with the best times, and of those the ones in the best state that
// there is. The second run of the baseline is a control and never used, nor is another run of
// a repeat without all evidence.
func use(repeats []rundir.Repeat) (state string, used []rundir.Repeat) {
	rank := func(i int) int { return slices.Index(timings, repeats[i].Timing) }
	best := map[int]int{} // the place of the best run, by the index of the repeat
	least := len(timings)
	for i, r := range repeats {
		repeats[i].Used = false
		if r.Control || r.Again != nil && len(missing(r)) > 0 {
			continue
		}
		if other, ok := best[planned(r)]; !ok || rank(i) < rank(other) {
			best[planned(r)] = i
		}
		least = min(least, rank(i))
	}
	if least == len(timings) {
		return rundir.NoTimes, nil
	}
	for _, i := range best {
		repeats[i].Used = rank(i) == least
	}
	for _, r := range repeats {
		if r.Used {
			used = append(used, r)
		}
	}
	return timings[least], used
}

// planned is the index of the repeat that was planned: of r itself, or of the one it repeats.
func planned(r rundir.Repeat) int {
	if r.Again != nil {
		return *r.Again
	}
	return r.Index
}

// mergeRepeats adds a variant's repeats up.
func (j *Judge) mergeRepeats(v *rundir.Variant) error {
	var used []rundir.Repeat
	v.Timing, used = use(v.Repeats)
	m, err := measure.Merge(used)
	if err != nil {
		return err
	}
	v.Load, v.Latency = m.Load, m.Latency
	v.Operations, v.ThroughputPerS = m.Operations, m.ThroughputPerS
	if v.Operations == nil {
		v.Operations = []rundir.Operation{}
	}
	v.Invariants, v.SLOs = []check.Verdict{}, []check.SLOVerdict{}
	if len(v.Repeats) > 0 {
		v.Invariants = worstInvariants(v.Repeats)
		v.SLOs = worstSLOs(used)
		v.Races = allRaces(v.Repeats)
	}
	p := j.Verdict(v.Name, v.Repeats)
	v.Correctness, v.Objectives = p.Answer, p.Objectives
	v.Verdict, v.Reasons = p.Overall(), p.Reasons
	return nil
}

// allRaces adds the races of repeats up, the control left out so that designs compare; nil
// if none were counted.
func allRaces(repeats []rundir.Repeat) (sum *rundir.Races) {
	for _, r := range repeats {
		if r.Races == nil || r.Control {
			continue
		}
		if sum == nil {
			sum = &rundir.Races{Kinds: r.Races.Kinds, Least: r.Races.Least}
		}
		sum.Successful += r.Races.Successful
		sum.Raced += r.Races.Raced
		sum.Peak = max(sum.Peak, r.Races.Peak)
	}
	return sum
}

// worstInvariants merges the verdicts of each invariant over the repeats.
func worstInvariants(repeats []rundir.Repeat) []check.Verdict {
	order, by := []string{}, map[string][]check.Verdict{}
	for _, r := range repeats {
		for _, v := range r.Invariants {
			if !slices.Contains(order, v.Invariant) {
				order = append(order, v.Invariant)
			}
			if !r.Used && (v.OnlyLate() && v.Open == "" || v.NotJudged()) && len(repeats) > 1 {
				continue // promises of time are judged by the times that are used
			}
			by[v.Invariant] = append(by[v.Invariant], v)
		}
	}
	out := []check.Verdict{}
	for _, name := range order {
		if len(by[name]) > 0 {
			out = append(out, merge(by[name]))
		}
	}
	return out
}

// worstSLOs keeps the worst verdict of each objective over the repeats; of
// equals, the one with the smallest margin.
func worstSLOs(repeats []rundir.Repeat) []check.SLOVerdict {
	out := []check.SLOVerdict{}
	for _, r := range repeats {
		for i, v := range r.SLOs {
			switch {
			case i == len(out):
				out = append(out, v)
			case outranks(v.Status, out[i].Status),
				v.Status == out[i].Status && v.Margin < out[i].Margin:
				out[i] = v
			}
		}
	}
	return out
}

// overall is the verdict of the whole run.
func (j *Judge) overall(s rundir.Summary) rundir.Verdict {
	v := rundir.Verdict{Correctness: rundir.Pass, Objectives: rundir.Pass, Timing: rundir.Clean,
		Reasons: []string{}}
	clean, without := 0, 0
	for _, variant := range s.Variants {
		invalid := variant.Verdict == rundir.Invalid
		v.Correctness = worse(severity, v.Correctness, decided(variant.Correctness, invalid))
		v.Objectives = worse(severity, v.Objectives, variant.Objectives)
		switch variant.Timing {
		case rundir.Clean:
			clean++
		case rundir.NoTimes:
			without++
		}
		v.Reasons = append(v.Reasons, prefixed(variant.Name, variant.Reasons)...)
	}
	switch {
	case without == len(s.Variants):
		v.Timing = rundir.NoTimes
	case clean < len(s.Variants):
		v.Timing = rundir.Noisy
	}
	if len(s.Variants) == 0 || s.Run.Interrupted {
		v.Correctness = worse(severity, v.Correctness, rundir.Inconclusive)
	}
	v.Overall = overall(v.Correctness, v.Objectives)
	return v
}

// noiseFloor is how far the baseline's second run, the control, differs from its first one;
// nil if it did not run twice or has no times. With successes it is of successful operations.
func noiseFloor(v rundir.Variant, successes bool) *rundir.NoiseFloor {
	if len(v.Operations) == 0 {
		return nil
	}
	var first, control *rundir.Percentiles
	for _, r := range v.Repeats {
		p, ok := stats.MainResponse(r, v.Operations[0].Kind, successes)
		switch {
		case !ok || r.Timing == rundir.NoTimes:
		case r.Control && (control == nil || r.Timing == rundir.Clean):
			control = &p
		case !r.Control && r.Used && first == nil:
			first = &p
		}
	}
	if first == nil || control == nil {
		return nil
	}
	p50, ok50 := factor(first.P50, control.P50)
	p99, ok99 := factor(first.P99, control.P99)
	if !ok50 || !ok99 {
		return nil
	}
	return &rundir.NoiseFloor{Variant: v.Name, P50: p50, P99: p99}
}

// factor is how many times as long the longer of two times is, 1 or more; false if that is
// no finite number.
func factor(a, b int64) (float64, bool) {
	if a == b {
		return 1, true
	}
	low, high := min(a, b), max(a, b)
	return float64(high) / float64(low), low > 0 && high != rundir.Infinite
}

// merge returns the worst verdict of one invariant over the repeats: the
// first one that is Broken, else the first Undecided, else the first. Checked,
// Unknown, Watched and Accepted are of all repeats, Count is the largest. What is only late
// is less than any other violation, and what is not judged less than what is open.
func merge(verdicts []check.Verdict) check.Verdict {
	worst := verdicts[0]
	checked, unknown := 0, 0
	for _, v := range verdicts {
		checked += v.Checked
		unknown += v.Unknown
		switch {
		case outranks(v.Status, worst.Status):
			worst = v
		case outranks(worst.Status, v.Status):
		case v.OnlyLate() != worst.OnlyLate(), v.NotJudged() != worst.NotJudged():
			if worst.OnlyLate() || worst.NotJudged() {
				worst = v
			}
		case v.Status == check.Broken && v.Count > worst.Count:
			worst = v
		}
	}
	worst.Checked, worst.Unknown = checked, unknown
	worst.Watched, worst.Accepted = check.WatchedOver(verdicts), check.LossesOver(verdicts)
	return worst
}

// outranks says that a is worse than b.
func outranks(a, b check.Status) bool { return a != b && check.Worse(a, b) == a }
