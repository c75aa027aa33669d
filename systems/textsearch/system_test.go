package textsearch_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/textsearch"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

// suite compares the designs without merges, and so without segments, of which one is merged alone
// when half of it is old: merges are concurrent with one client too, and merge_forgets_deletes may
// forget a deletion then.
func suite() suttest.Suite {
	alike := crowd()
	alike.FlushAt = 1000
	return suttest.Suite{System: textsearch.System(), Params: crowd(), AlikeParams: alike,
		Space: stores.Namespace, Seed: 1, Ops: 300, Over: 3000 * ms, Summary: suttest.Lines(summary)}
}

// summary is what documents there are, and the log.
func summary(audit textsearch.Audit) []string {
	return []string{fmt.Sprint(audit.Documents, audit.Log)}
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := textsearch.Audit{Scoring: "own",
		Log:        []textsearch.LogRow{{Doc: 1, Version: 16, Seq: 1}},
		Documents:  []textsearch.DocRow{{Doc: 1, Version: 16}},
		Generation: 1,
		Finds: []textsearch.FindRow{{Query: "111666",
			Found: textsearch.Found{Generation: 1, Hits: []textsearch.Hit{{Doc: 1, Version: 16}}}}}}
	apitest.Conform(t, textsearch.API(), textsearch.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, textsearch.API(), textsearch.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "disk_segments", apitest.Reworded)
}

// long is a workload whose documents have three hundred words more: eight bits cannot say how long
// they are.
type long struct{ sut.Workload }

func (l long) Op(i uint64) history.Op { return longer(l.Workload.Op(i)) }

func (l long) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	list := l.Workload.Follow(op, outcome, reply)
	for i := range list {
		list[i].Op = longer(list[i].Op)
	}
	return list
}

func longer(op history.Op) history.Op {
	if op.Kind != textsearch.KindIndex {
		return op
	}
	req, err := api.RequestOf[textsearch.IndexRequest](textsearch.API(), op)
	if err != nil {
		panic(err)
	}
	req.Body += strings.Repeat(" filler", 300)
	return textsearch.API().Op(op.Kind, req)
}

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ control, mutant, named string }{
		{"disk", "M180", textsearch.GoneForGood},
		{"disk", "M181", textsearch.GoneForGood},
		{"disk", "M183", textsearch.OneGeneration},
		{"disk", "M184", textsearch.Ranked},
		{"disk", "M185", textsearch.Ranked},
		{"disk", "M186", textsearch.Ranked},
		{"disk", "M187", textsearch.HitsMatch},
		{"disk", "M189", textsearch.HitsMatch},
		{"memory", "M188", textsearch.NeverBack},
		{"power cut", "M190", textsearch.ChangesKept},
		{"scan", "an answer names a later generation", textsearch.OneGeneration},
		{"bleve", "an answer names an earlier generation", textsearch.OneGeneration},
		{"memory", "equal ones in any order", textsearch.Ranked},
		{"fts", "the last hit is missing", textsearch.OneGeneration},
		{"fts", "all matches any", textsearch.HitsMatch},
		{"scan", "some deletions are not kept", textsearch.ChangesKept},
		{"bleve", "indexed later", textsearch.NeverBack},
	} {
		t.Run(m.mutant, func(t *testing.T) {
			system := textsearch.System()
			if m.mutant == "M184" {
				system.Workload = func(seed uint64, params any) (sut.Workload, error) {
					w, err := textsearch.System().Workload(seed, params)
					return long{w}, err
				}
			}
			suttest.Trial{System: system, Params: crowd(), Space: stores.Namespace, Ops: 250,
				Every: 10 * ms, Settle: 30 * time.Second}.Kills(t, textsearch.Mutants()[m.control],
				textsearch.Mutants()[m.mutant], m.named)
		})
	}
}
