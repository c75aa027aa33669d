package sqlbroker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeMessage  = "/v1/message/{queue}"
	routeReceipt  = "/v1/message/{queue}/{receipt}"
	routeMessages = "/v1/messages/{queue}"
	routeAck      = "/v1/messages/{queue}/ack"
	routeExtend   = "/v1/messages/{queue}/extend"
	routeRelease  = "/v1/messages/{queue}/release"
	routeQueues   = "/v1/queues"
	routeQueue    = "/v1/queues/{queue}"
	routePurge    = "/v1/queues/{queue}/messages"
	routeRedrive  = "/v1/queues/{queue}/redrive"
)

const (
	// maxRequestBody bounds what a request may send, in bytes: a batch of messages.
	maxRequestBody = 4 << 20
	// maxReceiptBytes bounds a receipt.
	maxReceiptBytes = 200
	// minToken and maxToken bound a queue's token, in bytes.
	minToken, maxToken = 16, 200
	// mostWait bounds how long a demand may wait over HTTP, in milliseconds.
	mostWait = 20_000
)

// problems lists the documented problems.
func problems() api.Problems {
	return api.Documented(
		api.Problem{Status: http.StatusNotFound, Is: ErrUnknownQueue},
		api.Problem{Status: http.StatusConflict, Is: ErrTaken},
		api.Problem{Status: http.StatusConflict, Is: ErrStaleReceipt},
		api.Problem{Status: http.StatusForbidden, Is: ErrForbidden},
		api.Problem{Status: http.StatusTooManyRequests, Is: ErrRateLimited})
}

// ResetRequest asks for a new beginning: so many empty queues, called queue-1 and so
// on, with the same settings.
type ResetRequest struct {
	Queues int `json:"queues"`
	QueueSettings
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest { return ResetRequest{p.Queues, p.settings()} }

// NewHandler serves an instance over the HTTP API that openapi.yaml describes. The
// parameters of cfg must be a *Params or Params; a reset that asks for other queues is
// refused, because the instance was opened for these. If they have a Token, requests
// must show it, or that of their queue. Requests are bounded in size and, by
// cfg.Timeout, in time; listening, limits on connections and shutting down belong to
// the caller.
func NewHandler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("sqlbroker handler: %w", err)
	}
	spec := api.Spec{System: "sqlbroker", Kinds: kinds(), Problems: problems(),
		MaxBody: maxRequestBody, Timeout: stores.Timeout(cfg), Token: p.Token,
		Reset: api.ResetTo(resetOf(p), decodeReset)}
	if own, is := inst.(*instance); is {
		spec.Metrics, spec.Permit = own.writeMetrics, permit(own.rates, p.Token != "")
	}
	s := server{api.NewServer(inst, spec), p.Token}
	return s.Handler(map[string]api.Methods{
		routeMessage:  {http.MethodPut: s.publish(decodeMessage)},
		routeReceipt:  {http.MethodDelete: s.ackOne},
		routeMessages: {http.MethodPut: s.publish(decodePublication), http.MethodGet: s.receive},
		routeAck:      {http.MethodPost: s.settle(KindAck)},
		routeExtend:   {http.MethodPost: s.settle(KindExtend)},
		routeRelease:  {http.MethodPost: s.settle(KindRelease)},
		routeQueues:   {http.MethodGet: s.list},
		routeQueue:    {http.MethodPut: s.create},
		routePurge:    {http.MethodDelete: s.count(KindPurge)},
		routeRedrive:  {http.MethodPost: s.count(KindRedrive)},
	}), nil
}

type server struct {
	*api.Server
	token string // that opens everything, if there is one
}

// Count is an answer that is a number of messages.
type Count struct {
	Messages int64 `json:"messages"`
}

func counts(reply history.Reply) (int, any) { return http.StatusOK, Count{reply.Value} }

func bodies(reply history.Reply) (int, any) { return http.StatusOK, json.RawMessage(reply.Body) }

func (s server) publish(decode func(io.Reader) (Publication, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Operation(w, r, KindPublish, func(body io.Reader) (history.Op, error) {
			p, err := decode(body)
			if err == nil {
				err = errors.Join(checkQueue(r), checkPublication(p))
			}
			return history.Op{ID: p.OpID, Kind: KindPublish, Key: r.PathValue("queue"),
				Body: bodyText(p)}, err
		}, counts)
	}
}

// receive reads what is asked for from the query: n, wait_ms, op_id and consumer.
func (s server) receive(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindReceive, func(io.Reader) (history.Op, error) {
		query := r.URL.Query()
		n, err := numberIn("n", query.Get("n"), 1, 1, maxBatch)
		err = errors.Join(err, checkQueue(r))
		wait, waitErr := numberIn("wait_ms", query.Get("wait_ms"), 0, 0, mostWait)
		id, idErr := numberIn("op_id", query.Get("op_id"), 0, 0, math.MaxInt64)
		return history.Op{ID: uint64(id), Kind: KindReceive, Key: r.PathValue("queue"),
			Client: query.Get("consumer"),
			Body:   bodyText(Demand{Most: int(n), WaitMS: wait})}, errors.Join(err, waitErr, idErr)
	}, bodies)
}

func (s server) settle(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Operation(w, r, kind, func(body io.Reader) (history.Op, error) {
			req, err := api.DecodeRequest[Settlement](body)
			if err == nil {
				err = errors.Join(checkQueue(r), checkSettlement(kind, req))
			}
			return history.Op{ID: req.OpID, Kind: kind, Key: r.PathValue("queue"),
				Body: bodyText(req)}, err
		}, bodies)
	}
}

// ackOne acknowledges by the path alone.
func (s server) ackOne(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindAck, func(io.Reader) (history.Op, error) {
		req := Settlement{Receipts: []string{r.PathValue("receipt")}}
		id, err := numberIn("op_id", r.URL.Query().Get("op_id"), 0, 0, math.MaxInt64)
		return history.Op{ID: uint64(id), Kind: KindAck, Key: r.PathValue("queue"),
			Body: bodyText(req)}, errors.Join(err, checkQueue(r), checkReceipts(req.Receipts))
	}, func(history.Reply) (int, any) { return http.StatusNoContent, nil })
}

func (s server) create(w http.ResponseWriter, r *http.Request) {
	if s.token == "" { // otherwise who comes here has shown it; see permit
		r = r.WithContext(permittedBy(r.Context(), api.ShownToken(r)))
	}
	s.Operation(w, r, KindCreate, func(body io.Reader) (history.Op, error) {
		req, err := api.DecodeRequest[QueueSettings](body)
		if err == nil {
			err = errors.Join(checkQueue(r), checkSettings(req))
		}
		return history.Op{Kind: KindCreate, Key: r.PathValue("queue"), Body: bodyText(req)}, err
	}, func(history.Reply) (int, any) { return http.StatusNoContent, nil })
}

// count serves what needs no more than a queue and answers with a number.
func (s server) count(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Operation(w, r, kind, func(io.Reader) (history.Op, error) {
			return history.Op{Kind: kind, Key: r.PathValue("queue")}, checkQueue(r)
		}, counts)
	}
}

func (s server) list(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindList, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindList}, nil
	}, bodies)
}

// singleMessage is the body of a publication of one message.
type singleMessage struct {
	OpID uint64 `json:"op_id"`
	Message
}

func decodeMessage(body io.Reader) (Publication, error) {
	req, err := api.DecodeRequest[singleMessage](body)
	return Publication{OpID: req.OpID, Messages: []Message{req.Message}}, err
}

// manyMessages is the body of a publication of some.
type manyMessages struct {
	OpID     uint64    `json:"op_id"`
	Messages []Message `json:"messages"`
}

func decodePublication(body io.Reader) (Publication, error) {
	req, err := api.DecodeRequest[manyMessages](body)
	return Publication{OpID: req.OpID, Messages: req.Messages}, err
}

func checkPublication(p Publication) error {
	errs := []error{checkNumber("op_id", p.OpID),
		inRange("messages", int64(len(p.Messages)), 1, maxBatch)}
	for _, m := range p.Messages {
		errs = append(errs, inRange("body", int64(len(m.Body)), 0, maxBody), checkText("body", m.Body),
			inRange("priority", int64(m.Priority), math.MinInt32, math.MaxInt32),
			inRange("delay_ms", m.DelayMS, 0, maxTime.Milliseconds()))
		if m.Group > math.MaxInt64 {
			errs = append(errs, fmt.Errorf("%w: group: expected at most %d, got %d", api.ErrBadRequest,
				math.MaxInt64, m.Group))
		}
	}
	return errors.Join(errs...)
}

// checkQueue refuses names that no queue can have.
func checkQueue(r *http.Request) error { return checkText("queue", r.PathValue("queue")) }

// checkText refuses what Postgres cannot store as text.
func checkText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%w: %s: expected UTF-8 without the character U+0000", api.ErrBadRequest,
			field)
	}
	return nil
}

func checkSettlement(kind string, s Settlement) error {
	low := int64(0)
	if kind == KindExtend {
		low = 1
	}
	return errors.Join(inRange("by_ms", s.ByMS, low, maxTime.Milliseconds()),
		checkReceipts(s.Receipts))
}

func checkReceipts(list []string) error {
	errs := []error{inRange("receipts", int64(len(list)), 1, maxBatch)}
	for _, receipt := range list {
		errs = append(errs, inRange("receipts: length", int64(len(receipt)), 1, maxReceiptBytes))
	}
	return errors.Join(errs...)
}

func checkSettings(s QueueSettings) error {
	return errors.Join(
		inRange("visibility_ms", s.VisibilityMS, 1, maxTime.Milliseconds()),
		inRange("max_receives", int64(s.MaxReceives), 1, maxReceives),
		inRange("retention_ms", s.RetentionMS, 1, math.MaxInt32*1000),
		inRange("rate_per_s", int64(s.RatePerS), 0, 1_000_000), checkToken(s.Token))
}

// checkToken refuses tokens that are soon guessed.
func checkToken(token string) error {
	if token == "" {
		return nil
	}
	return inRange("token: length", int64(len(token)), minToken, maxToken)
}

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := api.DecodeRequest[ResetRequest](body)
	if err == nil {
		err = errors.Join(inRange("queues", int64(req.Queues), 1, maxQueues),
			checkSettings(req.QueueSettings), inRange("token: length", int64(len(req.Token)), 0, 0))
	}
	return req, err
}

// numberIn reads a number of a query, which may be left out.
func numberIn(field, text string, absent, low, high int64) (int64, error) {
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: expected a number, got %.20q", api.ErrBadRequest, field, text)
	}
	return n, inRange(field, n, low, high)
}

func inRange(field string, n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("%w: %s: expected %d to %d, got %d", api.ErrBadRequest, field, low, high, n)
	}
	return nil
}

// checkNumber refuses what a column cannot hold.
func checkNumber(field string, n uint64) error {
	if n == 0 || n > math.MaxInt64 {
		return fmt.Errorf("%w: %s: expected a number from 1 to %d, got %d or none", api.ErrBadRequest,
			field, math.MaxInt64, n)
	}
	return nil
}
