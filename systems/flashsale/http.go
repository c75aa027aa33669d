package flashsale

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeBuy      = "/v1/buy"
	routePayments = "/v1/payments"
	routeStock    = "/v1/items/{item}/stock"
)

const (
	// maxRequestBody bounds what a request may send, in bytes.
	maxRequestBody = 16 << 10
	// maxName bounds the names in a request, in bytes.
	maxName = 256
)

// errOverloaded is what only other servers answer: they shed load.
var errOverloaded = sut.Refusal("overloaded", "overloaded")

// problems lists the documented problems.
func problems() api.Problems {
	return api.Documented(
		api.Problem{Status: http.StatusConflict, Is: ErrSoldOut},
		api.Problem{Status: http.StatusConflict, Is: ErrAlreadyBought},
		api.Problem{Status: http.StatusConflict, Is: ErrConflict},
		api.Problem{Status: http.StatusNotFound, Is: ErrUnknownItem},
		api.Problem{Status: http.StatusNotFound, Is: ErrUnknownOrder},
		api.Problem{Status: http.StatusServiceUnavailable, Is: ErrNotReady},
		api.Problem{Status: http.StatusTooManyRequests, Is: errOverloaded},
		api.Problem{Status: http.StatusNotImplemented, Is: ErrNoStock})
}

// paymentReply is the body of the answer to a payment.
type paymentReply struct {
	State PaymentState `json:"state"`
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
	s := server{api.NewServer(inst, api.Spec{System: "flashsale",
		Kinds:    []string{KindBuy, KindPayment, KindStock},
		Problems: problems(), MaxBody: maxRequestBody, Timeout: stores.Timeout(cfg),
		Reset: api.ResetTo(resetOf(p), decodeReset)})}
	return s.Handler(map[string]api.Methods{
		routeBuy:      {http.MethodPost: s.buy},
		routePayments: {http.MethodPost: s.payment},
		routeStock:    {http.MethodGet: s.stock},
	}), nil
}

type server struct{ *api.Server }

func (s server) buy(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindBuy, func(body io.Reader) (history.Op, error) {
		req, err := decodeBuy(body)
		return buyOp(req), err
	}, func(reply history.Reply) (int, any) {
		return http.StatusCreated, Order{ID: reply.Key, Unit: reply.Value}
	})
}

func (s server) payment(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindPayment, func(body io.Reader) (history.Op, error) {
		p, err := decodePayment(body)
		return paymentOp(p), err
	}, func(reply history.Reply) (int, any) {
		return http.StatusOK, paymentReply{PaymentState(reply.Key)}
	})
}

func (s server) stock(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindStock, func(io.Reader) (history.Op, error) {
		item := r.PathValue("item")
		return history.Op{Kind: KindStock, Key: item}, checkName("item", item)
	}, func(reply history.Reply) (int, any) {
		return http.StatusOK, json.RawMessage(reply.Body)
	})
}

// decodeBuy reads a buy strictly.
func decodeBuy(body io.Reader) (BuyRequest, error) {
	req, err := api.DecodeRequest[BuyRequest](body)
	if err != nil {
		return BuyRequest{}, err
	}
	return req, errors.Join(
		checkID(req.OpID), checkName("item", req.Item), checkName("buyer", req.Buyer))
}

// decodePayment reads a payment strictly. Whether it succeeded must be said.
func decodePayment(body io.Reader) (Payment, error) {
	wire, err := api.DecodeRequest[struct {
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
		err = fmt.Errorf("%w: succeeded: expected true or false, got none", api.ErrBadRequest)
	case p.AmountCents < 1:
		err = fmt.Errorf("%w: amount_cents: expected 1 or more, got %d", api.ErrBadRequest, p.AmountCents)
	default:
		p.Succeeded = *wire.Succeeded
	}
	return p, err
}

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := api.DecodeRequest[ResetRequest](body)
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
				api.ErrBadRequest, field.name, field.got))
		}
	}
	return req, err
}

func checkID(id uint64) error {
	if id == 0 {
		return fmt.Errorf("%w: op_id: expected a number above 0, got 0 or none", api.ErrBadRequest)
	}
	return nil
}

func checkName(field, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%w: %s: expected 1 to %d bytes, got %d",
			api.ErrBadRequest, field, maxName, len(name))
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
