package sqlbroker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// target serves an instance and returns a client of it.
func target(t *testing.T, inst sut.Instance) sut.Instance {
	t.Helper()
	server := httptest.NewServer(newHandler(t, inst))
	t.Cleanup(server.Close)
	return client(t, server.URL, sqlbroker.DefaultParams())
}

func client(t *testing.T, url string, p sqlbroker.Params) sut.Instance {
	t.Helper()
	c, err := sqlbroker.NewTarget(url, sut.Config{Params: p, Timeout: 5 * time.Second})
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

// TestQuiescedByTheList: a server that does not say what is left to do is asked what its
// queues have; what waits where no consumer is does not count.
func TestQuiescedByTheList(t *testing.T) {
	list := []sqlbroker.QueueInfo{
		{Queue: sqlbroker.QueueName(1), Ready: 2, Dead: 9},
		{Queue: sqlbroker.QueueName(2), Ready: 5},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/queues" {
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	p := sqlbroker.DefaultParams()
	p.Worked = 1
	asked := client(t, server.URL, p).(sut.Quiescer)
	for _, want := range []string{
		"queue-1 has 2 messages ready, 0 delayed and 0 with consumers", "",
	} {
		if got, err := asked.Quiesced(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		list[0].Ready = 0
	}
}

// everyOperation has one of each kind.
func everyOperation() []history.Op {
	settle := text(sqlbroker.Settlement{Receipts: []string{"a", "b"}, ByMS: 1000})
	return []history.Op{
		{ID: 256, Kind: sqlbroker.KindPublish, Body: text(sqlbroker.Publication{
			Make: &sqlbroker.Recipe{Messages: 2, Group: 7, Priority: -1, DelayMS: 5, Poison: 2}})},
		{ID: 272, Kind: sqlbroker.KindReceive, Client: "consumer-1",
			Body: text(sqlbroker.Demand{Most: 3, WaitMS: 20})},
		{ID: 288, Kind: sqlbroker.KindAck, Body: settle},
		{ID: 289, Kind: sqlbroker.KindExtend, Body: settle},
		{ID: 290, Kind: sqlbroker.KindRelease, Body: settle},
		{Kind: sqlbroker.KindCreate, Body: []byte(settings)},
		{Kind: sqlbroker.KindPurge}, {Kind: sqlbroker.KindRedrive}, {Kind: sqlbroker.KindList},
	}
}

// TestEveryOperationSurvivesHTTP: an instance behind the handler and the client is
// asked what the client is asked, and answers the same.
func TestEveryOperationSurvivesHTTP(t *testing.T) {
	var got history.Op
	direct := &apitest.Scripted{OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
		got = op
		return answers(op), nil
	}}
	c := target(t, direct)
	for _, op := range everyOperation() {
		if op.Kind != sqlbroker.KindList {
			op.Key = "a queue/with a slash"
		}
		reply, err := c.Do(t.Context(), op)
		if err != nil || got.Kind != op.Kind || got.ID != op.ID || got.Key != op.Key ||
			got.Client != op.Client {
			t.Errorf("%+v was asked as %+v: %v", op, got, err)
		}
		want := answers(op)
		if op.Kind == sqlbroker.KindCreate {
			want = history.Reply{}
		}
		if reply.Value != want.Value || string(reply.Body) != string(want.Body) {
			t.Errorf("%+v was answered %+v (%s), want %+v (%s)", op, reply, reply.Body, want, want.Body)
		}
		if op.Kind == sqlbroker.KindPublish && !strings.Contains(string(got.Body), "poison 256.1") {
			t.Errorf("the messages went out as %s", got.Body)
		}
	}
}

// TestRefusalsSurviveHTTP: a refusal is one on the other side, of the same kind, and
// what is unknown stays so.
func TestRefusalsSurviveHTTP(t *testing.T) {
	var fails error
	c := target(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fails
		}})
	for _, op := range everyOperation() {
		op.Key = "queue-1"
		for _, fails = range []error{sqlbroker.ErrUnknownQueue, sqlbroker.ErrStaleReceipt,
			&sqlbroker.RateError{Wait: time.Second}, sut.ErrRefused} {
			_, err := c.Do(t.Context(), op)
			if !errors.Is(err, sut.ErrRefused) || errors.Is(err, sqlbroker.ErrStaleReceipt) !=
				errors.Is(fails, sqlbroker.ErrStaleReceipt) {
				t.Errorf("%s: %v became %v", op.Kind, fails, err)
			}
		}
		fails = errors.New("gone")
		if _, err := c.Do(t.Context(), op); err == nil || errors.Is(err, sut.ErrRefused) {
			t.Errorf("%s: an unknown outcome became %v", op.Kind, err)
		}
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
	c := client(t, server.URL, sqlbroker.DefaultParams())
	for _, answer := range []struct {
		status  int
		body    string
		refused bool
	}{
		{409, `{"code":"stale_receipt","error":"late"}`, true},
		{429, `{"code":"rate_limited","error":"slow"}`, true},
		{404, `{"code":"unknown_queue","error":"which"}`, true},
		{503, `{"code":"stale_receipt","error":"late"}`, false},
		{409, `{"code":"busy","error":"late"}`, false},
		{503, `upstream`, false}, {500, ``, false}, {200, `{}`, false}, {200, `[`, false},
		{200, `{"done":["a"]}`, false}, {302, ``, false},
	} {
		status, body = answer.status, answer.body
		_, err := c.Do(t.Context(), history.Op{ID: 1, Kind: sqlbroker.KindAck, Key: "queue-1",
			Body: []byte(someReceipts)})
		if err == nil || errors.Is(err, sut.ErrRefused) != answer.refused {
			t.Errorf("%d %s: %v, want refused %v", answer.status, answer.body, err, answer.refused)
		}
	}
	status, body = 200, string(text([]sqlbroker.Delivery{{OpID: 1}, {OpID: 2}}))
	if _, err := c.Do(t.Context(), history.Op{ID: 1, Kind: sqlbroker.KindReceive, Key: "queue-1",
		Body: text(sqlbroker.Demand{Most: 1})}); err == nil {
		t.Error("more messages than were asked for were believed")
	}
	status, body = 200, `{}`
	if _, err := c.Do(t.Context(), history.Op{ID: 1, Kind: sqlbroker.KindPurge,
		Key: "queue-1"}); err == nil {
		t.Error("an answer that does not say how many was believed")
	}
}

// TestBadOperations are refused before anything is done.
func TestBadOperations(t *testing.T) {
	handler := newHandler(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			t.Error("a bad request was performed")
			return history.Reply{}, nil
		}})
	for _, bad := range []struct{ method, path, body string }{
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[]}`},
		{"put", "/v1/messages/q", `{"op_id":0,"messages":[{"body":""}]}`},
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"","delay_ms":-1}]}`},
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"","group":9999999999999999999}]}`},
		{"put", "/v1/messages/q", `{"op_id":1,"make":{"n":1}}`},
		{"put", "/v1/message/q", `{"op_id":1,"body":"","priority":99999999999}`},
		{"post", "/v1/messages/q/ack", `{"op_id":1,"receipts":[]}`},
		{"post", "/v1/messages/q/ack", `{"op_id":1,"receipts":[""]}`},
		{"post", "/v1/messages/q/extend", `{"op_id":1,"receipts":["a"],"by_ms":0}`},
		{"put", "/v1/queues/q", `{"visibility_ms":0,"max_receives":1,"retention_ms":1}`},
		{"get", "/v1/messages/q?n=1001", ``},
		{"put", "/v1/message/q", `{"op_id":1,"body":"a\u0000b"}`},
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"a"},{"body":"\u0000"}]}`},
		{"put", "/v1/message/a%00b", `{"op_id":1,"body":""}`},
		{"get", "/v1/messages/a%FFb", ``},
		{"delete", "/v1/message/a%00b/1.1.a", ``},
		{"post", "/v1/messages/a%00b/ack", someReceipts},
		{"put", "/v1/queues/a%00b", settings},
		{"delete", "/v1/queues/a%00b/messages", ``},
		{"get", "/v1/messages/q?wait_ms=20001", ``},
	} {
		if w := apitest.Serve(handler, bad.method, bad.path, bad.body); w.Code != 400 {
			t.Errorf("%s %s %s: %d %s", bad.method, bad.path, bad.body, w.Code, w.Body)
		}
	}
}

// TestToken: who does not show the token of the parameters is refused.
func TestToken(t *testing.T) {
	p := sqlbroker.DefaultParams()
	p.Token = "secret"
	handler, err := sqlbroker.NewHandler(&apitest.Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) { return answers(op), nil },
	}, sut.Config{Params: p})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	op := history.Op{Kind: sqlbroker.KindList}
	if _, err := client(t, server.URL, p).Do(t.Context(), op); err != nil {
		t.Errorf("with the token: %v", err)
	}
	p.Token = ""
	if _, err := client(t, server.URL, p).Do(t.Context(), op); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("without the token: %v", err)
	}
}

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
		if handlers[token], err = sqlbroker.NewHandler(inst, sut.Config{Params: p}); err != nil {
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
