package views

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/keys"
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

// TestFullDisk: while Postgres has no room, the stages wait; nothing counts twice when they go on.
func TestFullDisk(t *testing.T) { suttest.FullDisk(t, suite(), "video_key", "composite_key") }

func suite() suttest.Suite {
	return suttest.Suite{
		System:  System(),
		Params:  crowd(),
		Space:   lab.Namespace,
		Seed:    1,
		Ops:     500,
		Summary: summary,
		Undecided: map[string]string{
			Fresh:          "the load is over before the time that is promised for a view",
			MonotoneCounts: "the load may be over before the first view is in a count",
		},
	}
}

// crowd is a few videos that many watch, in an event time that runs 500 times as fast as the clock.
func crowd() *Params {
	p := DefaultParams()
	p.Videos, p.Users, p.VideoSkew = 20, 5000, keys.SkewHot
	p.TimeScale, p.EventRate = 500, 10
	p.ViewReads, p.Heartbeats, p.Resend = 0.5, 3, 0.2
	p.VisibleWithin = sut.Duration(30 * time.Second)
	return &p
}

// summary lists the events of the log in the order of their identities, wherever they lie.
func summary(raw json.RawMessage) (string, error) {
	var audit Audit
	if err := json.Unmarshal(raw, &audit); err != nil {
		return "", err
	}
	partitions, err := audit.Watch.Decode()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, list := range partitions {
		for _, e := range list {
			lines = append(lines, fmt.Sprintf("%+v", e.Event))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "video_key", apitest.Reworded)
}

// TestForgottenKeysAreCaught: to a server to which keys mean nothing, the repetition of a
// heartbeat that made its session a watch is not that heartbeat once more.
func TestForgottenKeysAreCaught(t *testing.T) {
	audit := func(body []byte) ([]byte, error) {
		var a Audit
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, err
		}
		for _, log := range []*Log{&a.Watch, &a.Valid} {
			partitions, err := log.Decode()
			if err != nil {
				return nil, err
			}
			for _, list := range partitions {
				for i := range list {
					list[i].ID = apitest.Key(list[i].ID)
				}
			}
			if *log, err = EncodeLog(partitions); err != nil {
				return nil, err
			}
		}
		return json.Marshal(a)
	}
	verdicts := suttest.Foreign(t, suite(), "video_key",
		func(next http.Handler) http.Handler { return apitest.Forgetful(next, audit, "event_id") })
	if v := verdicts[ExactCounts]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", v.Invariant, v.Status, v.Witness, v.Reason)
	}
}
