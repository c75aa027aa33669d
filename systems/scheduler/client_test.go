package scheduler_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/scheduler"
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

// audited serves what next does, with another audit.
func audited(next http.Handler, change func(*scheduler.Audit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/audit" {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		var a scheduler.Audit
		err := json.Unmarshal(answer.Body.Bytes(), &a)
		if err == nil {
			change(&a)
			err = json.NewEncoder(w).Encode(a)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// TestQuiescedByTheAudit: a server that does not say what is left to do is at rest when its
// audit has no task that is to run. It is not audited each time.
func TestQuiescedByTheAudit(t *testing.T) {
	const now = 1000
	row := func(id uint64, state scheduler.State) scheduler.TaskAudit {
		return scheduler.TaskAudit{Task: id, Occurrence: 1, State: state, DueUS: now + 1}
	}
	resting := []scheduler.TaskAudit{row(1, scheduler.Done), row(2, scheduler.Failed),
		row(3, scheduler.Cancelled), row(4, scheduler.Waiting), row(5, scheduler.Waiting)}
	resting[3].Paused = true
	resting[4].Cron = "* * * * *" // without end, and not due
	due, finite := resting[4], resting[4]
	due.DueUS, finite.Times = now, 2
	for name, c := range map[string]struct {
		more []scheduler.TaskAudit
		want string
		left int64
	}{
		"at rest": {nil, "", 0},
		"waits and runs": {[]scheduler.TaskAudit{row(6, scheduler.Picked), row(7, scheduler.Waiting),
			row(8, scheduler.Running)}, "2 tasks wait and 1 run", 3},
		"recurs, and due":  {[]scheduler.TaskAudit{due}, "1 tasks wait and 0 run", 1},
		"recurs, and ends": {[]scheduler.TaskAudit{finite}, "1 tasks wait and 0 run", 1},
	} {
		t.Run(name, func(t *testing.T) {
			audits := 0
			server := httptest.NewServer(silent(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					audits++
					err := json.NewEncoder(w).Encode(scheduler.Audit{Tasks: slices.Concat(resting, c.more),
						Runs: []scheduler.RunAudit{}, Effects: []scheduler.EffectAudit{},
						Changes: []scheduler.ChangeAudit{}, Now: now})
					if err != nil {
						t.Error(err)
					}
				})))
			t.Cleanup(server.Close)
			inst, err := scheduler.API().Target(server.URL, sut.Config{Params: scheduler.DefaultParams()})
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

// TestLostTasksAreCaught: a server that forgets tasks and believes that nothing is left to do
// has not finished them.
func TestLostTasksAreCaught(t *testing.T) {
	verdicts := suttest.Foreign(t, suite(), "skip_locked", func(next http.Handler) http.Handler {
		return audited(next, loseSome)
	})
	if v := verdicts[scheduler.AllRun]; v.Status != check.Broken || v.Unfinished != v.Count {
		t.Errorf("%s is %s, %d of %d not finished: %s %+v", v.Invariant, v.Status, v.Unfinished,
			v.Count, v.Reason, v.Violations)
	}
}

// loseSome makes some tasks that were done into such as still wait.
func loseSome(a *scheduler.Audit) {
	lost := map[uint64]bool{}
	for i := range a.Tasks {
		if row := &a.Tasks[i]; row.State == scheduler.Done && row.Cron == "" && row.Task>>8%10 == 0 {
			row.State, row.EndedUS, row.Fence = scheduler.Waiting, 0, 0
			lost[row.Task] = true
		}
	}
	a.Runs = slices.DeleteFunc(a.Runs, func(r scheduler.RunAudit) bool { return lost[r.Task] })
	a.Effects = slices.DeleteFunc(a.Effects, func(e scheduler.EffectAudit) bool {
		return lost[e.Task]
	})
}

// TestRepeatsTurnedAway: a server that turns away every request that it has seen has not shown
// what its keys mean.
func TestRepeatsTurnedAway(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		verdicts := suttest.Foreign(t, suite(), "skip_locked", func(next http.Handler) http.Handler {
			return onceOnly(next, status)
		})
		v := verdicts[scheduler.NoPhantomRuns]
		if !v.NotExercised || !strings.HasPrefix(v.Reason, "no acknowledged request was acknowledged") {
			t.Errorf("%d: %s is %s: %s %+v", status, v.Invariant, v.Status, v.Reason, v.Violations)
		}
	}
}

// onceOnly serves what next does, but turns away what was posted before.
func onceOnly(next http.Handler, status int) http.Handler {
	var mu sync.Mutex
	seen := map[string]bool{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		sent := r.URL.Path + string(body)
		again := seen[sent]
		seen[sent] = true
		mu.Unlock()
		if again {
			w.WriteHeader(status)
			_, _ = w.Write(apitest.Problem("refused", "seen before"))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
