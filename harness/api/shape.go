package api

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/history"
)

// shape is what the tags of a request or a reply say; see Op.
type shape struct {
	typ    reflect.Type
	fields []field
	// bounds checks what is not a parameter; nil of a list.
	bounds *bounds.Checker
	// wire has a pointer for each field of the body, so that what is missing can be told from
	// what is zero. It is nil if there is no body, or if all of it is a list.
	wire reflect.Type
	// kept has the fields that a history keeps as JSON; nil if there are none.
	kept reflect.Type
	// signed says that a field is the sign of the argument, encodes that the type encodes what
	// a history keeps itself, apart that a field is in the head of an answer.
	signed, encodes, apart bool
	headers                []string // that hold fields
}

// field is one field of a shape.
type field struct {
	index []int
	typ   reflect.Type
	// name is the one on the wire, in is where that is.
	name string
	in   place
	// header is the one of HTTP that holds it, status that of an answer of which it is true.
	header string
	status int
	// optional may be left out; absent is what a parameter is then.
	optional bool
	absent   string
	bounds   bounds.Field
	// role is where a history keeps it, prefix what a number's name there begins with.
	role, prefix string
	doc          string
	// repeats is the role of the field of the request that a reply repeats, echo that field.
	repeats string
	echo    []int
}

// of is the field's value in a structure.
func (f *field) of(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

// isKept says whether a history keeps the field as JSON: it has no place of its own, and is no
// repetition of what was asked.
func (f field) isKept() bool { return f.role == "" && f.repeats == "" }

// place is where in a request a field is.
type place uint8

const (
	inBody place = iota
	inPath
	inQuery
	inHeader
	inStatus
)

// shapeOf reads the tags of a request.
func shapeOf[Req any](method, path string) *shape {
	s := newShape(reflect.TypeFor[Req]())
	for _, f := range s.fields {
		if f.in == inPath && !strings.Contains(path, "{"+f.name+"}") {
			panic(fmt.Sprintf("api: %s: the route %s has no {%s}", s.typ, path, f.name))
		}
		if f.in == inBody && method == "GET" {
			panic(fmt.Sprintf("api: %s: %s is in the body of a GET", s.typ, f.name))
		}
	}
	return s
}

// replyOf reads the tags of a reply.
func replyOf[Resp any]() *shape { return newShape(reflect.TypeFor[Resp]()) }

func newShape(t reflect.Type) *shape {
	s := &shape{typ: t}
	if t.Kind() != reflect.Struct {
		return s
	}
	s.bounds = bounds.For(t)
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		if read, has := fieldOf(f); has {
			s.fields = append(s.fields, read)
			s.signed = s.signed || read.role == "sign"
			s.apart = s.apart || read.in == inHeader || read.in == inStatus
			if read.in == inHeader {
				s.headers = append(s.headers, read.header)
			}
		}
	}
	s.wire = s.pointers(func(f field) bool { return f.in == inBody })
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[encoding.BinaryAppender]()) &&
		p.Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]()) {
		s.encodes = true
		return s
	}
	s.kept = s.pointers(field.isKept)
	return s
}

func fieldOf(f reflect.StructField) (out field, has bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	out = field{index: f.Index, typ: f.Type, name: name, bounds: bounds.Of(f),
		optional: strings.Contains(options, "omit"), doc: f.Tag.Get("doc")}
	out.role, out.prefix, _ = strings.Cut(f.Tag.Get("op"), ",")
	if out.role == "sign" && f.Type.Kind() != reflect.Bool ||
		out.role == "id" && f.Type.Kind() != reflect.Uint64 {
		panic(fmt.Sprintf("api: %s is a %s, which is no %s", f.Name, f.Type, out.role))
	}
	out.repeats = f.Tag.Get("echo")
	if text, has := f.Tag.Lookup("default"); has {
		out.optional, out.absent = true, text
	}
	for tag, in := range map[string]place{"path": inPath, "query": inQuery} {
		if param, has := f.Tag.Lookup(tag); has {
			if name != "-" {
				panic(fmt.Sprintf("api: %s is a parameter: its json must be \"-\"", f.Name))
			}
			out.name, out.in = param, in
		}
	}
	if text, has := f.Tag.Lookup("status"); has {
		out.in, out.optional = inStatus, true
		out.status, _ = strconv.Atoi(text)
		if f.Type.Kind() != reflect.Bool || out.status == 0 {
			panic(fmt.Sprintf("api: %s says whether the status is %q", f.Name, text))
		}
	}
	if out.header = f.Tag.Get("header"); out.header != "" {
		out.in, out.optional = inHeader, true
		if name == "-" { // in a request, which names it so everywhere
			out.name = out.header
		}
	}
	return out, out.name != "-"
}

// pointers makes a structure of pointers to some of the fields, nil if there are none.
func (s *shape) pointers(of func(field) bool) reflect.Type {
	var list []reflect.StructField
	for i, f := range s.fields {
		if of(f) {
			list = append(list, reflect.StructField{Name: "F" + strconv.Itoa(i),
				Type: reflect.PointerTo(f.typ),
				Tag:  reflect.StructTag(`json:"` + f.name + `,omitempty"`)})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return reflect.StructOf(list)
}

// empty says whether there is nothing to read or to write.
func (s *shape) empty() bool { return s.typ.Kind() == reflect.Struct && len(s.fields) == 0 }

// refuses says whether there is anything that a request may say wrongly.
func (s *shape) refuses() bool {
	_, checks := reflect.New(s.typ).Interface().(interface{ Check() error })
	return checks || s.wire != nil || slices.ContainsFunc(s.fields, func(f field) bool {
		return f.typ.Kind() != reflect.String || f.bounds.HasMin || f.bounds.HasMax ||
			f.bounds.Enum != nil
	})
}

// whole says whether a history keeps all of it as JSON: a list, or a structure of which not
// everything has a place of its own.
func (s *shape) whole() bool { return s.typ.Kind() != reflect.Struct || s.kept != nil }

// echoes finds what the fields of a reply repeat of a request.
func (s *shape) echoes(request *shape) {
	for i, f := range s.fields {
		if f.repeats == "" {
			continue
		}
		at := slices.IndexFunc(request.fields, func(r field) bool {
			return r.typ == f.typ && r.role == f.repeats
		})
		if at < 0 {
			panic(fmt.Sprintf("api: %s: %s repeats nothing of %s", s.typ, f.name, request.typ))
		}
		s.fields[i].echo = request.fields[at].index
	}
}

// read fills v from a body. What is missing, or in strict reading unknown, is an error.
func (s *shape) read(body io.Reader, v reflect.Value, strict bool) error {
	into := v.Addr().Interface()
	if s.wire != nil {
		into = reflect.New(s.wire).Interface()
	}
	dec := json.NewDecoder(body)
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, extra := dec.Token(); extra != io.EOF {
		return errors.Join(extra, errors.New("there is more than one JSON value"))
	}
	if s.wire == nil {
		return nil
	}
	return s.fill(v, reflect.ValueOf(into).Elem(), func(f field) bool { return f.in == inBody })
}

// fill copies what pointers made into v.
func (s *shape) fill(v, from reflect.Value, of func(field) bool) error {
	next := 0
	var errs []error
	for _, f := range s.fields {
		if !of(f) {
			continue
		}
		p := from.Field(next)
		next++
		switch {
		case !p.IsNil():
			v.FieldByIndex(f.index).Set(p.Elem())
		case !f.optional:
			errs = append(errs, fmt.Errorf("%s: it is missing", f.name))
		}
	}
	return errors.Join(errs...)
}

// readParameters fills v from the wildcards, the query and the head of a request.
func (s *shape) readParameters(
	v reflect.Value, path func(string) string, query url.Values, header func(string) string,
) error {
	var errs []error
	for _, f := range s.fields {
		text := ""
		switch f.in {
		case inBody, inStatus:
			continue
		case inPath:
			text = path(f.name)
		case inQuery:
			text = query.Get(f.name)
		case inHeader:
			text = header(f.header)
		}
		if text == "" && f.optional {
			text = f.absent
		}
		if text == "" && f.typ.Kind() != reflect.String {
			if !f.optional {
				errs = append(errs, fmt.Errorf("%s: it is missing", f.name))
			}
			continue
		}
		value := v.FieldByIndex(f.index)
		if err := parse(value, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		} else if want := f.bounds.Unmet(value); want != "" {
			errs = append(errs, fmt.Errorf("%s: expected %s", f.name, want))
		}
	}
	return errors.Join(errs...)
}

// parse reads a value from a text.
func parse(v reflect.Value, text string) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
		return nil
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("expected a number, got %.20q", text)
		}
		v.SetUint(n)
		return nil
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("expected a number, got %.20q", text)
		}
		v.SetInt(n)
		return nil
	}
	panic(fmt.Sprintf("api: %s cannot be a parameter", v.Type()))
}

// textOf is the reverse of parse.
func textOf(v reflect.Value) string {
	switch {
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	}
	return v.String()
}

// target is the path and query that hold the parameters of a request.
func (s *shape) target(path string, v reflect.Value) string {
	query := url.Values{}
	for _, f := range s.fields {
		switch text := textOf(v.FieldByIndex(f.index)); f.in {
		case inPath:
			path = strings.Replace(path, "{"+f.name+"}", url.PathEscape(text), 1)
		case inQuery:
			if !f.optional || text != f.absent && !v.FieldByIndex(f.index).IsZero() {
				query.Set(f.name, text)
			}
		case inBody, inHeader, inStatus:
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// eachHeader shows the headers that hold fields of v, but for those that would be empty.
func (s *shape) eachHeader(v reflect.Value, show func(name, text string)) {
	for i := range s.fields {
		if f := &s.fields[i]; f.in == inHeader && !f.of(v).IsZero() {
			show(f.header, textOf(f.of(v)))
		}
	}
}

// readHead fills v from the status and the headers of an answer.
func (s *shape) readHead(v reflect.Value, status int, headers map[string]string) error {
	for i := range s.fields {
		f := &s.fields[i]
		switch text := headers[f.header]; {
		case f.in == inStatus:
			f.of(v).SetBool(status == f.status)
		case f.in == inHeader && text != "":
			if err := parse(f.of(v), text); err != nil {
				return fmt.Errorf("%s: %w", f.header, err)
			}
		}
	}
	return nil
}

// bodiless says whether an answer with a status has no body, as a field of it says.
func (s *shape) bodiless(status int) bool {
	return slices.ContainsFunc(s.fields, func(f field) bool {
		return f.in == inStatus && f.status == status
	})
}

// record writes a request into an operation.
func (s *shape) record(v reflect.Value, op *history.Op) error {
	negative := false
	for i := range s.fields {
		f := &s.fields[i]
		value := f.of(v)
		switch f.role {
		case "id":
			op.ID = value.Uint()
		case "key":
			op.Key = f.named(value)
		case "client":
			op.Client = f.named(value)
		case "arg":
			op.Arg = small(value)
		case "sign":
			negative = !value.Bool()
		}
	}
	if negative {
		op.Arg = -op.Arg
	}
	var err error
	op.Body, err = s.keep(v)
	return err
}

// keep encodes what has no place of its own in a history, nil if that is nothing.
func (s *shape) keep(v reflect.Value) ([]byte, error) {
	if s.encodes {
		return v.Addr().Interface().(encoding.BinaryAppender).AppendBinary(nil)
	}
	if s.kept == nil {
		return nil, nil
	}
	kept, next := reflect.New(s.kept).Elem(), 0
	for _, f := range s.fields {
		if f.isKept() {
			kept.Field(next).Set(v.FieldByIndex(f.index).Addr())
			next++
		}
	}
	return json.Marshal(kept.Interface())
}

// restore reads what record writes.
func (s *shape) restore(op history.Op, v reflect.Value) (err error) {
	negative := op.Arg < 0
	for i := range s.fields {
		f := &s.fields[i]
		value := f.of(v)
		switch f.role {
		case "id":
			value.SetUint(op.ID)
		case "key":
			err = errors.Join(err, f.unname(value, op.Key))
		case "client":
			err = errors.Join(err, f.unname(value, op.Client))
		case "arg":
			if s.signed {
				op.Arg = max(op.Arg, -op.Arg)
			}
			setSmall(value, op.Arg)
		case "sign":
			value.SetBool(!negative)
		}
	}
	if err != nil {
		return err
	}
	if s.encodes {
		return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(op.Body)
	}
	if s.kept == nil {
		return nil
	}
	kept := reflect.New(s.kept)
	if err := json.Unmarshal(op.Body, kept.Interface()); err != nil {
		return fmt.Errorf("the body of a %s: %w", op.Kind, err)
	}
	return s.fill(v, kept.Elem(), field.isKept)
}

// named is how a history calls a value: by its text, or by a prefix and its number.
func (f *field) named(v reflect.Value) string { return f.prefix + textOf(v) }

// unname reads what named writes.
func (f *field) unname(v reflect.Value, name string) error {
	if f.typ.Kind() == reflect.String { // as it came; how long it may be is for who is asked
		v.SetString(name)
		if name == "" && f.bounds.HasMin {
			return fmt.Errorf("%s: it is missing", f.name)
		}
		return nil
	}
	text, found := strings.CutPrefix(name, f.prefix)
	err := parse(v, text)
	if !found || err != nil || f.bounds.Unmet(v) != "" {
		return fmt.Errorf("expected a name such as %s1, got %.40q", f.prefix, name)
	}
	return nil
}

// small is a value as a number: milliseconds of Unix time, 1 for true, or how many elements
// there are.
func small(v reflect.Value) int64 {
	switch {
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	case v.Kind() == reflect.Slice:
		return int64(v.Len())
	case v.Type() == reflect.TypeFor[time.Time]():
		return v.Interface().(time.Time).UnixMilli()
	}
	return 0
}

// setSmall is the reverse of small.
func setSmall(v reflect.Value, n int64) {
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(n != 0)
	case v.CanInt():
		v.SetInt(n)
	case v.CanUint():
		v.SetUint(uint64(n))
	default:
		v.Set(reflect.ValueOf(time.UnixMilli(n).UTC()))
	}
}

// recordReply makes what a history keeps of a reply. The value of a list is how many elements
// it has.
func (s *shape) recordReply(v reflect.Value) (reply history.Reply, err error) {
	if v.Kind() == reflect.Slice {
		reply.Value = int64(v.Len())
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	}
	for i := range s.fields {
		f := &s.fields[i]
		switch value := f.of(v); f.role {
		case "key":
			reply.Key = f.named(value)
		case "value":
			reply.Value = small(value)
		}
	}
	if s.whole() {
		reply.Body, err = json.Marshal(v.Interface())
	}
	return reply, err
}

// answer is a reply as HTTP has it; a nil body is none, and a status of 0 the usual one.
type answer struct {
	status int
	header http.Header
	body   any
}

// restoreReply makes the answer to a request of what recordReply makes.
func (s *shape) restoreReply(reply history.Reply, req reflect.Value) (out answer, err error) {
	switch {
	case s.empty():
		return out, nil
	case s.apart:
		v := reflect.New(s.typ)
		err := json.Unmarshal(reply.Body, v.Interface())
		return s.inParts(v.Elem()), err
	case s.whole():
		return answer{body: json.RawMessage(reply.Body)}, nil
	}
	v := reflect.New(s.typ).Elem()
	for i := range s.fields {
		f := &s.fields[i]
		switch value := f.of(v); f.role {
		case "key":
			_ = f.unname(value, reply.Key) // the instance's own name for it
		case "value":
			setSmall(value, reply.Value)
		}
		if f.echo != nil {
			f.of(v).Set(req.FieldByIndex(f.echo))
		}
	}
	return answer{body: v.Interface()}, nil
}

// inParts is the head of an answer, and a body of the rest.
func (s *shape) inParts(v reflect.Value) (out answer) {
	body, next := reflect.New(s.wire).Elem(), 0
	for i := range s.fields {
		switch f := &s.fields[i]; f.in {
		case inStatus:
			if f.of(v).Bool() {
				out.status = f.status
			}
		case inBody:
			body.Field(next).Set(f.of(v).Addr())
			next++
		case inHeader, inPath, inQuery:
		}
	}
	s.eachHeader(v, func(name, text string) {
		if out.header == nil {
			out.header = http.Header{}
		}
		out.header.Set(name, text)
	})
	if out.status == 0 {
		out.body = body.Interface()
	}
	return out
}
