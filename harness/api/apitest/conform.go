package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Table is a table of kinds, whatever its domain interface is.
type Table interface {
	Examples() []api.Example
	BeginExample(params any) (string, error)
	Own() []api.Problem
	Handler(inst sut.Instance, cfg sut.Config) (http.Handler, error)
	Target(baseURL string, cfg sut.Config) (sut.Instance, error)
	OpenAPI() []byte
	CheckAudit(raw json.RawMessage) error
}

// Conform is Agree, and the description is in openapi.yaml.
func Conform(
	t *testing.T, table Table, params, audit any, more ...map[string]Request,
) {
	t.Helper()
	Agree(t, table, params, audit, more...)
	written(t, table.OpenAPI())
}

// Agree holds the handler, the client and the description that a table makes against each
// other. The audit is one that the description allows; more are requests, by route, that are bad
// by what no description says.
func Agree(
	t *testing.T, table Table, params, audit any, more ...map[string]Request,
) {
	t.Helper()
	raw, err := json.Marshal(audit)
	if err != nil {
		t.Fatal(err)
	}
	c := conformance{table: table, more: more,
		cfg:       sut.Config{Params: params, Timeout: 5 * time.Second},
		described: read(t, table.OpenAPI()), audit: raw}
	t.Run("operations", c.operations)
	t.Run("refusals", c.refusals)
	t.Run("beliefs", c.beliefs)
	t.Run("requests", c.requests)
	t.Run("description", c.description)
	t.Run("audit", c.audits)
}

type conformance struct {
	table     Table
	cfg       sut.Config
	described *described
	audit     json.RawMessage
	more      []map[string]Request
}

func (c conformance) handler(t *testing.T, inst sut.Instance) http.Handler {
	t.Helper()
	handler, err := c.table.Handler(inst, c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// target returns a client of a handler.
func (c conformance) target(t *testing.T, handler http.Handler) sut.Instance {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := c.table.Target(server.URL, c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// operations: an instance behind the handler and the client is asked what the client is
// asked, and answers the same.
func (c conformance) operations(t *testing.T) {
	var got history.Op
	var reply history.Reply
	client := c.target(t, c.handler(t, &Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			got = op
			return reply, nil
		}}))
	for _, e := range c.kinds() {
		reply = e.Reply
		answer, err := client.Do(t.Context(), e.Op)
		if err != nil || !reflect.DeepEqual(got, e.Op) || !reflect.DeepEqual(answer, e.Reply) {
			t.Errorf("%+v was asked as %+v and answered %+v, %v; want %+v", e.Op, got, answer, err,
				e.Reply)
		}
	}
	const odd = "a/\u00e4?%2F+" // nine bytes
	for _, e := range c.kinds() {
		if !strings.Contains(c.described.path(e.ID), "{") || strings.Trim(e.Op.Key, "a") != "" {
			continue // it is not in the path, or a number
		}
		reply, e.Op.Key = e.Reply, odd
		if _, err := client.Do(t.Context(), e.Op); err != nil && len(e.Repeats) == 0 || got.Key != odd {
			t.Errorf("%s of %s was asked of %s: %v", e.Kind, odd, got.Key, err)
		}
	}
	_, err := client.Do(t.Context(), history.Op{ID: 1, Kind: "no such kind"})
	if !errors.Is(err, sut.ErrRefused) {
		t.Errorf("an unknown kind: %v", err)
	}
}

// refusals: a documented problem is the same error on the other side; what is unknown, or is not
// documented of the kind, stays so.
func (c conformance) refusals(t *testing.T) {
	var fails error
	client := c.target(t, c.handler(t, &Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fails
		}}))
	for _, e := range c.kinds() {
		for _, p := range append(c.table.Own(), api.Problem{Is: sut.ErrRefused}) {
			fails = fmt.Errorf("in other words: %w", p.Is)
			_, err := client.Do(t.Context(), e.Op)
			may := slices.Contains(slices.Concat(e.Refuses, []error{sut.ErrRefused}), p.Is)
			if err == nil || errors.Is(err, p.Is) != may ||
				errors.Is(err, sut.ErrRefused) != (may && errors.Is(p.Is, sut.ErrRefused)) {
				t.Errorf("%s: %v became %v", e.Kind, p.Is, err)
			}
		}
		fails = errors.New("gone")
		if _, err := client.Do(t.Context(), e.Op); err == nil || errors.Is(err, sut.ErrRefused) {
			t.Errorf("%s: an unknown outcome became %v", e.Kind, err)
		}
	}
}

// beliefs: only a documented code with its status is believed, and only a reply that is
// whole, has the texts that there are and is one to the request.
func (c conformance) beliefs(t *testing.T) {
	var status int
	var body string
	client := c.target(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client's end is what is tested
	}))
	for _, e := range c.kinds() {
		ask := func(s int, b string) error {
			status, body = s, b
			_, err := client.Do(t.Context(), e.Op)
			return err
		}
		if err := ask(e.Status, e.Answer); err != nil {
			t.Errorf("%s: a good answer: %v", e.Kind, err)
		}
		for _, p := range c.table.Own() {
			code := sut.Code(p.Is)
			for _, s := range []int{p.Status, p.Status + 1, http.StatusOK + 37} {
				err := ask(s, string(Problem(code, "for a reason")))
				if err == nil ||
					errors.Is(err, p.Is) != (s == p.Status && slices.Contains(e.Refuses, p.Is)) {
					t.Errorf("%s: %d %s became %v", e.Kind, s, code, err)
				}
			}
		}
		for _, odd := range []struct {
			status int
			body   string
		}{{500, ""}, {503, "upstream"}, {302, ""}, {e.Status + 1, e.Answer}, {429, `{"code":"busy"}`}} {
			if err := ask(odd.status, odd.body); err == nil || errors.Is(err, sut.ErrRefused) {
				t.Errorf("%s: %d %s became %v", e.Kind, odd.status, odd.body, err)
			}
		}
		for _, odd := range spoilt(e) {
			if err := ask(e.Status, odd); err == nil || errors.Is(err, sut.ErrRefused) {
				t.Errorf("%s: the reply %s was believed: %v", e.Kind, odd, err)
			}
		}
	}
}

// spoilt are texts that are no good answer: cut short, without one of its members, and about
// something else than was asked.
func spoilt(e api.Example) (list []string) {
	if e.Answer == "" {
		return nil
	}
	list = []string{"", "[", e.Answer[:len(e.Answer)-1], e.Answer + e.Answer}
	var members map[string]any
	if json.Unmarshal([]byte(e.Answer), &members) != nil {
		return list
	}
	with := func(change func(map[string]any)) {
		other := maps.Clone(members)
		change(other)
		text, _ := json.Marshal(other) // it was read from JSON
		list = append(list, string(text))
	}
	for name := range members {
		if slices.Contains(e.Optional, name) {
			continue
		}
		with(func(m map[string]any) { delete(m, name) })
	}
	for _, name := range e.Repeats {
		with(func(m map[string]any) {
			switch v := m[name].(type) {
			case float64:
				m[name] = v + 1
			case string:
				m[name] = v + "x"
			}
		})
	}
	return list
}

// requests: what the description forbids is refused before anything is done, and named.
func (c conformance) requests(t *testing.T) {
	performed := 0
	handler := c.handler(t, &Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			performed++
			return c.example(op.Kind).Reply, nil
		}})
	refused := func(e api.Example, body, names string) {
		t.Helper()
		before := performed
		w := Serve(handler, e.Method, e.Target, body)
		if w.Code < 400 || w.Code > 499 || performed != before ||
			!strings.Contains(w.Body.String(), names) {
			t.Errorf("%s %.80s: %d %s, want %s", e.Kind, body, w.Code, w.Body, names)
		}
	}
	for _, e := range c.table.Examples() {
		if e.Body == "" {
			continue
		}
		if w := Serve(handler, e.Method, e.Target, e.Body); w.Code != e.Status {
			t.Errorf("%s: the example: %d %s", e.Kind, w.Code, w.Body)
		}
		for body, names := range map[string]string{"": "bad_request", "{": "bad_request",
			"[]": "bad_request", e.Body + "{}": "more than one",
			`{"no_such_field":1,` + e.Body[1:]:        "no_such_field",
			`"` + strings.Repeat("x", tooLarge) + `"`: "too_large"} {
			refused(e, body, names)
		}
		for body, name := range c.described.forbidden(t, e) {
			refused(e, body, name)
		}
	}
	e := c.table.Examples()[0]
	path, _, _ := strings.Cut(e.Target, "?")
	w := Serve(handler, "patch", path, "")
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("PATCH: %d, allowed are %q", w.Code, w.Header().Get("Allow"))
	}
}

// kinds are the examples of the kinds' own routes.
func (c conformance) kinds() []api.Example {
	return slices.DeleteFunc(c.table.Examples(), func(e api.Example) bool { return e.Other })
}

func (c conformance) example(kind string) api.Example {
	list := c.table.Examples()
	return list[slices.IndexFunc(list, func(e api.Example) bool { return e.Kind == kind })]
}

// forbidden are bodies of an example in which one member is missing or beyond the bounds that
// the description has, with its name.
func (a *described) forbidden(t *testing.T, e api.Example) map[string]string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(e.Body), &members); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	with := func(name string, change func(map[string]any)) {
		other := maps.Clone(members)
		change(other)
		text, err := json.Marshal(other)
		if err != nil {
			t.Fatal(err)
		}
		out[string(text)] = name
	}
	s := a.bodySchema(e.ID)
	for _, name := range s.Required {
		with(name, func(m map[string]any) { delete(m, name) })
		with(name, func(m map[string]any) { m[name] = nil })
	}
	for name, p := range s.Properties {
		if p.Minimum != nil {
			with(name, func(m map[string]any) { m[name] = *p.Minimum - 1 })
		}
		if p.Maximum != nil && *p.Maximum < 1e15 {
			with(name, func(m map[string]any) { m[name] = *p.Maximum + 1 })
		}
		if p.MinLength > 0 {
			with(name, func(m map[string]any) { m[name] = strings.Repeat("a", p.MinLength-1) })
		}
		if p.MaxLength > 0 {
			with(name, func(m map[string]any) { m[name] = strings.Repeat("a", p.MaxLength+1) })
		}
	}
	if len(out) == 0 {
		t.Errorf("%s: its description forbids nothing", e.Kind)
	}
	return out
}

// bodySchema is the schema of a request's body.
func (a *described) bodySchema(id string) objectSchema {
	for _, calls := range a.Paths {
		for _, call := range calls {
			if call.OperationID == id {
				ref := call.RequestBody.Content["application/json"].Schema.Ref
				return a.Components.Schemas[ref[strings.LastIndex(ref, "/")+1:]]
			}
		}
	}
	return objectSchema{}
}

type objectSchema struct {
	Required   []string `json:"required"`
	Properties map[string]struct {
		Minimum, Maximum     *float64
		MinLength, MaxLength int
	} `json:"properties"`
}

// description: the same routes and problems are described and served.
func (c conformance) description(t *testing.T) {
	begin, err := c.table.BeginExample(c.cfg.Params)
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string][]Request{}
	for _, requests := range c.more {
		for route, request := range requests {
			bad[route] = append(bad[route], request)
		}
	}
	good := requests{"post /v1/reset": {"/v1/reset", begin}}
	fails := map[string][]error{}
	for _, e := range c.table.Examples() {
		route := strings.ToLower(e.Method) + " " + c.described.path(e.ID)
		good[route] = Request{e.Target, e.Body}
		fails[route] = e.Refuses
		for _, target := range c.described.badTargets(e) {
			bad[route] = append(bad[route], Request{target, e.Body})
		}
	}
	bad["post /v1/reset"] = []Request{{Path: "/v1/reset", Body: strings.Replace(begin, "1", "2", 1)}}
	handler := c.handler(t, &Scripted{AuditBody: c.audit,
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			return c.example(op.Kind).Reply, nil
		}})
	c.described.coversRoutes(t, handler, good)
	c.described.coversEndings(t, endings{good: good, fails: fails, bad: bad,
		handler: func(inst sut.Instance) http.Handler { return c.handler(t, inst) }})
}

// badTargets are targets of an example with one parameter that is no number or too long.
func (a *described) badTargets(e api.Example) (list []string) {
	template := a.path(e.ID)
	path, query, _ := strings.Cut(e.Target, "?")
	for _, p := range a.Paths[template][strings.ToLower(e.Method)].Parameters {
		if p.In == "header" {
			continue
		}
		value := "none"
		if p.Schema.Type == "string" {
			if p.Schema.MaxLength == 0 {
				continue
			}
			value = strings.Repeat("a", p.Schema.MaxLength+1)
		}
		if p.In == "query" {
			list = append(list, path+"?"+p.Name+"="+value)
			continue
		}
		parts := strings.Split(path, "/")
		parts[slices.Index(strings.Split(template, "/"), "{"+p.Name+"}")] = value
		list = append(list, strings.Join(parts, "/")+"?"+query)
	}
	return list
}

// path is the path of an operation.
func (a *described) path(id string) string {
	for path, calls := range a.Paths {
		for _, call := range calls {
			if call.OperationID == id {
				return path
			}
		}
	}
	return ""
}

// audits: a row that lacks what its description requires is not read, nor is one whose text is
// none of those that there are.
func (c conformance) audits(t *testing.T) {
	if err := c.table.CheckAudit(c.audit); err != nil {
		t.Fatalf("the audit: %v", err)
	}
	var audit map[string]any
	if err := json.Unmarshal(c.audit, &audit); err != nil {
		t.Fatal(err)
	}
	for list, rows := range audit {
		rows, isList := rows.([]any)
		if !isList || len(rows) == 0 {
			continue
		}
		row, isRow := rows[0].(map[string]any)
		for field, value := range row {
			if !isRow {
				break
			}
			for _, change := range []func(){func() { delete(row, field) },
				func() { row[field] = "no such text" }} {
				change()
				text, err := json.Marshal(audit)
				if err != nil {
					t.Fatal(err)
				}
				wrong := c.described.validate("#/components/schemas/Audit", text)
				if err := c.table.CheckAudit(text); wrong != nil && err == nil {
					t.Errorf("%s with %s: %v was read: %s", list, field, row[field], wrong)
				}
				row[field] = value
			}
		}
	}
}

// FuzzRequests fuzzes the requests of an API: no body makes its server fail, and only what is
// read again as a request reaches the instance.
func FuzzRequests[S any](f *testing.F, table *api.Table[S], params any) {
	f.Helper()
	examples := table.Examples()
	for i, e := range examples {
		f.Add(uint(i), []byte(e.Body))
	}
	handler, err := table.Handler(&Scripted{OnDo: func(_ context.Context, op history.Op) (
		history.Reply, error,
	) {
		if _, err := table.Asked(op); err != nil {
			panic(fmt.Sprintf("%+v was performed: %v", op, err))
		}
		return history.Reply{}, sut.ErrRefused
	}}, sut.Config{Params: params, Timeout: time.Minute})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint, body []byte) {
		e := examples[which%uint(len(examples))]
		w := Serve(handler, e.Method, e.Target, string(body))
		switch w.Code {
		case http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("%s %s %q: %d %s", e.Method, e.Target, body, w.Code, w.Body)
		}
	})
}
