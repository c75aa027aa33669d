package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
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
	// Changes are the verdicts that differ, worse or better.
	Changes []VerdictChange
	// OnlyBase and OnlyCandidate are the variants that just one run has.
	OnlyBase, OnlyCandidate []string
	// Metrics has the comparisons of each common variant; Base and Candidate
	// are the labels.
	Metrics []VariantComparison
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
		Mismatches: mismatches(base, candidate)}
	for _, va := range a.Variants {
		i := slices.IndexFunc(b.Variants, func(v rundir.Variant) bool { return v.Name == va.Name })
		if i < 0 {
			c.OnlyBase = append(c.OnlyBase, va.Name)
			continue
		}
		vb := b.Variants[i]
		c.Changes = append(c.Changes, changes(va, vb)...)
		family := stats.Family(base.Label, candidate.Label, stats.Samples(va), stats.Samples(vb),
			a.Run.Seed)
		c.Metrics = append(c.Metrics, VariantComparison{Variant: va.Name,
			KnownWrong: len(vb.ExpectedBroken) > 0, Comparisons: family})
	}
	for _, vb := range b.Variants {
		if !slices.ContainsFunc(a.Variants, func(v rundir.Variant) bool { return v.Name == vb.Name }) {
			c.OnlyCandidate = append(c.OnlyCandidate, vb.Name)
		}
	}
	return c
}

// mismatches lists what must be equal for times to be comparable.
func mismatches(base, candidate Labelled) (list []string) {
	a, b := base.Data.Summary, candidate.Data.Summary
	differ := func(what, x, y string) {
		if x != y {
			list = append(list, fmt.Sprintf("%s differs: %s and %s", what, orNone(printable(x)),
				orNone(printable(y))))
		}
	}
	differ("environment fingerprint", a.Environment.Fingerprint, b.Environment.Fingerprint)
	differ("backend", a.Environment.Backend, b.Environment.Backend)
	differ("scenario", a.Run.Scenario, b.Run.Scenario)
	differ("profile", a.Run.Profile, b.Run.Profile)
	differ("scenario digest", a.Run.ScenarioDigest, b.Run.ScenarioDigest)
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

// CompareText writes the comparison of every candidate with the base: first
// why it may not count, then verdicts that changed, then the ratios with
// their marks.
func CompareText(w io.Writer, base Labelled, candidates ...Labelled) error {
	var out bytes.Buffer
	for i, candidate := range candidates {
		if i > 0 {
			out.WriteByte('\n')
		}
		compareText(&out, Compare(base, candidate))
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
