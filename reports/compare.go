package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/stats"
)

// Labelled is a run under the name that a comparison calls it by.
type Labelled struct {
	Label string
	Data  Data
}

// RunComparison compares the variants that two runs have in common.
type RunComparison struct {
	Base, Candidate string
	// Mismatches say why the runs' times must not be compared: another
	// machine, other stores, another scenario. Empty means that they may.
	Mismatches []string
	// Machine is how many of Mismatches, the first ones, are about what the
	// runs stood on rather than what they did.
	Machine int
	// Changes are the verdicts that differ, worse or better.
	Changes []VerdictChange
	// OnlyBase and OnlyCandidate are the variants that just one run has.
	OnlyBase, OnlyCandidate []string
	// Metrics has the comparisons of each common variant; Base and Candidate
	// are the labels.
	Metrics []VariantComparison
	// Regressions are the metrics that got worse, significantly and by a large
	// share. Those of variants that are known to be wrong do not count.
	Regressions []Regression
	// Few says which variants had too few repeats to ever show a regression.
	Few []string
}

// Regression is a metric of a variant that got worse.
type Regression struct {
	Variant string
	rundir.Comparison
}

// String is the regression on one line, with its ratio and p.
func (r Regression) String() string {
	row := comparisonRows([]rundir.Comparison{r.Comparison})[0]
	what := row.Ratio + " of the base"
	if r.Ratio == 0 && r.Note != "" {
		what = r.Note
	}
	return fmt.Sprintf("%s: %s: %s, Holm p %s, n = %d", oneLine(r.Variant), row.Metric, what,
		orNone(row.P), r.N)
}

// Undecided says why the comparison cannot tell whether anything regressed;
// empty means that it can. With acrossMachines, what the runs stood on may
// differ.
func (c RunComparison) Undecided(acrossMachines bool) []string {
	why := slices.Clone(c.Mismatches)
	if acrossMachines {
		why = why[c.Machine:]
	}
	if len(c.Metrics) == 0 {
		why = append(why, "the runs have no variant in common")
	}
	return append(why, c.Few...)
}

// VerdictChange is an invariant or objective that is judged differently.
type VerdictChange struct {
	Variant, Name string
	From, To      check.Status
}

// Worse reports whether the change is for the worse: broken now, or no longer
// held.
func (c VerdictChange) Worse() bool { return c.To == check.Broken || c.From == check.Held }

// VariantComparison compares one variant between two runs.
type VariantComparison struct {
	Variant string
	// KnownWrong is set for a variant that is expected to break invariants.
	KnownWrong  bool
	Comparisons []rundir.Comparison
}

// Compare compares a candidate run with a base run, variant by variant, with
// the repeats of each as samples. Runs whose environments differ in
// fingerprint are compared all the same, and flagged.
func Compare(base, candidate Labelled) RunComparison {
	a, b := base.Data.Summary, candidate.Data.Summary
	c := RunComparison{Base: base.Label, Candidate: candidate.Label,
		Mismatches: onMachine(base, candidate)}
	c.Machine = len(c.Mismatches)
	c.Mismatches = append(c.Mismatches, mismatches(base, candidate)...)
	for _, va := range a.Variants {
		i := slices.IndexFunc(b.Variants, func(v rundir.Variant) bool { return v.Name == va.Name })
		if i < 0 {
			c.OnlyBase = append(c.OnlyBase, va.Name)
			continue
		}
		vb := b.Variants[i]
		c.Changes = append(c.Changes, changes(va, vb)...)
		sa, sb := stats.Samples(va), stats.Samples(vb)
		metrics := VariantComparison{Variant: va.Name, KnownWrong: len(vb.ExpectedBroken) > 0,
			Comparisons: stats.Family(base.Label, candidate.Label, sa, sb, a.Run.Seed)}
		c.Metrics = append(c.Metrics, metrics)
		if !metrics.KnownWrong {
			c.judge(metrics, sa, sb)
		}
	}
	for _, vb := range b.Variants {
		if !slices.ContainsFunc(a.Variants, func(v rundir.Variant) bool { return v.Name == vb.Name }) {
			c.OnlyCandidate = append(c.OnlyCandidate, vb.Name)
		}
	}
	return c
}

// judge finds what got worse in a variant, or says that it never could.
func (c *RunComparison) judge(v VariantComparison, base, candidate []stats.Sample) {
	for _, row := range v.Comparisons {
		a, b := sampleOf(base, row), sampleOf(candidate, row)
		if n, m := len(a.Values), len(b.Values); !stats.CanShow(n, m, len(v.Comparisons)) {
			c.Few = append(c.Few, fmt.Sprintf("%s: %d and %d finished repeats can never show a "+
				"regression in %d metrics, %d a side can", oneLine(v.Variant), n, m,
				len(v.Comparisons), stats.LeastRepeats(len(v.Comparisons))))
			return
		}
		if row.Significant && row.Large && stats.Worse(a, b) {
			c.Regressions = append(c.Regressions, Regression{v.Variant, row})
		}
	}
}

// sampleOf is the sample that a comparison was made from.
func sampleOf(samples []stats.Sample, c rundir.Comparison) stats.Sample {
	i := slices.IndexFunc(samples, func(s stats.Sample) bool {
		return s.Metric == c.Metric && s.Op == c.Op
	})
	return samples[i]
}

// differing describes two values that should be equal, if they are not.
func differing(what, x, y string) []string {
	if x == y {
		return nil
	}
	return []string{fmt.Sprintf("%s differs: %s and %s", what, orNone(printable(x)),
		orNone(printable(y)))}
}

// onMachine lists what the runs stood on and what differs in it.
func onMachine(base, candidate Labelled) []string {
	a, b := base.Data.Summary.Environment, candidate.Data.Summary.Environment
	return append(differing("environment fingerprint", a.Fingerprint, b.Fingerprint),
		differing("backend", a.Backend, b.Backend)...)
}

// mismatches lists what else must be equal for times to be comparable.
func mismatches(base, candidate Labelled) (list []string) {
	a, b := base.Data.Summary.Run, candidate.Data.Summary.Run
	list = append(list, differing("scenario", a.Scenario, b.Scenario)...)
	list = append(list, differing("profile", a.Profile, b.Profile)...)
	list = append(list, differing("scenario digest", a.ScenarioDigest, b.ScenarioDigest)...)
	list = append(list, differing("seed", strconv.FormatUint(a.Seed, 10),
		strconv.FormatUint(b.Seed, 10))...)
	list = append(list, differing("arrival digest", a.ArrivalDigest, b.ArrivalDigest)...)
	for _, side := range []Labelled{base, candidate} {
		if m := side.Data.Summary.Verdict.Measurement; m != rundir.Pass {
			list = append(list, fmt.Sprintf("the measurement of %s is %s", printable(side.Label),
				orNone(m)))
		}
	}
	return list
}

func changes(a, b rundir.Variant) (list []VerdictChange) {
	for _, x := range a.Invariants {
		for _, y := range b.Invariants {
			if x.Invariant == y.Invariant && x.Status != y.Status {
				list = append(list, VerdictChange{a.Name, x.Invariant, x.Status, y.Status})
			}
		}
	}
	for _, x := range a.SLOs {
		for _, y := range b.SLOs {
			if x.Name == y.Name && x.Status != y.Status {
				list = append(list, VerdictChange{a.Name, x.Name, x.Status, y.Status})
			}
		}
	}
	return list
}

// CompareText writes comparisons of candidates with one base: first why each
// may not count, then verdicts that changed, then the ratios with
// their marks.
func CompareText(w io.Writer, comparisons ...RunComparison) error {
	var out bytes.Buffer
	for i, c := range comparisons {
		if i > 0 {
			out.WriteByte('\n')
		}
		compareText(&out, c)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func compareText(out *bytes.Buffer, c RunComparison) {
	fmt.Fprintf(out, "%s against %s\n", oneLine(c.Candidate), oneLine(c.Base))
	for _, m := range c.Mismatches {
		fmt.Fprintf(out, "! not comparable: %s\n", m)
	}
	for _, change := range c.Changes {
		icon := "+"
		if change.Worse() {
			icon = "✗"
		}
		fmt.Fprintf(out, "%s %s: %s was %s, is %s\n", icon, oneLine(change.Variant),
			oneLine(change.Name), change.From, change.To)
	}
	for _, only := range []struct {
		names []string
		label string
	}{{c.OnlyBase, c.Base}, {c.OnlyCandidate, c.Candidate}} {
		if len(only.names) > 0 {
			fmt.Fprintf(out, "only in %s: %s\n", oneLine(only.label),
				oneLine(strings.Join(only.names, ", ")))
		}
	}
	compareTable(out, c)
}

func compareTable(out *bytes.Buffer, c RunComparison) {
	if len(c.Metrics) == 0 {
		out.WriteString("no variant in common\n")
		return
	}
	out.WriteByte('\n')
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "VARIANT\tMETRIC\tRATIO\t95 % CI\tEXACT p\tHOLM p\tn\tMARKS\tNOTE")
	for _, v := range c.Metrics {
		for _, row := range comparisonRows(v.Comparisons) {
			fmt.Fprintln(tw, strings.Join([]string{oneLine(v.Variant), row.Metric, row.Ratio,
				orNone(row.Interval), row.PExact, orNone(row.P), fmt.Sprint(row.N),
				marks(row.ratioCell), row.Note}, "\t"))
		}
	}
	_ = tw.Flush() // to a buffer: it cannot fail
	out.WriteString("\nsignificant: exact Mann-Whitney, p < 0.05 after Holm's correction over the " +
		"metrics of a variant; large: 5 % or more\n")
	for _, r := range c.Regressions {
		fmt.Fprintf(out, "regression: %s\n", r)
	}
}

// marks are the two separate marks of a ratio.
func marks(c ratioCell) string {
	var list []string
	if c.Significant {
		list = append(list, "significant")
	}
	if c.Large {
		list = append(list, "large")
	}
	return orNone(strings.Join(list, ", "))
}
