package scheduler

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, API(), DefaultParams(), goodRun(t).raw(t))
}

// TestOldHistories: the operations of runs that were stored earlier are read.
func TestOldHistories(t *testing.T) {
	op := history.Op{ID: 256, Kind: KindSchedule, Key: "queue-1", Client: "client-1",
		Arg: 1767603600000, Body: []byte("\x02" + `{"task":"report-1","work_ms":5}`)}
	req, err := api.RequestOf[Request](API(), op)
	if err != nil || req.Tries != 2 || req.Task != "report-1" || req.At.UnixMilli() != op.Arg {
		t.Fatalf("read as %+v, %v", req, err)
	}
	if again := API().Op(op.Kind, req); string(again.Body) != string(op.Body) {
		t.Errorf("written as %q, was %q", again.Body, op.Body)
	}
}

// TestBadTasks: what can never be is refused before anybody sees it.
func TestBadTasks(t *testing.T) {
	h, err := API().Handler(&apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			t.Error("a bad request was performed")
			return history.Reply{}, nil
		}}, sut.Config{Params: DefaultParams()})
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

// TestToken: a server whose parameters have a token wants it.
func TestToken(t *testing.T) {
	p := DefaultParams()
	p.Token = "open sesame"
	h, err := API().Handler(&apitest.Scripted{}, sut.Config{Params: p})
	ok(t, err)
	if w := apitest.Serve(h, "get", "/v1/tasks/256", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.Code)
	}
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, API(), DefaultParams())
}
