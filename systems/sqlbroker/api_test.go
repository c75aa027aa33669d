package sqlbroker_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, sqlbroker.API(), sqlbroker.DefaultParams(), goodBroker().audit,
		map[string]apitest.Request{
			"delete /v1/queues/{queue}/messages": {Path: "/v1/queues/a%00b/messages"},
			"post /v1/queues/{queue}/redrive":    {Path: "/v1/queues/a%00b/redrive"}})
}

// TestOldHistories: the operations of runs that were stored earlier are read, and messages that
// were not written down are made.
func TestOldHistories(t *testing.T) {
	for _, c := range []struct{ kind, body, want string }{
		{sqlbroker.KindPublish, `{"op_id":0,"make":{"n":2,"poison":2}}`,
			`{"op_id":256,"messages":[{"body":"message 256.0"},{"body":"poison 256.1"}]}`},
		{sqlbroker.KindReceive, `{"n":3}`, `{"n":3,"wait_ms":0}`},
		{sqlbroker.KindAck, `{"op_id":0,"receipts":["a"]}`, `{"receipts":["a"],"by_ms":0}`},
		{sqlbroker.KindExtend, `{"op_id":0,"receipts":["a"],"by_ms":5}`, `{"receipts":["a"],"by_ms":5}`},
	} {
		op := history.Op{ID: 256, Kind: c.kind, Key: "queue-1", Client: "c", Body: []byte(c.body)}
		asked, err := sqlbroker.API().Asked(op)
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		again := sqlbroker.API().Op(c.kind, reflect.ValueOf(asked).Elem().Interface())
		if string(again.Body) != c.want {
			t.Errorf("%s: written as %s, want %s", c.kind, again.Body, c.want)
		}
	}
}

// TestAtRest: a server that does not say what is left to do is asked what its queues have;
// what is ready does not count, for it need not have consumers.
func TestAtRest(t *testing.T) {
	list := []sqlbroker.QueueInfo{
		{Queue: sqlbroker.QueueName(1), Ready: 3, Picked: 2, Dead: 9},
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
	for _, want := range []string{
		"queue-1 has 3 messages ready, 0 delayed and 2 with consumers", "",
	} {
		asked := client(t, server.URL, sqlbroker.DefaultParams()).(sut.Backlogger)
		if got, err := asked.Quiesced(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if left, err := asked.Backlog(t.Context()); err != nil || left != list[0].Picked {
			t.Errorf("%d are left, %v, want %d", left, err, list[0].Picked)
		}
		list[0].Picked = 0
	}
}

func client(t *testing.T, url string, p sqlbroker.Params) sut.Instance {
	t.Helper()
	c, err := sqlbroker.API().Target(url, sut.Config{Params: p, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // nothing is left to lose
	return c
}

// asked is what a request becomes at a server, none if it is refused, and the answer.
func asked(t *testing.T, method, path, body string) (ops []history.Op, code int, answer string) {
	t.Helper()
	handler, err := sqlbroker.API().Handler(&apitest.Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			ops = append(ops, op)
			return history.Reply{Value: 1}, nil
		}}, sut.Config{Params: sqlbroker.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	w := apitest.Serve(handler, method, path, body)
	return ops, w.Code, strings.TrimSpace(w.Body.String())
}

// TestOtherRoutes: one message is published and acknowledged by routes of their own.
func TestOtherRoutes(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		answer, kind, want string
	}{
		{"put", "/v1/message/a%2Fb", `{"op_id":7,"body":"x","group":3}`, 200, `{"messages":1}`,
			sqlbroker.KindPublish, `{"op_id":7,"messages":[{"body":"x","group":3}]}`},
		{"delete", "/v1/message/a%2Fb/1.2?op_id=7", "", 204, "", sqlbroker.KindAck,
			`{"receipts":["1.2"],"by_ms":0}`},
	} {
		want := []history.Op{{ID: 7, Kind: c.kind, Key: "a/b", Body: []byte(c.want)}}
		ops, code, answer := asked(t, c.method, c.path, c.body)
		if code != c.status || answer != c.answer || !reflect.DeepEqual(ops, want) {
			t.Errorf("%s %s became %+v and %d %s", c.method, c.path, ops, code, answer)
		}
	}
}

// TestBadRequests are refused before anything is done.
func TestBadRequests(t *testing.T) {
	for _, bad := range []struct{ method, path, body string }{
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"","group":9999999999999999999}]}`},
		{"put", "/v1/messages/q", `{"op_id":1,"make":{"n":1}}`},
		{"put", "/v1/message/q", `{"op_id":1,"body":"","priority":99999999999}`},
		{"post", "/v1/messages/q/ack", `{"op_id":1,"receipts":[""]}`},
		{"post", "/v1/messages/q/extend", `{"op_id":1,"receipts":["a"],"by_ms":0}`},
		{"post", "/v1/messages/q/extend", `{"op_id":1,"receipts":["a"]}`},
		{"put", "/v1/message/q", `{"op_id":1,"body":"a\u0000b"}`},
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"a"},{"body":"\u0000"}]}`},
		{"put", "/v1/message/a%00b", `{"op_id":1,"body":""}`},
		{"get", "/v1/messages/a%FFb", ``}, {"delete", "/v1/message/a%00b/1.1.a", ``},
		{"post", "/v1/messages/a%00b/ack", `{"op_id":1,"receipts":["a"]}`},
		{"put", "/v1/queues/a%00b", `{"visibility_ms":1,"max_receives":1,"retention_ms":1}`},
		{"delete", "/v1/queues/a%00b/messages", ``},
	} {
		if ops, code, text := asked(t, bad.method, bad.path, bad.body); code != 400 || ops != nil {
			t.Errorf("%s %s %s: %d %s, asked %+v", bad.method, bad.path, bad.body, code, text, ops)
		}
	}
}

// TestAnswersToSettlements: an answer that does not say of each receipt what became of it is
// not believed, nor one with more messages than were asked for.
func TestAnswersToSettlements(t *testing.T) {
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(body)) // the client's end is what is tested
	}))
	defer server.Close()
	c := client(t, server.URL, sqlbroker.DefaultParams())
	settles := history.Op{ID: 1, Kind: sqlbroker.KindAck, Body: []byte(`{"receipts":["a","b"]}`)}
	receives := history.Op{ID: 1, Kind: sqlbroker.KindReceive, Body: []byte(`{"n":1}`)}
	for _, answer := range []struct {
		op       history.Op
		body     string
		believed bool
	}{
		{settles, `{"done":["a"],"stale":["b"]}`, true}, {settles, `{"done":["a"]}`, false},
		{settles, `{"done":[],"stale":["a","b"]}`, false},
		{receives, string(text([]sqlbroker.Delivery{{OpID: 1, Receipt: "a", Receives: 1},
			{OpID: 2, Receipt: "b", Receives: 1}})), false},
	} {
		body, answer.op.Key = answer.body, "queue-1"
		if _, err := c.Do(t.Context(), answer.op); (err == nil) != answer.believed {
			t.Errorf("%s: %s: %v", answer.op.Kind, answer.body, err)
		}
	}
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, sqlbroker.API(), sqlbroker.DefaultParams())
}
