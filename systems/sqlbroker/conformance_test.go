package sqlbroker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// TestConformance runs the suite over every variant of ours on a real store.
func TestConformance(t *testing.T) {
	s := suite(rush())
	s.System.Variants = slices.DeleteFunc(s.System.Variants, func(v sut.Variant) bool {
		return v.Name == "river"
	})
	suttest.Exercise(t, s)
}

// TestConformanceOfRiver runs it over River, beside batched: where there are no groups,
// the two end alike.
func TestConformanceOfRiver(t *testing.T) {
	p := rush()
	p.Grouped = 0
	s := suite(p)
	s.System.Variants = slices.DeleteFunc(s.System.Variants, func(v sut.Variant) bool {
		return v.Name != "river" && v.Name != "batched"
	})
	s.Undecided = map[string]string{GroupOrder: "there are no groups"}
	suttest.Exercise(t, s)
}

// TestFullDisk: while Postgres has no room, publications and claims are refused and
// consumers wait; nothing is lost or done twice, and all goes on when there is room.
func TestFullDisk(t *testing.T) {
	suttest.FullDisk(t, suite(rush()), "batched", "partitioned", "river")
}

func suite(p Params) suttest.Suite {
	alike := p // what is delivered stays so, however long a machine stalls
	alike.Visibility = sut.Duration(time.Hour)
	return suttest.Suite{System: System(), Params: &p, Space: shared.Namespace, Seed: 1, Ops: 200,
		Summary: summary, AlikeParams: &alike}
}

// summary lists which messages there are and how many are acknowledged.
func summary(raw json.RawMessage) (string, error) {
	audit, err := api.DecodeAudit[Audit](raw)
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
	suttest.Understood(t, suite(rush()), "batched", apitest.Reworded)
}

// TestForgottenKeysAreCaught: a server to which keys mean nothing stores what is published
// again once more.
func TestForgottenKeysAreCaught(t *testing.T) {
	verdicts := suttest.Foreign(t, suite(rush()), "batched", func(next http.Handler) http.Handler {
		return apitest.Forgetful(next, nil, "op_id")
	})
	if v := verdicts[OncePlaced]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", v.Invariant, v.Status, v.Witness, v.Reason)
	}
}
