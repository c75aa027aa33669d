package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Table describes the API of a system whose domain interface is S, once. What performs
// operations in process, the server, the client and the description in OpenAPI are made of
// it.
type Table[S any] struct {
	// System names the system, Title and About are for people.
	System, Title, About string
	Kinds                []Kind[S]
	// Problems are the documented problems of the system's own.
	Problems []Problem
	// MaxBody bounds what a request may send, in bytes.
	MaxBody int64
	// Begin makes the body of a reset of the system's parameters: a structure of the type of
	// Reset, whose tags are those of a request. A server of an instance accepts just that.
	Begin func(params any) (any, error)
	Reset any
	// ResetMeans and PendingMeans say for people what a reset does, and what follows for a
	// server that does not say what is left to do.
	ResetMeans, PendingMeans string
	// Audit is a value of the audit's type, and Types are the JSON Schemas of types that
	// encode themselves.
	Audit any
	Types map[reflect.Type]map[string]any
	// AtRest asks a server that does not say what is left to do in another way; nil takes it
	// to have no background work.
	AtRest func(ctx context.Context, c *Client) (pending string, err error)
	// Metrics, if set, says what an instance adds to the metrics; it may return nil.
	Metrics func(sut.Instance) func(io.Writer)
}

// kind finds a kind by its name.
func (t *Table[S]) kind(name string) (*Kind[S], error) {
	for i := range t.Kinds {
		if t.Kinds[i].Name == name {
			return &t.Kinds[i], nil
		}
	}
	return nil, fmt.Errorf("there is no operation kind %q: %w", name, sut.ErrRefused)
}

// Own lists the problems of the system's own.
func (t *Table[S]) Own() []Problem { return t.Problems }

// Names lists the kinds.
func (t *Table[S]) Names() []string {
	names := make([]string, len(t.Kinds))
	for i, k := range t.Kinds {
		names[i] = k.Name
	}
	return names
}

// Do performs an operation in process. What cannot be understood is refused.
func (t *Table[S]) Do(ctx context.Context, s S, op history.Op) (history.Reply, error) {
	k, err := t.kind(op.Kind)
	if err != nil {
		return history.Reply{}, err
	}
	req, err := k.requestOf(op)
	if err != nil {
		return history.Reply{}, err
	}
	reply, err := k.call(ctx, s, req.Addr().Interface())
	if err != nil {
		return history.Reply{}, err
	}
	return k.reply.recordReply(reflect.ValueOf(reply).Elem())
}

// Op makes the operation of a kind that a request is. An unknown kind, and a request of
// another type, are defects: it panics.
func (t *Table[S]) Op(kind string, request any) history.Op {
	k, err := t.kind(kind)
	if err != nil {
		panic(err)
	}
	op, err := k.opOf(reflect.ValueOf(request))
	if err != nil {
		panic(err) // numbers and texts
	}
	return op
}

// Asked returns a pointer to the request of an operation.
func (t *Table[S]) Asked(op history.Op) (request any, err error) {
	k, err := t.kind(op.Kind)
	if err != nil {
		return nil, err
	}
	req, err := k.requestOf(op)
	return req.Addr().Interface(), err
}

// requestOf reads the request of an operation.
func (k *Kind[S]) requestOf(op history.Op) (reflect.Value, error) {
	req := reflect.New(k.request.typ).Elem()
	if err := k.request.restore(op, req); err != nil {
		return req, fmt.Errorf("%w: %w", err, sut.ErrRefused)
	}
	return req, nil
}

func (k *Kind[S]) opOf(request reflect.Value) (history.Op, error) {
	req := reflect.New(k.request.typ).Elem() // whose fields have addresses
	req.Set(request)
	op := history.Op{Kind: k.Name}
	return op, k.request.record(req, &op)
}

// problems are all that the API documents.
func (t *Table[S]) problems() Problems { return Documented(t.Problems...) }

// Handler serves an instance over the API. A reset that asks for anything but what the
// parameters of cfg say is refused, because the instance was opened for these. Requests are
// bounded in size and, by cfg.Timeout, in time; listening, limits on connections and shutting
// down belong to the caller.
func (t *Table[S]) Handler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	begin, err := t.Begin(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("%s handler: %w", t.System, err)
	}
	spec := Spec{System: t.System, Kinds: t.Names(), Problems: t.problems(), MaxBody: t.MaxBody,
		Timeout: stores.Timeout(cfg), Reset: resetTo(begin)}
	if t.Metrics != nil {
		spec.Metrics = t.Metrics(inst)
	}
	server, routes := NewServer(inst, spec), map[string]Methods{}
	for i := range t.Kinds {
		k := &t.Kinds[i]
		if routes[k.path] == nil {
			routes[k.path] = Methods{}
		}
		routes[k.path][k.method] = k.serve(server)
	}
	return server.Handler(routes), nil
}

// serve answers requests of a kind.
func (k *Kind[S]) serve(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Operation(w, r, k.Name, func(body io.Reader) (history.Op, error) {
			return k.read(r, body)
		}, func(reply history.Reply) (int, any) {
			return k.about.Status, k.reply.restoreReply(reply)
		})
	}
}

// read reads the operation that a request asks for, strictly.
func (k *Kind[S]) read(r *http.Request, body io.Reader) (history.Op, error) {
	req := reflect.New(k.request.typ)
	var err error
	if k.request.wire != nil {
		err = k.request.read(body, req.Elem(), true)
	}
	if err == nil {
		err = k.request.readParameters(req.Elem(), r.PathValue, r.URL.Query())
	}
	if err == nil {
		err = k.request.sound(req.Interface())
	}
	if err != nil {
		return history.Op{}, badRequest(err)
	}
	op, err := k.opOf(req.Elem())
	return op, err
}

// sound checks a request, given by a pointer.
func (s *shape) sound(request any) error {
	if err := s.bounds.Check(request); err != nil {
		return err
	}
	if c, can := request.(interface{ Check() error }); can {
		return c.Check()
	}
	return nil
}

// badRequest makes a documented problem of what is wrong with a request.
func badRequest(err error) error {
	if tooLarge, is := errors.AsType[*http.MaxBytesError](err); is {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, tooLarge.Limit)
	}
	//nolint:errorlint // a bad request, whatever else ended the reading
	return fmt.Errorf("%w: %v", ErrBadRequest, err)
}

// resetTo accepts a reset to just that beginning.
func resetTo(begin any) func(io.Reader) error {
	shape := newShape(reflect.TypeOf(begin))
	return ResetTo(begin, func(body io.Reader) (any, error) {
		req := reflect.New(shape.typ)
		err := shape.read(body, req.Elem(), true)
		if err == nil {
			err = shape.sound(req.Interface())
		}
		if err != nil {
			return nil, badRequest(err)
		}
		return req.Elem().Interface(), nil
	})
}

// Target makes an instance that speaks the API at baseURL, such as "http://127.0.0.1:8080",
// whoever wrote the server. It sends every request once: a request whose answer is lost has
// an unknown outcome, and what to do about it is for the workload to say.
//
// The parameters of cfg go into the reset; MaxConns and Timeout bound connections and
// operations. The certificate of an https server is verified with RootCAs, or else the
// system's. Nothing is sent until Prepare.
func (t *Table[S]) Target(baseURL string, cfg sut.Config) (sut.Instance, error) {
	begin, err := t.Begin(cfg.Params)
	if err == nil {
		cfg.Timeout = stores.Timeout(cfg)
		var client *Client
		if client, err = NewClient(baseURL, cfg, t.problems()); err == nil {
			return &remote[S]{Client: client, table: t, begin: begin}, nil
		}
	}
	return nil, fmt.Errorf("%s target: %w", t.System, err)
}

// remote is an instance somewhere else.
type remote[S any] struct {
	*Client
	table *Table[S]
	begin any
}

// Prepare asks the server to begin anew.
func (r *remote[S]) Prepare(ctx context.Context) error { return r.Reset(ctx, r.begin) }

// Do sends one operation.
func (r *remote[S]) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	k, err := r.table.kind(op.Kind)
	if err != nil {
		return history.Reply{}, err
	}
	req, err := k.requestOf(op)
	if err != nil {
		return history.Reply{}, err
	}
	var body any
	if k.request.wire != nil {
		body = req.Addr().Interface()
	}
	text, err := r.Operate(ctx, k.method, k.request.target(k.path, req), body, k.about.Status)
	if err != nil || k.reply.empty() {
		return history.Reply{}, err
	}
	reply, err := k.believe(text, req)
	if err != nil {
		return history.Reply{}, fmt.Errorf("%w: the reply: %w", ErrUnknownEffect, err)
	}
	return k.reply.recordReply(reply)
}

// believe reads a reply, and returns an error unless it is one to the request.
func (k *Kind[S]) believe(text []byte, req reflect.Value) (reply reflect.Value, err error) {
	p := reflect.New(k.reply.typ)
	reply = p.Elem()
	if err := k.reply.read(bytes.NewReader(text), reply, false); err != nil {
		return reply, err
	}
	if k.reply.bounds != nil {
		if err := k.reply.bounds.Check(p.Interface()); err != nil {
			return reply, err
		}
	}
	for _, f := range k.reply.fields {
		if f.echo == nil {
			continue
		}
		asked, got := req.FieldByIndex(f.echo), reply.FieldByIndex(f.index)
		if !asked.Equal(got) {
			return reply, fmt.Errorf("asked for %s %v, it is about %v", f.name, asked, got)
		}
	}
	if c, can := p.Interface().(interface{ Check(request any) error }); can {
		return reply, c.Check(req.Addr().Interface())
	}
	return reply, nil
}

// Quiesced asks the server what is left to do.
func (r *remote[S]) Quiesced(ctx context.Context) (pending string, err error) {
	pending, err = r.Client.Quiesced(ctx)
	switch {
	case !errors.Is(err, ErrNoRoute):
		return pending, err
	case r.table.AtRest != nil:
		return r.table.AtRest(ctx, r.Client)
	}
	return "", nil
}
