package topk_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/topk"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	return suttest.Suite{System: topk.System(), Params: crowd(), Space: stores.Namespace,
		Seed: 1, Ops: 300, Summary: suttest.Lines(summary)}
}

// crowd is batches of some windows, of which the hot keys move.
func crowd() *topk.Params {
	p := topk.DefaultParams()
	p.Items, p.Batch, p.Batches, p.MoveEvery, p.Late = 500, 50, 60, 2, 0.1
	p.Error, p.Misses = 0.002, 0.001
	p.Reads, p.Resend, p.FlushEvery = 0.1, 0.1, sut.Duration(50*time.Millisecond)
	return &p
}

// summary lists the batches in the log.
func summary(audit topk.Audit) (lines []string) {
	for _, b := range audit.Log {
		lines = append(lines, fmt.Sprintf("batch %d of %d events at %d ms: %d", b.ID, b.Events, b.AtMS,
			b.Sum))
	}
	return lines
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := topk.Audit{Contract: topk.Contract{Over: 0.01},
		Log:       []topk.BatchRow{{ID: 2, AtMS: 600_000, Events: 2, Sum: 8}},
		Windows:   []topk.PaneRow{{Window: 10, Events: 2, Uniques: 2, Approx: 2, Shards: 1}},
		Top:       []topk.TopRow{{Window: 10, Span: 1, Key: 3, Count: 1}},
		Estimates: []topk.EstimateRow{{Window: 10, Key: 3, Count: 1, OnePass: 1}}}
	apitest.Conform(t, topk.API(), topk.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, topk.API(), topk.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "space_saving", apitest.Reworded)
}
