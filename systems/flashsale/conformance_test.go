package flashsale_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite(flashsale.System().Variants...)) }

// TestMutants: what is wrong on purpose is caught. A lock that everybody gets oversells, so that
// it is the lock, and not the order in which this process serves, that keeps redlock right. A
// counter that is too high during the sale and right at its end is proof enough. A reclaimer
// that goes by the clock of its own machine returns carts too early.
func TestMutants(t *testing.T) {
	suttest.Exercise(t, suite(flashsale.DoubleReturn()))
	suttest.Exercise(t, suite(flashsale.AppClockReclaimer()))
	unlocked := suite(variant(t, "redlock"), flashsale.LocklessRedlock())
	p := crowd()
	p.Items, p.Units = 8, 5
	unlocked.Params = p
	suttest.Exercise(t, unlocked)
}

// TestFullDisk: while the ledger has no room, buys are refused, or wait in line, and
// what Redis gave out comes back.
func TestFullDisk(t *testing.T) {
	suttest.FullDisk(t, suite(flashsale.System().Variants...), "redis_lua", "redis_reservation",
		"queue_serialized")
}

func suite(variants ...sut.Variant) suttest.Suite {
	s := suttest.Suite{System: flashsale.System(), Params: crowd(), Space: stores.Namespace, Seed: 1,
		Ops: 1200, Summary: summary, Servers: []string{"cashier"}, Undecided: shortSale()}
	s.System.Variants = variants
	return s
}

// shortSale are the verdicts for which a sale of a second is too short.
func shortSale() map[string]string {
	return map[string]string{flashsale.NoFalseSoldOut: "every refusal may come so soon " +
		"after a return that the unit need not be for sale yet"}
}

// crowd is a sale of 20 units to many, on a clock on which a cart lives for 400 ms.
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

// foreignSuite is a sale that is over before the first unit comes back.
func foreignSuite() suttest.Suite {
	s := suite(flashsale.System().Variants...)
	p := crowd()
	p.CartTTL = sut.Duration(time.Second)
	p.PayDelay = sut.Duration(500 * time.Millisecond)
	s.Params, s.Ops, s.Undecided = p, 600, nil
	return s
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	for _, name := range []string{"units_skip_locked", "redis_reservation"} {
		t.Run(name, func(t *testing.T) {
			suttest.Understood(t, foreignSuite(), name, apitest.Reworded)
		})
	}
}

// TestFalseSoldOutIsCaught: one that tells every 40th buyer so while units are free.
func TestFalseSoldOutIsCaught(t *testing.T) {
	s := foreignSuite()
	p := crowd()
	p.Units = 2000
	s.Params = p
	var buys atomic.Int64
	verdicts := suttest.Foreign(t, s, "units_skip_locked", func(next http.Handler) http.Handler {
		return apitest.Reworded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/buy" && buys.Add(1)%40 == 0 {
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write(apitest.Problem("sold_out", "sorry"))
				return
			}
			next.ServeHTTP(w, r)
		}))
	})
	caught(t, verdicts, flashsale.NoFalseSoldOut)
}

// TestForgottenKeysAreCaught: to a server to which keys mean nothing, a repeated request is
// that of a buyer who has a unit already.
func TestForgottenKeysAreCaught(t *testing.T) {
	verdicts := suttest.Foreign(t, foreignSuite(), "units_skip_locked",
		func(next http.Handler) http.Handler { return apitest.Forgetful(next, nil, "op_id") })
	caught(t, verdicts, flashsale.IdempotentBuy)
}

// startForeign starts the shop that is written in Python and returns its URL.
// Continuous integration must have Python; elsewhere the test is skipped.
func startForeign(t *testing.T, args ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the foreign shop needs python3, which CI must have")
		}
		t.Skip("the foreign shop needs python3, which is not installed")
	}
	args = append([]string{"testdata/foreign/shop.py", "--port", "0"}, args...)
	cmd := exec.Command(python, args...)
	// Not our own: who outlives us would keep go test waiting for its end.
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the foreign shop said:\n%s", errs.String())
		}
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the foreign shop did not say its port: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// TestForeignShop: a correct server in another language is judged by the API alone and never
// broken; what it does not have (Redis) is named. The second sale begins with a reset.
func TestForeignShop(t *testing.T) {
	s, url := foreignSuite(), startForeign(t)
	for range 2 {
		verdicts := suttest.Remote(t, s, url)
		for _, inv := range s.System.Invariants(s.Params) {
			want := check.Held
			if inv.Name() == flashsale.RedisDrift {
				want = check.Undecided
			}
			if v := verdicts[inv.Name()]; v.Status != want || want == maybe &&
				!strings.Contains(v.Reason, "no redis") {
				t.Errorf("%s is %s: %s %+v", inv.Name(), v.Status, v.Reason, v.Violations)
			}
		}
		s.Seed++
	}
}

// TestForeignShopThatOversells: it is caught by the invariant that names it,
// with the buys that prove it.
func TestForeignShopThatOversells(t *testing.T) {
	caught(t, suttest.Remote(t, foreignSuite(), startForeign(t, "--oversell")), flashsale.NoOversell)
}

// caught fails the test unless an invariant is broken and names its proof.
func caught(t *testing.T, verdicts map[string]check.Verdict, invariant string) {
	t.Helper()
	if v := verdicts[invariant]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", invariant, v.Status, v.Witness, v.Reason)
	}
}
