package idempotency_test

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
	"stampede/systems/idempotency"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	// Without keys another body charges, and so does a key after its time.
	alike := crowd()
	alike.OtherBody, alike.Reuse, alike.TTL = 0, 0, sut.Duration(time.Minute)
	return suttest.Suite{System: idempotency.System(), Params: crowd(), Space: stores.Namespace,
		Seed: 1, Ops: 500, Summary: suttest.Lines(summary), AlikeParams: alike}
}

// crowd is impatient clients, a provider that loses answers, and a day of a second.
func crowd() *idempotency.Params {
	p := idempotency.DefaultParams()
	p.Customers, p.Repeat, p.Resend, p.OtherBody, p.Reuse = 20, 0.5, 0.3, 0.1, 0.1
	p.TTL, p.Lease = sut.Duration(4*time.Second), sut.Duration(2*time.Second)
	p.ReapEvery, p.Complete = sut.Duration(20*time.Millisecond), sut.Duration(20*time.Millisecond)
	p.ReapLag = sut.Duration(time.Second)
	return &p
}

// summary lists what was charged, each once: without keys, who asks again is charged again.
func summary(audit idempotency.Audit) (lines []string) {
	for _, c := range audit.Charges {
		lines = append(lines, fmt.Sprintf("%d: %s pays %d by %s", c.ID, c.Customer, c.Amount, c.Key))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := idempotency.Audit{Contract: idempotency.Contract{ReapLagNS: 1},
		Charges: []idempotency.ChargeRow{{ID: 1, Key: "key-1", Customer: "customer-1", Amount: 5,
			Receipt: "r1", AtNS: 1}},
		Keys: []idempotency.KeyRow{{ID: 1, Key: "key-1", State: "done", Receipt: "r1", DoneNS: 2}}}
	apitest.Conform(t, idempotency.API(), idempotency.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, idempotency.API(), idempotency.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "postgres_points", apitest.Reworded)
}
