package views_test

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
	"stampede/systems/views"
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
	text := views.System().OpenAPI
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
	const heartbeat = `{"event_id":256,"video_id":"video-1","user_id":"u1","session_id":"s1",` +
		`"timestamp":"2026-01-05T10:23:45Z","watch_duration":15,"device":"tv","ip":"203.0.113.42"}`
	const rules = `{"min_watch_ms":10000,"repeat_window_ms":300000,"ip_views":10,` +
		`"ip_window_ms":60000,"blocked":null,"creators":true}`
	return map[string][2]string{
		"post /watchtime":        {"/watchtime", heartbeat},
		"get /videos/{id}/views": {"/videos/video-1/views", ""},
		"put /v1/rules":          {"/v1/rules", rules},
		"post /v1/reprocess":     {"/v1/reprocess", ""},
		"post /v1/reset":         {"/v1/reset", views.ResetBody()},
		"get /v1/audit":          {"/v1/audit", ""},
		"get /v1/pending":        {"/v1/pending", ""},
		"get /healthz":           {"/healthz", ""},
		"get /metrics":           {"/metrics", ""},
	}
}

// TestOpenAPICoversRoutes: the same routes on both sides, and each succeeds
// with a documented status, content type and body.
func TestOpenAPICoversRoutes(t *testing.T) {
	a := readAPI(t)
	if !strings.HasPrefix(a.OpenAPI, "3.1.") {
		t.Errorf("version %q, want 3.1", a.OpenAPI)
	}
	audit := goodRun(t).raw(t)
	handler := newHandler(t, &scripted{audit: audit,
		do: func(_ context.Context, op history.Op) (history.Reply, error) {
			switch op.Kind {
			case views.KindHeartbeat:
				return history.Reply{Key: "3/120/0", Value: 120}, nil
			case views.KindViews:
				return history.Reply{Key: "1", Value: 7}, nil
			}
			return history.Reply{Value: 2}, nil
		},
	})
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
	handler, err := views.NewHandler(inst, sut.Config{Params: views.DefaultParams()})
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
	inst := &scripted{
		do: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fails
		},
		prepare: func() error { return fails }, audit: []byte("null"),
	}
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
	operational := []error{views.ErrUnknownVideo, views.ErrOverloaded,
		sut.ErrRefused, errors.New("gone")}
	for route, req := range goodRequests() {
		switch route {
		case "post /watchtime", "get /videos/{id}/views", "put /v1/rules", "post /v1/reprocess":
			for _, fails = range operational {
				try(route, req[0], req[1])
			}
		case "post /v1/reset":
			for _, fails = range []error{sut.ErrRefused, errors.New("gone")} {
				try(route, req[0], req[1])
			}
			try(route, req[0], strings.Replace(views.ResetBody(), `"videos":`, `"videos":1`, 1))
		case "get /v1/audit":
			for _, inst.auditErr = range []error{sut.ErrRefused, errors.New("gone")} {
				try(route, req[0], "")
			}
		case "get /v1/pending":
			for _, inst.pendingErr = range []error{sut.ErrRefused, errors.New("gone")} {
				try(route, req[0], "")
			}
			handler = newHandler(t, struct{ sut.Instance }{inst})
			try(route, req[0], "")
			handler = newHandler(t, inst)
		}
		if req[1] != "" {
			try(route, req[0], "{}")
			try(route, req[0], `"`+strings.Repeat("x", 1<<20)+`"`)
		}
	}
	for template, calls := range a.Paths {
		for method, call := range calls {
			for status := range call.Responses {
				route := method + " " + template
				if status[0] != '2' && !slices.Contains(seen[route], status) {
					t.Errorf("%s: status %s is described and never occurs", route, status)
				}
			}
		}
	}
}

// scripted is an instance that does as it is told.
type scripted struct {
	do                   func(context.Context, history.Op) (history.Reply, error)
	prepare              func() error
	audit                json.RawMessage
	auditErr, pendingErr error
}

func (s *scripted) Prepare(context.Context) error {
	if s.prepare == nil {
		return nil
	}
	return s.prepare()
}

func (s *scripted) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return s.do(ctx, op)
}

func (s *scripted) Audit(context.Context) (json.RawMessage, error) { return s.audit, s.auditErr }

func (s *scripted) Quiesced(context.Context) (string, error) { return "", s.pendingErr }

func (s *scripted) Close() error { return nil }
