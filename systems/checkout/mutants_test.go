package checkout_test

import (
	"runtime"
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
	repairedOften := func(p *checkout.Params) {
		p.HoldTTL, p.SettleEvery = sut.Duration(time.Minute), ms20
	}
	oneBot := func(p *checkout.Params) { // 300 ms before its window is over
		p.Bots, p.BotIPs, p.IPRate, p.IPBurst = 1, 1, 20, 20
	}
	for _, m := range []struct {
		name, control, mutant string
		named                 string
		params                func(*checkout.Params)
	}{
		{"M140 undoes what it does not know", "unsure", "M140", checkout.StockAddsUp, nil},
		{"M141 no compensation after a timeout", "row_lock", "M141", checkout.StockAddsUp, nil},
		{"M142 a key for each retry", "row_lock", "M142", checkout.OneOrder, nil},
		{"M144 repairs to an older count", "decides", "M144", checkout.NoOversell, repairedOften},
		{"M145 repairs without the holds", "decides", "M145", checkout.NoOversell, repairedOften},
		{"M146 a hold ends with its unit", "redis_first", "M146", checkout.DriftRepaired, nil},
		{"M147 a position by a server's clock", "waiting_room", "M147", checkout.PositionKept, nil},
		{"M148 admits in no order", "waiting_room", "M148", checkout.FairAdmission, nil},
		{"M149 limits for fixed windows", "waiting_room", "M149", checkout.LimitsKept, oneBot},
		{"M151 late money is kept", "row_lock", "M151", checkout.PaidOrRefunded, nil},
		{"M153 the address of a header", "waiting_room", "M153", checkout.LimitsKept, nil},
		{"a callback for a cancelled order counts", "row_lock", "believes", checkout.PaidOrRefunded, nil},
		{"no edge", "waiting_room", "no edge", checkout.LimitsKept, nil},
		{"a room for any number", "waiting_room", "any room", checkout.RoomKept, nil},
		{"nobody repairs Redis", "redis_first", "unrepaired", checkout.DriftRepaired, nil},
		{"nobody settles what is oversold", "restock", "unsettled", checkout.ExcessSettled, nil},
		{"the oldest orders are cancelled", "cancel newest", "oldest", checkout.ExcessSettled, nil},
		{"a cancelled unit is not free again", "row_lock", "unit lost", checkout.StockAddsUp, nil},
	} {
		t.Run(m.name, func(t *testing.T) {
			run := func(variant string, settle time.Duration) func(uint64) map[string]check.Verdict {
				return func(seed uint64) map[string]check.Verdict {
					p := crowd()
					p.Units, p.Bots, p.AdmitEvery = 30, 0.5, sut.Duration(300*time.Millisecond)
					p.SettleEvery = sut.Duration(300 * time.Millisecond)
					p.Users = 0 // each joins once, but for what is sent again
					tr := suttest.Trial{System: checkout.System(), Variant: checkout.Mutants()[variant],
						Params: p, Space: stores.Namespace, Ops: 250, Every: 4 * ms, Settle: settle}
					if m.params != nil {
						m.params(p)
					}
					// Units are held for a while; or whoever has one crashes.
					tr.Places, tr.Fault = []string{"reserved"}, func(_ string, n int64) {
						if m.named == checkout.NoOversell {
							sut.Pause(t.Context(), 30*ms)
						} else if m.named == checkout.DriftRepaired && n%5 == 2 {
							runtime.Goexit()
						}
					}
					verdicts := tr.Run(t, seed)
					if m.named == checkout.ExcessSettled { // these oversell, and take back what was paid
						delete(verdicts, checkout.NoOversell)
						delete(verdicts, checkout.EndsOnce)
					}
					return verdicts
				}
			}
			// Many a mutant never comes to rest.
			suttest.Killed(t, []string{m.named}, run(m.control, 15*time.Second),
				run(m.mutant, 5*time.Second))
		})
	}
}
