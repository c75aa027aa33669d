package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"

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
	// Adopt, if set, applies the settings of a reset that an open instance can still change, and
	// returns the body without them.
	Adopt func(cfg sut.Config, asked any) (rest any, err error)
	// ResetMeans and PendingMeans say for people what a reset does, and what follows for a
	// server that does not say what is left to do.
	ResetMeans, PendingMeans string
	// Audit is a value of the audit's type, and Types are the JSON Schemas of types that
	// encode themselves.
	Audit any
	Types map[reflect.Type]map[string]any
	// Left finds out in another way what a server has left to do that does not say it itself:
	// how much, and what that is, "" for nothing. Nil takes the server to have no background
	// work.
	Left func(ctx context.Context, c *Client, params any) (left int64, what string, err error)
	// Token, if set, is what requests have to show by the parameters; "" for nothing.
	Token func(params any) string
	// Permit, if set, makes the Permit of the server of an instance with a token; it may return
	// nil.
	Permit func(inst sut.Instance, token string) Permit
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

// RequestOf is the request of an operation, whose kind must be one of requests of the type Req.
func RequestOf[Req, S any](t *Table[S], op history.Op) (req Req, err error) {
	asked, err := t.Asked(op)
	if err != nil {
		return req, err
	}
	return *asked.(*Req), nil
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

// problemsOf are those in which an operation of a kind may end.
func (t *Table[S]) problemsOf(k *Kind[S]) Problems {
	may := t.refusals(k.about)
	return Documented(slices.DeleteFunc(slices.Clone(t.Problems), func(p Problem) bool {
		return !slices.Contains(may, p.Is)
	})...)
}

// Handler serves an instance over the API. A reset that asks for anything but what the
// parameters of cfg say is refused, because the instance was opened for these. Requests are
// bounded in size and, by cfg.Timeout, in time; listening, limits on connections and shutting
// down belong to the caller.
func (t *Table[S]) Handler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	begin, err := t.Begin(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("%s handler: %w", t.System, err)
	}
	server := &server{inst: inst, problems: t.problems(), maxBody: t.MaxBody,
		timeout: stores.Timeout(cfg), begin: t.resetTo(cfg, begin), token: t.token(cfg)}
	server.metrics = newMetrics(t.System, t.Names(), server.problems)
	if t.Permit != nil {
		server.permit = t.Permit(inst, server.token)
	}
	if t.Metrics != nil {
		server.metrics.more = t.Metrics(inst)
	}
	routes := map[string]methods{}
	add := func(method, path string, serve http.HandlerFunc) {
		if routes[path] == nil {
			routes[path] = methods{}
		}
		if routes[path][method] != nil {
			panic(fmt.Sprintf("api: %s has two kinds at %s %s", t.System, method, path))
		}
		routes[path][method] = serve
	}
	for i := range t.Kinds {
		k := &t.Kinds[i]
		add(k.method, k.path, k.serve(server, k.about.Status, k.request,
			func(asked any) any { return asked }))
		for _, o := range k.others {
			add(o.method, o.path, k.serve(server, o.about.Status, o.request, o.as))
		}
	}
	return server.handler(routes), nil
}

// token is what requests have to show.
func (t *Table[S]) token(cfg sut.Config) string {
	if t.Token == nil {
		return ""
	}
	return t.Token(cfg.Params)
}

// serve answers requests of a shape, each of which asks for an operation of the kind.
func (k *Kind[S]) serve(
	s *server, status int, shape *shape, as func(asked any) (request any),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req reflect.Value
		s.operation(w, r, k.Name, func(body io.Reader) (history.Op, error) {
			asked, err := shape.ask(r, body)
			if err != nil {
				return history.Op{}, badRequest(err)
			}
			req = reflect.ValueOf(as(asked)).Elem()
			return k.opOf(req)
		}, func(reply history.Reply) (answer, error) {
			if status == http.StatusNoContent {
				return answer{status: status}, nil
			}
			out, err := k.reply.restoreReply(reply, req)
			out.status = cmp.Or(out.status, status)
			return out, err
		})
	}
}

// ask reads what a request asks for, strictly, and returns a pointer to it.
func (s *shape) ask(r *http.Request, body io.Reader) (any, error) {
	req := reflect.New(s.typ)
	var err error
	if s.wire != nil {
		err = s.read(body, req.Elem(), true)
	}
	if err == nil {
		err = s.readParameters(req.Elem(), r.PathValue, r.URL.Query(), r.Header.Get)
	}
	if err == nil {
		err = s.sound(req.Interface())
	}
	return req.Interface(), err
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
func (t *Table[S]) resetTo(cfg sut.Config, begin any) func(io.Reader) error {
	shape := newShape(reflect.TypeOf(begin))
	return func(body io.Reader) error {
		req := reflect.New(shape.typ)
		err := shape.read(body, req.Elem(), true)
		if err == nil {
			err = shape.sound(req.Interface())
		}
		if err != nil {
			return badRequest(err)
		}
		asked := req.Elem().Interface()
		if t.Adopt != nil {
			if asked, err = t.Adopt(cfg, asked); err != nil {
				return err
			}
		}
		if !reflect.DeepEqual(asked, begin) {
			return fmt.Errorf("%w: this server was opened for %+v, not for %+v", ErrInUse, begin, asked)
		}
		return nil
	}
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
			problems := map[string]Problems{}
			for i := range t.Kinds {
				problems[t.Kinds[i].Name] = t.problemsOf(&t.Kinds[i])
			}
			return &remote[S]{Client: client.WithToken(t.token(cfg)), table: t, params: cfg.Params,
				begin: begin, problems: problems}, nil
		}
	}
	return nil, fmt.Errorf("%s target: %w", t.System, err)
}
