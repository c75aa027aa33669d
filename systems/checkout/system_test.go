package checkout_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/checkout"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	// Limits, and a room that is full, refuse some; so does the lack of units at different times.
	alike := crowd()
	alike.Units, alike.UserBurst, alike.IPBurst, alike.Bots = 1000, 1000, 100_000, 0
	alike.Room, alike.ComeBack, alike.Polls, alike.Users = 100_000, 0, 0, 0
	return suttest.Suite{System: checkout.System(), Params: crowd(), Space: stores.Namespace,
		Seed: 1, Ops: 400, Summary: suttest.Lines(summary), AlikeParams: alike,
		Undecided: map[string]string{
			checkout.LimitsKept:     "a hammer is no network of bots",
			checkout.FairAdmission:  "a hammer may send too much at once for certain pairs",
			checkout.PaidOrRefunded: "a design may be at rest before the provider calls back again"}}
}

// crowd wants three products, a few of each, from few addresses.
func crowd() *checkout.Params {
	p := checkout.DefaultParams()
	p.Products, p.Units, p.Users, p.IPs, p.Bots, p.BotIPs = 3, 15, 100, 50, 0.3, 2
	p.Resend, p.PollEvery = 0.2, sut.Duration(10*time.Millisecond)
	p.IPRate, p.IPBurst, p.UserRate, p.UserBurst = 5, 20, 5, 10
	p.Room, p.Batch, p.AdmitEvery = 10, 5, ms20
	p.HoldTTL, p.Reconcile = sut.Duration(300*time.Millisecond), ms20
	p.PayRetry, p.PayTimeout = sut.Duration(150*time.Millisecond), sut.Duration(100*time.Millisecond)
	// Who gives up 400 ms after the first try does so before the provider calls back again.
	p.SlowTime, p.Declined, p.Slow, p.Silent = sut.Duration(900*time.Millisecond), 0.1, 0.1, 0.3
	p.Leave, p.Twice = 0.3, 0 // so few users join again in any case
	return &p
}

const ms20 = sut.Duration(20 * time.Millisecond)

// summary lists who got as far as an attempt, each once: without keys, who asks again is there
// again.
func summary(audit checkout.Audit) (lines []string) {
	for _, a := range audit.Attempts {
		lines = append(lines, fmt.Sprintf("%d: %s wants %d", a.ID, a.User, a.Product))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := checkout.Audit{Stock: []checkout.StockRow{{Product: 1, Available: 4}},
		Gate: []checkout.GateRow{{Product: 1, Left: 4}},
		Attempts: []checkout.AttemptRow{{ID: 1, Token: "1.1.k", Key: "k", User: "u", IP: "10.0.0.1",
			Product: 1, State: "paid", MadeNS: 1}},
		Steps: []checkout.Step{{Seq: 1, ID: 1, Token: "1.1.k", State: "pending", AtNS: 1}},
		Orders: []checkout.OrderRow{{Key: "k", ID: 1, User: "u", Product: 1, State: "paid",
			MadeNS: 1}},
		Payments:    []checkout.PaymentRow{{Key: "k", Kind: "capture", Amount: 1}},
		Callbacks:   []checkout.CallbackRow{{Key: "k", Captured: true}},
		Settlements: []checkout.SettlementRow{{Product: 1, Restocked: 1, Cancelled: []string{}}}}
	apitest.Conform(t, checkout.API(), checkout.DefaultParams(), audit)
}

// TestNoClockOfAProcess: processes whose clocks differ agree all the same, as no design looks at
// one. The provider does, which stands for somebody else's service.
func TestNoClockOfAProcess(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := regexp.MustCompile(`\btime\.(Now|Since|Until)\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		designs := !strings.HasSuffix(file, "_test.go") && file != "provider.go"
		if looks := looked.FindString(string(text)); designs && looks != "" {
			t.Errorf("%s calls %s)", file, looks)
		} else if file == "provider.go" && looks == "" {
			t.Error("the provider is not seen to look at a clock")
		}
	}
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "row_lock", apitest.Reworded)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, checkout.API(), checkout.DefaultParams())
}
