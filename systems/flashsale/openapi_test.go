package flashsale_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// goodRequests has a request that succeeds for each route.
func goodRequests() apitest.Requests {
	return apitest.Requests{
		"post /v1/buy": {Path: "/v1/buy", Body: `{"op_id":256,"item":"item-1","buyer":"ann"}`},
		"post /v1/payments": {Path: "/v1/payments", Body: `{"op_id":320,"payment_id":"pay-100",` +
			`"order":"17","succeeded":true,"amount_cents":500}`},
		"get /v1/items/{item}/stock": {Path: "/v1/items/item-1/stock"},
		"post /v1/reset": {Path: "/v1/reset", Body: `{"items":1,"units":2,"price_cents":500,` +
			`"cart_ttl_ms":1000,"reclaim_every_ms":250}`},
	}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds
// with a documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	sale, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	handler := newHandler(t, &apitest.Scripted{AuditBody: sale,
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) { return replyTo(op), nil }})
	apitest.Read(t, flashsale.System().OpenAPI).CoversRoutes(t, handler, goodRequests())
}

func newHandler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := flashsale.NewHandler(inst, saleConfig())
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// TestOpenAPICoversProblems: every way in which an operation can end is
// described for its route by status and code, and every described status but
// those for other implementations occurs.
func TestOpenAPICoversProblems(t *testing.T) {
	asked := []error{flashsale.ErrConflict, flashsale.ErrUnknownItem, flashsale.ErrUnknownOrder,
		flashsale.ErrNotReady}
	wanted := append(slices.Clip(asked), flashsale.ErrSoldOut, flashsale.ErrAlreadyBought)
	good := goodRequests()
	apitest.Read(t, flashsale.System().OpenAPI).CoversProblems(t, apitest.Problems{
		Handler: func(inst sut.Instance) http.Handler { return newHandler(t, inst) },
		Good:    good,
		Fails: map[string][]error{"post /v1/buy": wanted, "post /v1/payments": wanted,
			"get /v1/items/{item}/stock": {flashsale.ErrUnknownItem, flashsale.ErrUnknownOrder,
				flashsale.ErrNotReady, flashsale.ErrNoStock}},
		Bad: map[string][]apitest.Request{
			"get /v1/items/{item}/stock": {{Path: "/v1/items/" + strings.Repeat("x", 300) + "/stock"}},
			"post /v1/reset": {{Path: "/v1/reset",
				Body: strings.Replace(good["post /v1/reset"].Body, "500", "501", 1)}},
		},
		Elsewhere: []string{"429"}, MaxBody: 20_000,
	})
}

// TestAuditSchemaAgreesWithDecoder: what the description requires of an audit
// the decoder requires too.
func TestAuditSchemaAgreesWithDecoder(t *testing.T) {
	a := apitest.Read(t, flashsale.System().OpenAPI)
	sale, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	var audit map[string]any
	if err := json.Unmarshal(sale, &audit); err != nil {
		t.Fatal(err)
	}
	for list, rows := range audit {
		rows, isList := rows.([]any)
		if !isList {
			continue
		}
		row := rows[0].(map[string]any)
		for field, value := range row {
			delete(row, field)
			text, err := json.Marshal(audit)
			if err != nil {
				t.Fatal(err)
			}
			described := a.Validate("#/components/schemas/Audit", text) != nil
			_, err = flashsale.DecodeAudit(text)
			// That a closed order has an end depends on its state.
			if described != (err != nil) && field != "closed_at_ns" {
				t.Errorf("%s without %s: described as wrong %v, decoder says %v",
					list, field, described, err)
			}
			row[field] = value
		}
	}
}
