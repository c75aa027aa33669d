package taskqueue

import "stampede/harness/check"

// The tables of facts, by the name of a row.
const (
	jobFact    = "job"    // every job, while it was live
	runFact    = "run"    // every attempt at a job in a call of so many
	effectFact = "effect" // every effect, by the attempt
)

// factsOf reads an audit as tables.
func factsOf(a *Audit) (f check.Facts) {
	for _, j := range a.Jobs {
		f.Now = max(f.Now, j.CreatedNS, j.EndedNS)
	}
	f.Tables = []*check.Table{check.Rows(jobFact, a.Jobs), check.Rows(runFact, a.Runs),
		check.Rows(effectFact, a.Effects)}
	return f
}
