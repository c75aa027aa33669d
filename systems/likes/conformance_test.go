package likes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/keys"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// lab has the stores that are shared by all store-backed tests of this package.
var lab = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(lab.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) {
	suttest.Exercise(t, suite())
}

// TestFullDisk: while the ledger has no room, likes that go to it are refused, those
// that go to the log wait there.
func TestFullDisk(t *testing.T) { suttest.FullDisk(t, suite(), "locked_row", "shards_adaptive") }

func suite() suttest.Suite {
	return suttest.Suite{
		System:  System(),
		Params:  crowd(),
		Space:   lab.Namespace,
		Seed:    1,
		Ops:     1000,
		Summary: summary,
	}
}

// crowd is many users and two videos, on a clock on which users think for
// milliseconds.
func crowd() *Params {
	p := DefaultParams()
	p.Videos, p.VideoSkew = 2, keys.SkewHot
	p.ClickTwice, p.Unlike, p.Relike = 0.3, 0.2, 0.5
	p.Resend = 0.2
	p.Think = sut.Duration(60 * time.Millisecond)
	p.HeatPerShard, p.Buffer = 20, 10_000
	p.RepairEvery = sut.Duration(50 * time.Millisecond)
	p.MergeEvery = sut.Duration(10 * time.Millisecond)
	return &p
}

// summary lists who likes what. What readers are told, stores-agree judges: regions
// do not know of each other without their role.
func summary(raw json.RawMessage) (string, error) {
	audit, err := api.DecodeAudit[Audit](raw)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, v := range audit.Videos {
		fmt.Fprintf(&b, "video %d is liked by %d\n", v.Video, v.Members)
	}
	return b.String(), nil
}

// TestGapIsRefused: the ledger takes what follows what it has, and what it has again.
func TestGapIsRefused(t *testing.T) {
	space := lab.Namespace(t)
	db, err := stores.OpenPostgres(t.Context(), sut.Config{PostgresURL: space.PostgresURL,
		Prefix: space.Prefix, MaxConns: 1}, "likes", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(t.Context(), schema+`INSERT INTO videos (video_id) VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		offset int64
		want   error
	}{{0, nil}, {1, nil}, {3, errGap}, {2, nil}, {1, nil}, {3, nil}} {
		at := step.offset
		e := Event{OpID: uint64(at + 1), Video: 1, User: 1, Liked: true, Version: at + 1}
		_, err := (&postgres{db}).apply(t.Context(), []Event{e}, map[int32]span{3: {at, at + 1}})
		if !errors.Is(err, step.want) {
			t.Errorf("at offset %d: %v; want %v", at, err, step.want)
		}
	}
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "locked_row", apitest.Reworded)
}

// TestForgottenKeysAreCaught: a server to which keys mean nothing has a repeated
// interaction in its ledger twice.
func TestForgottenKeysAreCaught(t *testing.T) {
	audit := func(body []byte) ([]byte, error) {
		var a Audit
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, err
		}
		for i, op := range a.Logged {
			a.Logged[i] = apitest.Key(op)
		}
		slices.Sort(a.Logged)
		return json.Marshal(a)
	}
	verdicts := suttest.Foreign(t, suite(), "locked_row",
		func(next http.Handler) http.Handler { return apitest.Forgetful(next, audit, "op_id") })
	if v := verdicts[OneLike]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", v.Invariant, v.Status, v.Witness, v.Reason)
	}
}

// TestRememberedAnswers: a server may answer a repeated request as it did the first time.
func TestRememberedAnswers(t *testing.T) {
	var mu sync.Mutex
	told := map[string][]byte{}
	suttest.Understood(t, suite(), "locked_row", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/likes" {
				next.ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			key := r.Method + string(body)
			if told[key] == nil {
				r.Body = io.NopCloser(bytes.NewReader(body))
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				told[key] = answer.Body.Bytes()
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(told[key])
		})
	})
}
