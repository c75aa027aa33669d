package positions_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/positions"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	p, alike := fleet(), fleet()
	p.FlushEvery, p.FreshWithin, p.MoveAfter = sut.Duration(10*ms), sut.Duration(5*time.Second), 10
	alike.Erase = 0 // a log that is not sealed does not forget
	return suttest.Suite{System: positions.System(), Params: p, AlikeParams: alike,
		Space: stores.Namespace, Seed: 1, Ops: 600, Over: time.Second, Summary: suttest.Lines(summary),
		Undecided: map[string]string{
			positions.ShownInTime: "a hammer is over before what is shown may be old"}}
}

// summary counts the positions of each driver that were taken, in the history or in the log: while
// nobody reads the log, the history has none.
func summary(audit positions.Audit) []string {
	taken := map[uint64]int64{}
	for _, p := range audit.History {
		taken[p.Driver]++
	}
	for _, c := range audit.Copies {
		if c.Place == "log" {
			taken[c.Driver] = c.Readable
		}
	}
	return []string{fmt.Sprint(taken)} // which sorts the drivers
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	row := positions.PingRow{ID: 32, Driver: 1, Seq: 1, Lat: 5, Lon: -7}
	audit := positions.Audit{History: []positions.PingRow{row},
		Newest: []positions.NewestRow{shown(row)}, Places: []string{"log"},
		Copies: []positions.CopyRow{{Place: "log", Driver: 1, Readable: 1}}}
	apitest.Conform(t, positions.API(), positions.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, positions.API(), positions.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "one_table", apitest.Reworded)
}

// FuzzDecode: bytes of a store are an error, or what they are read as.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 16))
	f.Add(append(make([]byte, 24), 1, 7))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := positions.Decoders(raw); err != nil {
			t.Fatalf("%v: %v", raw, err)
		}
	})
}

// TestSealed: a position is opened with its own key and for its own ping only.
func TestSealed(t *testing.T) {
	key, other := make([]byte, 32), make([]byte, 32)
	other[0] = 1
	own, errs := positions.Sealed(key, other)
	if own != (positions.Point{Seq: 2, Lat: 3, Lon: -4}) || errs[0] != nil || errs[1] == nil ||
		errs[2] == nil {
		t.Errorf("opened as %+v, with %v", own, errs)
	}
}

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ name, control, mutant, named string }{
		{"M215 a late ping rewinds", "paths", "M215", positions.NewestAsHistory},
		{"M217 a dead letter is not sealed", "letters", "M217", positions.ErasedForGood},
		{"M218 what is rebuilt revives", "paths", "M218", positions.ErasedForGood},
		{"M219 the slot is made after the snapshot", "cdc", "M219", positions.AckedKept},
		{"pings are dropped", "paths", "pings dropped", positions.AckedKept},
		{"a neighbour is erased", "paths", "a neighbour is erased", positions.OthersUntouched},
		{"a ping takes no lock", "table", "no lock", positions.ErasedForGood},
		{"the archive is forgotten", "table", "the archive is forgotten", positions.ErasedForGood},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := *fleet()
			p.FlushEvery, p.FreshWithin = sut.Duration(20*ms), sut.Duration(5*time.Second)
			tr := suttest.Trial{System: positions.System(), Params: &p, Space: stores.Namespace,
				Ops: 200, Every: 5 * ms, Settle: 30 * time.Second}
			mutants := positions.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}
