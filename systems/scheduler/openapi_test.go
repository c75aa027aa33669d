package scheduler_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/scheduler"
)

// goodRequests has a request that succeeds for each route.
func goodRequests() apitest.Requests {
	const task = `{"id":256,"queue":"queue-1","client":"client-1","task":"report-1","work_ms":5,` +
		`"cron":"0 9 * * 1-5","zone":"Europe/Berlin","times":2,"at":"2026-01-05T08:00:00Z"}`
	const reset = `{"day":"2026-01-05T08:58:00Z","time_scale":10,"granularity_ms":60000}`
	list := apitest.Requests{
		"post /v1/tasks":           {Path: "/v1/tasks", Body: task},
		"get /v1/tasks":            {Path: "/v1/tasks?queue=queue-1"},
		"get /v1/tasks/{id}":       {Path: "/v1/tasks/256"},
		"get /v1/tasks/{id}/start": {Path: "/v1/tasks/256/start"},
		"post /v1/reset":           {Path: "/v1/reset", Body: reset},
	}
	for _, what := range []string{"cancel", "pause", "resume", "rerun"} {
		list["post /v1/tasks/{id}/"+what] = apitest.Request{Path: "/v1/tasks/256/" + what,
			Body: `{"op_id":257}`}
	}
	return list
}

const taskBody = `{"id":256,"queue":"queue-1","client":"client-1","task":"report-1","work_ms":5,` +
	`"occurrence":1,"due":"2026-01-05T09:00:00Z","state":"done","paused":false,"runs":[` +
	`{"occurrence":1,"fence":1,"due":"2026-01-05T09:00:00Z","started":"2026-11-21T09:00:00Z"}]}`

// scripted answers every operation.
func scripted(t *testing.T) *apitest.Scripted {
	return &apitest.Scripted{AuditBody: goodRun(t).raw(t),
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			switch op.Kind {
			case scheduler.KindTask:
				return history.Reply{Key: "done", Value: 1, Body: []byte(taskBody)}, nil
			case scheduler.KindTasks:
				return history.Reply{Value: 1, Body: []byte("[" + taskBody + "]")}, nil
			case scheduler.KindSchedule:
				return history.Reply{Key: "256", Value: 12_000_000}, nil
			}
			return history.Reply{Key: "cancelled", Value: 3000}, nil
		}}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds
// with a documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	handler := newHandler(t, scripted(t), scheduler.DefaultParams())
	apitest.Read(t, scheduler.System().OpenAPI).CoversRoutes(t, handler, goodRequests())
}

func newHandler(t *testing.T, inst sut.Instance, p scheduler.Params) http.Handler {
	t.Helper()
	handler, err := scheduler.NewHandler(inst, sut.Config{Params: p})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// TestOpenAPICoversProblems: every way in which an operation can end is
// described for its route by status and code, and every described status occurs, but for
// those of servers with a token.
func TestOpenAPICoversProblems(t *testing.T) {
	fails := []error{scheduler.ErrUnknownTask, scheduler.ErrConflict, scheduler.ErrState,
		scheduler.ErrOpTaken, scheduler.ErrNotStarted}
	all := map[string][]error{}
	for route := range goodRequests() {
		if route != "post /v1/reset" {
			all[route] = fails
		}
	}
	apitest.Read(t, scheduler.System().OpenAPI).CoversProblems(t, apitest.Problems{
		Handler: func(inst sut.Instance) http.Handler {
			return newHandler(t, inst, scheduler.DefaultParams())
		},
		Good: goodRequests(), Fails: all,
		Bad: map[string][]apitest.Request{"post /v1/reset": {{Path: "/v1/reset",
			Body: strings.Replace(goodRequests()["post /v1/reset"].Body, `:10,`, `:20,`, 1)}}},
		Elsewhere: []string{"401"},
		MaxBody:   1 << 16,
	})
}

// TestBadTasks: what can never be is refused before anybody sees it.
func TestBadTasks(t *testing.T) {
	h := newHandler(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			t.Error("a bad request was performed")
			return history.Reply{}, nil
		}}, scheduler.DefaultParams())
	good := goodRequests()["post /v1/tasks"].Body
	for _, c := range [][2]string{
		{`"id":256`, `"id":0`}, {`Europe/Berlin`, `Europe/Nowhere`}, {`Europe/Berlin`, `Local`},
		{`0 9 * * 1-5`, `0 25 * * *`}, {`0 9 * * 1-5`, `0 22-2 * * *`}, {`1-5`, `FRI-MON`},
		{`"task":"report-1"`, `"task":""`}, {`"work_ms":5`, `"work_ms":-1`},
		{`"work_ms":5`, `"work_ms":9223372036854775807`},
		{`"times":2`, `"times":-2`}, {`,"at":"2026-01-05T08:00:00Z"`, ``},
	} {
		w := apitest.Serve(h, "post", "/v1/tasks", strings.Replace(good, c[0], c[1], 1))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", c[1], w.Code, w.Body)
		}
	}
}

// TestToken: a server that has a token wants it of its clients, who have it by the
// same parameters.
func TestToken(t *testing.T) {
	p := scheduler.DefaultParams()
	p.Token = "open sesame"
	h := newHandler(t, scripted(t), p)
	for route, r := range goodRequests() {
		method, _, _ := strings.Cut(route, " ")
		if w := apitest.Serve(h, method, r.Path, r.Body); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", route, w.Code)
		}
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if w := apitest.Serve(h, "get", path, ""); w.Code != http.StatusOK {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	for token, want := range map[string]bool{"open sesame": true, "": false, "other": false} {
		p.Token = token
		client, err := scheduler.NewTarget(srv.URL, sut.Config{Params: p})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(t.Context(), history.Op{ID: 257, Kind: scheduler.KindCancel, Key: "256"})
		if (err == nil) != want {
			t.Errorf("token %q: %v", token, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
