package taskqueue

import "stampede/harness/check"

// jobFact is the table of facts: every job, while it was live.
const jobFact = "job"

// factsOf reads an audit as tables.
func factsOf(a *Audit) check.Facts {
	var f check.Facts
	if a.Jobs == nil {
		return f
	}
	jobs := make([]check.Fact, len(a.Jobs))
	for i, j := range a.Jobs {
		jobs[i] = check.Fact{Op: j.ID, Name: j.Job, Key: j.Unique, Owner: j.Tenant, Thing: j.Priority,
			State: j.State, Version: j.Replays, From: j.CreatedNS, To: j.EndedNS}
		f.Now = max(f.Now, j.CreatedNS, j.EndedNS)
	}
	f.Tables = append(f.Tables, check.TableOf(jobFact, jobs))
	return f
}
