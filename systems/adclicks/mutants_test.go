package adclicks_test

import (
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/adclicks"
)

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct {
		name, control, mutant string
		named                 []string
	}{
		{"M130 clicks are known for less than the horizon", "control", "M130",
			[]string{adclicks.ClicksOnce}},
		{"M131 offsets before results", "dying", "M131", []string{adclicks.ClicksOnce}},
		{"M132 the watermark of the partition that is ahead", "control", "M132",
			[]string{adclicks.AllAccounted}},
		{"fraud is paid for", "control", "no fraud", []string{adclicks.AllAccounted}},
		{"windows of the clock", "control", "clock",
			[]string{adclicks.RecountAgrees, adclicks.ReplaySame}},
		{"corrections that nobody notes", "control", "silent", []string{adclicks.ClosedStays}},
		{"slices larger than declared", "control", "slices", []string{adclicks.BudgetKept}},
		{"a dashboard that counts twice", "control", "double", []string{adclicks.DashboardTrue}},
		{"new clicks are dropped", "control", "drops", []string{adclicks.AcksInLog}},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := crowd()
			p.ReplayAfter, p.Budget = sut.Duration(150*ms), 1200
			tr := suttest.Trial{System: adclicks.System(), Params: p, Space: stores.Namespace,
				Ops: 500, Every: 4 * ms, Settle: 10 * time.Second}
			mutants := adclicks.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named...)
		})
	}
}
