package writeheavy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/history"
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
		{"M208 the last write wins by clocks that differ", "clocks agree", "M208", writeheavy.MovedWhole},
		{"M209 a range is handed over with writes due", "moving", "M209", writeheavy.MovedWhole},
		{"M210 a range goes back without what the new owner took", "moving", "M210",
			writeheavy.MovedWhole},
		{"M211 the old owner takes adds", "moving", "M211", writeheavy.OneOwner},
		{"M212 an add is shed after the work", "sheds", "M212", writeheavy.NothingNew},
		{"M213 nobody is told that an add is shed", "sheds", "M213", writeheavy.AckedKept},
		{"M214 the most important class is shed first", "sheds", "M214", writeheavy.ShedAsTold},
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
			if m.control == "sheds" {
				p.ShedLimit, p.ShedQueue, tr.Every = 1, 8, 0
			}
			mutants := writeheavy.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}

// TestLostWithPostgres: of what an asynchronous commit has acknowledged, a dying Postgres loses the
// last. What is written behind in another order loses some in between, and is named by it.
func TestLostWithPostgres(t *testing.T) {
	// The last of the log is kept in memory for as long as Postgres allows.
	cluster := envtest.StartSpec(t, env.Spec{Services: []sut.Service{sut.Postgres},
		Postgres: map[string]string{"wal_writer_delay": "10s", "bgwriter_lru_maxpages": "0"}})
	postgres := cluster.Component(sut.Postgres).(env.Breakable)
	tr := suttest.Trial{System: writeheavy.System(), Params: crowd(), Ops: 400, Every: 2 * ms,
		Settle: 5 * time.Second,
		Space: func(t testing.TB) env.Namespace {
			space, err := cluster.Namespace(t.Context(), "test")
			must(t, err)
			t.Cleanup(func() { must(t, space.Release(context.Background())) })
			return space
		},
		Break: func(ctx context.Context, now func() time.Duration) ([]history.Window, error) {
			sut.Pause(ctx, 500*ms)
			w := history.Window{Kind: history.FaultWindow, Name: "dies", Start: now(),
				Fault: "kill postgres"}
			_, err := postgres.Kill(ctx)
			w.End = now()
			err = errors.Join(err, postgres.Start(ctx, false))
			w.Recovered = now()
			return []history.Window{w}, err
		}}
	mutants := writeheavy.Mutants()
	of := func(name string) func(uint64) map[string]check.Verdict {
		tr := tr
		tr.Variant = mutants[name]
		return func(seed uint64) map[string]check.Verdict {
			verdicts := tr.Run(t, seed)
			if lost := verdicts[writeheavy.LastIsLost].Figures[0].Value; lost == 0 {
				t.Errorf("%s has lost nothing with seed %d", name, seed)
			}
			return verdicts
		}
	}
	suttest.Killed(t, []string{writeheavy.LastIsLost}, of("async"), of("M222"))
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
