package stats

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"stampede/harness/rundir"
)

// The rules of a comparison.
const (
	// MinForP is how many repeats a side a p-value needs: with three, the
	// smallest possible p is 0.10 and nothing could ever be significant.
	MinForP = 4
	// MinForInterval is how many repeats a side an interval needs.
	MinForInterval = 6
	// Alpha is the level that a corrected p must stay below.
	Alpha = 0.05
	// LargeShare is how far a ratio must be from 1 to be worth acting on.
	LargeShare = 0.05
)

// Sample is one metric of one operation kind, one value a repeat.
type Sample struct {
	// Metric is "p50", "p99" (response time in nanoseconds) or "throughput"
	// (OK operations per second).
	Metric string
	// Op is an operation kind, empty for all together.
	Op     string
	Values []float64
	// Approximate says that the values are noisy.
	Approximate bool
}

// Samples returns the compared metrics of a variant: response p50 and p99 of
// the main operation kind, and the throughput, of the repeats whose times are used.
// Repeats that could not be finished, or that are without an operation, are
// left out; dropped and unfinished operations make a percentile +Inf. With successes the
// response times are those of the successful operations alone; see OfSuccesses.
func Samples(v rundir.Variant, successes bool) []Sample {
	op := ""
	if len(v.Operations) > 0 {
		op = v.Operations[0].Kind
	}
	noisy := v.Timing != rundir.Clean
	p50 := Sample{Metric: "p50", Op: op, Approximate: noisy}
	p99 := Sample{Metric: "p99", Op: op, Approximate: noisy}
	throughput := Sample{Metric: "throughput", Approximate: noisy}
	for _, r := range v.Repeats {
		response, ok := MainResponse(r, op, successes)
		if !ok || !r.Used || r.Timing == rundir.NoTimes {
			continue
		}
		p50.Values = append(p50.Values, nanoseconds(response.P50))
		p99.Values = append(p99.Values, nanoseconds(response.P99))
		throughput.Values = append(throughput.Values, r.ThroughputPerS)
	}
	return []Sample{p50, p99, throughput}
}

// OfSuccesses says that designs are compared by the response times of their successful
// operations alone: one of them refused operations, which takes less time than what it
// refuses, and the times of the successful ones are known of every design.
func OfSuccesses(variants []rundir.Variant) bool {
	refused := false
	for _, v := range variants {
		if len(v.Operations) == 0 {
			continue
		}
		if _, known := v.Operations[0].SuccessfulResponse(); !known {
			return false
		}
		refused = refused || v.Operations[0].Load.Refused > 0
	}
	return refused
}

// MainResponse returns the response times of an operation kind in a repeat that was
// finished, or of its successful operations alone; false if there are none.
func MainResponse(r rundir.Repeat, kind string, successes bool) (p rundir.Percentiles, ok bool) {
	if r.Error != "" {
		return p, false
	}
	for _, op := range r.Operations {
		if op.Kind != kind {
			continue
		}
		if p = op.Latency.Response; successes {
			p, _ = op.SuccessfulResponse()
		}
		return p, p.Count > 0
	}
	return p, false
}

func nanoseconds(ns int64) float64 {
	if ns == rundir.Infinite {
		return math.Inf(1)
	}
	return float64(ns)
}

// Comparisons compares every variant with the baseline on the metrics of
// Samples. Holm's correction is over the metrics shown for one variant: each
// variant against the baseline is a question of its own. It returns nil if
// the baseline is not among the variants. The seed decides the bootstrap's
// draws; a comparison's interval does not depend on which others are made. Where no test
// says how sure a ratio is, it must be larger than the noise floor; see rundir.NoiseFloor.Of.
func Comparisons(
	variants []rundir.Variant, baseline string, seed uint64, floor *rundir.NoiseFloor,
) []rundir.Comparison {
	var base []Sample
	found, successes := false, OfSuccesses(variants)
	for _, v := range variants {
		if v.Name == baseline {
			base, found = Samples(v, successes), true
		}
	}
	if !found {
		return nil
	}
	var all []rundir.Comparison
	for _, v := range variants {
		if v.Name != baseline {
			all = append(all, Family(baseline, v.Name, base, Samples(v, successes), seed)...)
		}
	}
	for i := range all {
		all[i] = AboveFloor(all[i], floor)
	}
	return all
}

// AboveFloor drops a ratio that is not larger than the noise floor, unless enough repeats
// tested it. Without a floor, no ratio of noisy times is known to mean anything.
func AboveFloor(c rundir.Comparison, floor *rundir.NoiseFloor) rundir.Comparison {
	if c.PExact != nil || c.Ratio <= 0 || !c.Approximate && floor == nil {
		return c
	}
	switch far, least := max(c.Ratio, 1/c.Ratio), floor.Of(c.Metric); {
	case floor == nil:
		c.Ratio, c.Large, c.Note = 0, false, "no ratio: the times are noisy, and no design ran twice"
	case far <= least:
		c.Ratio, c.Large = 0, false
		c.Note = fmt.Sprintf("within the noise: %.3g×; up to %.3g× means nothing here", far,
			least)
	}
	return c
}

// Family compares the samples of two sides that have the same metric and
// operation kind, and corrects the p-values for the number of them. The names
// of the sides are copied into the results.
func Family(base, candidate string, a, b []Sample, seed uint64) []rundir.Comparison {
	var family []rundir.Comparison
	for _, sa := range a {
		for _, sb := range b {
			if sa.Metric == sb.Metric && sa.Op == sb.Op {
				c := compare(sa, sb, rngFor(seed, candidate, sa))
				c.Base, c.Candidate = base, candidate
				family = append(family, c)
			}
		}
	}
	correct(family)
	return family
}

// rngFor names a stream of its own for each comparison.
func rngFor(seed uint64, candidate string, s Sample) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q", candidate, s.Metric, s.Op)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func compare(base, candidate Sample, rng *rand.Rand) rundir.Comparison {
	c := rundir.Comparison{
		Metric: base.Metric, Op: base.Op,
		N: min(len(base.Values), len(candidate.Values)),
	}
	if c.N == 0 {
		c.Note = "a side has no times"
		return c
	}
	c.Ratio, c.Large, c.Note = ratio(Median(base.Values), Median(candidate.Values))
	if c.Approximate = base.Approximate || candidate.Approximate; c.Approximate {
		c.Note = note(c.Note, "noisy times: no p-value")
		return c
	}
	if c.N < MinForP {
		c.Note = note(c.Note, fmt.Sprintf("%s a side: a p-value needs %d, an interval %d",
			count(c.N, "repeat"), MinForP, MinForInterval))
		return c
	}
	p := MannWhitney(base.Values, candidate.Values)
	c.PExact = &p
	if c.N < MinForInterval {
		c.Note = note(c.Note, fmt.Sprintf("%s a side: an interval needs %d",
			count(c.N, "repeat"), MinForInterval))
		return c
	}
	if interval, ok := RatioInterval(base.Values, candidate.Values, rng); ok {
		c.CI95 = &interval
	}
	return c
}

// Worse says that the candidate's median is worse than the base's: lower for a
// throughput, higher for a time. A side without values is not worse.
func Worse(base, candidate Sample) bool {
	if len(base.Values) == 0 || len(candidate.Values) == 0 {
		return false
	}
	a, b := Median(base.Values), Median(candidate.Values)
	if base.Metric == "throughput" {
		return b < a
	}
	return b > a
}

// CanShow says whether so many repeats on either side could be significant at
// all: whether the smallest possible p stays below Alpha after Holm's
// correction over so many metrics.
func CanShow(base, candidate, metrics int) bool {
	if min(base, candidate) < MinForP {
		return false
	}
	orders := 1.0
	for i := 1; i <= candidate; i++ {
		orders *= float64(base+i) / float64(i)
	}
	return 2/orders*float64(metrics) < Alpha
}

// LeastRepeats is how many repeats a side CanShow needs for so many metrics.
func LeastRepeats(metrics int) int {
	n := MinForP
	for !CanShow(n, n, metrics) {
		n++
	}
	return n
}

// ratio returns candidate / base and whether it is large; where it is not a
// finite number it returns 0 and says why.
func ratio(base, candidate float64) (r float64, large bool, why string) {
	switch {
	case math.IsInf(base, 1) && math.IsInf(candidate, 1):
		return 0, false, "no ratio: both medians are infinite (dropped or unfinished operations)"
	case math.IsInf(base, 1):
		return 0, true, "no ratio: the baseline's median is infinite (dropped or unfinished operations)"
	case math.IsInf(candidate, 1):
		return 0, true, "no ratio: the median is infinite (dropped or unfinished operations)"
	case base == 0:
		return 0, candidate != 0, "no ratio: the baseline's median is zero"
	}
	r = candidate / base
	return r, math.Abs(r-1) >= LargeShare, ""
}

func note(first, second string) string {
	if first == "" {
		return second
	}
	return first + "; " + second
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// correct fills PHolm and Significant of a family.
func correct(family []rundir.Comparison) {
	var p []float64
	for _, c := range family {
		if c.PExact != nil {
			p = append(p, *c.PExact)
		}
	}
	adjusted := Holm(p)
	for i := range family {
		if family[i].PExact == nil {
			continue
		}
		family[i].PHolm = &adjusted[0]
		family[i].Significant = adjusted[0] < Alpha
		adjusted = adjusted[1:]
	}
}
