package flashsale_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) {
	suttest.Exercise(t, suite())
}

// TestFullDisk: while the ledger has no room, buys are refused, or wait in line, and
// what Redis gave out comes back.
func TestFullDisk(t *testing.T) {
	suttest.FullDisk(t, suite(), "redis_reservation", "queue_serialized")
}

func suite() suttest.Suite {
	return suttest.Suite{
		System:    flashsale.System(),
		Params:    crowd(),
		Space:     stores.Namespace,
		Seed:      1,
		Ops:       1200,
		Summary:   summary,
		Servers:   []string{"cashier"},
		Undecided: shortSale(),
	}
}

// TestRedlockDecides: without its lock the variant oversells, so that it is the
// lock, and not the order in which this process serves, that keeps it right.
func TestRedlockDecides(t *testing.T) {
	sys, p := flashsale.System(), crowd()
	sys.Variants = []sut.Variant{variant(t, "redlock"), flashsale.LocklessRedlock()}
	p.Items, p.Units = 8, 5
	suttest.Exercise(t, suttest.Suite{
		System: sys, Params: p, Space: stores.Namespace, Seed: 1, Ops: 1200, Summary: summary,
		Undecided: shortSale(),
	})
}

// TestDriftMeanwhileIsCaught: a counter that is too high during the sale and
// right at its end is proof enough.
func TestDriftMeanwhileIsCaught(t *testing.T) {
	sys := flashsale.System()
	sys.Variants = []sut.Variant{flashsale.DoubleReturn()}
	suttest.Exercise(t, suttest.Suite{
		System: sys, Params: crowd(), Space: stores.Namespace, Seed: 1, Ops: 1200, Summary: summary,
		Undecided: shortSale(),
	})
}

// shortSale are the verdicts for which a sale of a second is too short.
func shortSale() map[string]string {
	return map[string]string{flashsale.NoFalseSoldOut: "every refusal may come so soon " +
		"after a return that the unit need not be for sale yet"}
}

// crowd is a sale of 20 units to many, on a clock on which a cart lives for
// 400 ms.
func crowd() *flashsale.Params {
	p := flashsale.DefaultParams()
	p.Items, p.Units = 2, 20
	p.CartTTL = sut.Duration(400 * time.Millisecond)
	p.ReclaimEvery = sut.Duration(20 * time.Millisecond)
	p.PayDelay = sut.Duration(20 * time.Millisecond)
	p.PaySpread = sut.Duration(60 * time.Millisecond)
	p.LateSpread = sut.Duration(60 * time.Millisecond)
	p.StockReads = 0.1
	return &p
}

// summary lists, whatever a variant calls them, the items' counts, the orders
// by operation and the payments.
func summary(raw json.RawMessage) (string, error) {
	audit, err := api.DecodeAudit[flashsale.Audit](raw)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, i := range audit.Items {
		fmt.Fprintf(&b, "%s: %d units, %d available, %d held, %d sold\n",
			i.Item, i.Units, i.Available, i.Held, i.Sold)
	}
	slices.SortFunc(audit.Orders, func(x, y flashsale.OrderAudit) int {
		return cmp.Compare(x.OpID, y.OpID)
	})
	for _, o := range audit.Orders {
		fmt.Fprintf(&b, "order of %d: %s for %s is %s\n", o.OpID, o.Item, o.Buyer, o.State)
	}
	for _, p := range audit.Payments {
		fmt.Fprintf(&b, "payment %s: %d captured %t refunded %t, %d deliveries, %d effects\n",
			p.ID, p.AmountCents, p.Captured, p.Refunded, p.Deliveries, p.Effects)
	}
	fmt.Fprintf(&b, "%d changes\n", len(audit.Log))
	return b.String(), nil
}
