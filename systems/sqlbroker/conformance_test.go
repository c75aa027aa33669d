package sqlbroker_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant of ours on a real store.
func TestConformance(t *testing.T) {
	suttest.Exercise(t, suite(rush(), func(v sut.Variant) bool { return v.Name != "river" }))
}

// TestConformanceOfRiver runs it over River, beside batched: where there are no groups,
// the two end alike.
func TestConformanceOfRiver(t *testing.T) {
	p := rush()
	p.Grouped = 0
	s := suite(p, func(v sut.Variant) bool { return v.Name == "river" || v.Name == "batched" })
	s.Undecided = map[string]string{sqlbroker.GroupOrder: "there are no groups"}
	suttest.Exercise(t, s)
}

// TestFullDisk: while Postgres has no room, publications and claims are refused and
// consumers wait; nothing is lost or done twice, and all goes on when there is room.
func TestFullDisk(t *testing.T) {
	all := func(sut.Variant) bool { return true }
	suttest.FullDisk(t, suite(rush(), all), "batched", "partitioned", "river")
}

// suite is that of some variants.
func suite(p *sqlbroker.Params, has func(sut.Variant) bool) suttest.Suite {
	sys := sqlbroker.System()
	sys.Variants = slices.DeleteFunc(sys.Variants, func(v sut.Variant) bool { return !has(v) })
	return suttest.Suite{System: sys, Params: p, Space: stores.Namespace, Seed: 1, Ops: 200,
		Summary: summary}
}

// rush is few queues, short of time.
func rush() *sqlbroker.Params {
	ms := func(n int) sut.Duration { return sut.Duration(n) * sut.Duration(time.Millisecond) }
	p := sqlbroker.DefaultParams()
	p.Queues, p.Worked, p.Batch, p.ReceiveBatch = 2, 1, 3, 4
	p.Grouped, p.Groups, p.Poison = 0.3, 5, 0.05
	p.Receives, p.Wait, p.Think = 1, ms(20), ms(50)
	p.Late, p.Extend, p.Release, p.Resend = 0.15, 0.1, 0.1, 0.2
	p.Visibility, p.MaxReceives = ms(400), 3
	p.DelayMost, p.SweepEvery, p.PollEvery = ms(50), ms(10), ms(5)
	p.Keep, p.CollectEvery, p.RotateEvery = ms(500), ms(50), ms(300)
	return &p
}

// configOf is an empty place with parameters.
func configOf(t *testing.T, p sqlbroker.Params) sut.Config {
	t.Helper()
	space := stores.Namespace(t)
	return sut.Config{PostgresURL: space.PostgresURL, Prefix: space.Prefix, Params: p, MaxConns: 4,
		Timeout: 10 * time.Second}
}

// summary lists which messages there are and how many are acknowledged.
func summary(raw json.RawMessage) (string, error) {
	audit, err := api.DecodeAudit[sqlbroker.Audit](raw)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range audit.Messages {
		fmt.Fprintf(&b, "%d.%d in %s of group %d: %s\n", m.OpID, m.Index, m.Queue, m.Group, m.State)
	}
	fmt.Fprintf(&b, "%d dead letters, %d effects\n", len(audit.Dead), len(audit.Effects))
	return b.String(), nil
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	all := func(sut.Variant) bool { return true }
	suttest.Understood(t, suite(rush(), all), "batched", apitest.Reworded)
}

// TestForgottenKeysAreCaught: a server to which keys mean nothing stores what is published
// again once more.
func TestForgottenKeysAreCaught(t *testing.T) {
	all := func(sut.Variant) bool { return true }
	verdicts := suttest.Foreign(t, suite(rush(), all), "batched",
		func(next http.Handler) http.Handler { return apitest.Forgetful(next, nil, "op_id") })
	if v := verdicts[sqlbroker.OncePlaced]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", v.Invariant, v.Status, v.Witness, v.Reason)
	}
}
