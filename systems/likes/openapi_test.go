package likes_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/likes"
)

// goodRequests has a request that succeeds for each route.
func goodRequests() apitest.Requests {
	const like = `{"op_id":256,"video_id":1,"user_id":42}`
	return apitest.Requests{
		"post /v1/likes":        {Path: "/v1/likes", Body: like},
		"delete /v1/likes":      {Path: "/v1/likes", Body: like},
		"get /v1/likes/{video}": {Path: "/v1/likes/1?user_id=42"},
		"post /v1/views":        {Path: "/v1/views", Body: like},
		"post /v1/reset":        {Path: "/v1/reset", Body: `{"videos":1}`},
	}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds
// with a documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	audit, err := json.Marshal(goodLikes().audit)
	if err != nil {
		t.Fatal(err)
	}
	handler := newHandler(t, &apitest.Scripted{AuditBody: audit,
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			if op.Kind == likes.KindCount {
				return history.Reply{Body: []byte(`{"video_id":1,"count":2,"viewers":3,"approx":false}`)}, nil
			}
			return history.Reply{Value: 1}, nil
		},
	})
	apitest.Read(t, likes.System().OpenAPI).CoversRoutes(t, handler, goodRequests())
}

func newHandler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := likes.NewHandler(inst, sut.Config{Params: likes.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// TestOpenAPICoversProblems: every way in which an operation can end is
// described for its route by status and code, and every described status occurs.
func TestOpenAPICoversProblems(t *testing.T) {
	fails := []error{likes.ErrUnknownVideo, likes.ErrNotReady, likes.ErrOverloaded}
	apitest.Read(t, likes.System().OpenAPI).CoversProblems(t, apitest.Problems{
		Handler: func(inst sut.Instance) http.Handler { return newHandler(t, inst) },
		Good:    goodRequests(),
		Fails: map[string][]error{"post /v1/likes": fails, "delete /v1/likes": fails,
			"post /v1/views": fails, "get /v1/likes/{video}": fails},
		Bad: map[string][]apitest.Request{
			"get /v1/likes/{video}": {{Path: "/v1/likes/none"}, {Path: "/v1/likes/1?user_id=0"}},
			"post /v1/reset":        {{Path: "/v1/reset", Body: `{"videos":2}`}},
		},
		MaxBody: 20_000,
	})
}
