package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"stampede/harness/schema"
	"stampede/harness/sut"
)

// promise is what every description says of its answers.
const promise = `What an answer promises decides what it may mean to the judges:

* a success (2xx) took effect, and stays;
* a documented refusal (its code with its status) had no effect and never
  will have;
* anything else, and no answer at all, leaves the effect unknown.

Some workloads repeat requests that were refused or whose effect is unknown, with the same identity.

A run begins with a reset, during which nothing else is under way, and ends with an audit.
No request is larger than %d bytes. Lengths of texts are in bytes. A server's own times are since
1970, by one clock of its own.
`

// object is a YAML mapping in the order in which it is to be read.
type object = yaml.MapSlice

func member(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

// OpenAPI describes the API in OpenAPI 3.1, as YAML. A type that has no place in JSON is a
// defect: it panics.
func (t *Table[S]) OpenAPI() []byte {
	d := description{schemas: map[string]schema.Schema{}}
	d.builder = schema.Builder{Required: true, Named: d.schemas,
		Special: map[reflect.Type]schema.Schema{}}
	for typ, special := range t.Types {
		d.builder.Special[typ] = special
	}
	paths := object{}
	for i := range t.Kinds {
		k := &t.Kinds[i]
		paths = addMethod(paths, k.path, k.method, t.describe(k.about, k.request, k.reply, &d))
		for _, o := range k.others {
			paths = addMethod(paths, o.path, o.method, t.describe(o.about, o.request, k.reply, &d))
		}
	}
	for _, c := range t.control(&d) {
		paths = addMethod(paths, c.path, c.method, c.describe(&d))
	}
	d.schemas["Failure"] = schema.Schema{"type": "object", "required": []string{"code", "error"},
		"properties": schema.Schema{"code": schema.Schema{"type": "string"},
			"error": schema.Schema{"type": "string"}}}
	schemas := object{}
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		schemas = append(schemas, member(name, plainMaps(d.schemas[name])))
	}
	document := object{
		member("openapi", "3.1.0"),
		member("info", object{member("title", t.Title), member("version", "1"),
			member("license", object{member("name", "Apache-2.0"),
				member("identifier", "Apache-2.0")}),
			member("description", t.About+"\n\n"+fmt.Sprintf(promise, t.MaxBody))}),
		member("servers", []object{{member("url", "http://127.0.0.1:8080")}}),
	}
	components := object{member("schemas", schemas)}
	if t.Token != nil { // a server without a token requires none
		document = append(document, member("security",
			[]object{{member("token", []string{})}, {}}))
		components = append(components, member("securitySchemes", object{
			member("token", object{member("type", "http"), member("scheme", "bearer")})}))
	}
	document = append(document, member("paths", paths), member("components", components))
	text, err := yaml.MarshalWithOptions(document, yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		panic(fmt.Sprintf("api: describing %s: %v", t.System, err))
	}
	return text
}

// description collects the schemas that a description refers to.
type description struct {
	builder schema.Builder
	schemas map[string]schema.Schema
}

// of is the schema of a type, a reference if the type has a name. What servers answer may
// have more fields than are known, what they are asked may not.
func (d *description) of(t reflect.Type, open bool) any {
	d.builder.Open = open
	s, err := d.builder.Of(reflect.Zero(t))
	if err != nil {
		panic(err)
	}
	return plainMaps(s)
}

// plainMaps turns a schema into what YAML writes in alphabetical order.
func plainMaps(s schema.Schema) any {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var out any
	if err := yaml.UnmarshalWithOptions(text, &out, yaml.UseOrderedMap()); err != nil {
		panic(err)
	}
	return out
}

// addMethod adds a method to a path.
func addMethod(paths object, path, method string, operation object) object {
	entry := member(strings.ToLower(method), operation)
	for i, p := range paths {
		if p.Key == path {
			paths[i].Value = append(p.Value.(object), entry)
			return paths
		}
	}
	return append(paths, member(path, object{entry}))
}

// describe describes a route of a kind.
func (t *Table[S]) describe(about About, request, reply *shape, d *description) object {
	out := object{member("operationId", about.ID), member("summary", about.Summary)}
	if about.Detail != "" {
		out = append(out, member("description", about.Detail))
	}
	if list := parameters(request); len(list) > 0 {
		out = append(out, member("parameters", list))
	}
	problems := []error{}
	if request.refuses() {
		problems = append(problems, ErrBadRequest)
	}
	if request.wire != nil {
		out = append(out, member("requestBody", object{member("required", true),
			member("content", jsonContent(d.of(request.typ, false)))}))
		problems = append(problems, ErrTooLarge)
	}
	problems = slices.Concat(problems, t.closed(), t.refusals(about), []error{sut.ErrRefused,
		ErrUnknownEffect})
	success := object{member("description", about.Reply)}
	if !reply.empty() && about.Status != http.StatusNoContent {
		if heads := headers(reply); len(heads) > 0 {
			success = append(success, member("headers", heads))
		}
		success = append(success, member("content", jsonContent(d.of(reply.typ, true))))
	}
	answers := t.answers(about.Status, success, problems)
	for _, f := range reply.fields {
		if f.in == inStatus {
			answers = slices.Insert(answers, 1, member(fmt.Sprint(f.status),
				object{member("description", f.doc), member("headers", headers(reply))}))
		}
	}
	return append(out, member("responses", answers))
}

// headers are the fields of a reply that are in its head.
func headers(s *shape) (out object) {
	for _, f := range s.fields {
		if f.in != inHeader {
			continue
		}
		scalar, err := schema.Scalar(f.typ, f.bounds)
		if err != nil {
			panic(err)
		}
		out = append(out, member(f.header, object{member("description", f.doc),
			member("schema", plainMaps(scalar))}))
	}
	return out
}

// closed is the problem of a request without the token, if there is one.
func (t *Table[S]) closed() []error {
	if t.Token == nil {
		return nil
	}
	return []error{ErrUnauthorized}
}

// refusals are the system's own problems in which an operation may end.
func (t *Table[S]) refusals(about About) []error {
	if about.Refuses != nil {
		return about.Refuses
	}
	all := make([]error, len(t.Problems))
	for i, p := range t.Problems {
		all[i] = p.Is
	}
	return all
}

// parameters are the fields of a request that are not in its body.
func parameters(s *shape) (list []object) {
	for _, f := range s.fields {
		if f.in == inBody {
			continue
		}
		p := object{member("name", f.name), member("in", map[place]string{inPath: "path",
			inQuery: "query", inHeader: "header"}[f.in])}
		if f.in == inPath || !f.optional {
			p = append(p, member("required", true))
		}
		if f.doc != "" {
			p = append(p, member("description", f.doc))
		}
		s, err := schema.Scalar(f.typ, f.bounds)
		if err != nil {
			panic(err)
		}
		if f.absent != "" {
			value := reflect.New(f.typ).Elem()
			if err := parse(value, f.absent); err != nil {
				panic(err)
			}
			s["default"] = value.Interface()
		}
		list = append(list, append(p, member("schema", plainMaps(s))))
	}
	return list
}

func jsonContent(s any) object {
	return object{member("application/json", object{member("schema", s)})}
}

// answers are the responses of a route: its success, and its problems by status.
func (t *Table[S]) answers(status int, success object, problems []error) object {
	out := object{member(fmt.Sprint(status), success)}
	texts := map[int][]string{}
	all := t.problems()
	for _, problem := range problems {
		i := slices.IndexFunc(all, func(p Problem) bool {
			return errors.Is(p.Is, problem) && errors.Is(problem, p.Is)
		})
		if i < 0 {
			panic(fmt.Sprintf("api: %s does not document %v", t.System, problem))
		}
		text := all[i].code() + " (" + sut.Reason(problem) + ")"
		texts[all[i].Status] = append(texts[all[i].Status], text)
	}
	for _, status := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, member(fmt.Sprint(status), object{
			member("description", strings.Join(texts[status], ", ")),
			member("content", jsonContent(object{member("$ref", "#/components/schemas/Failure")}))}))
	}
	return out
}

// control is a route that every API has.
type control struct {
	path, method, id, summary, detail string
	request                           reflect.Type // nil if there is no body
	open                              bool         // to everybody, where others want a token
	answers                           object
}

// control lists them.
func (t *Table[S]) control(d *description) []control {
	answers := func(status int, reply string, content any, problems ...error) object {
		success := object{member("description", reply)}
		if content != nil {
			success = append(success, member("content", content))
		}
		if len(problems) > 0 {
			problems = append(problems, t.closed()...)
		}
		return t.answers(status, success, problems)
	}
	// plainObject is a body of these members, the first of which is always there.
	plainObject := func(first string, members schema.Schema) any {
		return jsonContent(plainMaps(schema.Schema{"type": "object", "required": []string{first},
			"properties": members}))
	}
	return []control{
		{path: routeReset, method: http.MethodPost, id: "reset", summary: t.ResetMeans,
			request: reflect.TypeOf(t.Reset), answers: answers(http.StatusNoContent, "It is done.", nil,
				ErrBadRequest, ErrInUse, ErrTooLarge, sut.ErrRefused, ErrUnknownEffect)},
		{path: routeAudit, method: http.MethodGet, id: "audit",
			summary: "Read everything that is to be judged.",
			answers: answers(http.StatusOK, "The final truth.",
				jsonContent(d.of(reflect.TypeOf(t.Audit), true)), sut.ErrRefused, ErrUnknownEffect)},
		{path: routePending, method: http.MethodGet, id: "pending",
			summary: "Say what background work is left.", detail: t.PendingMeans,
			answers: answers(http.StatusOK, "What is left, or an empty text.",
				plainObject("pending", schema.Schema{"pending": schema.Schema{"type": "string"},
					"left": schema.Schema{"type": "integer", "format": "int64",
						"description": "How much that is, if the server counts it."}}),
				sut.ErrRefused, ErrUnknownEffect, ErrNoRoute)},
		{path: routeHealth, method: http.MethodGet, id: "health",
			open: t.Token != nil, summary: "Say that the server answers.",
			answers: answers(http.StatusOK, "It does.",
				plainObject("status", schema.Schema{"status": schema.Schema{"const": "ok"}}))},
		{path: routeMetrics, method: http.MethodGet, id: "metrics",
			open: t.Token != nil, summary: "Counters and latencies in the OpenMetrics text format.",
			answers: answers(http.StatusOK, "The metrics.",
				object{member("application/openmetrics-text", object{})})},
	}
}

func (c control) describe(d *description) object {
	out := object{member("operationId", c.id), member("summary", c.summary)}
	if c.detail != "" {
		out = append(out, member("description", c.detail))
	}
	if c.open {
		out = append(out, member("security", []object{}))
	}
	if c.request != nil {
		out = append(out, member("requestBody", object{member("required", true),
			member("content", jsonContent(d.of(c.request, false)))}))
	}
	return append(out, member("responses", c.answers))
}
