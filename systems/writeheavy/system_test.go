package writeheavy_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/writeheavy"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	return suttest.Suite{System: writeheavy.System(), Params: crowd(), Space: stores.Namespace,
		Seed: 1, Ops: 600, Summary: suttest.Lines(summary),
		Undecided: map[string]string{writeheavy.ShedAsTold: "crowd lets everybody in"}}
}

// crowd is few counters of many users, with short windows.
func crowd() *writeheavy.Params {
	p := writeheavy.DefaultParams()
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	p.Keys, p.Users, p.Batches, p.Records, p.Poison = 20, 500, 0.1, 10, 0.04
	p.Reads, p.Readers, p.Resend = 0.3, 2, 0.2
	p.Compact, p.MapAfter, p.MoveEvery, p.Shards = ms(20), 30, ms(1), 2
	p.ShedQueue, p.ShedTarget, p.ShedRate = 1000, sut.Duration(time.Second), 100_000 // nobody is shed
	p.EdgeWindow, p.MiddleWindow, p.RootWindow = ms(20), ms(20), ms(20)
	return &p
}

// summary lists the adds that were taken in and can be made.
func summary(audit writeheavy.Audit) (lines []string) {
	add := func(id, key uint64, delta int64) {
		if delta != 0 && max(delta, -delta) <= writeheavy.MostDelta {
			lines = append(lines, fmt.Sprintf("%d adds %d to %d", id, delta, key))
		}
	}
	for _, row := range audit.Log {
		add(row.ID, row.Key, row.Delta)
	}
	for _, row := range audit.Ops {
		add(row.ID, row.Key, row.Delta)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := writeheavy.Audit{
		Ops:      []writeheavy.OpRow{{ID: 1024, Key: 7, User: 3, Delta: 2}},
		Counters: []writeheavy.CounterRow{{Key: 7, Value: 2}},
		Dead:     []writeheavy.DeadRow{{ID: 2048, Key: 7, User: 3, Tries: 3}},
		Batches:  []writeheavy.BatchRow{{Records: 1}}}
	apitest.Conform(t, writeheavy.API(), writeheavy.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, writeheavy.API(), writeheavy.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "queue_and_batch", apitest.Reworded)
}
