package reports_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// passesNoisily is a run whose correctness is decided and whose times are noisy: an objective and a
// promise of time are not judged, and a control is caught without all of the evidence.
func passesNoisily(t *testing.T) answer.Data {
	designs := flashSale()
	d := fixture{designs: []design{designs[0], designs[7]}, repeats: 2, ops: 1000}.build(t)
	s := &d.Summary
	s.Verdict = rundir.Verdict{Overall: rundir.Pass, Correctness: rundir.Pass,
		Objectives: rundir.NotJudged, Timing: rundir.Noisy}
	for i := range s.Variants {
		v := &s.Variants[i]
		v.Timing = rundir.Noisy
		for k := range v.Repeats {
			v.Repeats[k].Timing = rundir.Noisy
			v.Repeats[k].Validity = append(v.Repeats[k].Validity, rundir.Validity{Name: "steal",
				Class: rundir.Times, Detail: "the hypervisor took 33 % of the CPU"})
		}
	}
	v := &s.Variants[0]
	v.Objectives = rundir.NotJudged
	v.SLOs[0].Status, v.SLOs[0].NotJudged = check.Undecided, true
	v.SLOs[0].Reason = "it was missed (8.2%, limit 0.1%), and the machine interfered"
	v.Invariants[4] = check.Verdict{Invariant: "refund-when-late", Status: check.Undecided, Late: 3,
		Reason: "the machine interfered"}
	control := &s.Variants[1]
	control.Invariants[1] = check.Verdict{Invariant: "one-per-buyer", Status: check.Undecided,
		Reason: "nobody bought twice"}
	control.Repeats[0].Validity = append(control.Repeats[0].Validity, rundir.Validity{
		Name: "schedule", Class: rundir.Evidence, Detail: "98 % was offered"})
	return d
}

// TestANoisyRunIsNotRed: where the verdict is PASS a CI system shows nothing red. That the
// times are noisy is a property, and what noise leaves open is skipped.
func TestANoisyRunIsNotRed(t *testing.T) {
	suites := junitOf(t, passesNoisily(t))
	if n := totals(suites); n[junit.StatusFailed]+n[junit.StatusError] > 0 {
		t.Errorf("there are failures or errors: %v", n)
	}
	var skipped []string
	for _, suite := range suites {
		if got := suite.Properties["timing"]; got != rundir.Noisy {
			t.Errorf("the property timing is %q", got)
		}
		for _, c := range suite.Tests {
			if c.Status == junit.StatusSkipped {
				skipped = append(skipped, c.Name+": "+c.Message)
			}
		}
	}
	text := strings.Join(skipped, "\n")
	for _, want := range []string{"refund-when-late: not judged: the machine interfered",
		"not judged: it was missed (8.2%, limit 0.1%)", "one-per-buyer: nobody bought twice",
		"evidence: repeat 1: schedule: 98 % was offered"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q among what is skipped:\n%s", want, text)
		}
	}
}

// TestAMissedPromiseIsNoViolation: a promise of time that was missed on clean times is a
// failure of its own type, and one of a design that is known to be wrong is none.
func TestAMissedPromiseIsNoViolation(t *testing.T) {
	designs := flashSale()
	d := fixture{designs: []design{designs[0], designs[7]}, repeats: 1, ops: 1000}.build(t)
	late := check.Verdict{Invariant: "refund-when-late", Status: check.Broken, Count: 3, Late: 3,
		Reason: "3 refunds came late"}
	for i := range d.Summary.Variants {
		d.Summary.Variants[i].Invariants[4] = late
		d.Summary.Variants[i].Repeats[0].Invariants[4] = late
	}
	d.Summary.Variants[0].Verdict, d.Summary.Variants[0].Objectives = rundir.Fail, rundir.Fail
	var failures []string
	for _, suite := range junitOf(t, d) {
		for _, c := range suite.Tests {
			if e := (junit.Error{}); errors.As(c.Error, &e) {
				failures = append(failures, suite.Name+" "+c.Name+": "+e.Type)
			}
		}
	}
	want := "flash-sale-100k/conditional_update invariant: refund-when-late: missed"
	if len(failures) != 1 || failures[0] != want {
		t.Errorf("failures are %q", failures)
	}
}
