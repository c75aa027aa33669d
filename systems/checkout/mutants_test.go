package checkout_test

import (
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/checkout"
)

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct {
		name, control, mutant string
		named                 string
	}{
		{"M141 no compensation after a timeout", "row_lock", "M141", checkout.StockAddsUp},
		{"M142 a key for each retry", "row_lock", "M142", checkout.OneOrder},
		{"M148 admits in no order", "waiting_room", "M148", checkout.FairAdmission},
		{"no edge", "waiting_room", "no edge", checkout.LimitsKept},
		{"a room for any number", "waiting_room", "any room", checkout.RoomKept},
		{"nobody repairs Redis", "redis_first", "unrepaired", checkout.DriftRepaired},
		{"nobody settles what is oversold", "restock", "unsettled", checkout.ExcessSettled},
		{"the oldest orders are cancelled", "cancel newest", "oldest", checkout.ExcessSettled},
		{"a cancelled unit is not free again", "row_lock", "unit lost", checkout.StockAddsUp},
	} {
		t.Run(m.name, func(t *testing.T) {
			run := func(variant string) func(uint64) map[string]check.Verdict {
				return func(seed uint64) map[string]check.Verdict {
					p := crowd()
					p.Units, p.Bots, p.AdmitEvery = 30, 0.5, sut.Duration(300*time.Millisecond)
					p.SettleEvery = sut.Duration(300 * time.Millisecond)
					p.Users = 0 // each joins once, but for what is sent again
					verdicts := suttest.Trial{System: checkout.System(),
						Variant: checkout.Mutants()[variant], Params: p, Space: stores.Namespace, Ops: 250,
						Every: 4 * ms, Settle: 15 * time.Second}.Run(t, seed)
					if m.named == checkout.ExcessSettled { // these oversell, and take back what was paid
						delete(verdicts, checkout.NoOversell)
						delete(verdicts, checkout.EndsOnce)
					}
					return verdicts
				}
			}
			suttest.Killed(t, []string{m.named}, run(m.control), run(m.mutant))
		})
	}
}
