package autocomplete_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/autocomplete"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	p := crowd()
	p.ReadEvery, p.BuildEvery = sut.Duration(5*ms), sut.Duration(50*ms)
	p.VisibleWithin = sut.Duration(20000 * ms)
	return suttest.Suite{System: autocomplete.System(), Params: p,
		Space: stores.Namespace, Seed: 1, Ops: 300, Over: 3000 * ms, Summary: suttest.Lines(summary),
		Undecided: map[string]string{
			autocomplete.CountedInTime: "no run lasts as long as the promise"}}
}

// summary counts what is in the log, and lists what is blocked.
func summary(audit autocomplete.Audit) []string {
	counts := map[string]int{}
	for _, row := range audit.Log {
		counts[row.Phrase]++
	}
	return []string{fmt.Sprint(counts, audit.Blocked)} // which sorts the phrases
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := autocomplete.Audit{
		Log:     []autocomplete.LogRow{{ID: 16, User: 1, Phrase: "tea", Position: 1}},
		Blocked: []autocomplete.BlockRow{},
		Lists: []autocomplete.ListRow{{Prefix: "t", Version: 1,
			Phrases: []autocomplete.Suggestion{{Phrase: "tea", Score: 4}}}}}
	apitest.Conform(t, autocomplete.API(), autocomplete.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, autocomplete.API(), autocomplete.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "trie_top_k", apitest.Reworded)
}

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ control, mutant, named string }{
		{"trie", "M90", autocomplete.NeverBlocked},
		{"trie", "a block waits for nobody", autocomplete.NeverBlocked},
		{"trie", "a block is not stored", autocomplete.NeverBlocked},
		{"trie", "windows do not roll", autocomplete.TopOfVersion},
		{"segments", "the best come before one's own", autocomplete.TopOfVersion},
		{"tables", "equal ones in any order", autocomplete.TopOfVersion},
		{"sets", "a wrong prefix finds too much", autocomplete.AsTyped},
		{"sets", "a version of later", autocomplete.TopOfVersion},
	} {
		t.Run(m.mutant, func(t *testing.T) {
			p := *crowd()
			tr := suttest.Trial{System: autocomplete.System(), Params: &p, Space: stores.Namespace,
				Ops: 200, Every: 12 * ms, Settle: 30 * time.Second}
			mutants := autocomplete.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}
