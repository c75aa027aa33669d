package sqlbroker_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

const (
	someMessages = `{"op_id":256,"messages":[{"body":"hello"},{"body":"world","group":7,"delay_ms":5}]}`
	someReceipts = `{"op_id":257,"receipts":["a","b"]}`
	settings     = `{"visibility_ms":1000,"max_receives":5,"retention_ms":3600000,"rate_per_s":10}`
	beginning    = `{"queues":3,"visibility_ms":1000,"max_receives":5,"retention_ms":3600000}`
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit, err := json.Marshal(goodBroker().audit)
	if err != nil {
		t.Fatal(err)
	}
	apitest.Conform(t, sqlbroker.API(), sqlbroker.DefaultParams(), audit,
		map[string]apitest.Request{
			"delete /v1/queues/{queue}/messages": {Path: "/v1/queues/a%00b/messages"},
			"post /v1/queues/{queue}/redrive":    {Path: "/v1/queues/a%00b/redrive"}})
	apitest.Written(t, "openapi.yaml", sqlbroker.API().OpenAPI())
}

// TestAPIIsCompatible: a server that was written to the description of version 1 is still
// understood. What could go wrong with the name of a queue is described now, and so are the
// bounds that there always were, and that we list queues with all of their settings. What
// numbers an audit may have is for the judges to say.
func TestAPIIsCompatible(t *testing.T) {
	golden, err := os.ReadFile("testdata/openapi-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apitest.Compatible(t, golden, sqlbroker.API().OpenAPI(), ".responses.400.",
		"/v1/message/{queue}.put.requestBody", "/v1/messages/{queue}.put.requestBody",
		"/v1/queues/{queue}.put.requestBody", "/v1/reset.post.requestBody", ".by_ms.maximum",
		"/v1/queues.get.responses.200",
		"/v1/audit.get.responses.200.content.application/json.schema.properties.dead.items.",
		"/v1/audit.get.responses.200.content.application/json.schema.properties.effects.items.",
		"/v1/audit.get.responses.200.content.application/json.schema.properties.messages.items."+
			"properties.op_id.",
		"/v1/audit.get.responses.200.content.application/json.schema.properties.queues.items."+
			"properties.queue.minLength")
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
		var again history.Op
		switch asked := asked.(type) {
		case *sqlbroker.PublishRequest:
			again = sqlbroker.API().Op(c.kind, *asked)
		case *sqlbroker.ReceiveRequest:
			again = sqlbroker.API().Op(c.kind, *asked)
		case *sqlbroker.SettleRequest:
			again = sqlbroker.API().Op(c.kind, *asked)
		case *sqlbroker.ExtendRequest:
			again = sqlbroker.API().Op(c.kind, *asked)
		}
		if string(again.Body) != c.want {
			t.Errorf("%s: written as %s, want %s", c.kind, again.Body, c.want)
		}
	}
}

// TestAtRest: a server that does not say what is left to do is asked what its queues have;
// what waits where no consumer is does not count.
func TestAtRest(t *testing.T) {
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
	for _, want := range []string{
		"queue-1 has 2 messages ready, 0 delayed and 0 with consumers", "",
	} {
		asked := client(t, server.URL, p).(sut.Backlogger)
		if got, err := asked.Quiesced(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if left, err := asked.Backlog(t.Context()); err != nil || left != list[0].Ready {
			t.Errorf("%d are left, %v, want %d", left, err, list[0].Ready)
		}
		list[0].Ready = 0
	}
}

func client(t *testing.T, url string, p sqlbroker.Params) sut.Instance {
	t.Helper()
	c, err := sqlbroker.API().Target(url, sut.Config{Params: p, Timeout: 5 * time.Second})
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

func newHandler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := sqlbroker.API().Handler(inst, sut.Config{Params: sqlbroker.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// TestOtherRoutes: one message is published and acknowledged by routes of their own.
func TestOtherRoutes(t *testing.T) {
	var got history.Op
	handler := newHandler(t, &apitest.Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			got = op
			return history.Reply{Value: 1}, nil
		}})
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
		want               history.Op
	}{
		{"put", "/v1/message/a%2Fb", `{"op_id":7,"body":"x","group":3}`, 200, `{"messages":1}`,
			history.Op{ID: 7, Kind: sqlbroker.KindPublish,
				Body: []byte(`{"op_id":7,"messages":[{"body":"x","group":3}]}`)}},
		{"delete", "/v1/message/a%2Fb/1.2?op_id=8", "", 204, "", history.Op{ID: 8,
			Kind: sqlbroker.KindAck, Body: []byte(`{"receipts":["1.2"],"by_ms":0}`)}},
	} {
		w := apitest.Serve(handler, c.method, c.path, c.body)
		if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.answer {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
		if got.ID != c.want.ID || got.Kind != c.want.Kind || got.Key != "a/b" ||
			string(got.Body) != string(c.want.Body) {
			t.Errorf("%s %s became %+v (%s)", c.method, c.path, got, got.Body)
		}
	}
}

// TestBadRequests are refused before anything is done.
func TestBadRequests(t *testing.T) {
	handler := newHandler(t, &apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			t.Error("a bad request was performed")
			return history.Reply{}, nil
		}})
	for _, bad := range []struct{ method, path, body string }{
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"","group":9999999999999999999}]}`},
		{"put", "/v1/messages/q", `{"op_id":1,"make":{"n":1}}`},
		{"put", "/v1/message/q", `{"op_id":1,"body":"","priority":99999999999}`},
		{"post", "/v1/messages/q/ack", `{"op_id":1,"receipts":[""]}`},
		{"post", "/v1/messages/q/extend", `{"op_id":1,"receipts":["a"],"by_ms":0}`},
		{"post", "/v1/messages/q/extend", `{"op_id":1,"receipts":["a"]}`},
		{"post", "/v1/messages/q/extend", `{"op_id":1,"receipts":["a"],"by_ms":86400001}`},
		{"put", "/v1/queues/q", `{"visibility_ms":86400001,"max_receives":1,"retention_ms":1}`},
		{"put", "/v1/message/q", `{"op_id":1,"body":"a\u0000b"}`},
		{"put", "/v1/messages/q", `{"op_id":1,"messages":[{"body":"a"},{"body":"\u0000"}]}`},
		{"put", "/v1/message/a%00b", `{"op_id":1,"body":""}`},
		{"get", "/v1/messages/a%FFb", ``},
		{"delete", "/v1/message/a%00b/1.1.a", ``},
		{"post", "/v1/messages/a%00b/ack", someReceipts},
		{"put", "/v1/queues/a%00b", settings},
		{"delete", "/v1/queues/a%00b/messages", ``},
	} {
		if w := apitest.Serve(handler, bad.method, bad.path, bad.body); w.Code != 400 {
			t.Errorf("%s %s %s: %d %s", bad.method, bad.path, bad.body, w.Code, w.Body)
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
	for _, answer := range []struct {
		op       history.Op
		body     string
		believed bool
	}{
		{history.Op{ID: 1, Kind: sqlbroker.KindAck, Body: []byte(someReceipts)},
			`{"done":["a"],"stale":["b"]}`, true},
		{history.Op{ID: 1, Kind: sqlbroker.KindAck, Body: []byte(someReceipts)}, `{"done":["a"]}`, false},
		{history.Op{ID: 1, Kind: sqlbroker.KindAck, Body: []byte(someReceipts)},
			`{"done":[],"stale":["a","b"]}`, false},
		{history.Op{ID: 1, Kind: sqlbroker.KindReceive, Body: []byte(`{"n":1}`)}, string(text(
			[]sqlbroker.Delivery{{OpID: 1, Receipt: "a", Receives: 1}, {OpID: 2, Receipt: "b",
				Receives: 1}})), false},
	} {
		body, answer.op.Key = answer.body, "queue-1"
		if _, err := c.Do(t.Context(), answer.op); (err == nil) != answer.believed {
			t.Errorf("%s: %s: %v", answer.op.Kind, answer.body, err)
		}
	}
}

// TestToken: who does not show the token of the parameters is refused.
func TestToken(t *testing.T) {
	p := sqlbroker.DefaultParams()
	p.Token = "secret"
	handler, err := sqlbroker.API().Handler(&apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Body: []byte("[]")}, nil
		}}, sut.Config{Params: p})
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

// remote is a broker somewhere else, called by its operations.
type remote struct{ inst sut.Instance }

func (r remote) do(ctx context.Context, kind string, request any) (history.Reply, error) {
	return r.inst.Do(ctx, sqlbroker.API().Op(kind, request))
}

func (r remote) counted(ctx context.Context, kind string, request any) (int, error) {
	reply, err := r.do(ctx, kind, request)
	return int(reply.Value), err
}

// read reads the body of a reply.
func read[T any](reply history.Reply, err error) (T, error) {
	var v T
	if err == nil {
		err = json.Unmarshal(reply.Body, &v)
	}
	return v, err
}

func (r remote) Publish(
	ctx context.Context, queue string, p sqlbroker.Publication,
) (int, error) {
	return r.counted(ctx, sqlbroker.KindPublish, sqlbroker.PublishRequest{OpID: p.OpID, Queue: queue,
		Messages: p.Messages})
}

func (r remote) Receive(
	ctx context.Context, queue string, d sqlbroker.Demand,
) ([]sqlbroker.Delivery, error) {
	return read[[]sqlbroker.Delivery](r.do(ctx, sqlbroker.KindReceive, sqlbroker.ReceiveRequest{
		OpID: d.OpID, Queue: queue, Consumer: d.Consumer, Most: d.Most, WaitMS: d.WaitMS}))
}

func (r remote) Settle(
	ctx context.Context, queue, how string, s sqlbroker.Settlement,
) (sqlbroker.Settled, error) {
	req := sqlbroker.SettleRequest{OpID: s.OpID, Queue: queue, Receipts: s.Receipts, ByMS: s.ByMS}
	if how == sqlbroker.KindExtend {
		return read[sqlbroker.Settled](r.do(ctx, how, sqlbroker.ExtendRequest{SettleRequest: req}))
	}
	return read[sqlbroker.Settled](r.do(ctx, how, req))
}

func (r remote) Create(ctx context.Context, queue string, s sqlbroker.QueueSettings) error {
	_, err := r.do(ctx, sqlbroker.KindCreate, sqlbroker.CreateRequest{Queue: queue, QueueSettings: s})
	return err
}

func (r remote) Purge(ctx context.Context, queue string) (int, error) {
	return r.counted(ctx, sqlbroker.KindPurge, sqlbroker.QueueRequest{Queue: queue})
}

func (r remote) Redrive(ctx context.Context, queue string) (int, error) {
	return r.counted(ctx, sqlbroker.KindRedrive, sqlbroker.QueueRequest{Queue: queue})
}

func (r remote) List(ctx context.Context) ([]sqlbroker.QueueInfo, error) {
	return read[[]sqlbroker.QueueInfo](r.do(ctx, sqlbroker.KindList, struct{}{}))
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, sqlbroker.API(), sqlbroker.DefaultParams())
}
