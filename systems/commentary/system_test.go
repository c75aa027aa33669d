package commentary_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/commentary"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	p := crowd()
	p.MaxAge = sut.Duration(time.Second)
	return suttest.Suite{System: commentary.System(), Params: p,
		Space: stores.Namespace, Seed: 1, Ops: 600, Over: time.Second, Summary: suttest.Lines(summary),
		Undecided: map[string]string{
			commentary.SeenInTime: "some promise more time than a run has",
			commentary.OneAnswer:  "some are asked too seldom by who has an answer"}}
}

// summary counts the changes of each match.
func summary(audit commentary.Audit) []string {
	changes := map[uint64]int{}
	for _, c := range audit.Changes {
		changes[c.Match]++
	}
	return []string{fmt.Sprint(changes)} // which sorts the matches
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	page := commentary.PageRow{Match: 1, Version: 1,
		Comments: []commentary.Comment{{ID: 1, Version: 1, Ball: "1.1", Text: "six"}}}
	audit := commentary.Audit{
		Changes: []commentary.ChangeRow{{ID: 16, Match: 1, Version: 1, Comment: 1, Ball: "1.1",
			Text: "six"}},
		Pages: []commentary.PageRow{page}, Past: []commentary.PageRow{page}}
	p := commentary.DefaultParams()
	p.Matches = 1000
	apitest.Conform(t, commentary.API(), p, audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, commentary.API(), commentary.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "postgres_poll", apitest.Reworded)
}

// FuzzDecode: bytes of a store are an error, or what they are read as.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(`{"id":1,"version":2,"ball":"1.1","text":"six"}`))
	f.Add([]byte(`{"op_id":1,"match":2,"version":3,"comment":4,"ball":"1.1","text":"six"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := commentary.Decoders(string(raw)); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
	})
}

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ name, control, named string }{
		{"a copy takes any change", "redis_etag", commentary.VersionShown},
		{"a copy is not cut", "redis_etag", commentary.VersionShown},
		{"a viewer is shown what was there first", "postgres_poll", commentary.NeverBack},
		{"a correction is a new comment", "postgres_poll", commentary.AckedKept},
		{"the archive is not read", "postgres_poll", commentary.PastWhole},
		{"an edge for whole days", "edge", commentary.SeenInTime},
		{"a text is cut", "postgres_poll", commentary.AckedKept},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := *crowd()
			p.MaxAge, p.CopyFor = sut.Duration(time.Second), sut.Duration(200*ms)
			p.ArchiveAfter = sut.Duration(time.Second)
			tr := suttest.Trial{System: commentary.System(), Params: &p, Space: stores.Namespace,
				Ops: 500, Every: 5 * ms, Settle: 30 * time.Second}
			mutants := commentary.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.name], m.named)
		})
	}
}
