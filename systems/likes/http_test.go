package likes_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/likes"
)

// target serves an instance and returns a client of it.
func target(t *testing.T, inst sut.Instance) sut.Instance {
	t.Helper()
	server := httptest.NewServer(newHandler(t, inst))
	t.Cleanup(server.Close)
	return client(t, server.URL)
}

func client(t *testing.T, url string) sut.Instance {
	t.Helper()
	c, err := likes.NewTarget(url, sut.Config{Params: likes.DefaultParams(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestEveryOperationSurvivesHTTP: an instance behind the handler and the client is
// asked what the client is asked, and answers the same.
func TestEveryOperationSurvivesHTTP(t *testing.T) {
	const count = `{"video_id":3,"count":41,"viewers":7,"approx":true}`
	var got history.Op
	c := target(t, &apitest.Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			got = op
			if op.Kind == likes.KindCount {
				return history.Reply{Value: 41, Body: []byte(count)}, nil
			}
			return history.Reply{Value: int64(op.ID % 2)}, nil
		}})
	for _, op := range []history.Op{
		{ID: 1, Kind: likes.KindLike, Key: "video-3", Client: "user-9"},
		{ID: 2, Kind: likes.KindLike, Key: "video-3", Client: "user-9"},
		{ID: 3, Kind: likes.KindUnlike, Key: "video-3", Client: "user-9"},
		{ID: 4, Kind: likes.KindView, Key: "video-3", Client: "user-9"},
		{Kind: likes.KindCount, Key: "video-3", Client: "user-9"},
	} {
		reply, err := c.Do(t.Context(), op)
		if err != nil || got.Kind != op.Kind || got.ID != op.ID || got.Key != op.Key ||
			got.Client != op.Client {
			t.Errorf("%+v was asked as %+v: %v", op, got, err)
		}
		want := history.Reply{Value: int64(op.ID % 2)}
		if op.Kind == likes.KindCount {
			want = history.Reply{Value: 41, Body: []byte(count)}
		}
		if op.Kind == likes.KindView {
			want.Value = 0
		}
		if reply.Value != want.Value || string(reply.Body) != string(want.Body) {
			t.Errorf("%+v was answered %+v (%s), want %+v", op, reply, reply.Body, want)
		}
	}
}

// TestRefusalsSurviveHTTP: a refusal is one on the other side, of the same kind,
// and what is unknown stays so.
func TestRefusalsSurviveHTTP(t *testing.T) {
	var fails error
	c := target(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fails
		}})
	op := history.Op{ID: 1, Kind: likes.KindLike, Key: "video-1", Client: "user-1"}
	for _, fails = range []error{likes.ErrUnknownVideo, likes.ErrNotReady, likes.ErrOverloaded,
		sut.ErrRefused} {
		if _, err := c.Do(t.Context(), op); !errors.Is(err, fails) || !errors.Is(err, sut.ErrRefused) {
			t.Errorf("%v became %v", fails, err)
		}
	}
	fails = errors.New("gone")
	if _, err := c.Do(t.Context(), op); err == nil || errors.Is(err, sut.ErrRefused) {
		t.Errorf("an unknown outcome became %v", err)
	}
}

// TestOnlyDocumentedRefusalsAreBelieved: whatever else a server says, nobody knows.
func TestOnlyDocumentedRefusalsAreBelieved(t *testing.T) {
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client's end is what is tested
	}))
	defer server.Close()
	c := client(t, server.URL)
	for _, answer := range []struct {
		status  int
		body    string
		refused bool
	}{
		{429, `{"code":"overloaded","error":"full"}`, true},
		{503, `{"code":"overloaded","error":"full"}`, false},
		{429, `{"code":"busy","error":"full"}`, false},
		{503, `upstream`, false}, {500, ``, false}, {200, `{}`, false}, {200, `[`, false},
		{302, ``, false},
	} {
		status, body = answer.status, answer.body
		_, err := c.Do(t.Context(), history.Op{ID: 1, Kind: likes.KindLike, Key: "video-1",
			Client: "user-1"})
		if err == nil || errors.Is(err, sut.ErrRefused) != answer.refused {
			t.Errorf("%d %s: %v, want refused %v", answer.status, answer.body, err, answer.refused)
		}
	}
	status, body = 200, `{"video_id":2,"count":1,"viewers":0,"approx":false}`
	if _, err := c.Do(t.Context(), history.Op{ID: 1, Kind: likes.KindCount, Key: "video-1",
		Client: "user-1"}); err == nil {
		t.Error("a count of another video was believed")
	}
}

// TestBadRequests are refused before anything is done.
func TestBadRequests(t *testing.T) {
	handler := newHandler(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			t.Error("a bad request was performed")
			return history.Reply{}, nil
		}})
	for body, want := range map[string]string{
		``: "EOF", `{`: "bad_request", `[]`: "bad_request", `{"op_id":1}`: "video_id",
		`{"op_id":0,"video_id":1,"user_id":1}`:           "op_id",
		`{"op_id":1,"video_id":1,"user_id":0}`:           "user_id",
		`{"op_id":1,"video_id":1,"user_id":1,"x":1}`:     "unknown field",
		`{"op_id":1,"video_id":1,"user_id":1} {}`:        "more than one",
		`{"op_id":18446744073709551615,"video_id":1}`:    "op_id",
		`{"op_id":-1,"video_id":1,"user_id":1}`:          "bad_request",
		`{"op_id":"1","video_id":1,"user_id":1}`:         "bad_request",
		`"` + strings.Repeat("x", 20_000) + `"`:          "too_large",
		`{"op_id":1,"video_id":1,"user_id":1,"op_id":0}`: "op_id",
	} {
		for _, method := range []string{"POST", "DELETE"} {
			w := apitest.Serve(handler, method, "/v1/likes", body)
			if w.Code < 400 || w.Code > 499 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %.40s: %d %s, want %s", method, body, w.Code, w.Body, want)
			}
		}
	}
	if w := apitest.Serve(handler, "PUT", "/v1/likes", ""); w.Code != 405 ||
		w.Header().Get("Allow") != "DELETE, POST" {
		t.Errorf("PUT: %d, allowed are %s", w.Code, w.Header().Get("Allow"))
	}
}

// TestMetrics counts what was done, by kind and result.
func TestMetrics(t *testing.T) {
	var fails error
	handler := newHandler(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fails
		}})
	const like = `{"op_id":256,"video_id":1,"user_id":42}`
	apitest.Serve(handler, "post", "/v1/likes", like)
	apitest.Serve(handler, "post", "/v1/likes", like)
	fails = likes.ErrOverloaded
	apitest.Serve(handler, "delete", "/v1/likes", like)
	text := apitest.Serve(handler, "get", "/metrics", "").Body.String()
	for _, line := range []string{
		`likes_operations_total{kind="like",result="ok"} 2`,
		`likes_operations_total{kind="unlike",result="overloaded"} 1`,
		`likes_operation_seconds_count{kind="like"} 2`,
		`likes_in_flight 0`, "# EOF\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no %s in\n%s", line, text)
		}
	}
}
