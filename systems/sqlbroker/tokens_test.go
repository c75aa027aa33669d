package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// TestRateLimitSaysWhen: the answer of a queue whose rate is used up says when to come
// again.
func TestRateLimitSaysWhen(t *testing.T) {
	handler := handlerOf(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, &RateError{Wait: 1500 * time.Millisecond}
		}}, "")
	w := apitest.Serve(handler, "get", "/v1/messages/queue-1", "")
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

// handlerOf is a server's handler, with a token of its own if it has one.
func handlerOf(t *testing.T, inst sut.Instance, token string) http.Handler {
	t.Helper()
	p := DefaultParams()
	p.Token = token
	handler, err := API().Handler(inst, sut.Config{Params: p})
	must(t, err)
	return handler
}

// sendAs sends a request with a token, if there is one.
func sendAs(handler http.Handler, token, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(strings.ToUpper(method), path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return apitest.ServeRequest(handler, r)
}

const settings = `{"visibility_ms":1000,"max_receives":5,"retention_ms":3600000}`

// withToken are settings of a queue with a token.
func withToken(token string) string {
	return strings.Replace(settings, "{", `{"token":"`+token+`",`, 1)
}

// The tokens.
const (
	mine, yours = "mine-mine-mine-mine", "yours-yours-yours-yours"
	anew        = "mine-mine-mine-anew"
)

// TestTokensOfQueues: a queue's token opens that queue, and nothing else; the server's
// opens everything.
func TestTokensOfQueues(t *testing.T) {
	const servers = "the server's"
	l := openLab(t, "batched", configOf(t, DefaultParams()), nil)
	handlers := map[string]http.Handler{"": handlerOf(t, l.inst, ""),
		servers: handlerOf(t, l.inst, servers)}
	const publishes, changes = "/v1/messages/mine", "/v1/queues/mine"
	const beginning = `{"queues":3,"visibility_ms":1000,"max_receives":5,"retention_ms":3600000,` +
		`"token":"` + mine + `"}`
	op := 0
	for _, c := range []struct {
		server, token, method, path, body string
		want                              int
	}{
		{"", "", "put", changes, withToken("short"), 400}, {"", "", "post", "/v1/reset", beginning, 400},
		{"", "", "put", changes, withToken(mine), 204},
		{"", "", "put", "/v1/queues/yours", withToken(yours), 204},
		{"", "", "put", publishes, "", 401}, {"", yours, "put", publishes, "", 403},
		{"", mine, "put", publishes, "", 200}, {"", mine, "get", publishes, "", 200},
		{"", "", "get", publishes, "", 401}, {"", yours, "delete", "/v1/message/mine/a", "", 403},
		{"", mine, "delete", "/v1/message/mine/a", "", 409},
		{"", yours, "post", publishes + "/ack", `{"op_id":257,"receipts":["a","b"]}`, 403},
		{"", "", "put", "/v1/messages/queue-1", "", 200}, {"", "", "get", "/v1/queues", "", 200},
		{"", "", "get", "/v1/audit", "", 200}, {"", "", "put", "/v1/messages/nowhere", "", 404},
		{"", yours, "put", changes, withToken(yours), 403},
		{"", "", "delete", changes + "/messages", "", 401},
		{"", mine, "delete", changes + "/messages", "", 200},
		{"", mine, "post", changes + "/redrive", "", 200},
		{"", mine, "put", changes, settings, 204}, {"", "", "put", publishes, "", 401},
		{"", mine, "put", changes, withToken(anew), 204}, {"", mine, "put", publishes, "", 403},
		{"", anew, "put", publishes, "", 200},

		{servers, "", "put", publishes, "", 401}, {servers, servers, "put", publishes, "", 200},
		{servers, anew, "put", publishes, "", 200}, {servers, yours, "put", publishes, "", 403},
		{servers, anew, "put", changes, settings, 403},
		{servers, anew, "post", changes + "/redrive", "", 403},
		{servers, servers, "put", changes, settings, 204}, {servers, "", "get", "/v1/queues", "", 401},
		{servers, anew, "get", "/v1/queues", "", 401}, {servers, servers, "get", "/v1/queues", "", 200},
		{servers, "", "put", "/v1/messages/queue-1", "", 401},
		{servers, "", "put", "/v1/messages/nowhere", "", 401},
	} {
		if c.method == "put" && c.body == "" {
			op++
			c.body = fmt.Sprintf(`{"op_id":%d,"messages":[{"body":"hello"}]}`, op)
		}
		w := sendAs(handlers[c.server], c.token, c.method, c.path, c.body)
		text := w.Body.String()
		if w.Code != c.want || strings.Contains(text, mine) || strings.Contains(text, yours) ||
			w.Code == 401 && !strings.Contains(text+w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("server %q, token %q, %s %s: %d %s, want %d", c.server, c.token, c.method, c.path,
				w.Code, text, c.want)
		}
	}
	var stored string
	must(t, l.DB.Row(t.Context(), `SELECT string_agg(q::text, ' ') FROM queues q`, nil, &stored))
	if strings.Contains(stored, "mine-mine") || strings.Contains(stored, "6d696e652d") {
		t.Errorf("what is stored: %s", stored)
	}
}

// TestTokenThatCannotBeRead: a server does not go by what it knew of a token for longer than
// it says.
func TestTokenThatCannotBeRead(t *testing.T) {
	l := openLab(t, "batched", configOf(t, DefaultParams()), nil)
	here, elsewhere := handlerOf(t, l.inst, ""), handlerOf(t, l.server(t), "")
	now, unread, read := time.Unix(1000, 0), error(nil), l.users.rates.read
	l.users.rates.now = func() time.Time { return now }
	l.users.rates.read = func(ctx context.Context, queue string) (int, []byte, error) {
		if unread != nil {
			return 0, nil, unread
		}
		return read(ctx, queue)
	}
	const changes = "/v1/queues/mine"
	for _, c := range []struct {
		when, token string
		after       time.Duration
		want        int
	}{
		{"at once", mine, 0, 200}, {"while it is known", mine, tokenAge - 1, 200},
		{"when it is known no more", mine, 1, 503}, {"whoever asks", anew, 0, 503},
		{"for ever", mine, time.Minute, 503}, {"when it is read again", mine, 0, 403},
		{"and is another", anew, 0, 200},
	} {
		switch c.when {
		case "at once":
			if w := sendAs(here, "", "put", changes, withToken(mine)); w.Code != 204 {
				t.Fatal(w.Code)
			}
		case "while it is known":
			if w := sendAs(elsewhere, mine, "put", changes, withToken(anew)); w.Code != 204 {
				t.Fatal(w.Code)
			}
			unread = errors.New("a disk is full")
		case "when it is read again":
			unread = nil
		}
		now = now.Add(c.after)
		if w := sendAs(here, c.token, "get", "/v1/messages/mine", ""); w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.when, w.Code, c.want)
		}
	}
}

// TestTokenIsNotReplaced: of two who give a queue its token, each where nobody knows of the
// other, one is refused.
func TestTokenIsNotReplaced(t *testing.T) {
	l := openLab(t, "batched", configOf(t, DefaultParams()), nil)
	late := l.server(t)
	here, there := handlerOf(t, l.inst, ""), handlerOf(t, late, "")
	limitedOf(late).rates.now = func() time.Time { return time.Unix(1000, 0) }
	const changes, receives = "/v1/queues/queue-1", "/v1/messages/queue-1"
	for _, c := range []struct {
		who                       http.Handler
		token, method, path, body string
		want                      int
	}{
		{there, "", "get", receives, "", 200}, // it knows that there is no token
		{here, "", "put", changes, withToken(mine), 204},
		{there, "", "put", changes, withToken(yours), 403},
		{here, mine, "get", receives, "", 200}, {here, yours, "get", receives, "", 403},
		{there, mine, "get", receives, "", 200}, {there, mine, "put", changes, withToken(yours), 204},
		{there, yours, "get", receives, "", 200},
	} {
		if w := sendAs(c.who, c.token, c.method, c.path, c.body); w.Code != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, w.Code, c.want)
		}
	}
}
