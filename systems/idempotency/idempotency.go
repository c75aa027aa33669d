// Package idempotency is the system in which clients send a request again because they do not
// know what became of it: a shop charges customers at an external provider. Its question: does a
// key mean one charge, across crashes?
//
// A request has an idempotency key. All requests with one key and one body have one effect and
// one answer. The key is forgotten some time after that.
package idempotency

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/bounds"
	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// KindCharge charges Op.Client under the idempotency key Op.Key. Reply.Key is the receipt,
// Reply.Value the amount.
const KindCharge = "charge"

// Till is the domain interface: what clients ask for.
type Till interface {
	Charge(ctx context.Context, req ChargeRequest) (Charged, error)
}

// ChargeRequest asks for money of a customer, once for each key.
type ChargeRequest struct {
	ID       uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the request's identity, one for each key with its body and the same in every attempt"`
	Key      string `json:"idempotency_key" op:"key" min:"1" max:"60"`
	Customer string `json:"customer" op:"client" min:"1" max:"40"`
	Amount   int64  `json:"amount" min:"1" max:"1000000000" doc:"in the smallest unit"`
}

// Charged is the answer, the same to every request with the key.
type Charged struct {
	Receipt  string `json:"receipt" op:"key" min:"1" max:"60" doc:"what the shop calls this charge alone; the provider's log has it too"`
	Amount   int64  `json:"amount" op:"value" min:"1"`
	Customer string `json:"customer" min:"1" max:"40"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Till] {
	return &api.Table[Till]{
		System: "idempotency", Title: "Idempotency",
		About: "The API of a shop that charges customers, once for each key. stampede serves its own " +
			"designs\nover it, and judges any server that implements it.",
		Kinds: []api.Kind[Till]{
			api.Op(KindCharge, "POST /v1/charges", Till.Charge, api.About{
				Summary: "Charge a customer.",
				Detail: "The customer and the amount are what the key stands for. The answer is kept for " +
					"ttl_ms of the reset.",
				Reply: "The customer was charged, now or before.", Status: http.StatusCreated,
				Refuses: []error{idem.ErrInProgress, idem.ErrOtherBody}}),
		},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: idem.ErrInProgress},
			{Status: http.StatusUnprocessableEntity, Is: idem.ErrOtherBody}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin without keys and charges.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.TTL.D().Milliseconds()}, err
		},
		PendingMeans: "Optional. Left are requests without a kept answer; within its ttl a key has " +
			"one. A server may count keys that should have been forgotten, too.",
		Audit: Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	TTLMS int64 `json:"ttl_ms" min:"1" doc:"how long an answer is kept from done_ns of its key on, in milliseconds"`
}

// The states of a key. Gone is forgotten, when its time was over.
const (
	started = "started" // a request has claimed it
	charged = "charged" // it is known that the provider has charged
	done    = "done"    // the answer is kept
	gone    = "gone"
)

// Contract is what a design promises. What allows more than ten seconds is not judged.
type Contract struct {
	ReapLagNS int64 `json:"reap_lag_ns" min:"1" doc:"how long after done_ns and ttl_ms a key is forgotten at the latest, used again or not; the designs of stampede promise 3 s by default; with more than 10 s kept-for-its-time is NOT EXERCISED"`
}

// Audit is the final truth of the stores, or of a foreign server's audit endpoint. Times are
// nanoseconds of the store's clock.
type Audit struct {
	Contract Contract    `json:"contract"`
	Charges  []ChargeRow `json:"charges" doc:"the provider's log: every charge that there was"`
	Keys     []KeyRow    `json:"keys" doc:"a row for each use of a key, forgotten or not; a use that was given up without an answer has none"`
}

// ChargeRow is a charge, as the provider has it.
type ChargeRow struct {
	ID       uint64 `json:"op_id" min:"1" doc:"the request that brought it about"`
	Key      string `json:"idempotency_key"`
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"`
	Receipt  string `json:"receipt"`
	AtNS     int64  `json:"at_ns" doc:"when the provider charged, before it answered"`
}

// KeyRow is a key at the end. One that was used again after its time is there more than once.
type KeyRow struct {
	ID      uint64 `json:"op_id" fact:"op" min:"1" doc:"the request that the key stood for"`
	Key     string `json:"idempotency_key" fact:"key"`
	State   string `json:"state" fact:"state" enum:"started,charged,done,gone"`
	Receipt string `json:"receipt" fact:"name" doc:"that of the kept answer, also of a key that is gone; empty before there is an answer"`
	DoneNS  int64  `json:"done_ns" fact:"from" doc:"when the answer was kept, also of a key that is gone; 0 before there is an answer"`
	GoneNS  int64  `json:"gone_ns" fact:"to" doc:"when the key was forgotten: ttl_ms after done_ns at the earliest, and before the key is used again; 0 if it was not"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Customers int     `json:"customers" min:"1" max:"10000000" doc:"how many customers there are"`
	Repeat    float64 `json:"repeat" min:"0" max:"0.95" doc:"share of scheduled requests that repeat the one before"`
	Resend    float64 `json:"resend" min:"0" max:"1" doc:"share of requests that are sent twice, at once or after the answer"`
	OtherBody float64 `json:"other_body" min:"0" max:"1" doc:"share of keys that are used for another amount as well"`
	Reuse     float64 `json:"reuse" min:"0" max:"1" doc:"share of keys that are used for another amount after their time; as many others are asked for again when four fifths of it are over"`
	Retry     int     `json:"retry" min:"0" max:"20" doc:"how often a request of unknown outcome, or that is in progress, is sent again"`

	TTL       sut.Duration `json:"ttl" min:"10ms" max:"48h" doc:"how long an answer is kept; 24 hours in life"`
	ReapEvery sut.Duration `json:"reap_every" min:"1ms" max:"1h" doc:"how often keys are looked for whose time is over"`
	ReapLag   sut.Duration `json:"reap_lag" min:"1ms" max:"10s" doc:"how long after its time a key may be forgotten"`
	Lease     sut.Duration `json:"lease" min:"1ms" max:"10m" doc:"how long a request has its key for itself, in designs with leases"`
	Complete  sut.Duration `json:"complete_every" min:"1ms" max:"1m" doc:"how often keys are looked for whose request was given up"`
	Wait      sut.Duration `json:"wait" min:"0s" max:"1m" doc:"how long a request waits for another one with its key, in designs that do not wait anyway; 0 turns it away at once"`

	ProviderTime    sut.Duration `json:"provider_time" min:"0s" max:"1m" doc:"how long the provider takes for a charge"`
	ProviderTimeout sut.Duration `json:"provider_timeout" min:"1ms" max:"1m" doc:"how long the shop waits for it"`
	SlowShare       float64      `json:"slow_share" min:"0" max:"1" doc:"share of charges that take longer"`
	SlowTime        sut.Duration `json:"slow_time" min:"0s" max:"1m" doc:"how long those take"`
	LostAnswers     float64      `json:"lost_answers" min:"0" max:"1" doc:"share of charges of which the provider's answer is lost"`
}

// DefaultParams is a shop whose clients are impatient, with a day of ten seconds.
func DefaultParams() Params {
	return Params{
		Customers: 1000, Repeat: 0.05, Resend: 0.05, OtherBody: 0.02, Reuse: 0.02, Retry: 6,
		TTL: sut.Duration(10 * time.Second), ReapEvery: sut.Duration(100 * time.Millisecond),
		ReapLag: sut.Duration(3 * time.Second), Lease: sut.Duration(time.Second),
		Complete:     sut.Duration(100 * time.Millisecond),
		ProviderTime: sut.Duration(10 * time.Millisecond), ProviderTimeout: sut.Duration(2 * time.Second),
		SlowTime: sut.Duration(500 * time.Millisecond),
	}
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if err == nil && p.TTL < p.Lease {
		err = fmt.Errorf("ttl: expected at least the lease (%v), got %v", p.Lease, p.TTL)
	}
	return err
}

// errAnswer: the middleware answers something that is no charge.
var errAnswer = errors.New("an unexpected answer")
