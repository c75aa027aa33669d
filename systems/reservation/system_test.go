package reservation_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/reservation"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	// Where stays are longer than a night, designs that number their places refuse more.
	alike := crowd()
	alike.Longest, alike.HoldTTL = 1, sut.Duration(time.Minute)
	return suttest.Suite{System: reservation.System(), Params: crowd(), Space: stores.Namespace,
		Seed: 1, Ops: 600, Summary: suttest.Lines(summary), AlikeParams: alike}
}

// crowd is many guests and few rooms, whose holds last for a moment.
func crowd() *reservation.Params {
	p := reservation.DefaultParams()
	p.Resources, p.Units, p.Overbooking, p.Nights, p.Longest = 4, 4, 1.5, 12, 4
	p.HoldTTL = sut.Duration(300 * time.Millisecond)
	p.ExpireEvery, p.ViewEvery = sut.Duration(20*time.Millisecond), sut.Duration(20*time.Millisecond)
	p.Think, p.Resend, p.ComeBack, p.LateShare = sut.Duration(100*time.Millisecond), 0.2, 3, 0
	return &p
}

// summary lists the stays at the end, but for the numbers of places.
func summary(audit reservation.Audit) (lines []string) {
	for _, h := range audit.Holds {
		lines = append(lines, fmt.Sprintf("%d: %s for %d nights from %d in %d", h.Hold, h.Guest, h.Nights,
			h.First, h.Resource))
	}
	return lines
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := reservation.Audit{Contract: reservation.Contract{ExpiryLagNS: 1},
		Holds: []reservation.HoldRow{{Hold: 1, Resource: 1, First: 1, Nights: 2, Guest: "guest-1",
			State: "held", Version: 1}},
		Nights:  []reservation.NightRow{{Resource: 1, Night: 1, Taken: 1}},
		Changes: []reservation.Change{{Seq: 1, Hold: 1, State: "held", Version: 1}}}
	apitest.Conform(t, reservation.API(), reservation.DefaultParams(), audit)
}

// TestAtRest: of a server that does not say what is left to do the open holds are counted.
func TestAtRest(t *testing.T) {
	for state, want := range map[string]string{"held": "open holds: 1", "expired": ""} {
		inst := &apitest.Scripted{AuditBody: fmt.Appendf(nil, `{"holds": [{"state": %q}]}`, state)}
		cfg := sut.Config{Params: crowd()}
		handler, err := reservation.API().Handler(struct{ sut.Instance }{inst}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(handler)
		t.Cleanup(srv.Close)
		target, err := reservation.API().Target(srv.URL, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		pending, err := target.(sut.Quiescer).Quiesced(t.Context())
		if err != nil || pending != want {
			t.Errorf("%s: got %q, %v, want %q", state, pending, err, want)
		}
	}
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, reservation.API(), reservation.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "counter_per_night", apitest.Reworded)
}
