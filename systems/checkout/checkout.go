// Package checkout is the system in which a crowd wants a few units of some products at the same
// moment, and each of them is to be told what became of it. Its question: does each attempt end
// once, in an order that is paid, a refusal or a compensation, and is no unit sold twice?
//
// A user joins with a product and gets a token, behind which an idempotency key goes through the
// whole pipeline: waiting room, queue, reservation, order, payment. The user polls with the token
// until there is an answer.
package checkout

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// The operation kinds.
const (
	// KindJoin begins an attempt of Op.Client at Op.Key. Reply.Key is the token, Reply.Value the
	// position in the waiting room, 0 in designs without one.
	KindJoin = "join"
	// KindPoll asks what has become of the attempt with the token Op.Key. Reply.Value is the
	// position.
	KindPoll = "poll"
	// KindLeave gives up the attempt with the token Op.Key while it waits.
	KindLeave = "leave"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrSoldOut: no unit is left.
	ErrSoldOut = sut.Refusal("sold_out", "sold out")
	// ErrRateLimited: the user, or the address, has asked too often.
	ErrRateLimited = sut.Refusal("rate_limited", "too many requests")
	// ErrJoined: the user has another attempt at the product.
	ErrJoined = sut.Refusal("already_joined", "the user has another attempt at this product")
	// ErrQueueFull: too many wait already.
	ErrQueueFull = sut.Refusal("queue_full", "the waiting room is full")
	// ErrContended: others were faster each time.
	ErrContended = sut.Refusal("contended", "contended")
	// ErrUnknownProduct: there is no such product.
	ErrUnknownProduct = sut.Refusal("unknown_product", "unknown product")
	// ErrNotWaiting: the attempt has left the waiting room, or never was in one.
	ErrNotWaiting = sut.Refusal("not_waiting", "the attempt does not wait")
	// ErrUnknownToken: nobody was given this token.
	ErrUnknownToken = sut.Refusal("unknown_token", "unknown token")
)

// Shop is the domain interface: what users ask for.
type Shop interface {
	Join(ctx context.Context, req JoinRequest) (Ticket, error)
	Poll(ctx context.Context, req PollRequest) (Progress, error)
	Leave(ctx context.Context, req LeaveRequest) (api.Nothing, error)
}

// JoinRequest asks for a unit of a product.
type JoinRequest struct {
	ID      uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the attempt's identity, the same each time that the request is sent"`
	Product uint64 `json:"product" op:"key,product-" min:"1" max:"100000"`
	User    string `json:"user" op:"client" min:"1" max:"40"`
	IP      string `json:"ip" min:"1" max:"45" doc:"the address that the load balancer saw"`
}

// Ticket is what a user is told first. It is the same each time, but for the position.
type Ticket struct {
	Token    string `json:"token" op:"key" min:"1" max:"80"`
	Position int64  `json:"position" op:"value" min:"0" doc:"how many are admitted until it is this one's turn, itself included: 1 is the next; 0 where nobody waits or no position is told. While the attempt waits, no later poll tells a greater one. Those in front who have left may count"`
}

// PollRequest asks for the progress of an attempt.
type PollRequest struct {
	ID    uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807" doc:"the request's identity in the run's history; the token says all that a server needs"`
	Token string `json:"-" path:"token" op:"key" min:"1" max:"80"`
}

// LeaveRequest gives up an attempt.
type LeaveRequest PollRequest

// Progress is how far an attempt is.
type Progress struct {
	State    string `json:"state" enum:"waiting,admitted,pending,paid,refused,compensated,left" doc:"waiting in the room; admitted to the checkout; an order whose payment is pending; paid; refused as sold out; compensated: not paid, and cancelled; left: given up by its user"`
	Position int64  `json:"position" op:"value" min:"0" doc:"as in a ticket; 0 unless the attempt is waiting"`
}

// The states of an attempt. The last four are final.
const (
	waiting     = "waiting"
	admitted    = "admitted"
	pending     = "pending"
	paid        = "paid"
	refused     = "refused"
	compensated = "compensated"
	left        = "left"
)

// rank orders the states: an attempt never goes back.
var rank = map[string]int{waiting: 0, admitted: 1, pending: 2, paid: 3, refused: 3, compensated: 3,
	left: 3}

// The states of an order. One that is being cancelled is not paid any more, and its unit is not
// free yet.
const (
	cancelling = "cancelling"
	cancelled  = "cancelled"
)

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Shop] {
	return &api.Table[Shop]{
		System: "checkout", Title: "Checkout",
		About: "The API of a shop that sells few units to a crowd. stampede serves its own designs\n" +
			"over it, and judges any server that implements it.",
		Kinds: []api.Kind[Shop]{
			api.Op(KindJoin, "POST /v1/attempts", Shop.Join, api.About{Summary: "Ask for a unit.",
				Detail: "A request that is sent again begins no second attempt. Whether there is a unit " +
					"may be decided now, or later.",
				Reply: "The attempt has begun, now or before.", Status: http.StatusCreated,
				Refuses: []error{ErrSoldOut, ErrRateLimited, ErrJoined, ErrQueueFull, ErrContended,
					ErrUnknownProduct}}),
			api.Op(KindPoll, "GET /v1/attempts/{token}", Shop.Poll, api.About{
				Summary: "Ask what has become of an attempt.", Detail: "It changes nothing.",
				Reply: "How far the attempt is.", Refuses: []error{ErrUnknownToken}}),
			api.Op(KindLeave, "DELETE /v1/attempts/{token}", Shop.Leave, api.About{
				Summary: "Give up an attempt that waits.",
				Detail: "It may be asked again. Polls need not tell of it: who has left is not there any " +
					"more.",
				Reply:   "The attempt has left, now or before.",
				Refuses: []error{ErrUnknownToken, ErrNotWaiting}}),
		},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: ErrSoldOut},
			{Status: http.StatusTooManyRequests, Is: ErrRateLimited},
			{Status: http.StatusConflict, Is: ErrJoined},
			{Status: http.StatusServiceUnavailable, Is: ErrQueueFull},
			{Status: http.StatusServiceUnavailable, Is: ErrContended},
			{Status: http.StatusNotFound, Is: ErrUnknownProduct},
			{Status: http.StatusNotFound, Is: ErrUnknownToken},
			{Status: http.StatusConflict, Is: ErrNotWaiting}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with nothing sold, and all limits unused.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{Products: p.Products, Units: p.Units, UserRate: p.UserRate,
				UserBurst: p.UserBurst, IPRate: p.IPRate, IPBurst: p.IPBurst, Room: p.Room,
				Batch: p.Batch, Price: p.Price}, err
		},
		PendingMeans: "Optional. A server without it is at rest when no attempt of its audit is open.",
		Left:         api.LeftIn((*Audit).open), Audit: Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	Products  int     `json:"products" min:"1" doc:"they are numbered from 1"`
	Units     int     `json:"units" min:"1" doc:"units of each product"`
	UserRate  float64 `json:"user_rate" min:"0" doc:"joins a second that a user may send, beyond user_burst"`
	UserBurst int     `json:"user_burst" min:"1"`
	IPRate    float64 `json:"ip_rate" min:"0" doc:"joins a second that may come from an address, beyond ip_burst"`
	IPBurst   int     `json:"ip_burst" min:"1"`
	Room      int     `json:"room" min:"1" doc:"attempts at a product that may be in the state admitted at once, by the order of the steps; one whose payment is pending takes no place"`
	Batch     int     `json:"batch" min:"1" doc:"attempts at a product that are admitted at once"`
	Price     int64   `json:"price" min:"1" doc:"of a unit: what a payment captures"`
}

// Contract is what a design promises. What allows more than ten seconds is not judged.
type Contract struct {
	RepairLagNS int64 `json:"repair_lag_ns" min:"0" doc:"how long a second store may differ from the stock, in nanoseconds; 0 if there is none. With more than ten seconds free-is-for-sale is NOT EXERCISED"`
}

// Audit is the final truth of the stores, or of a foreign server's audit endpoint. Times are
// nanoseconds of the store's clock.
type Audit struct {
	Contract Contract     `json:"contract"`
	Stock    []StockRow   `json:"stock" doc:"what the shop says of each product"`
	Gate     []GateRow    `json:"gate" doc:"what a second store says of each product; empty if there is none"`
	Attempts []AttemptRow `json:"attempts" doc:"every attempt that there ever was; a join that was refused began none"`
	Steps    []Step       `json:"steps" doc:"the changes of all attempts, in their order"`
	Orders   []OrderRow   `json:"orders" doc:"every order that there ever was"`
	Payments []PaymentRow `json:"payments" doc:"the provider's log: every capture and refund"`

	Callbacks   []CallbackRow   `json:"callbacks" doc:"every callback of the provider; null, and not an empty list, if it never calls back"`
	Settlements []SettlementRow `json:"settlements" doc:"what was done about more orders than units; empty if there never were more"`
}

// open counts the attempts that have not ended.
func (a *Audit) open() (n int64, what string) {
	for _, t := range a.Attempts {
		if !final(t.State) {
			n++
		}
	}
	return n, fmt.Sprintf("open attempts: %d", n)
}

// StockRow is a product at the end.
type StockRow struct {
	Product   uint64 `json:"product" min:"1"`
	Available int64  `json:"available"`
}

// GateRow is what a store in front of the stock says of a product.
type GateRow struct {
	Product uint64 `json:"product" min:"1"`
	Left    int64  `json:"left" doc:"units that nobody holds or has ordered"`
}

// AttemptRow is an attempt at the end.
type AttemptRow struct {
	ID       uint64 `json:"op_id" min:"1" doc:"the request that began it"`
	Token    string `json:"token"`
	Key      string `json:"key" doc:"the idempotency key, by which order and payment are known"`
	User     string `json:"user"`
	IP       string `json:"ip"`
	Product  uint64 `json:"product" min:"1"`
	State    string `json:"state" enum:"waiting,admitted,pending,paid,refused,compensated,left"`
	AdmitSeq int64  `json:"admit_seq" doc:"its place in the order of admission to its product, from 1; 0 if it was not admitted from a waiting room"`
	PassedNS int64  `json:"passed_ns" doc:"when the limiter let it pass, by the limiter's clock; 0 if there is none"`
	MadeNS   int64  `json:"made_ns" doc:"when it began, before it was acknowledged"`
}

// Step is one change of an attempt.
type Step struct {
	Seq    int64  `json:"seq" fact:"seq" doc:"a number of its own, by which steps are ordered"`
	ID     uint64 `json:"op_id" min:"1" fact:"op"`
	Token  string `json:"token" fact:"name"`
	Before string `json:"before" fact:"before" doc:"the state it was in, empty if it was not there"`
	State  string `json:"state" fact:"state" doc:"the first step makes an attempt, in any state but compensated and left. Then waiting leads to admitted, refused or left; admitted to pending or refused; pending to paid or compensated"`
	AtNS   int64  `json:"at_ns" fact:"from" doc:"by the clock of made_ns; several steps may have the same"`
}

// OrderRow is an order at the end.
type OrderRow struct {
	Key     string `json:"key" doc:"that of its attempt"`
	ID      uint64 `json:"op_id" min:"1"`
	User    string `json:"user"`
	Product uint64 `json:"product" min:"1"`
	State   string `json:"state" enum:"pending,paid,cancelling,cancelled" doc:"cancelling: it will not be paid any more, its unit is not free yet, and its attempt is still pending; cancelled: what was captured is refunded, its unit is free, and its attempt is compensated. At rest ends-once allows neither pending nor cancelling"`
	MadeNS  int64  `json:"made_ns" doc:"read from the clock when the order has its unit"`
	EndedNS int64  `json:"ended_ns" doc:"when it was cancelled, read before its unit is free again, so that the next order of that unit has the same made_ns or a later one; 0 if it was not"`
}

// PaymentRow is an entry of the provider's log.
type PaymentRow struct {
	Key    string `json:"key"`
	Kind   string `json:"kind" enum:"capture,refund"`
	Amount int64  `json:"amount" doc:"positive, also of a refund"`
}

// CallbackRow is a callback of the provider, noted before it was made. The same one may come twice.
type CallbackRow struct {
	Key      string `json:"key"`
	Captured bool   `json:"captured" doc:"what became of the capture: false if it was declined, or came after a void. A later refund need not change it"`
}

// SettlementRow is what was done about a product that had more orders than units: no more than the
// excess was restocked or cancelled.
type SettlementRow struct {
	Product   uint64   `json:"product" min:"1"`
	Restocked int64    `json:"restocked" min:"0" doc:"units that were bought, so that orders could be kept"`
	Cancelled []string `json:"cancelled" doc:"keys of the orders that were cancelled for want of units: the newest, of those that were pending or paid then"`
	AtNS      int64    `json:"at_ns" doc:"read after the orders were counted"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Products int     `json:"products" min:"1" max:"1000" doc:"how many products are on sale"`
	Units    int     `json:"units" min:"1" max:"1000000" doc:"units of each product"`
	Skew     string  `json:"skew" enum:"uniform,zipf,hot,moving" doc:"which product is wanted"`
	Users    int     `json:"users" min:"0" max:"10000000" doc:"how many users there are; 0 means one for each scheduled join"`
	Twice    float64 `json:"twice" min:"0" max:"1" doc:"share of joins that repeat user and product of the scheduled join before, as another attempt: a second click"`
	IPs      int     `json:"ips" min:"1" max:"10000000" doc:"how many addresses users have"`

	Bots   float64 `json:"bots" min:"0" max:"1" doc:"share of joins that a network of bots sends"`
	BotIPs int     `json:"bot_ips" min:"1" max:"1000000" doc:"how many addresses that network has; each bot is a user of its own"`

	PollEvery sut.Duration `json:"poll_every" min:"1ms" max:"1m" doc:"how long a user waits between two polls"`
	Polls     int          `json:"polls" min:"0" max:"200" doc:"how often a user polls at most"`
	Leave     float64      `json:"leave" min:"0" max:"1" doc:"share of users who leave when their first poll says that they wait"`
	ComeBack  int          `json:"come_back" min:"0" max:"7" doc:"how often a user joins again who was refused"`
	Resend    float64      `json:"resend" min:"0" max:"1" doc:"share of joins that are sent twice, at once or after the answer"`
	Retry     int          `json:"retry" min:"0" max:"10" doc:"how often a join of unknown outcome is sent again"`

	UserRate  float64 `json:"user_rate" min:"0" max:"1000000" doc:"joins a second that a user may send, beyond user_burst; of designs with an edge"`
	UserBurst int     `json:"user_burst" min:"1" max:"1000000" doc:"joins that a user may send at once"`
	IPRate    float64 `json:"ip_rate" min:"0" max:"1000000" doc:"joins a second from one address, beyond ip_burst"`
	IPBurst   int     `json:"ip_burst" min:"1" max:"1000000" doc:"joins at once from one address"`

	Room       int          `json:"room" min:"1" max:"1000000" doc:"attempts at a product that may be admitted and undecided; of designs with a waiting room"`
	Batch      int          `json:"batch" min:"1" max:"10000" doc:"attempts at a product that are admitted at once"`
	AdmitEvery sut.Duration `json:"admit_every" min:"1ms" max:"1m" doc:"how often attempts are admitted"`
	Longest    int          `json:"longest" min:"0" max:"10000000" doc:"how many may wait for a product; who comes then is told that the room is full; 0 means any number"`

	HoldTTL   sut.Duration `json:"hold_ttl" min:"1ms" max:"1h" doc:"how long a unit is held in Redis for a checkout that goes no further; 90 seconds in life"`
	Reconcile sut.Duration `json:"reconcile_every" min:"1ms" max:"1m" doc:"how often Redis is compared with the stock"`
	RepairLag sut.Duration `json:"repair_lag" min:"1ms" max:"10s" doc:"how long Redis may differ from the stock, in designs with Redis"`

	SettleEvery sut.Duration `json:"settle_every" min:"1ms" max:"5s" doc:"how often orders are compared with units, in designs in which Redis decides"`

	Price      int64        `json:"price" min:"1" max:"1000000000" doc:"of a unit, in the smallest coin"`
	PayEvery   sut.Duration `json:"pay_every" min:"1ms" max:"1m" doc:"how often orders are looked for that are to be paid"`
	PayTries   int          `json:"pay_tries" min:"1" max:"100" doc:"how often a payment is tried before it is compensated"`
	PayRetry   sut.Duration `json:"pay_retry" min:"1ms" max:"10m" doc:"how long after the beginning of a try the next one may begin; longer than pay_timeout"`
	PayTime    sut.Duration `json:"pay_time" min:"0s" max:"1m" doc:"how long the provider takes"`
	PayTimeout sut.Duration `json:"pay_timeout" min:"1ms" max:"1m" doc:"how long the shop waits for it; 30 seconds in life"`
	Declined   float64      `json:"declined" min:"0" max:"1" doc:"share of payments that are declined"`
	Slow       float64      `json:"slow" min:"0" max:"1" doc:"share of payments that the provider takes slow_time for"`
	SlowTime   sut.Duration `json:"slow_time" min:"0s" max:"10m" doc:"how long those take, and how long after an answer the provider calls back again: the shop may have given up by then"`
	Silent     float64      `json:"silent" min:"0" max:"1" doc:"share of payments that the provider never answers; it makes half of them, and says so in its second callback alone"`
}

// DefaultParams is a launch of ten products.
func DefaultParams() Params {
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	return Params{
		Products: 10, Units: 100, Skew: "zipf", Twice: 0.05, IPs: 100_000, Bots: 0.2, BotIPs: 20,
		PollEvery: ms(250), Polls: 100, Leave: 0.05, ComeBack: 1, Resend: 0.02, Retry: 3,
		UserRate: 1, UserBurst: 5, IPRate: 5, IPBurst: 20,
		Room: 100, Batch: 50, AdmitEvery: ms(50),
		HoldTTL: ms(2000), Reconcile: ms(100), RepairLag: ms(3000),
		SettleEvery: ms(2000), Price: 4999, PayEvery: ms(20), PayTries: 3, PayRetry: ms(400),
		PayTime: ms(10), PayTimeout: ms(300), Declined: 0.05, Slow: 0.02, SlowTime: ms(500),
		Silent: 0.02,
	}
}

// has says whether there is such a product.
func (p Params) has(product uint64) bool { return product <= uint64(p.Products) }

// all are the products.
func (p Params) all() []uint64 {
	list := make([]uint64, p.Products)
	for i := range list {
		list[i] = uint64(i) + 1
	}
	return list
}

func productKey(number uint64) string { return "product-" + strconv.FormatUint(number, 10) }
