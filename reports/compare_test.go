package reports_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports"
)

func TestCompareRuns(t *testing.T) {
	base := fixture{designs: flashSale()[:3], repeats: 6, ops: 2000}.build(t)
	slower := flashSale()[:3]
	slower[0].p50 *= 2
	candidate := fixture{designs: slower[:2], repeats: 6, ops: 2000}.build(t)
	candidate.Summary.Variants[0].Invariants[3].Status = check.Broken
	c := reports.Compare(reports.Labelled{Label: "main", Data: base},
		reports.Labelled{Label: "branch", Data: candidate})
	if len(c.Mismatches) != 0 {
		t.Errorf("mismatches %q", c.Mismatches)
	}
	if len(c.Changes) != 1 || !c.Changes[0].Worse() || c.Changes[0].Name != "paid-has-unit" {
		t.Errorf("changes %+v", c.Changes)
	}
	if len(c.OnlyBase) != 1 || c.OnlyBase[0] != "counter_in_place" || len(c.OnlyCandidate) != 0 {
		t.Errorf("only %q %q", c.OnlyBase, c.OnlyCandidate)
	}
	p99 := c.Metrics[0].Comparisons[1]
	if p99.Metric != "p99" || p99.Ratio < 1.5 || p99.Ratio > 2.6 || !p99.Significant || !p99.Large {
		t.Errorf("a doubled latency: %+v", p99)
	}
	if len(c.Regressions) != 2 || c.Regressions[1].Metric != "p99" || len(c.Undecided(false)) != 0 {
		t.Errorf("regressions %v, undecided %q", c.Regressions, c.Undecided(false))
	}
	back := reports.Compare(reports.Labelled{Label: "branch", Data: candidate},
		reports.Labelled{Label: "main", Data: base})
	if len(back.Regressions) != 0 {
		t.Errorf("what got better is a regression: %v", back.Regressions)
	}
	if same := c.Metrics[1].Comparisons[1]; same.Large && same.Significant {
		t.Errorf("an unchanged design: %+v", same)
	}
}

func TestCompareFlagsWhatIsNotComparable(t *testing.T) {
	base, other := one(t), one(t)
	other.Summary.Environment.Fingerprint = "another machine"
	other.Summary.Run.Profile = "smoke"
	other.Summary.Verdict.Measurement = rundir.Invalid
	c := reports.Compare(reports.Labelled{Label: "a", Data: base},
		reports.Labelled{Label: "b", Data: other})
	text := strings.Join(c.Mismatches, "\n")
	for _, want := range []string{"environment fingerprint differs", "profile differs",
		"the measurement of b is INVALID"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// TestUndecided: no regression is claimed, or ruled out, where the runs cannot
// tell.
func TestUndecided(t *testing.T) {
	few := fixture{designs: flashSale()[:1], repeats: 4, ops: 2000}.build(t)
	slower := flashSale()[:1]
	slower[0].p50 *= 3
	worse := fixture{designs: slower, repeats: 4, ops: 2000}.build(t)
	a, b := reports.Labelled{Label: "a", Data: few}, reports.Labelled{Label: "b", Data: worse}
	c := reports.Compare(a, b)
	if why := c.Undecided(false); len(c.Regressions) != 0 || len(why) != 1 ||
		!strings.Contains(why[0], "4 and 4 finished repeats can never show a regression") ||
		!strings.Contains(why[0], "5 a side can") {
		t.Errorf("four repeats: %v, %q", c.Regressions, why)
	}
	enough := fixture{designs: flashSale()[:1], repeats: 5, ops: 2000}.build(t)
	a.Data, b.Data = enough, fixture{designs: slower, repeats: 5, ops: 2000}.build(t)
	b.Data.Summary.Environment.Fingerprint = "other"
	c = reports.Compare(a, b)
	if len(c.Undecided(false)) != 1 || len(c.Undecided(true)) != 0 || len(c.Regressions) == 0 {
		t.Errorf("another machine: %q, allowed: %q, %v", c.Undecided(false), c.Undecided(true),
			c.Regressions)
	}
	b.Data.Summary.Run.ScenarioDigest = "other"
	if why := reports.Compare(a, b).Undecided(true); len(why) != 1 {
		t.Errorf("another scenario: %q", why)
	}
	b.Data.Summary.Variants = nil
	if why := reports.Compare(a, b).Undecided(true); len(why) != 2 {
		t.Errorf("nothing in common: %q", why)
	}
}

func TestCompareText(t *testing.T) {
	a, b := reports.Labelled{Label: "a", Data: three(t)}, reports.Labelled{Label: "b", Data: three(t)}
	b.Data.Summary.Environment.Fingerprint = "other"
	first := &b.Data.Summary.Variants[0]
	first.Invariants = slices.Clone(first.Invariants)
	first.Invariants[0].Status = check.Undecided
	alone := reports.Labelled{Label: "c", Data: one(t)}
	var out bytes.Buffer
	if err := reports.CompareText(&out, reports.Compare(a, b), reports.Compare(a, alone)); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", out.String())
}
