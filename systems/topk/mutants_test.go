package topk_test

import (
	"testing"
	"time"

	"stampede/harness/suttest"
	"stampede/systems/topk"
)

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ name, control, mutant, named string }{
		{"M110 the count of an evicted key is dropped", "saving", "M110", topk.EstimatesBounded},
		{"M111 windows by arrival", "exact", "M111", topk.WindowTotals},
		{"a part is not merged", "exact", "part left out", topk.MergedAsOne},
		{"the most frequent key is not in the top", "exact", "heaviest left out", topk.HeavyPresent},
		{"equal counts in another order", "exact", "ties the other way round", topk.ExactAsSorted},
		{"uniques of the last flush only", "exact", "uniques forgotten", topk.UniquesBounded},
		{"an offset moves on over what was not stored", "exact", "batches dropped", topk.WindowTotals},
		{"a read of other windows", "exact", "all windows read", topk.ReadsBounded},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := crowd()
			p.Error, p.Reads = 0.02, 0.3
			tr := suttest.Trial{System: topk.System(), Params: p, Space: stores.Namespace,
				Ops: 300, Every: 3 * ms, Settle: 30 * time.Second}
			mutants := topk.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}

// FuzzDecode: bytes of the log, of a store or of a history are an error, or what they are read as.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 2, 7, 9})
	f.Add([]byte{2, 0x80, 0x80, 1, 2, 3, 4})
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := topk.Decoders(raw); err != nil {
			t.Fatalf("%v: %v", raw, err)
		}
	})
}
