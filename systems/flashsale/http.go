package flashsale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeBuy      = "/v1/buy"
	routePayments = "/v1/payments"
	routeStock    = "/v1/items/{item}/stock"
	routeReset    = "/v1/reset"
	routeAudit    = "/v1/audit"
	routePending  = "/v1/pending"
	routeHealth   = "/healthz"
	routeMetrics  = "/metrics"
)

const (
	// maxRequestBody bounds what a request may send, in bytes.
	maxRequestBody = 16 << 10
	// maxName bounds the names in a request, in bytes.
	maxName = 256
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
	errOverloaded = fmt.Errorf("overloaded: %w", sut.ErrRefused)
	errInUse      = fmt.Errorf("the sale cannot be started anew: %w", sut.ErrRefused)
	errNoRoute    = errors.New("no such route")
	errUnknown    = errors.New("the effect is unknown")
)

// problems lists the documented problems; the first that matches counts, so
// the general ones come last.
func problems() []problem {
	return []problem{
		{"sold_out", http.StatusConflict, ErrSoldOut},
		{"already_bought", http.StatusConflict, ErrAlreadyBought},
		{"conflict", http.StatusConflict, ErrConflict},
		{"in_use", http.StatusConflict, errInUse},
		{"unknown_item", http.StatusNotFound, ErrUnknownItem},
		{"unknown_order", http.StatusNotFound, ErrUnknownOrder},
		{"not_ready", http.StatusServiceUnavailable, ErrNotReady},
		{"bad_request", http.StatusBadRequest, errBadRequest},
		{"too_large", http.StatusRequestEntityTooLarge, errTooLarge},
		{"overloaded", http.StatusTooManyRequests, errOverloaded},
		{"no_snapshot", http.StatusNotImplemented, ErrNoStock},
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

// paymentReply is the body of the answer to a payment.
type paymentReply struct {
	State PaymentState `json:"state"`
}

// pendingReply is the body of the answer about what is left to do.
type pendingReply struct {
	Pending string `json:"pending"`
}

// ResetRequest asks for a new sale with its stock untouched. Items are named
// item-1, item-2 and so on.
type ResetRequest struct {
	Items          int   `json:"items"`
	Units          int   `json:"units"`
	PriceCents     int64 `json:"price_cents"`
	CartTTLMS      int64 `json:"cart_ttl_ms"`
	ReclaimEveryMS int64 `json:"reclaim_every_ms"`
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest {
	return ResetRequest{
		Items: p.Items, Units: p.Units, PriceCents: p.PriceCents,
		CartTTLMS:      p.CartTTL.D().Milliseconds(),
		ReclaimEveryMS: p.ReclaimEvery.D().Milliseconds(),
	}
}

// Resetter is implemented by instances that can begin the sale anew whatever
// happened before. Other instances can be reset once, before the first sale.
type Resetter interface {
	Reset(context.Context) error
}

// NewHandler serves an instance over the HTTP API that openapi.yaml
// describes. The parameters of cfg must be a *Params or Params; a reset that
// asks for a different sale is refused, because the instance was opened for
// this one. Requests are bounded in size and, by cfg.Timeout, in time;
// listening, limits on connections and shutting down belong to the caller.
func NewHandler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("flashsale handler: %w", err)
	}
	s := &server{inst: inst, sale: resetOf(p), timeout: timeout(cfg), metrics: newMetrics()}
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.path, r)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusNotFound, failure{"no_route", "there is no " + r.URL.Path})
	})
	return mux, nil
}

type server struct {
	inst    sut.Instance
	sale    ResetRequest
	timeout time.Duration
	metrics *metrics

	// sales lets operations share the sale and a reset have it alone.
	sales sync.RWMutex
}

// route is one path with its only method.
type route struct {
	method, path string
	serve        http.HandlerFunc
}

// ServeHTTP answers the route's method and refuses all others.
func (r route) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != r.method && !(r.method == http.MethodGet && req.Method == http.MethodHead) {
		w.Header().Set("Allow", r.method)
		write(w, http.StatusMethodNotAllowed,
			failure{"bad_method", fmt.Sprintf("%s wants %s, got %s", r.path, r.method, req.Method)})
		return
	}
	r.serve(w, req)
}

func (s *server) routes() []route {
	return []route{
		{http.MethodPost, routeBuy, s.buy},
		{http.MethodPost, routePayments, s.payment},
		{http.MethodGet, routeStock, s.stock},
		{http.MethodPost, routeReset, s.reset},
		{http.MethodGet, routeAudit, s.audit},
		{http.MethodGet, routePending, s.pending},
		{http.MethodGet, routeHealth, s.health},
		{http.MethodGet, routeMetrics, s.metrics.ServeHTTP},
	}
}

func (s *server) buy(w http.ResponseWriter, r *http.Request) {
	s.operation(w, r, KindBuy, func() (history.Op, error) {
		req, err := decodeBuy(r.Body)
		return buyOp(req), err
	}, func(reply history.Reply) (int, any) {
		return http.StatusCreated, Order{ID: reply.Key, Unit: reply.Value}
	})
}

func (s *server) payment(w http.ResponseWriter, r *http.Request) {
	s.operation(w, r, KindPayment, func() (history.Op, error) {
		p, err := decodePayment(r.Body)
		return paymentOp(p), err
	}, func(reply history.Reply) (int, any) {
		return http.StatusOK, paymentReply{PaymentState(reply.Key)}
	})
}

func (s *server) stock(w http.ResponseWriter, r *http.Request) {
	s.operation(w, r, KindStock, func() (history.Op, error) {
		item := r.PathValue("item")
		return history.Op{Kind: KindStock, Key: item}, checkName("item", item)
	}, func(reply history.Reply) (int, any) {
		return http.StatusOK, json.RawMessage(reply.Body)
	})
}

// operation does what all operations have in common: read, perform, answer,
// count.
func (s *server) operation(
	w http.ResponseWriter, r *http.Request, kind string,
	read func() (history.Op, error), result func(history.Reply) (int, any),
) {
	began := s.metrics.begin()
	r.Body = http.MaxBytesReader(w, r.Body, maxRequestBody)
	op, err := read()
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
	s.sales.RLock()
	defer s.sales.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.inst.Do(ctx, op)
}

func (s *server) reset(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequestBody)
	req, err := decodeReset(r.Body)
	if err == nil && req != s.sale {
		err = fmt.Errorf("%w: this server was opened for %+v, not for %+v", errInUse, s.sale, req)
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
	s.sales.Lock()
	defer s.sales.Unlock()
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
	s.sales.RLock()
	defer s.sales.RUnlock()
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

// decodeBuy reads a buy strictly.
func decodeBuy(body io.Reader) (BuyRequest, error) {
	req, err := decodeBody[BuyRequest](body)
	if err != nil {
		return BuyRequest{}, err
	}
	return req, errors.Join(
		checkID(req.OpID), checkName("item", req.Item), checkName("buyer", req.Buyer))
}

// decodePayment reads a payment strictly. Whether it succeeded must be said.
func decodePayment(body io.Reader) (Payment, error) {
	wire, err := decodeBody[struct {
		Payment
		Succeeded *bool `json:"succeeded"`
	}](body)
	if err != nil {
		return Payment{}, err
	}
	p := wire.Payment
	err = errors.Join(checkID(p.OpID), checkName("payment_id", p.PaymentID),
		checkName("order", p.OrderID))
	switch {
	case err != nil:
	case wire.Succeeded == nil:
		err = fmt.Errorf("%w: succeeded: expected true or false, got none", errBadRequest)
	case p.AmountCents < 1:
		err = fmt.Errorf("%w: amount_cents: expected 1 or more, got %d", errBadRequest, p.AmountCents)
	default:
		p.Succeeded = *wire.Succeeded
	}
	return p, err
}

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := decodeBody[ResetRequest](body)
	if err != nil {
		return ResetRequest{}, err
	}
	for _, field := range []struct {
		name string
		got  int64
	}{
		{"items", int64(req.Items)}, {"units", int64(req.Units)},
		{"price_cents", req.PriceCents},
		{"cart_ttl_ms", req.CartTTLMS}, {"reclaim_every_ms", req.ReclaimEveryMS},
	} {
		if field.got < 1 {
			err = errors.Join(err, fmt.Errorf("%w: %s: expected 1 or more, got %d",
				errBadRequest, field.name, field.got))
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

func checkID(id uint64) error {
	if id == 0 {
		return fmt.Errorf("%w: op_id: expected a number above 0, got 0 or none", errBadRequest)
	}
	return nil
}

func checkName(field, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%w: %s: expected 1 to %d bytes, got %d",
			errBadRequest, field, maxName, len(name))
	}
	return nil
}

// buyOp and paymentOp are the operations that a workload would ask for: the
// reverse of what turns operations into calls.

func buyOp(req BuyRequest) history.Op {
	return history.Op{ID: req.OpID, Kind: KindBuy, Key: req.Item, Client: req.Buyer}
}

func paymentOp(p Payment) history.Op {
	op := history.Op{
		ID: p.OpID, Kind: KindPayment, Key: p.OrderID, Client: p.PaymentID, Arg: p.AmountCents,
	}
	if !p.Succeeded {
		op.Arg = -p.AmountCents
	}
	return op
}
