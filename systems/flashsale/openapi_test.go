package flashsale_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// apiDoc is the part of the description that the test needs.
type apiDoc struct {
	OpenAPI string                        `json:"openapi"`
	Paths   map[string]map[string]apiCall `json:"paths"`

	Components struct {
		Responses map[string]apiAnswer `json:"responses"`
	} `json:"components"`
}

type apiCall struct {
	OperationID string `json:"operationId"`
	RequestBody struct {
		Content map[string]apiContent `json:"content"`
	} `json:"requestBody"`
	Responses map[string]apiAnswer `json:"responses"`
}

type apiAnswer struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Content     map[string]apiContent `json:"content"`
}

type apiContent struct {
	Schema struct {
		Ref string `json:"$ref"`
	} `json:"schema"`
}

// api is the description with its schemas compiled.
type api struct {
	apiDoc
	schemas *jsonschema.Compiler
}

func readAPI(t *testing.T) *api {
	t.Helper()
	text := flashsale.System().OpenAPI
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	a := &api{schemas: jsonschema.NewCompiler()}
	if err := json.Unmarshal(asJSON, &a.apiDoc); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
	if err != nil {
		t.Fatal(err)
	}
	a.schemas.DefaultDraft(jsonschema.Draft2020)
	if err := a.schemas.AddResource("api.json", doc); err != nil {
		t.Fatal(err)
	}
	return a
}

// validate holds a body against the schema that a reference names.
func (a *api) validate(ref string, body []byte) error {
	schema, err := a.schemas.Compile("api.json" + ref)
	if err != nil {
		return fmt.Errorf("schema %s: %w", ref, err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// answer resolves a response's reference.
func (a *api) answer(r apiAnswer) apiAnswer {
	if name, isRef := strings.CutPrefix(r.Ref, "#/components/responses/"); isRef {
		return a.Components.Responses[name]
	}
	return r
}

// goodRequests has a request that succeeds for each route.
func goodRequests() map[string][2]string {
	return map[string][2]string{
		"post /v1/buy": {"/v1/buy", `{"op_id":256,"item":"item-1","buyer":"ann"}`},
		"post /v1/payments": {"/v1/payments",
			`{"op_id":320,"payment_id":"pay-100","order":"17","succeeded":true,"amount_cents":500}`},
		"get /v1/items/{item}/stock": {"/v1/items/item-1/stock", ""},
		"post /v1/reset": {"/v1/reset", `{"items":1,"units":2,"price_cents":500,` +
			`"cart_ttl_ms":1000,"reclaim_every_ms":250}`},
		"get /v1/audit":   {"/v1/audit", ""},
		"get /v1/pending": {"/v1/pending", ""},
		"get /healthz":    {"/healthz", ""},
		"get /metrics":    {"/metrics", ""},
	}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds
// with a documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	a := readAPI(t)
	if !strings.HasPrefix(a.OpenAPI, "3.1.") {
		t.Errorf("version %q, want 3.1", a.OpenAPI)
	}
	sale, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	handler := newHandler(t, &quiet{scripted: &scripted{audit: string(sale),
		do: func(_ context.Context, op history.Op) (history.Reply, error) { return replyTo(op), nil },
	}})
	good := goodRequests()
	for path, calls := range a.Paths {
		for method, call := range calls {
			route := method + " " + path
			req, served := good[route]
			if !served {
				t.Errorf("%s is described and not served", route)
				continue
			}
			delete(good, route)
			if req[1] != "" {
				ref := call.RequestBody.Content["application/json"].Schema.Ref
				if err := a.validate(ref, []byte(req[1])); err != nil {
					t.Errorf("%s: the request: %v", route, err)
				}
			}
			w := serve(handler, method, req[0], req[1])
			if w.Code < 200 || w.Code > 299 {
				t.Errorf("%s: %d %s", route, w.Code, w.Body)
			}
			a.check(t, route, call, w)
		}
	}
	for route := range good {
		t.Errorf("%s is served and not described", route)
	}
}

func newHandler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := flashsale.NewHandler(inst, saleConfig())
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(strings.ToUpper(method), path, strings.NewReader(body)))
	return w
}

// check holds an answer against its description.
func (a *api) check(t *testing.T, route string, call apiCall, w *httptest.ResponseRecorder) {
	t.Helper()
	described, known := call.Responses[fmt.Sprint(w.Code)]
	if !known {
		t.Errorf("%s answers with an undescribed %d: %s", route, w.Code, w.Body)
		return
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content, known := a.answer(described).Content[kind]
	if !known && w.Body.Len() > 0 {
		t.Errorf("%s: %d has an undescribed content type %q", route, w.Code, kind)
	}
	if ref := content.Schema.Ref; ref != "" {
		if err := a.validate(ref, w.Body.Bytes()); err != nil {
			t.Errorf("%s: the body of %d: %v\n%s", route, w.Code, err, w.Body)
		}
	}
}

// TestOpenAPICoversProblems: every way in which an operation can end is
// described for its route by status and code, and every described status but
// those for other implementations occurs.
func TestOpenAPICoversProblems(t *testing.T) {
	a := readAPI(t)
	var fails error
	inst := &quiet{scripted: &scripted{
		do: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fails
		},
		prepare: func() error { return fails }, audit: "null",
	}}
	handler := newHandler(t, inst)
	seen := make(map[string][]string)
	try := func(route, path, body string) {
		method, template, _ := strings.Cut(route, " ")
		call := a.Paths[template][method]
		w := serve(handler, method, path, body)
		a.check(t, route, call, w)
		var failure struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &failure); err != nil {
			t.Fatalf("%s: %v in %s", route, err, w.Body)
		}
		text := a.answer(call.Responses[fmt.Sprint(w.Code)]).Description
		if !strings.Contains(text, failure.Code) {
			t.Errorf("%s: code %s is not described with status %d", route, failure.Code, w.Code)
		}
		seen[route] = append(seen[route], fmt.Sprint(w.Code))
	}
	operational := []error{
		flashsale.ErrSoldOut, flashsale.ErrAlreadyBought, flashsale.ErrConflict,
		flashsale.ErrUnknownItem, flashsale.ErrUnknownOrder, flashsale.ErrNotReady,
		sut.ErrRefused, errors.New("gone"),
	}
	for route, req := range goodRequests() {
		switch route {
		case "post /v1/buy", "post /v1/payments":
			for _, fails = range operational {
				try(route, req[0], req[1])
			}
		case "get /v1/items/{item}/stock":
			for _, fails = range append(operational[3:], flashsale.ErrNoStock) {
				try(route, req[0], req[1])
			}
			try(route, "/v1/items/"+strings.Repeat("x", 300)+"/stock", "")
		case "post /v1/reset":
			for _, fails = range []error{sut.ErrRefused, errors.New("gone")} {
				try(route, req[0], req[1])
			}
			try(route, req[0], strings.Replace(req[1], "500", "501", 1))
		case "get /v1/audit":
			for _, inst.auditErr = range []error{sut.ErrRefused, errors.New("gone")} {
				try(route, req[0], "")
			}
		case "get /v1/pending":
			for _, inst.err = range []error{sut.ErrRefused, errors.New("gone"), nil} {
				if inst.err != nil {
					try(route, req[0], "")
				}
			}
			handler = newHandler(t, inst.scripted)
			try(route, req[0], "")
			handler = newHandler(t, inst)
		}
		if req[1] != "" {
			try(route, req[0], "{}")
			try(route, req[0], `"`+strings.Repeat("x", 20_000)+`"`)
		}
	}
	for template, calls := range a.Paths {
		for method, call := range calls {
			for status := range call.Responses {
				route := method + " " + template
				if status[0] != '2' && status != "429" && !slices.Contains(seen[route], status) {
					t.Errorf("%s: status %s is described and never occurs", route, status)
				}
			}
		}
	}
}

// TestAuditSchemaAgreesWithDecoder: what the description requires of an audit
// the decoder requires too.
func TestAuditSchemaAgreesWithDecoder(t *testing.T) {
	a := readAPI(t)
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
			described := a.validate("#/components/schemas/Audit", text) != nil
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
