package writeheavy_test

import (
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/writeheavy"
)

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ name, control, mutant, named string }{
		{"M200 the map changed and rows did not", "shards", "M200", writeheavy.ReadsExact},
		{"M201 a batch is acknowledged before it is written", "dying", "M201", writeheavy.AckedKept},
		{"M202 a partial sum is added twice", "resent", "M202", writeheavy.OncePerOp},
		{"a middle has only in memory what it adds up", "middle", "popped", writeheavy.AckedKept},
		{"M203 an add has another number when it is sent again", "queue", "M203", writeheavy.OncePerOp},
		{"M204 a split repeats what was written", "queue", "M204", writeheavy.OncePerOp},
		{"M205 a copied sum overwrites a newer one", "moving", "M205", writeheavy.MovedWhole},
		{"M206 an add counts, and so does the copied sum that has it", "moving", "M206",
			writeheavy.MovedWhole},
		{"M207 a second write that fails is forgotten", "moving", "M207", writeheavy.MovedWhole},
		{"M209 a range is handed over with writes due", "moving", "M209", writeheavy.MovedWhole},
		{"M210 a range goes back without what the new owner took", "moving", "M210",
			writeheavy.MovedWhole},
		{"M211 the old owner takes adds", "moving", "M211", writeheavy.OneOwner},
		{"M221 shards are added up, written and reset", "shards", "M221", writeheavy.Conserved},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := crowd()
			p.MoveEvery = sut.Duration(8 * ms)
			if m.mutant == "M204" {
				p.Resend = 0.02
			}
			tr := suttest.Trial{System: writeheavy.System(), Params: p, Space: stores.Namespace,
				Ops: 400, Every: 2 * ms, Settle: 20 * time.Second}
			mutants := writeheavy.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}

// FuzzDecode: what is no partial sum is an error, and one stays the same.
func FuzzDecode(f *testing.F) {
	f.Add("edge,e,7\n3,5,1024:2 2048:3\n4,-1,4096:-1")
	f.Add("edge,e,7\n3,5")
	f.Fuzz(func(t *testing.T, text string) {
		once, err := writeheavy.Decode(text)
		if err != nil {
			return
		}
		if twice, err := writeheavy.Decode(once); err != nil || once != twice {
			t.Fatalf("%q became %q (%v)", once, twice, err)
		}
	})
}
