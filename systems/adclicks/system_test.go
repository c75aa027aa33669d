package adclicks_test

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
	"stampede/systems/adclicks"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	// What is one after the other is never out of order, and nobody is refused.
	alike := crowd()
	alike.Budget, alike.Resend, alike.Replayed, alike.Twice = 1_000_000, 0, 0, 0
	alike.BloomClicks = 100_000
	return suttest.Suite{System: adclicks.System(), Params: crowd(), Space: stores.Namespace,
		Seed: 1, Ops: 800, Over: 2 * time.Second, Summary: suttest.Lines(summary), AlikeParams: alike,
		Undecided: map[string]string{
			adclicks.ConsumerLag:    "a hammer is over before a click may wait for too long",
			adclicks.DashboardFresh: "a hammer is over before a dashboard may be old",
		}}
}

// crowd is a few campaigns with short windows and small budgets.
func crowd() *adclicks.Params {
	p := adclicks.DefaultParams()
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	p.Campaigns, p.Ads, p.Users, p.Budget, p.Slice = 6, 2, 200, 2500, 200
	p.EventRate, p.Disorder, p.LateShare, p.LateBy = 200, ms(50), 0.2, ms(1200)
	p.Window, p.Lateness, p.Horizon, p.FraudMost = ms(200), ms(100), ms(400), 3
	p.Farm, p.FarmIPs, p.Resend, p.Replayed, p.ReplayAfter = 0.2, 1, 0.4, 0.2, ms(20)
	p.Dashboards, p.Reconcile, p.Reprocess, p.Twice = 0.2, 200, 250, 0.2
	p.BloomClicks, p.BloomFalse = 500, 0.05
	p.FlushEvery, p.ArchiveEvery, p.BatchEvery = ms(20), ms(50), ms(50)
	p.FreshWithin = ms(2000)
	return &p
}

// summary lists what is in the log, which is all that is there without roles.
func summary(audit adclicks.Audit) (lines []string) {
	for _, row := range audit.Log {
		lines = append(lines, fmt.Sprintf("%d: %s on %s by %s at %d for %d", row.ID, row.Click, row.Ad,
			row.User, row.AtMS, row.Cents))
	}
	return lines
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := adclicks.Audit{
		Log: []adclicks.LogRow{{ID: 8, Click: "click-1", Campaign: "campaign-1", Ad: "campaign-1/ad-1",
			User: "user-1", IP: "10.0.0.1", AtMS: 1, Cents: 1}},
		Decisions: []adclicks.DecisionRow{{Click: "click-1", Verdict: "counted"}},
		Windows:   []adclicks.WindowRow{{Campaign: "campaign-1", Ad: "campaign-1/ad-1", Clicks: 1}},
		Recount:   []adclicks.WindowRow{{Campaign: "campaign-1", Ad: "campaign-1/ad-1", Clicks: 1}},
		Budgets:   []adclicks.BudgetRow{{Campaign: "campaign-1", Budget: 1}},
		Replays:   []adclicks.ReplayRow{{ID: 12, Next: 1, Live: "a", Again: "a"}}}
	apitest.Conform(t, adclicks.API(), adclicks.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, adclicks.API(), adclicks.DefaultParams())
}

// FuzzLog: what is no click is an error, and a click stays the same.
func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"op":8,"click":"c","campaign":"a","ad":"a/1","user":"u","ip":"i","at":1,"cents":2}`))
	f.Add([]byte(`{"op":-1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, value []byte) {
		once, err := adclicks.Reread(value)
		if err != nil {
			return
		}
		twice, err := adclicks.Reread(once)
		if err != nil || string(once) != string(twice) {
			t.Errorf("%s became %s (%v)", once, twice, err)
		}
	})
}

// TestRecalled: whose clicks are limited is read back from Redis, whatever is in names, and
// concerns one campaign.
func TestRecalled(t *testing.T) {
	p := crowd()
	p.FraudMost = 1
	on := func(campaign, ad, ip string) adclicks.ClickRequest {
		return adclicks.ClickRequest{Click: campaign + ad + ip, Campaign: campaign, Ad: ad, IP: ip,
			AtMS: 1}
	}
	got, err := adclicks.Recalled(*p, on("a", "b c", "1 2"), on("a", "b c", "1"),
		on("a b", "c", "1 2"), on("d", "b c", "1 2"), on("a", "b c", "1 2"),
		on("", "\"\n%", "\xff"), on("", "\"\n%", "\xff"))
	want := []string{"counted", "counted", "counted", "counted", "fraud", "counted", "fraud"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

// TestReconciled: a window is compared whichever side has it.
func TestReconciled(t *testing.T) {
	got := adclicks.Reconciled(map[string][2]int64{"a": {1, 2}, "b": {1, 1}, "c": {1, 2}},
		map[string][2]int64{"a": {1, 2}, "c": {2, 2}, "d": {1, 1}})
	want := []string{"window 0 of b is one of real time: true, and of the recount: false",
		"window 0 of c has 2 clicks, 2 of them on time, for 0 cents in the recount, and had 2, 1 and 0",
		"window 0 of d is one of real time: false, and of the recount: true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "windows_in_memory", apitest.Reworded)
}
