package recentsearches_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/recentsearches"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	p := crowd()
	p.RelayEvery = sut.Duration(5 * ms)
	return suttest.Suite{System: recentsearches.System(), Params: p,
		Space: stores.Namespace, Seed: 1, Ops: 600, Over: time.Second, Summary: suttest.Lines(summary),
		Undecided: map[string]string{recentsearches.SeenByAll: "some promise more time than a run has"}}
}

// summary counts the changes of each user, in the history or in the log: while nobody reads the
// log, the history has none.
func summary(audit recentsearches.Audit) []string {
	changes := map[uint64]int{}
	for _, c := range append(audit.Changes, audit.Log...) {
		changes[c.User]++
	}
	return []string{fmt.Sprint(changes)} // which sorts the users
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := recentsearches.Audit{
		Changes: []recentsearches.ChangeRow{{ID: 16, User: 1, Version: 1, Term: "tea"}},
		Lists:   []recentsearches.ListRow{{User: 1, Version: 1, Terms: []string{"tea"}}}}
	p := recentsearches.DefaultParams()
	p.Users = 1000
	apitest.Conform(t, recentsearches.API(), p, audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, recentsearches.API(), recentsearches.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "outbox_inline", apitest.Reworded)
}

// FuzzDecode: bytes of a store are an error, or what they are read as.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(`7 ["tea","two"]`))
	f.Add([]byte(`7 null`))
	f.Add(recentsearches.Object())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := recentsearches.Decoders(raw); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
	})
}

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ name, control, mutant, named string }{
		{"M60 shown, then kept", "inline", "M60", recentsearches.ListOfHistory},
		{"M63 deleted before Redis confirms", "relay", "M63", recentsearches.Settled},
		{"M64 no key for the partition", "log", "M64", recentsearches.CommitOrder},
		{"a list grows", "inline", "a list grows", recentsearches.ListOfHistory},
		{"the archive is not read", "inline", "the archive is not read", recentsearches.HistoryWhole},
		{"a copy is not given up", "copies", "a copy is not given up", recentsearches.SeenByAll},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := *crowd()
			p.ArchiveAfter = sut.Duration(time.Second)
			tr := suttest.Trial{System: recentsearches.System(), Params: &p, Space: stores.Namespace,
				Ops: 500, Every: 5 * ms, Settle: 30 * time.Second}
			mutants := recentsearches.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}
