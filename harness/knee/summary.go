package knee

import (
	"time"

	"stampede/harness/rundir"
)

// SchemaVersion is the version of knee.json.
const SchemaVersion = "1.0.0"

// SummaryFile is what a search writes into its directory, beside report.html.
const SummaryFile = "knee.json"

// Summary is knee.json: a search over the variants of one scenario.
type Summary struct {
	SchemaVersion string      `json:"schema_version"`
	Tool          rundir.Tool `json:"tool"`
	Search        Info        `json:"search"`
	Plan          Plan        `json:"plan"`
	// WindowNS is how long each rate was offered, WarmUpNS how much of that is
	// judged but not measured.
	WindowNS int64 `json:"window_ns"`
	WarmUpNS int64 `json:"warm_up_ns"`
	// Objectives are what a rate must keep besides the invariants.
	Objectives  []Objective        `json:"objectives"`
	Environment rundir.Environment `json:"environment"`
	Variants    []Variant          `json:"variants"`
	// Warnings say what of the scenario was left out.
	Warnings []string `json:"warnings"`
}

// Info identifies a search.
type Info struct {
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	Question string `json:"question"`
	System   string `json:"system"`
	Profile  string `json:"profile"`
	// Seed is the first window's; each further window of a variant has the next.
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Interrupted is true when the search was stopped before its end.
	Interrupted bool     `json:"interrupted"`
	Argv        []string `json:"argv"`
	// Reproduce is a command line that searches the same again.
	Reproduce string `json:"reproduce"`
}

// Objective is a limit that a rate must keep.
type Objective struct {
	Name string `json:"name"`
	// Objective is an expression such as p99(response) <= 100ms.
	Objective string `json:"objective"`
}

// Variant is what was found out about one design.
type Variant struct {
	Name string `json:"name"`
	Idea string `json:"idea"`
	// KnownWrong says that the scenario must catch it breaking an invariant, so that
	// a violation is no surprise.
	KnownWrong bool `json:"known_wrong"`
	// Kind is the operation kind that the response times are of.
	Kind   string `json:"kind"`
	Result Result `json:"result"`
}

// Broken says that an invariant was violated that the design should keep.
func (v Variant) Broken() bool {
	for _, w := range v.Result.Windows {
		if w.Verdict == Broke && !v.KnownWrong {
			return true
		}
	}
	return false
}
