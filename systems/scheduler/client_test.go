package scheduler

import (
	"net/http"
	"slices"
	"testing"

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

// TestLeftByTheAudit: what an audit has to run is what waits and is not paused, or runs, but for
// recurring tasks without end that are not due.
func TestLeftByTheAudit(t *testing.T) {
	const now = 1000
	row := func(state State) TaskAudit { return TaskAudit{State: state, DueUS: now + 1} }
	paused, endless := row(Waiting), row(Waiting)
	paused.Paused, endless.Cron = true, "* * * * *"
	due, finite := endless, endless
	due.DueUS, finite.Times = now, 2
	resting := []TaskAudit{row(Done), row(Failed), row(Cancelled), paused, endless}
	for want, more := range map[string][]TaskAudit{
		"":                       nil,
		"2 tasks wait and 1 run": {row(Picked), row(Waiting), row(Running)},
		"1 tasks wait and 0 run": {due},
		"2 tasks wait and 0 run": {finite, due},
	} {
		a := Audit{Tasks: slices.Concat(resting, more), Now: now}
		if got := stillToRun(a.left()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSilentServer: a server that does not say what is left to do is judged at rest.
func TestSilentServer(t *testing.T) { suttest.Understood(t, suite(), "skip_locked", silent) }
