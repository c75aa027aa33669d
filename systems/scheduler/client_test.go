package scheduler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// silent serves what next does, but does not say what background work is left.
func silent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/pending" {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestQuiescedByTheAudit: a server that does not say what is left to do is at rest when its
// audit has no task that is to run. It is not audited each time.
func TestQuiescedByTheAudit(t *testing.T) {
	const now = 1000
	row := func(id uint64, state State) TaskAudit {
		return TaskAudit{Task: id, Occurrence: 1, State: state, DueUS: now + 1}
	}
	resting := []TaskAudit{row(1, Done), row(2, Failed),
		row(3, Cancelled), row(4, Waiting), row(5, Waiting)}
	resting[3].Paused = true
	resting[4].Cron = "* * * * *" // without end, and not due
	due, finite := resting[4], resting[4]
	due.DueUS, finite.Times = now, 2
	for name, c := range map[string]struct {
		more []TaskAudit
		want string
		left int64
	}{
		"at rest": {nil, "", 0},
		"waits and runs": {[]TaskAudit{row(6, Picked), row(7, Waiting),
			row(8, Running)}, "2 tasks wait and 1 run", 3},
		"recurs, and due":  {[]TaskAudit{due}, "1 tasks wait and 0 run", 1},
		"recurs, and ends": {[]TaskAudit{finite}, "1 tasks wait and 0 run", 1},
	} {
		t.Run(name, func(t *testing.T) {
			audits := 0
			server := httptest.NewServer(silent(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					audits++
					err := json.NewEncoder(w).Encode(Audit{Tasks: slices.Concat(resting, c.more),
						Runs: []RunAudit{}, Effects: []EffectAudit{},
						Changes: []ChangeAudit{}, Now: now})
					if err != nil {
						t.Error(err)
					}
				})))
			t.Cleanup(server.Close)
			inst, err := API().Target(server.URL, sut.Config{Params: DefaultParams()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = inst.Close() })
			asked := inst.(sut.Backlogger)
			const times = 50
			for range times {
				if got, err := asked.Quiesced(t.Context()); err != nil || got != c.want {
					t.Fatalf("got %q, %v, want %q", got, err, c.want)
				}
			}
			if c.left > 0 && audits == times {
				t.Errorf("%d audits for %d questions", audits, times)
			}
			if left, err := asked.Backlog(t.Context()); err != nil || left != c.left {
				t.Errorf("%d are left, %v, want %d", left, err, c.left)
			}
		})
	}
}

// TestSilentServer: a server that does not say what is left to do is judged at rest.
func TestSilentServer(t *testing.T) { suttest.Understood(t, suite(), "skip_locked", silent) }
