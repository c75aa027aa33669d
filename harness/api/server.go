package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// The routes that every API has.
const (
	routeReset   = "/v1/reset"
	routeAudit   = "/v1/audit"
	routePending = "/v1/pending"
	routeHealth  = "/healthz"
	routeMetrics = "/metrics"
)

// Permit says whether a request that shows a token, "" for none, is served, and in which
// context. An error is the answer: one that wraps ErrUnauthorized, as a rule.
type Permit func(r *http.Request, token string) (context.Context, error)

// Resetter is implemented by instances that can begin anew whatever happened
// before. Other instances can be reset once, before the first operation.
type Resetter interface {
	Reset(context.Context) error
}

// server answers requests with an instance. Listening, limits on connections and
// shutting down belong to the caller.
type server struct {
	inst     sut.Instance
	problems Problems
	// maxBody bounds what a request may send, in bytes, timeout an operation.
	maxBody int64
	timeout time.Duration
	// begin reads what a reset asks for; its errors are the answer.
	begin func(body io.Reader) error
	// token, if set, is what a request must show to be served, as "Authorization:
	// Bearer TOKEN"; permit, if set, is asked about each that does not show it, also where
	// there is none. Health and metrics are open to everybody.
	token   string
	permit  Permit
	metrics *metrics

	// lives lets operations share the instance and a reset have it alone.
	lives sync.RWMutex
}

// guard lets only those pass who show the token, if there is one, or are permitted.
// Comparing takes as long whatever they show.
func (s *server) guard(next http.Handler) http.Handler {
	if s.token == "" && s.permit == nil {
		return next
	}
	want := sha256.Sum256([]byte(bearer + s.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if s.token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		ctx, err := r.Context(), ErrUnauthorized
		if s.permit != nil {
			ctx, err = s.permit(r, shownToken(r))
		}
		if err == nil {
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if errors.Is(err, ErrUnauthorized) {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		s.fail(w, err)
	})
}

// bearer comes before a token.
const bearer = "Bearer "

// shownToken is the token that a request shows, "" if it has no Authorization.
func shownToken(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	return token
}

// methods are the handlers of a path by method.
type methods map[string]http.HandlerFunc

// handler serves the paths of a system's operations, which may be patterns of
// http.ServeMux without a method, and those that every API has.
func (s *server) handler(operations map[string]methods) http.Handler {
	mux := http.NewServeMux()
	guarded := maps.Clone(operations)
	guarded[routeReset] = methods{http.MethodPost: s.reset}
	guarded[routeAudit] = methods{http.MethodGet: s.audit}
	guarded[routePending] = methods{http.MethodGet: s.pending}
	for path, methods := range guarded {
		mux.Handle(path, s.guard(route{path, methods}))
	}
	for path, serve := range map[string]http.HandlerFunc{
		routeHealth: s.health, routeMetrics: s.metrics.ServeHTTP,
	} {
		mux.Handle(path, route{path, methods{http.MethodGet: serve}})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusNotFound, failure{"no_route", "there is no " + r.URL.Path})
	})
	return mux
}

// route is one path with its methods.
type route struct {
	path    string
	methods methods
}

// ServeHTTP answers the route's methods and refuses all others.
func (r route) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if serve := r.methods[method]; serve != nil {
		serve(w, req)
		return
	}
	allowed := strings.Join(slices.Sorted(maps.Keys(r.methods)), ", ")
	w.Header().Set("Allow", allowed)
	write(w, http.StatusMethodNotAllowed, failure{"bad_method",
		fmt.Sprintf("%s wants %s, got %s", r.path, allowed, req.Method)})
}

// operation does what all operations have in common: it reads one from the
// request's body, performs it, answers and counts. The kind is one of the spec's;
// result makes an answer of a reply.
func (s *server) operation(
	w http.ResponseWriter, r *http.Request, kind string,
	read func(body io.Reader) (history.Op, error), result func(history.Reply) (answer, error),
) {
	began := s.metrics.begin()
	op, err := read(http.MaxBytesReader(w, r.Body, s.maxBody))
	var reply history.Reply
	if err == nil {
		reply, err = s.perform(r.Context(), op)
	}
	var out answer
	if err == nil {
		out, err = result(reply)
	}
	if err != nil {
		s.metrics.end(kind, s.problems.of(err).code(), began)
		s.fail(w, err)
		return
	}
	s.metrics.end(kind, resultOK, began)
	maps.Copy(w.Header(), out.header)
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	write(w, out.status, out.body)
}

func (s *server) perform(ctx context.Context, op history.Op) (history.Reply, error) {
	s.lives.RLock()
	defer s.lives.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.inst.Do(ctx, op)
}

func (s *server) reset(w http.ResponseWriter, r *http.Request) {
	body := http.MaxBytesReader(w, r.Body, s.maxBody)
	err := s.begin(body)
	if err == nil {
		err = s.restart(r.Context())
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) restart(ctx context.Context) error {
	s.lives.Lock()
	defer s.lives.Unlock()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	if r, able := s.inst.(Resetter); able {
		return r.Reset(ctx)
	}
	return s.inst.Prepare(ctx)
}

func (s *server) audit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), controlTimeout)
	defer cancel()
	s.lives.RLock()
	defer s.lives.RUnlock()
	audit, err := s.inst.Audit(ctx)
	if err != nil {
		s.fail(w, err)
		return
	}
	write(w, http.StatusOK, audit)
}

// pending says what background work is left, if the instance knows.
func (s *server) pending(w http.ResponseWriter, r *http.Request) {
	q, knows := s.inst.(sut.Quiescer)
	if !knows {
		s.fail(w, fmt.Errorf("%w: this server does not know its pending work", ErrNoRoute))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
	defer cancel()
	text, err := q.Quiesced(ctx)
	if err != nil {
		s.fail(w, err)
		return
	}
	reply := pendingReply{Pending: text}
	if counts, knows := s.inst.(sut.Backlogger); knows && text != "" {
		left, err := counts.Backlog(ctx)
		if err != nil {
			s.fail(w, err)
			return
		}
		reply.Left = &left
	}
	write(w, http.StatusOK, reply)
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]string{"status": "ok"})
}

// fail answers with the problem that an error is.
func (s *server) fail(w http.ResponseWriter, err error) {
	p := s.problems.of(err)
	if later, knows := errors.AsType[RetryLater](err); knows {
		seconds := int64(math.Ceil(later.RetryAfter().Seconds()))
		w.Header().Set("Retry-After", strconv.FormatInt(max(1, seconds), 10))
	}
	write(w, p.Status, failure{p.code(), err.Error()})
}

// write answers with JSON. A client that is gone is not an error of ours.
func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status = http.StatusInternalServerError
		text = []byte(`{"code":"unknown_effect","error":"the reply cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
