package suttest

import (
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Evidence is a run of a system with parameters P whose audit is an A. Tests change it.
type Evidence[P, A any] struct {
	System  sut.System
	P       *P
	Records []history.Record
	Windows []history.Window
	Samples []history.Sample
	Audit   A
}

// NewEvidence is a run in which nothing has happened yet.
func NewEvidence[A, P any](system sut.System, p *P) Evidence[P, A] {
	return Evidence[P, A]{System: system, P: p}
}

// Judge returns the verdicts of the system's invariants, by name.
func (e *Evidence[P, A]) Judge(t TB) map[string]check.Verdict {
	t.Helper()
	h := history.Slice(e.Records, e.Windows...).WithSamples(e.Samples)
	return Verdicts(e.System.Invariants(e.P), h, Encoded(t, e.Audit))
}

func (e *Evidence[P, A]) base() *Evidence[P, A] { return e }

// Parts are what Prove corrupts blindly.
func (e *Evidence[P, A]) Parts() ([]history.Record, any) { return e.Records, &e.Audit }
