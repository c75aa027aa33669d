package views

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeWatch     = "/watchtime"
	routeViews     = "/videos/{id}/views"
	routeRules     = "/v1/rules"
	routeReprocess = "/v1/reprocess"
	routeReset     = "/v1/reset"
	routeAudit     = "/v1/audit"
	routePending   = "/v1/pending"
	routeHealth    = "/healthz"
	routeMetrics   = "/metrics"
)

const (
	// maxRequestBody bounds what a request may send, in bytes.
	maxRequestBody = 1 << 20
	// controlTimeout bounds a reset and an audit, which touch every row.
	controlTimeout = 2 * time.Minute
)

// problem is a documented way in which a request can end without a result.
type problem struct {
	code   string
	status int
	// is the error on both sides of the wire: the handler finds the problem
	// by it, the client returns it.
	is error
}

// Errors that only the HTTP API has. Those that wrap sut.ErrRefused promise
// that nothing happened.
var (
	errBadRequest = fmt.Errorf("bad request: %w", sut.ErrRefused)
	errTooLarge   = fmt.Errorf("request too large: %w", sut.ErrRefused)
	errInUse      = fmt.Errorf("the views cannot be begun anew: %w", sut.ErrRefused)
	errNoRoute    = errors.New("no such route")
	errUnknown    = errors.New("the effect is unknown")
)

// problems lists the documented problems; the first that matches counts, so
// the general ones come last.
func problems() []problem {
	return []problem{
		{"unknown_video", http.StatusNotFound, ErrUnknownVideo},
		{"overloaded", http.StatusTooManyRequests, ErrOverloaded},
		{"in_use", http.StatusConflict, errInUse},
		{"bad_request", http.StatusBadRequest, errBadRequest},
		{"too_large", http.StatusRequestEntityTooLarge, errTooLarge},
		{"no_route", http.StatusNotFound, errNoRoute},
		{"refused", http.StatusServiceUnavailable, sut.ErrRefused},
		{"unknown_effect", http.StatusInternalServerError, errUnknown},
	}
}

// problemOf returns the problem that an error is; anything unforeseen has an
// unknown effect.
func problemOf(err error) problem {
	all := problems()
	for _, p := range all {
		if errors.Is(err, p.is) {
			return p
		}
	}
	return all[len(all)-1]
}

// failure is the body of every answer that is not a result.
type failure struct {
	Code  string `json:"code"`
	Error string `json:"error"`
}

// pendingReply is the body of the answer about what is left to do.
type pendingReply struct {
	Pending string `json:"pending"`
}

// heartbeatRequest is a heartbeat as players send it.
type heartbeatRequest struct {
	ID      uint64 `json:"event_id"`
	Video   string `json:"video_id"`
	User    string `json:"user_id"`
	Session string `json:"session_id"`
	// Timestamp is the event time, RFC 3339, to the millisecond.
	Timestamp time.Time `json:"timestamp"`
	// WatchDuration is how much has been watched so far, in seconds.
	WatchDuration float64 `json:"watch_duration"`
	Device        string  `json:"device"`
	IP            string  `json:"ip"`
}

func requestOf(h Heartbeat) heartbeatRequest {
	return heartbeatRequest{ID: h.ID, Video: h.Video, User: h.User, Session: h.Session,
		Timestamp:     time.UnixMilli(h.TimeMS).UTC(),
		WatchDuration: float64(h.WatchedMS) / 1000, Device: h.Device, IP: h.IP}
}

func (r heartbeatRequest) heartbeat() Heartbeat {
	return Heartbeat{ID: r.ID, Video: r.Video, User: r.User, Session: r.Session, IP: r.IP,
		Device: r.Device, TimeMS: r.Timestamp.UnixMilli(),
		WatchedMS: int64(math.Round(r.WatchDuration * 1000))}
}

// positionReply, versionReply and generationReply are bodies of answers.
type positionReply struct {
	Position string `json:"position"`
}

type versionReply struct {
	Version int64 `json:"version"`
}

type generationReply struct {
	Generation int64 `json:"generation"`
}

// ResetRequest asks for an empty log, with videos named video-1, video-2 and so
// on, made by creator-1, creator-2 and so on.
type ResetRequest struct {
	Videos        int   `json:"videos"`
	CountWindowMS int64 `json:"count_window_ms"`
	Rules         Rules `json:"rules"`
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest {
	return ResetRequest{Videos: p.Videos, CountWindowMS: p.CountWindow.D().Milliseconds(),
		Rules: p.rules()}
}

// NewHandler serves an instance over the HTTP API that openapi.yaml
// describes. The parameters of cfg must be a *Params or Params; a reset that
// asks for anything else is refused, because the instance was opened for these.
// Requests are bounded in size and, by cfg.Timeout, in time; listening, limits on
// connections and shutting down belong to the caller.
func NewHandler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("views handler: %w", err)
	}
	s := &server{inst: inst, begin: resetOf(p), timeout: timeout(cfg), metrics: newMetrics()}
	mux := http.NewServeMux()
	for path, methods := range s.routes() {
		mux.Handle(path, route{path, methods})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusNotFound, failure{"no_route", "there is no " + r.URL.Path})
	})
	return mux, nil
}

type server struct {
	inst    sut.Instance
	begin   ResetRequest
	timeout time.Duration
	metrics *metrics

	// lives lets operations share the log and a reset have it alone.
	lives sync.RWMutex
}

// route is one path with its methods.
type route struct {
	path    string
	methods map[string]http.HandlerFunc
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
	write(w, http.StatusMethodNotAllowed,
		failure{"bad_method", fmt.Sprintf("%s wants %s, got %s", r.path, allowed, req.Method)})
}

func (s *server) routes() map[string]map[string]http.HandlerFunc {
	type methods = map[string]http.HandlerFunc
	return map[string]methods{
		routeWatch:     {http.MethodPost: s.watch},
		routeViews:     {http.MethodGet: s.views},
		routeRules:     {http.MethodPut: s.rules},
		routeReprocess: {http.MethodPost: s.reprocess},
		routeReset:     {http.MethodPost: s.reset},
		routeAudit:     {http.MethodGet: s.audit},
		routePending:   {http.MethodGet: s.pending},
		routeHealth:    {http.MethodGet: s.health},
		routeMetrics:   {http.MethodGet: s.metrics.ServeHTTP},
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	s.operation(w, r, KindHeartbeat, func(body io.Reader) (history.Op, error) {
		req, err := decodeBody[heartbeatRequest](body)
		if err != nil {
			return history.Op{}, err
		}
		h := req.heartbeat()
		if text := h.check(); text != "" {
			return history.Op{}, fmt.Errorf("%w: %s", errBadRequest, text)
		}
		return opOf(h, 0), nil
	}, func(reply history.Reply) (int, any) {
		return http.StatusAccepted, positionReply{reply.Key}
	})
}

func (s *server) views(w http.ResponseWriter, r *http.Request) {
	video := r.PathValue("id")
	s.operation(w, r, KindViews, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindViews, Key: video}, nil
	}, func(reply history.Reply) (int, any) {
		generation, _ := strconv.ParseInt(reply.Key, 10, 64) // we wrote it
		return http.StatusOK, Views{Video: video, Views: reply.Value, Generation: generation}
	})
}

func (s *server) rules(w http.ResponseWriter, r *http.Request) {
	s.operation(w, r, KindRules, func(body io.Reader) (history.Op, error) {
		rules, err := decodeBody[Rules](body)
		if err != nil {
			return history.Op{}, err
		}
		if err := rules.validate(); err != nil {
			return history.Op{}, fmt.Errorf("%w: %w", errBadRequest, err)
		}
		text, err := json.Marshal(rules)
		return history.Op{Kind: KindRules, Body: text}, err
	}, func(reply history.Reply) (int, any) { return http.StatusOK, versionReply{reply.Value} })
}

func (s *server) reprocess(w http.ResponseWriter, r *http.Request) {
	s.operation(w, r, KindReprocess, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindReprocess}, nil
	}, func(reply history.Reply) (int, any) {
		return http.StatusAccepted, generationReply{reply.Value}
	})
}

// operation does what all operations have in common: read, perform, answer,
// count.
func (s *server) operation(
	w http.ResponseWriter, r *http.Request, kind string,
	read func(io.Reader) (history.Op, error), result func(history.Reply) (int, any),
) {
	began := s.metrics.begin()
	op, err := read(http.MaxBytesReader(w, r.Body, maxRequestBody))
	var reply history.Reply
	if err == nil {
		reply, err = s.perform(r.Context(), op)
	}
	if err != nil {
		s.metrics.end(kind, problemOf(err).code, began)
		writeProblem(w, err)
		return
	}
	s.metrics.end(kind, resultOK, began)
	status, body := result(reply)
	write(w, status, body)
}

func (s *server) perform(ctx context.Context, op history.Op) (history.Reply, error) {
	s.lives.RLock()
	defer s.lives.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.inst.Do(ctx, op)
}

func (s *server) reset(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequestBody)
	req, err := decodeReset(r.Body)
	if err == nil && !reflect.DeepEqual(req, s.begin) {
		err = fmt.Errorf("%w: this server was opened for %+v, not for %+v", errInUse, s.begin, req)
	}
	if err == nil {
		err = s.restart(r.Context())
	}
	if err != nil {
		writeProblem(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) restart(ctx context.Context) error {
	s.lives.Lock()
	defer s.lives.Unlock()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	return s.inst.Prepare(ctx)
}

func (s *server) audit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), controlTimeout)
	defer cancel()
	s.lives.RLock()
	defer s.lives.RUnlock()
	audit, err := s.inst.Audit(ctx)
	if err != nil {
		writeProblem(w, err)
		return
	}
	write(w, http.StatusOK, audit)
}

// pending says what background work is left, if the instance knows.
func (s *server) pending(w http.ResponseWriter, r *http.Request) {
	q, knows := s.inst.(sut.Quiescer)
	if !knows {
		writeProblem(w, fmt.Errorf("%w: this server does not know what is pending", errNoRoute))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
	defer cancel()
	text, err := q.Quiesced(ctx)
	if err != nil {
		writeProblem(w, err)
		return
	}
	write(w, http.StatusOK, pendingReply{text})
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]string{"status": "ok"})
}

// writeProblem answers with the problem that an error is.
func writeProblem(w http.ResponseWriter, err error) {
	p := problemOf(err)
	write(w, p.status, failure{p.code, err.Error()})
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

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := decodeBody[ResetRequest](body)
	switch {
	case err != nil:
	case req.Videos < 1:
		err = fmt.Errorf("%w: videos: expected 1 or more, got %d", errBadRequest, req.Videos)
	case req.CountWindowMS < 1:
		err = fmt.Errorf("%w: count_window_ms: expected 1 or more, got %d", errBadRequest,
			req.CountWindowMS)
	default:
		if wrong := req.Rules.validate(); wrong != nil {
			err = fmt.Errorf("%w: rules: %w", errBadRequest, wrong)
		}
	}
	return req, err
}

// decodeBody reads one JSON object without unknown fields and nothing after
// it.
func decodeBody[T any](body io.Reader) (T, error) {
	var v T
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	err := dec.Decode(&v)
	if err == nil {
		if _, extra := dec.Token(); extra != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return v, fmt.Errorf("%w: the limit is %d bytes", errTooLarge, tooLarge.Limit)
	case err != nil:
		//nolint:errorlint // a bad request, whatever else ended the reading
		return v, fmt.Errorf("%w: %v", errBadRequest, err)
	}
	return v, nil
}
