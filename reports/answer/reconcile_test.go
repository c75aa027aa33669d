package answer

import (
	"strings"
	"testing"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/reports/words"
)

// TestReconciled: the arrivals, the operations that they bring and those that tables leave
// out are told in one sentence, which says nothing where the numbers do not add up.
func TestReconciled(t *testing.T) {
	phases := func(warmUp, steady int64) []rundir.Phase {
		return []rundir.Phase{{Name: "warm-up", Load: rundir.Load{Scheduled: warmUp}},
			{Name: "steady", Load: rundir.Load{Scheduled: steady}},
			{Name: "before stall", Load: rundir.Load{Scheduled: steady}}}
	}
	r := rundir.Repeat{Used: true, Load: rundir.Load{Scheduled: 1070}, Operations: []rundir.Operation{
		{Kind: "buy", Phases: phases(50, 1000)}, {Kind: "payment", Phases: phases(2, 70)}}}
	all := []Standing{{Variant: rundir.Variant{Name: "counter_row", Repeats: []rundir.Repeat{r}}}}
	want := "One load has several counts. Of counter_row: 1,000 arrivals brought 1,122 operations " +
		"(1,050 buy and 72 payment), because clients retry, and one operation leads to others; " +
		"52 of them were due in the warm-up, which the tables of times and counts leave out, so that " +
		"these have 1,070."
	if got := Reconciled(all, 1000); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	all[0].Repeats[0].Load.Scheduled++
	if got := Reconciled(all, 1000); got != "" {
		t.Errorf("of numbers that do not add up it says %q", got)
	}
}

// TestLimits: the sentence names the limits that are in force.
func TestLimits(t *testing.T) {
	for text, want := range map[string]string{
		"load: {max_in_flight: 256}\nstores: {max_conns: 16}": "At most 256 operations at once, 16 " +
			"connections to each store; more have to wait, which response times include.",
		"stores: {max_conns: 1}": "At most 1 connection to each store; more have to wait, " +
			"which response times include.",
		"params: {units: 3}\nnewer: 4\nload: {users: 4}": "", "\t": "", "- 1": "",
	} {
		if got := LimitsText(scenario.Recorded([]byte(text))); got != want {
			t.Errorf("of %q it says %q, want %q", text, got, want)
		}
	}
}

// TestObjectiveNames: what was promised is named, and that no time was only where it is so.
func TestObjectiveNames(t *testing.T) {
	st := Standing{Variant: rundir.Variant{SLOs: []check.SLOVerdict{
		{Name: "no-unknown", Objective: "share(unknown, buy) <= 0.1%"},
		{Name: "no-dropped", Objective: "share(dropped, buy) <= 0.1%"}}}}
	if got := objectiveNames([]Standing{st}); got != "no-unknown and no-dropped; none is about time" {
		t.Errorf("got %q", got)
	}
	st.SLOs[1] = check.SLOVerdict{Name: "buy-p99", Objective: "p99(response, buy) <= 500ms"}
	if got := objectiveNames([]Standing{st}); strings.Contains(got, "time") {
		t.Errorf("one is about time, and it says %q", got)
	}
}

// TestWhereDesignsRan: the line of facts says it, of a run that recorded it.
func TestWhereDesignsRan(t *testing.T) {
	for how, want := range map[string]string{"in-process": "designs in the load generator's process",
		"processes": "designs in processes of their own", "containers": "designs in containers",
		"": ""} {
		s := rundir.Summary{Environment: rundir.Environment{Backend: "processes", Deploy: how, Cores: 2}}
		if got := Glance(s); got != words.JoinNonEmpty(" · ", "backend processes", want, "2 cores") {
			t.Errorf("%q: %q", how, got)
		}
	}
}
