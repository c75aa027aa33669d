// Package apitest holds a system's HTTP API against its OpenAPI description.
package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
		Schemas map[string]objectSchema `json:"schemas"`
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
	Description string                `json:"description"`
	Content     map[string]apiContent `json:"content"`
}

type apiContent struct {
	Schema struct {
		Ref string `json:"$ref"`
	} `json:"schema"`
}

// described is a description with its schemas compiled.
type described struct {
	apiDoc
	schemas *jsonschema.Compiler
}

// Paths are the paths of a description in OpenAPI, as YAML.
func Paths(t *testing.T, text []byte) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(read(t, text).Paths))
}

// read reads a description in OpenAPI 3.1, as YAML.
func read(t *testing.T, text []byte) *described {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	a := &described{schemas: jsonschema.NewCompiler()}
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

// validate holds a body against the schema that a reference names, such as
// "#/components/schemas/Audit".
func (a *described) validate(ref string, body []byte) error {
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

// Request is a path and a body.
type Request struct{ Path, Body string }

// requests has a request that succeeds for each route of a system's own, such as
// "get /v1/likes/{video}", and for "post /v1/reset".
type requests map[string]Request

// all adds the routes that every API has.
func (r requests) all() requests {
	all := requests{"get /v1/audit": {"/v1/audit", ""}, "get /v1/pending": {"/v1/pending", ""},
		"get /healthz": {"/healthz", ""}, "get /metrics": {"/metrics", ""}}
	for route, request := range r {
		all[route] = request
	}
	return all
}

// coversRoutes fails the test unless the same routes are described and served, and
// each succeeds with a documented status, content type and body.
func (a *described) coversRoutes(t *testing.T, handler http.Handler, own requests) {
	t.Helper()
	good := own.all()
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
				if err := a.validate(ref, []byte(req.Body)); err != nil {
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
func (a *described) check(t *testing.T, route string, call apiCall, w *httptest.ResponseRecorder) {
	t.Helper()
	answer, known := call.Responses[fmt.Sprint(w.Code)]
	if !known {
		t.Errorf("%s answers with an undescribed %d: %s", route, w.Code, w.Body)
		return
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content, known := answer.Content[kind]
	if !known && w.Body.Len() > 0 {
		t.Errorf("%s: %d has an undescribed content type %q", route, w.Code, kind)
	}
	if ref := content.Schema.Ref; ref != "" {
		if err := a.validate(ref, w.Body.Bytes()); err != nil {
			t.Errorf("%s: the body of %d: %v\n%s", route, w.Code, err, w.Body)
		}
	}
}

// endings says how the requests of an API can end badly.
type endings struct {
	// handler serves an instance.
	handler func(sut.Instance) http.Handler
	good    requests
	// fails are the errors of an operation's instance, by route, besides those that
	// every instance may return.
	fails map[string][]error
	// bad are more requests that fail, by route.
	bad map[string][]Request
}

// coversEndings fails the test unless every way in which a request can end is
// described for its route by status and code, and every described status occurs, but for that
// of requests without a token.
func (a *described) coversEndings(t *testing.T, e endings) {
	t.Helper()
	c := cover{described: a, t: t, seen: map[string][]string{}}
	inst := &Scripted{AuditBody: []byte("null")}
	inst.OnDo = func(context.Context, history.Op) (history.Reply, error) {
		return history.Reply{}, inst.fails
	}
	inst.OnPrepare = func() error { return inst.fails }
	handler := e.handler(inst)
	always := []error{sut.ErrRefused, errors.New("gone")}
	for route, req := range e.good.all() {
		switch route {
		case "get /healthz", "get /metrics":
		case "get /v1/pending":
			c.try(e.handler(struct{ sut.Instance }{inst}), route, req)
			fallthrough
		default:
			for _, inst.fails = range append(slices.Clip(e.fails[route]), always...) {
				c.try(handler, route, req)
			}
		}
		for _, bad := range e.bad[route] {
			c.try(handler, route, bad)
		}
		if req.Body != "" {
			c.try(handler, route, Request{req.Path, "{}"})
			c.try(handler, route, Request{req.Path, `"` + strings.Repeat("x", tooLarge) + `"`})
		}
	}
	c.complain()
}

// tooLarge is more than any API reads of a request, in bytes.
const tooLarge = 5 << 20

// cover collects the statuses that were seen, by route.
type cover struct {
	*described
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
	text := call.Responses[fmt.Sprint(w.Code)].Description
	if failure.Code == "" || !strings.Contains(text, failure.Code) {
		c.t.Errorf("%s: code %q is not described with status %d", route, failure.Code, w.Code)
	}
	c.seen[route] = append(c.seen[route], fmt.Sprint(w.Code))
}

// complain names the failures that are described and were not seen.
func (c cover) complain() {
	c.t.Helper()
	for template, calls := range c.Paths {
		for method, call := range calls {
			for status := range call.Responses {
				route := method + " " + template
				if status >= "4" && status != "401" && !slices.Contains(c.seen[route], status) {
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
