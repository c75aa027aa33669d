package sqlbroker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
