package scheduler_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/scheduler"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, scheduler.API(), scheduler.DefaultParams(), goodRun(t).raw(t), nil)
	apitest.Written(t, "openapi.yaml", scheduler.API().OpenAPI())
}

// TestAPIIsCompatible: a server that was written to the description of version 1 is still
// understood.
func TestAPIIsCompatible(t *testing.T) {
	golden, err := os.ReadFile("testdata/openapi-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apitest.Compatible(t, golden, scheduler.API().OpenAPI(), "properties.now_us.minimum",
		"properties.begins_us.minimum")
}

// TestOldHistories: the operations of runs that were stored earlier are read.
func TestOldHistories(t *testing.T) {
	op := history.Op{ID: 256, Kind: scheduler.KindSchedule, Key: "queue-1", Client: "client-1",
		Arg: 1767603600000, Body: []byte("\x02" + `{"task":"report-1","work_ms":5}`)}
	req, err := api.RequestOf[scheduler.Request](scheduler.API(), op)
	if err != nil || req.Tries != 2 || req.Task != "report-1" || req.At.UnixMilli() != op.Arg {
		t.Fatalf("read as %+v, %v", req, err)
	}
	if again := scheduler.API().Op(op.Kind, req); string(again.Body) != string(op.Body) {
		t.Errorf("written as %q, was %q", again.Body, op.Body)
	}
}

// TestBadTasks: what can never be is refused before anybody sees it.
func TestBadTasks(t *testing.T) {
	h, err := scheduler.API().Handler(&apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			t.Error("a bad request was performed")
			return history.Reply{}, nil
		}}, sut.Config{Params: scheduler.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"id":256,"queue":"queue-1","client":"client-1","task":"report-1","work_ms":5,` +
		`"cron":"0 9 * * 1-5","zone":"Europe/Berlin","times":2,"at":"2026-01-05T08:00:00Z"}`
	for _, c := range [][2]string{
		{`Europe/Berlin`, `Europe/Nowhere`}, {`Europe/Berlin`, `Local`},
		{`0 9 * * 1-5`, `0 25 * * *`}, {`0 9 * * 1-5`, `0 22-2 * * *`}, {`1-5`, `FRI-MON`},
		{`2026-01-05T08:00:00Z`, `0001-01-01T00:00:00Z`}, {`"times":2`, `"times":-2`},
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
	h, err := scheduler.API().Handler(&apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Key: "cancelled"}, nil
		}}, sut.Config{Params: p})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range scheduler.API().Examples() {
		if w := apitest.Serve(h, e.Method, e.Target, e.Body); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", e.Kind, w.Code)
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
		client, err := scheduler.API().Target(srv.URL, sut.Config{Params: p})
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

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, scheduler.API(), scheduler.DefaultParams())
}
