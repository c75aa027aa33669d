// Package apitest holds a system's HTTP API against its OpenAPI description.
package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// apiDoc is the part of the description that the test needs.
type apiDoc struct {
	OpenAPI string                        `json:"openapi"`
	Paths   map[string]map[string]apiCall `json:"paths"`

	Components struct {
		Responses map[string]apiAnswer    `json:"responses"`
		Schemas   map[string]objectSchema `json:"schemas"`
	} `json:"components"`
}

type apiCall struct {
	OperationID string `json:"operationId"`
	Parameters  []struct {
		Name, In string
		Schema   struct {
			Type      string
			MaxLength int
		}
	} `json:"parameters"`
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

// API is a description with its schemas compiled.
type API struct {
	apiDoc
	schemas *jsonschema.Compiler
}

// Read reads a description in OpenAPI 3.1, as YAML.
func Read(t *testing.T, text []byte) *API {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	a := &API{schemas: jsonschema.NewCompiler()}
	if err := json.Unmarshal(asJSON, &a.apiDoc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(a.OpenAPI, "3.1.") {
		t.Errorf("version %q, want 3.1", a.OpenAPI)
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

// Validate holds a body against the schema that a reference names, such as
// "#/components/schemas/Audit".
func (a *API) Validate(ref string, body []byte) error {
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
func (a *API) answer(r apiAnswer) apiAnswer {
	if name, isRef := strings.CutPrefix(r.Ref, "#/components/responses/"); isRef {
		return a.Components.Responses[name]
	}
	return r
}

// Request is a path and a body.
type Request struct{ Path, Body string }

// Requests has a request that succeeds for each route of a system's own, such as
// "get /v1/likes/{video}", and for "post /v1/reset".
type Requests map[string]Request

// all adds the routes that every API has.
func (r Requests) all() Requests {
	all := Requests{"get /v1/audit": {"/v1/audit", ""}, "get /v1/pending": {"/v1/pending", ""},
		"get /healthz": {"/healthz", ""}, "get /metrics": {"/metrics", ""}}
	for route, request := range r {
		all[route] = request
	}
	return all
}

// CoversRoutes fails the test unless the same routes are described and served, and
// each succeeds with a documented status, content type and body.
func (a *API) CoversRoutes(t *testing.T, handler http.Handler, requests Requests) {
	t.Helper()
	good := requests.all()
	for path, calls := range a.Paths {
		for method, call := range calls {
			route := method + " " + path
			req, served := good[route]
			if !served {
				t.Errorf("%s is described and not served", route)
				continue
			}
			delete(good, route)
			if req.Body != "" {
				ref := call.RequestBody.Content["application/json"].Schema.Ref
				if err := a.Validate(ref, []byte(req.Body)); err != nil {
					t.Errorf("%s: the request: %v", route, err)
				}
			}
			w := Serve(handler, method, req.Path, req.Body)
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

// Serve has a handler answer one request.
func Serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	return ServeRequest(h, httptest.NewRequest(strings.ToUpper(method), path, strings.NewReader(body)))
}

// ServeRequest is Serve for a request that was made elsewhere.
func ServeRequest(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// check holds an answer against its description.
func (a *API) check(t *testing.T, route string, call apiCall, w *httptest.ResponseRecorder) {
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
		if err := a.Validate(ref, w.Body.Bytes()); err != nil {
			t.Errorf("%s: the body of %d: %v\n%s", route, w.Code, err, w.Body)
		}
	}
}

// Problems says how the requests of an API can end badly.
type Problems struct {
	// Handler serves an instance.
	Handler func(sut.Instance) http.Handler
	Good    Requests
	// Fails are the errors of an operation's instance, by route, besides those that
	// every instance may return.
	Fails map[string][]error
	// Bad are more requests that fail, by route.
	Bad map[string][]Request
	// Elsewhere are described statuses that only other servers answer with.
	Elsewhere []string
	// MaxBody is the size of a request that is too large, in bytes.
	MaxBody int
}

// CoversProblems fails the test unless every way in which a request can end is
// described for its route by status and code, and every described status occurs.
func (a *API) CoversProblems(t *testing.T, p Problems) {
	t.Helper()
	c := cover{API: a, t: t, seen: map[string][]string{}}
	inst := &Scripted{AuditBody: []byte("null")}
	inst.OnDo = func(context.Context, history.Op) (history.Reply, error) {
		return history.Reply{}, inst.fails
	}
	inst.OnPrepare = func() error { return inst.fails }
	handler := p.Handler(inst)
	always := []error{sut.ErrRefused, errors.New("gone")}
	for route, req := range p.Good.all() {
		switch route {
		case "get /healthz", "get /metrics":
		case "get /v1/pending":
			c.try(p.Handler(struct{ sut.Instance }{inst}), route, req)
			fallthrough
		default:
			for _, inst.fails = range append(slices.Clip(p.Fails[route]), always...) {
				c.try(handler, route, req)
			}
		}
		for _, bad := range p.Bad[route] {
			c.try(handler, route, bad)
		}
		if req.Body != "" {
			c.try(handler, route, Request{req.Path, "{}"})
			c.try(handler, route, Request{req.Path, `"` + strings.Repeat("x", p.MaxBody) + `"`})
		}
	}
	c.complain(p.Elsewhere)
}

// cover collects the statuses that were seen, by route.
type cover struct {
	*API
	t    *testing.T
	seen map[string][]string
}

// try makes a request that must fail as it is described.
func (c cover) try(handler http.Handler, route string, req Request) {
	c.t.Helper()
	method, template, _ := strings.Cut(route, " ")
	call := c.Paths[template][method]
	w := Serve(handler, method, req.Path, req.Body)
	c.check(c.t, route, call, w)
	var failure struct{ Code string }
	if err := json.Unmarshal(w.Body.Bytes(), &failure); err != nil {
		c.t.Fatalf("%s: %v in %s", route, err, w.Body)
	}
	text := c.answer(call.Responses[fmt.Sprint(w.Code)]).Description
	if failure.Code == "" || !strings.Contains(text, failure.Code) {
		c.t.Errorf("%s: code %q is not described with status %d", route, failure.Code, w.Code)
	}
	c.seen[route] = append(c.seen[route], fmt.Sprint(w.Code))
}

// complain names the failures that are described and were not seen.
func (c cover) complain(elsewhere []string) {
	c.t.Helper()
	for template, calls := range c.Paths {
		for method, call := range calls {
			for status := range call.Responses {
				route := method + " " + template
				if status[0] != '2' && !slices.Contains(elsewhere, status) &&
					!slices.Contains(c.seen[route], status) {
					c.t.Errorf("%s: status %s is described and never occurs", route, status)
				}
			}
		}
	}
}

// Scripted is an instance that does as it is told.
type Scripted struct {
	OnDo      func(context.Context, history.Op) (history.Reply, error)
	OnPrepare func() error
	// AuditBody and Pending are what it answers.
	AuditBody json.RawMessage
	Pending   string
	fails     error
}

// Prepare does as OnPrepare, if that is set.
func (s *Scripted) Prepare(context.Context) error {
	if s.OnPrepare == nil {
		return nil
	}
	return s.OnPrepare()
}

// Do does as OnDo.
func (s *Scripted) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return s.OnDo(ctx, op)
}

// Audit returns AuditBody.
func (s *Scripted) Audit(context.Context) (json.RawMessage, error) { return s.AuditBody, s.fails }

// Quiesced returns Pending.
func (s *Scripted) Quiesced(context.Context) (string, error) { return s.Pending, s.fails }

// Close does nothing.
func (*Scripted) Close() error { return nil }
