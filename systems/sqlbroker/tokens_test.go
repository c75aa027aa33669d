package sqlbroker_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// TestRateLimitSaysWhen: the answer of a queue whose rate is used up says when to come
// again.
func TestRateLimitSaysWhen(t *testing.T) {
	handler := newHandler(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, &sqlbroker.RateError{Wait: 1500 * ms}
		}})
	w := apitest.Serve(handler, "get", "/v1/messages/queue-1", "")
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

// TestTokensOfQueues: a queue's token opens that queue, and nothing else; the server's
// opens everything.
func TestTokensOfQueues(t *testing.T) {
	const mine, yours, servers = "mine-mine-mine-mine", "yours-yours-yours-yours", "the server's"
	p := sqlbroker.DefaultParams()
	cfg := configOf(t, p)
	inst, err := sqlbroker.System().Variants[1].Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inst.Close() })
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	handlers := map[string]http.Handler{}
	for _, token := range []string{"", servers} {
		p.Token = token
		if handlers[token], err = sqlbroker.API().Handler(inst, sut.Config{Params: p}); err != nil {
			t.Fatal(err)
		}
	}
	send := func(server, token, method, path, body string) (int, string) {
		r := httptest.NewRequest(strings.ToUpper(method), path, strings.NewReader(body))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handlers[server].ServeHTTP(w, r)
		if text := w.Body.String(); strings.Contains(text, mine) || strings.Contains(text, yours) {
			t.Errorf("%s %s told a token: %s", method, path, text)
		}
		return w.Code, w.Body.String() + w.Header().Get("WWW-Authenticate")
	}
	asks := func(token string) string {
		return `{"visibility_ms":1000,"max_receives":5,"retention_ms":3600000,"token":"` + token + `"}`
	}
	const publishes, changes = "/v1/messages/mine", "/v1/queues/mine"
	op := 0
	for _, c := range []struct {
		server, token, method, path, body string
		want                              int
	}{
		{"", "", "put", changes, asks("short"), 400},
		{"", "", "post", "/v1/reset", strings.Replace(beginning, "{", `{"token":"`+mine+`",`, 1), 400},
		{"", "", "put", changes, asks(mine), 204},
		{"", "", "put", "/v1/queues/yours", asks(yours), 204},
		{"", "", "put", publishes, "", 401}, {"", yours, "put", publishes, "", 403},
		{"", mine, "put", publishes, "", 200}, {"", mine, "get", publishes, "", 200},
		{"", "", "get", publishes, "", 401}, {"", yours, "delete", "/v1/message/mine/a", "", 403},
		{"", mine, "delete", "/v1/message/mine/a", "", 409},
		{"", yours, "post", publishes + "/ack", someReceipts, 403},
		{"", "", "put", "/v1/messages/queue-1", "", 200}, {"", "", "get", "/v1/queues", "", 200},
		{"", "", "get", "/v1/audit", "", 200}, {"", "", "put", "/v1/messages/nowhere", "", 404},
		{"", yours, "put", changes, asks(yours), 403}, {"", "", "delete", changes + "/messages", "", 401},
		{"", mine, "delete", changes + "/messages", "", 200},
		{"", mine, "post", changes + "/redrive", "", 200},
		{"", mine, "put", changes, settings, 204}, {"", "", "put", publishes, "", 401},
		{"", mine, "put", changes, asks(mine + "-anew"), 204}, {"", mine, "put", publishes, "", 403},
		{"", mine + "-anew", "put", publishes, "", 200},

		{servers, "", "put", publishes, "", 401}, {servers, servers, "put", publishes, "", 200},
		{servers, mine + "-anew", "put", publishes, "", 200}, {servers, yours, "put", publishes, "", 403},
		{servers, mine + "-anew", "put", changes, settings, 403},
		{servers, mine + "-anew", "post", changes + "/redrive", "", 403},
		{servers, servers, "put", changes, settings, 204}, {servers, "", "get", "/v1/queues", "", 401},
		{servers, mine + "-anew", "get", "/v1/queues", "", 401},
		{servers, servers, "get", "/v1/queues", "", 200},
		{servers, "", "put", "/v1/messages/queue-1", "", 401},
		{servers, "", "put", "/v1/messages/nowhere", "", 401},
	} {
		if c.method == "put" && c.body == "" {
			op++
			c.body = strings.Replace(someMessages, "256", number(uint64(op)), 1)
		}
		if got, text := send(c.server, c.token, c.method, c.path, c.body); got != c.want {
			t.Errorf("server %q, token %q, %s %s: %d %s, want %d", c.server, c.token, c.method, c.path, got,
				text, c.want)
		} else if got == 401 && !strings.Contains(text, "Bearer") {
			t.Errorf("%s %s does not say what it wants: %s", c.method, c.path, text)
		}
	}
	var stored string
	db, err := pgx.Connect(t.Context(), cfg.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }() // nothing is left to lose
	err = db.QueryRow(t.Context(), `SELECT string_agg(q::text, ' ') FROM queues q`).Scan(&stored)
	if err != nil || strings.Contains(stored, "mine-mine") || strings.Contains(stored, "6d696e652d") {
		t.Errorf("what is stored: %s, %v", stored, err)
	}
}

// open is an opened and, if so wanted, prepared instance of batched with its handler.
func open(t *testing.T, cfg sut.Config, prepare bool) (sut.Instance, http.Handler) {
	t.Helper()
	inst, err := sqlbroker.System().Variants[1].Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inst.Close() }) // nothing is left to lose
	if prepare {
		if err := inst.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return inst, newHandler(t, inst)
}

// sendAs sends a request with a token, if there is one.
func sendAs(handler http.Handler, token, method, path, body string) int {
	r := httptest.NewRequest(strings.ToUpper(method), path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code
}

// withToken are settings of a queue with a token.
func withToken(token string) string {
	return `{"visibility_ms":1000,"max_receives":5,"retention_ms":3600000,"token":"` + token + `"}`
}

// TestTokenThatCannotBeRead: a server does not go by what it knew of a token for longer than
// it says.
func TestTokenThatCannotBeRead(t *testing.T) {
	const old, anew = "mine-mine-mine-mine", "mine-mine-mine-anew"
	cfg := configOf(t, sqlbroker.DefaultParams())
	inst, here := open(t, cfg, true)
	_, elsewhere := open(t, cfg, false)
	now, unread := time.Unix(1000, 0), error(nil)
	sqlbroker.StopClock(inst, func() time.Time { return now })
	sqlbroker.FailReads(inst, &unread)
	const changes, receives = "/v1/queues/mine", "/v1/messages/mine"
	wants := func(when, token string, want int) {
		t.Helper()
		if got := sendAs(here, token, "get", receives, ""); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	if got := sendAs(here, "", "put", changes, withToken(old)); got != 204 {
		t.Fatal(got)
	}
	wants("at once", old, 200)
	if got := sendAs(elsewhere, old, "put", changes, withToken(anew)); got != 204 {
		t.Fatal(got)
	}
	unread = errors.New("a disk is full")
	now = now.Add(1999 * ms)
	wants("while it is known", old, 200)
	now = now.Add(ms)
	wants("when it is known no more", old, 503)
	wants("whoever asks", anew, 503)
	now = now.Add(time.Minute)
	wants("for ever", old, 503)
	unread = nil
	wants("when it is read again", old, 403)
	wants("and is another", anew, 200)
}

// TestTokenIsNotReplaced: of two who give a queue its token, each where nobody knows of the
// other, one is refused.
func TestTokenIsNotReplaced(t *testing.T) {
	const first, second = "mine-mine-mine-mine", "yours-yours-yours-yours"
	cfg := configOf(t, sqlbroker.DefaultParams())
	_, here := open(t, cfg, true)
	late, there := open(t, cfg, false)
	sqlbroker.StopClock(late, func() time.Time { return time.Unix(1000, 0) })
	const changes, receives = "/v1/queues/queue-1", "/v1/messages/queue-1"
	for _, c := range []struct {
		who               http.Handler
		token, path, body string
		want              int
	}{
		{there, "", receives, "", 200}, // it knows that there is no token
		{here, "", changes, withToken(first), 204},
		{there, "", changes, withToken(second), 403},
		{here, first, receives, "", 200}, {here, second, receives, "", 403},
		{there, first, receives, "", 200}, {there, first, changes, withToken(second), 204},
		{there, second, receives, "", 200},
	} {
		method := "get"
		if c.path == changes {
			method = "put"
		}
		if got := sendAs(c.who, c.token, method, c.path, c.body); got != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, got, c.want)
		}
	}
}
