package idempotency_test

import (
	"runtime"
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/idempotency"
)

// TestMutantsOnStores: each planted error is named by its invariant, under the fault that shows it.
// The same run of postgres_points breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	crash := func(at string) func(string, int64) {
		return func(place string, n int64) {
			if place == at && n%20 == 5 {
				runtime.Goexit() // nothing of the request goes on
			}
		}
	}
	sleep := func(place string, n int64) {
		if place == "begun" && n%20 == 5 {
			sut.Pause(t.Context(), 600*ms) // for longer than a lease
		}
	}
	none := func(string, int64) {}
	for _, m := range []struct {
		name, mutant string
		lost         float64
		fault        func(place string, n int64)
		named        []string
	}{
		{"M120 the key is set after the effect", "M120", 0, crash("charged"),
			[]string{idempotency.ChargedOnce}},
		{"M121 a lease without an end", "M121", 0, crash("charged"),
			[]string{idempotency.NothingStuck}},
		{"M122 a lease without a fence", "M122", 0, sleep, []string{idempotency.ChargedOnce}},
		{"M123 no fingerprint", "M123", 0, none, []string{idempotency.OtherBodyRefused}},
		{"M124 keeps what failed", "M124", 0.1, none, []string{idempotency.NothingStuck}},
		{"done before the effect", "early", 0, crash("begun"), []string{idempotency.ChargesKept}},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := crowd()
			p.TTL, p.Lease, p.LostAnswers = sut.Duration(time.Second), sut.Duration(200*ms), m.lost
			tr := suttest.Trial{System: idempotency.System(), Params: p, Space: stores.Namespace,
				Ops: 300, Every: 5 * ms,
				Settle: 5 * p.Lease.D(), Places: []string{"begun", "charged"}, Fault: m.fault}
			mutants := idempotency.Mutants()
			tr.Kills(t, mutants["control"], mutants[m.mutant], m.named...)
		})
	}
}
