// Package idem makes an HTTP handler idempotent: all requests with one key have one effect and
// one answer, which is kept and given again, byte by byte.
//
// Middleware reads the request, claims its key in a Store, lets one request through to the
// handler and keeps its answer before the client sees it. A Store decides what a crash in the
// middle means. The handler finds its claim by ExecutionOf: it says whether an earlier request
// may have had the effect already, and its fence keeps that one from having it later.
package idem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"stampede/harness/sut"
)

// The headers of a request.
const (
	// KeyHeader has the key.
	KeyHeader = "Idempotency-Key"
	// IDHeader has what a client calls its request, for logs. It is not part of the fingerprint.
	IDHeader = "Request-Id"
)

// The reasons why a request is not let through.
var (
	// ErrNoKey: the request has no key.
	ErrNoKey = sut.Refusal("no_key", "the request has no idempotency key")
	// ErrInProgress: another request with the key is being worked on.
	ErrInProgress = sut.Refusal("in_progress", "a request with this key is in progress")
	// ErrOtherBody: the key was used for something else.
	ErrOtherBody = sut.Refusal("other_body", "the key was used for another request")
	// ErrTooLarge: the request's body is larger than the middleware reads.
	ErrTooLarge = sut.Refusal("too_large", "request too large")
	// ErrLost: the claim is another's by now.
	ErrLost = errors.New("the claim was lost")
)

// Request is what has to be known of a request to work on it again.
type Request struct {
	Key, Fingerprint, ID, Method, Path string
	Body                               []byte
}

// HTTP is the request as a client would send it.
func (r Request) HTTP(ctx context.Context) (*http.Request, error) {
	again, err := http.NewRequestWithContext(ctx, r.Method, r.Path, bytes.NewReader(r.Body))
	if err == nil {
		again.Header.Set(KeyHeader, r.Key)
		again.Header.Set(IDHeader, r.ID)
	}
	return again, err
}

// Response is an answer as it is kept.
type Response struct {
	Status int
	Type   string
	Body   []byte
}

// Store keeps what is known of keys.
type Store interface {
	// Begin claims the key of a request, or returns the answer that is kept for it. It returns
	// ErrInProgress while another has the claim, and ErrOtherBody if the key's fingerprint is
	// another.
	Begin(ctx context.Context, req Request) (Claim, *Response, error)
}

// Claim is a key in one request's hands.
type Claim interface {
	// Fence is the token of the claim: later claims of the key have higher ones.
	Fence() int64
	// Again says that an earlier claim may have had its effect; Noted is what it noted last.
	Again() bool
	Noted() []byte
	// Note keeps a recovery point: who has the claim next goes on from there.
	Note(ctx context.Context, note []byte) error
	// Finish keeps the answer and ends the claim. It returns ErrLost if another has the claim.
	Finish(ctx context.Context, answer Response) error
	// Abandon ends the claim without an answer: the next request may have it.
	Abandon(ctx context.Context) error
}

// Execution is a request that was let through.
type Execution struct {
	Request
	Claim
}

type executionKey struct{}

// ExecutionOf is the execution that a handler works for, nil if there is no middleware.
func ExecutionOf(ctx context.Context) *Execution {
	x, _ := ctx.Value(executionKey{}).(*Execution)
	return x
}

// Middleware lets one request of each key through to Next. Its zero values are usable but for
// Store and Next.
type Middleware struct {
	Store Store
	Next  http.Handler
	// Wait is how long a request waits for another one with its key; 0 turns it away at once.
	// Poll is how often it looks meanwhile, 10 ms where that is 0.
	Wait, Poll time.Duration
	// Last is how long a claim may take to end after the client has gone, 5 s where that is 0.
	Last time.Duration
	// MaxBody bounds a request, 64 KB where that is 0.
	MaxBody int64
	// Fail answers a request that was not let through, or whose answer could not be kept.
	// Nil is Problem.
	Fail func(w http.ResponseWriter, err error)
}

// ServeHTTP answers a request from what is kept, or by working on it.
func (m *Middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := m.read(w, r)
	if err != nil {
		m.fail(w, err)
		return
	}
	claim, kept, err := m.begin(r.Context(), req)
	switch {
	case err != nil:
		m.fail(w, err)
	case kept != nil:
		kept.write(w)
	default:
		m.work(w, r, &Execution{req, claim})
	}
}

// read reads a request whole. Its fingerprint is of what it asks for, not of who sends it when.
func (m *Middleware) read(w http.ResponseWriter, r *http.Request) (Request, error) {
	limit := m.MaxBody
	if limit == 0 {
		limit = 64 << 10
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return Request{}, errors.Join(ErrTooLarge, err)
	}
	req := Request{Key: r.Header.Get(KeyHeader), ID: r.Header.Get(IDHeader), Method: r.Method,
		Path: r.URL.RequestURI(), Body: body}
	if req.Key == "" {
		return req, ErrNoKey
	}
	sum := sha256.Sum256([]byte(req.Method + "\n" + req.Path + "\n" + string(body)))
	req.Fingerprint = hex.EncodeToString(sum[:])
	return req, nil
}

// begin claims the key, and waits for another one's answer if it may.
func (m *Middleware) begin(ctx context.Context, req Request) (Claim, *Response, error) {
	until, poll := time.Now().Add(m.Wait), m.Poll
	if poll == 0 {
		poll = 10 * time.Millisecond
	}
	for {
		claim, kept, err := m.Store.Begin(ctx, req)
		if !errors.Is(err, ErrInProgress) || time.Now().Add(poll).After(until) ||
			!sut.Pause(ctx, poll) {
			return claim, kept, err
		}
	}
}

// work lets a request through. What fails on our side is not kept, so that the next request
// tries again; the client sees no answer that is not kept.
func (m *Middleware) work(w http.ResponseWriter, r *http.Request, x *Execution) {
	r = r.WithContext(context.WithValue(r.Context(), executionKey{}, x))
	r.Body = io.NopCloser(bytes.NewReader(x.Body))
	var answer Recorder
	m.Next.ServeHTTP(&answer, r)
	last := m.Last
	if last == 0 {
		last = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), last)
	defer cancel()
	kept := answer.Response()
	if kept.Status >= http.StatusInternalServerError {
		_ = x.Abandon(ctx) // who comes next has the claim when its lease is over
	} else if err := x.Finish(ctx, kept); err != nil {
		m.fail(w, err)
		return
	}
	kept.write(w)
}

func (m *Middleware) fail(w http.ResponseWriter, err error) {
	if m.Fail != nil {
		m.Fail(w, err)
		return
	}
	Problem(w, err)
}

// Failure is the body of an answer to what failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Problem answers with what failed: 409 while the key is in progress, 422 for another body, 400
// without a key, 503 for what certainly had no effect otherwise, and else 500.
func Problem(w http.ResponseWriter, err error) {
	status, code := http.StatusInternalServerError, "unknown_effect"
	switch {
	case errors.Is(err, ErrInProgress):
		status, code = http.StatusConflict, sut.Code(ErrInProgress)
	case errors.Is(err, ErrOtherBody):
		status, code = http.StatusUnprocessableEntity, sut.Code(ErrOtherBody)
	case errors.Is(err, ErrNoKey):
		status, code = http.StatusBadRequest, sut.Code(ErrNoKey)
	case errors.Is(err, ErrTooLarge):
		status, code = http.StatusRequestEntityTooLarge, sut.Code(ErrTooLarge)
	case errors.Is(err, sut.ErrRefused):
		status, code = http.StatusServiceUnavailable, "refused"
	}
	Write(w, status, Failure{code, err.Error()})
}

// Write answers with a value as JSON.
func Write(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	Response{status, "application/json", body}.write(w)
}

func (r Response) write(w http.ResponseWriter) {
	if r.Type != "" {
		w.Header().Set("Content-Type", r.Type)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // the client has gone
}

// Recorder is a ResponseWriter that keeps an answer. The zero value is ready.
type Recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is that of the answer.
func (r *Recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader sets the status, once.
func (r *Recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write adds to the body.
func (r *Recorder) Write(part []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(part)
}

// Response is the answer.
func (r *Recorder) Response() Response {
	r.WriteHeader(http.StatusOK)
	return Response{r.status, r.Header().Get("Content-Type"), r.body.Bytes()}
}
