package sqlbroker_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

const (
	oneMessage   = `{"op_id":256,"body":"hello","priority":1}`
	someMessages = `{"op_id":256,"messages":[{"body":"hello"},{"body":"world","group":7,"delay_ms":5}]}`
	someReceipts = `{"op_id":257,"receipts":["a","b"]}`
	extension    = `{"op_id":257,"receipts":["a"],"by_ms":1000}`
	settings     = `{"visibility_ms":1000,"max_receives":5,"retention_ms":3600000,"rate_per_s":10}`
	beginning    = `{"queues":3,"visibility_ms":1000,"max_receives":5,"retention_ms":3600000}`
)

// goodRequests has a request that succeeds for each route.
func goodRequests() apitest.Requests {
	return apitest.Requests{
		"put /v1/message/{queue}":              {Path: "/v1/message/queue-1", Body: oneMessage},
		"delete /v1/message/{queue}/{receipt}": {Path: "/v1/message/queue-1/0.1.a?op_id=3"},
		"put /v1/messages/{queue}":             {Path: "/v1/messages/queue-1", Body: someMessages},
		"get /v1/messages/{queue}": {
			Path: "/v1/messages/queue-1?n=2&wait_ms=5&op_id=9&consumer=me"},
		"post /v1/messages/{queue}/ack":     {Path: "/v1/messages/queue-1/ack", Body: someReceipts},
		"post /v1/messages/{queue}/extend":  {Path: "/v1/messages/queue-1/extend", Body: extension},
		"post /v1/messages/{queue}/release": {Path: "/v1/messages/queue-1/release", Body: someReceipts},
		"get /v1/queues":                    {Path: "/v1/queues"},
		"put /v1/queues/{queue}":            {Path: "/v1/queues/orders", Body: settings},
		"delete /v1/queues/{queue}/messages": {
			Path: "/v1/queues/orders/messages"},
		"post /v1/queues/{queue}/redrive": {Path: "/v1/queues/orders/redrive"},
		"post /v1/reset":                  {Path: "/v1/reset", Body: beginning},
	}
}

// answers are the replies of an instance that does nothing.
func answers(op history.Op) history.Reply {
	switch op.Kind {
	case sqlbroker.KindReceive:
		return history.Reply{Value: 1, Body: text([]sqlbroker.Delivery{{OpID: 256, Body: "hello",
			Receipt: "a", Receives: 1, ReceivedNS: clock(0), VisibleNS: clock(ms)}})}
	case sqlbroker.KindAck, sqlbroker.KindExtend, sqlbroker.KindRelease:
		return history.Reply{Value: 1, Body: text(sqlbroker.Settled{Done: []string{"a"},
			Stale: []string{"b"}, VisibleNS: clock(ms)})}
	case sqlbroker.KindList:
		return history.Reply{Value: 1, Body: text([]sqlbroker.QueueInfo{{Queue: "orders", Ready: 2,
			QueueSettings: sqlbroker.QueueSettings{VisibilityMS: 1, MaxReceives: 1, RetentionMS: 1}}})}
	}
	return history.Reply{Value: 2}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds with a
// documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	audit, err := json.Marshal(goodBroker().audit)
	if err != nil {
		t.Fatal(err)
	}
	handler := newHandler(t, &apitest.Scripted{AuditBody: audit,
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) { return answers(op), nil }})
	apitest.Read(t, sqlbroker.System().OpenAPI).CoversRoutes(t, handler, goodRequests())
}

func newHandler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := sqlbroker.NewHandler(inst, sut.Config{Params: sqlbroker.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// TestOpenAPICoversProblems: every way in which an operation can end is described for
// its route by status and code, and every described status occurs, but for those of
// servers and queues with a token.
func TestOpenAPICoversProblems(t *testing.T) {
	receive := []error{sqlbroker.ErrUnknownQueue, &sqlbroker.RateError{Wait: ms}}
	publish := append(slices.Clone(receive), sqlbroker.ErrTaken)
	stale, unknown := []error{sqlbroker.ErrStaleReceipt}, []error{sqlbroker.ErrUnknownQueue}
	apitest.Read(t, sqlbroker.System().OpenAPI).CoversProblems(t, apitest.Problems{
		Handler: func(inst sut.Instance) http.Handler { return newHandler(t, inst) },
		Good:    goodRequests(),
		Fails: map[string][]error{
			"put /v1/message/{queue}": publish, "put /v1/messages/{queue}": publish,
			"get /v1/messages/{queue}": receive, "delete /v1/message/{queue}/{receipt}": stale,
			"post /v1/messages/{queue}/ack": stale, "post /v1/messages/{queue}/extend": stale,
			"post /v1/messages/{queue}/release": stale, "delete /v1/queues/{queue}/messages": unknown,
			"post /v1/queues/{queue}/redrive": unknown,
		},
		Bad: map[string][]apitest.Request{
			"get /v1/messages/{queue}": {{Path: "/v1/messages/queue-1?n=0"},
				{Path: "/v1/messages/queue-1?n=none"}, {Path: "/v1/messages/queue-1?wait_ms=-1"}},
			"delete /v1/message/{queue}/{receipt}": {{Path: "/v1/message/queue-1/a?op_id=-1"}},
			"post /v1/messages/{queue}/extend": {
				{Path: "/v1/messages/queue-1/extend", Body: someReceipts}},
			"post /v1/reset": {{Path: "/v1/reset",
				Body: `{"queues":2,"visibility_ms":1000,"max_receives":5,"retention_ms":3600000}`}},
		},
		Elsewhere: []string{"401", "403"},
		MaxBody:   5 << 20,
	})
}
