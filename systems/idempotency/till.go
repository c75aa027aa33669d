package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// The fail points of a charge.
const (
	placeBegun    = "begun"    // the key is claimed, and nothing is charged
	placeCharged  = "charged"  // the provider has charged, and nobody has noted it
	placeRecorded = "recorded" // the answer is kept, and the client has not got it
)

func places() []string { return []string{placeBegun, placeCharged, placeRecorded} }

// till is a shop: an HTTP handler that charges, and whatever is in front of it.
type till struct {
	*opened
	provider *provider
	handler  http.Handler
}

// order is what a key stands for.
type order struct {
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"`
}

// newTill makes a shop whose charges have the middleware over a store in front of them.
func newTill(ctx context.Context, st *opened, wait time.Duration, keys idem.Store) (*till, error) {
	t, err := bare(ctx, st)
	if err == nil {
		t.handler = &idem.Middleware{Store: keys, Next: t.handler, Wait: wait,
			Last: stores.Timeout(st.Config)}
	}
	return t, err
}

// bare is a shop with nothing in front of its charges.
func bare(ctx context.Context, st *opened) (*till, error) {
	p, err := design.Keep(st, func() (*provider, error) { return openProvider(ctx, st) })
	if err != nil {
		return nil, err
	}
	t := &till{opened: st, provider: p}
	t.handler = http.HandlerFunc(t.serve)
	return t, nil
}

// Charge sends a request to the shop's own handler.
func (t *till) Charge(ctx context.Context, req ChargeRequest) (Charged, error) {
	body, err := json.Marshal(order{req.Customer, req.Amount})
	if err != nil {
		return Charged{}, fmt.Errorf("writing an order: %w", err)
	}
	return t.send(ctx, idem.Request{Key: req.Key, ID: strconv.FormatUint(req.ID, 10),
		Method: http.MethodPost, Path: "/charges", Body: body})
}

// send sends a request and reads the answer.
func (t *till) send(ctx context.Context, req idem.Request) (reply Charged, err error) {
	r, err := req.HTTP(ctx)
	if err != nil {
		return reply, fmt.Errorf("making a request: %w", err)
	}
	var answer idem.Recorder
	t.handler.ServeHTTP(&answer, r)
	kept := answer.Response()
	if kept.Status == http.StatusCreated {
		t.Config.Passed(placeRecorded)
		if err := json.Unmarshal(kept.Body, &reply); err != nil {
			return reply, fmt.Errorf("%w: %w", errAnswer, err)
		}
		return reply, nil
	}
	var failed idem.Failure
	if err := json.Unmarshal(kept.Body, &failed); err != nil {
		return reply, fmt.Errorf("%w: status %d: %w", errAnswer, kept.Status, err)
	}
	switch failed.Code {
	case sut.Code(idem.ErrInProgress):
		return reply, idem.ErrInProgress
	case sut.Code(idem.ErrOtherBody):
		return reply, idem.ErrOtherBody
	case "refused":
		return reply, fmt.Errorf("%w: %s", sut.ErrRefused, failed.Message)
	}
	return reply, fmt.Errorf("%w: %s", errAnswer, failed.Message)
}

// serve is the handler of a charge. What fails here is no refusal: the key is claimed.
func (t *till) serve(w http.ResponseWriter, r *http.Request) {
	pay, err := paymentOf(r)
	if err == nil {
		pay, err = t.once(r.Context(), idem.ExecutionOf(r.Context()), pay)
	}
	reply(w, pay, err)
}

func reply(w http.ResponseWriter, pay payment, err error) {
	if err != nil {
		idem.Write(w, http.StatusInternalServerError, idem.Failure{Code: "unknown_effect",
			Message: err.Error()})
		return
	}
	idem.Write(w, http.StatusCreated, Charged{pay.Receipt, pay.Amount, pay.Customer})
}

// paymentOf is what a request asks the provider for, with a new receipt. The reference is of the
// key and the body, so that who asks by it hears of this request and its repeats alone.
func paymentOf(r *http.Request) (payment, error) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return payment{}, fmt.Errorf("reading an order: %w", err)
	}
	id, err := strconv.ParseUint(r.Header.Get(idem.IDHeader), 10, 64)
	key := r.Header.Get(idem.KeyHeader)
	pay := payment{ID: id, Key: key, Customer: o.Customer, Amount: o.Amount, Receipt: rand.Text(),
		Reference: fmt.Sprintf("%s/%s/%d", key, o.Customer, o.Amount)}
	return pay, err
}

// once charges once for each claim of a key, and asks first if an earlier claim may have
// charged. Nil charges without looking.
func (t *till) once(ctx context.Context, x *idem.Execution, pay payment) (payment, error) {
	found := false
	var err error
	if x != nil {
		pay.Fence = x.Fence()
		if note := x.Noted(); note != nil {
			err := json.Unmarshal(note, &pay)
			return pay, err
		}
		if x.Again() {
			var before payment
			if before, found, err = t.provider.Ask(ctx, pay.Reference, pay.Fence); found {
				pay.Receipt = before.Receipt
			}
		}
	}
	if err == nil && !found {
		t.Config.Passed(placeBegun)
		err = t.provider.Charge(ctx, pay)
	}
	if err != nil {
		return pay, err
	}
	t.Config.Passed(placeCharged)
	if x == nil {
		return pay, nil
	}
	note, err := json.Marshal(pay)
	if err == nil {
		err = x.Note(ctx, note)
	}
	return pay, err
}

// receiptOf is that of a kept answer.
func receiptOf(answer []byte) string {
	var c Charged
	_ = json.Unmarshal(answer, &c) // an answer that is none has no receipt
	return c.Receipt
}

var errNotFinished = errors.New("a key could not be finished")

// finish sends a request that was given up once more, for nobody. What somebody else has by then
// is not for us to finish.
func (t *till) finish(ctx context.Context, req idem.Request) error {
	_, err := t.send(ctx, req)
	if err == nil || errors.Is(err, idem.ErrInProgress) || errors.Is(err, idem.ErrOtherBody) {
		return nil
	}
	return errors.Join(errNotFinished, err)
}
