package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// HandlerOf serves a domain over the API as Handler serves an instance, for a design that stands
// in front of another one, such as a cache does. It has nothing to prepare or to audit.
func (t *Table[S]) HandlerOf(domain S, cfg sut.Config) (http.Handler, error) {
	return t.Handler(&behind[S]{t, domain}, cfg)
}

// behind is an instance that is only asked to do operations.
type behind[S any] struct {
	table  *Table[S]
	domain S
}

var errBehind = errors.New("it is served behind another one")

func (b *behind[S]) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return b.table.Do(ctx, b.domain, op)
}
func (b *behind[S]) Prepare(context.Context) error                  { return errBehind }
func (b *behind[S]) Audit(context.Context) (json.RawMessage, error) { return nil, errBehind }
func (b *behind[S]) Close() error                                   { return nil }

// Via asks a handler in this process, as a client of the table asks a server: the request goes
// through HTTP, with its headers, and so does the answer. The kind must be one of requests of the
// type Req and of replies of the type Resp.
func Via[Req, Resp, S any](
	t *Table[S], kind string, h http.Handler,
) func(ctx context.Context, req Req) (Resp, error) {
	k, err := t.kind(kind)
	if err != nil {
		panic(err)
	}
	problems := t.problemsOf(k)
	return func(ctx context.Context, req Req) (resp Resp, err error) {
		r, asked, err := k.httpRequest(ctx, req)
		if err != nil {
			return resp, err
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !k.success(w.Code) {
			return resp, problems.errorOf(w.Code, w.Body.Bytes())
		}
		got := received{status: w.Code, body: w.Body.Bytes(), head: map[string]string{}}
		for _, name := range k.reply.headers {
			got.head[name] = strings.Join(w.Header().Values(name), ", ")
		}
		reply, err := k.believe(got, asked)
		if err != nil {
			return resp, fmt.Errorf("%w: the reply: %w", ErrUnknownEffect, err)
		}
		return reply.Interface().(Resp), nil
	}
}

// httpRequest makes a request of HTTP, and returns what it asks for as a value that has an address.
func (k *Kind[S]) httpRequest(
	ctx context.Context, request any,
) (r *http.Request, asked reflect.Value, err error) {
	asked = reflect.New(k.request.typ).Elem()
	asked.Set(reflect.ValueOf(request))
	var body io.Reader = http.NoBody
	if k.request.wire != nil {
		text, err := json.Marshal(request)
		if err != nil {
			return nil, asked, fmt.Errorf("encoding a request: %w: %w", sut.ErrRefused, err)
		}
		body = bytes.NewReader(text)
	}
	r, err = http.NewRequestWithContext(ctx, k.method, k.request.target(k.path, asked), body)
	if err != nil {
		return nil, asked, fmt.Errorf("making a request: %w: %w", sut.ErrRefused, err)
	}
	k.request.eachHeader(asked, r.Header.Set)
	return r, asked, nil
}

// Transport reaches a handler in this process.
func Transport(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ handler http.Handler }

// RoundTrip lets the handler answer. If it panics, as it would in a server of its own, there is no
// answer.
func (t inProcess) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, fmt.Errorf("answering %s: %v", r.URL.Path, p)
		}
	}()
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	if r.Body != nil {
		_ = r.Body.Close() // there is nothing to lose
	}
	resp = w.Result()
	resp.Request = r
	return resp, nil
}
