package views_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/views"
)

// goodRequests has a request that succeeds for each route.
func goodRequests() apitest.Requests {
	const heartbeat = `{"event_id":256,"video_id":"video-1","user_id":"u1","session_id":"s1",` +
		`"timestamp":"2026-01-05T10:23:45Z","watch_duration":15,"device":"tv","ip":"203.0.113.42"}`
	const rules = `{"min_watch_ms":10000,"repeat_window_ms":300000,"ip_views":10,` +
		`"ip_window_ms":60000,"blocked":null,"creators":true}`
	return apitest.Requests{
		"post /watchtime":        {Path: "/watchtime", Body: heartbeat},
		"get /videos/{id}/views": {Path: "/videos/video-1/views"},
		"put /v1/rules":          {Path: "/v1/rules", Body: rules},
		"post /v1/reprocess":     {Path: "/v1/reprocess"},
		"post /v1/reset":         {Path: "/v1/reset", Body: views.ResetBody()},
	}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds
// with a documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	handler := newHandler(t, &apitest.Scripted{AuditBody: goodRun(t).raw(t),
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			switch op.Kind {
			case views.KindHeartbeat:
				return history.Reply{Key: "3/120/0", Value: 120}, nil
			case views.KindViews:
				return history.Reply{Key: "1", Value: 7}, nil
			}
			return history.Reply{Value: 2}, nil
		},
	})
	apitest.Read(t, views.System().OpenAPI).CoversRoutes(t, handler, goodRequests())
}

func newHandler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := views.NewHandler(inst, sut.Config{Params: views.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// TestOpenAPICoversProblems: every way in which an operation can end is
// described for its route by status and code, and every described status occurs.
func TestOpenAPICoversProblems(t *testing.T) {
	fails := []error{views.ErrUnknownVideo, views.ErrOverloaded}
	apitest.Read(t, views.System().OpenAPI).CoversProblems(t, apitest.Problems{
		Handler: func(inst sut.Instance) http.Handler { return newHandler(t, inst) },
		Good:    goodRequests(),
		Fails: map[string][]error{"post /watchtime": fails, "get /videos/{id}/views": fails,
			"put /v1/rules": fails, "post /v1/reprocess": fails},
		Bad: map[string][]apitest.Request{"post /v1/reset": {{Path: "/v1/reset",
			Body: strings.Replace(views.ResetBody(), `"videos":`, `"videos":1`, 1)}}},
		MaxBody: 1 << 20,
	})
}
