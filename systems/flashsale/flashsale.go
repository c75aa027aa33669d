// Package flashsale is the system in which far more buyers than there are units arrive at once. Its
// question: which design sells exactly N units, and what does it cost?
//
// Buying puts a unit into a cart (a held order). The payment provider's webhook turns the order
// into a paid one or returns the unit; a reclaimer returns carts that expired; a payment that comes
// too late is refunded.
package flashsale

import (
	"context"
	"fmt"
	"net/http"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// The operation kinds.
const (
	// KindBuy puts a unit of Op.Key into the cart of Op.Client. Op.ID is the
	// idempotency key: attempts with the same ID give the same order.
	// Reply.Key is the order, Reply.Value the unit (0 if the design has none).
	KindBuy = "buy"
	// KindPayment is a delivery of the payment provider's webhook. Op.Key is
	// the order, Op.Client the payment's identity (equal for duplicate
	// deliveries), Op.Arg the amount in cents, negative if it failed.
	// Reply.Key is the PaymentState.
	KindPayment = "payment"
	// KindStock reads one consistent snapshot of the stock of Op.Key.
	// Reply.Body is a Stock as JSON.
	KindStock = "stock"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrSoldOut: no unit is available now.
	ErrSoldOut = sut.Refusal("sold_out", "sold out")
	// ErrAlreadyBought: the buyer holds or has bought a unit of this item.
	ErrAlreadyBought = sut.Refusal("already_bought", "already bought")
	// ErrConflict: the design gave up after its bounded retries, without effect.
	ErrConflict = sut.Refusal("conflict", "conflict")
	// ErrUnknownItem: there is no such item.
	ErrUnknownItem = sut.Refusal("unknown_item", "unknown item")
	// ErrUnknownOrder: there is no such order.
	ErrUnknownOrder = sut.Refusal("unknown_order", "unknown order")
	// ErrNotReady: the sale is paused, for example while a counter is rebuilt.
	ErrNotReady = sut.Refusal("not_ready", "sale not ready")
	// errOverloaded is what only other servers answer: they shed load.
	errOverloaded = sut.Refusal("overloaded", "overloaded")
)

// ErrNoStock is returned by Shops that cannot give a snapshot of the stock.
var ErrNoStock = sut.Failure("no_snapshot", "no stock snapshot")

// Shop is the domain interface: what every variant, the HTTP client and the
// HTTP handler have in common.
type Shop interface {
	Buy(ctx context.Context, req BuyRequest) (Order, error)
	PaymentResult(ctx context.Context, p Payment) (PaymentState, error)
	Stock(ctx context.Context, item string) (Stock, error)
}

// BuyRequest asks for one unit of an item.
type BuyRequest struct {
	OpID  uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the operation's identity, the same in every attempt"`
	Item  string `json:"item" op:"key" min:"1" max:"256"`
	Buyer string `json:"buyer" op:"client" min:"1" max:"256"`
}

// Order is a cart: a unit held for a buyer.
type Order struct {
	ID   string `json:"order" op:"key" min:"1"`
	Unit int64  `json:"unit" op:"value" min:"0" doc:"the unit's number from 1; 0 if the design keeps no units"`
}

// Payment is one delivery of a payment provider's webhook. Duplicate deliveries share
// PaymentID.
type Payment struct {
	OpID        uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the operation's identity, the same in every attempt"`
	PaymentID   string `json:"payment_id" op:"client" min:"1" max:"256"`
	OrderID     string `json:"order" op:"key" min:"1" max:"256"`
	Succeeded   bool   `json:"succeeded" op:"sign"`
	AmountCents int64  `json:"amount_cents" op:"arg" min:"1" doc:"the price that was captured"`
}

// PaymentState is what became of a payment.
type PaymentState string

// The payment states.
const (
	// PaymentSold: the order is paid and the unit sold.
	PaymentSold PaymentState = "sold"
	// PaymentReleased: the payment failed and the unit was returned.
	PaymentReleased PaymentState = "released"
	// PaymentRefunded: the payment came too late and was refunded.
	PaymentRefunded PaymentState = "refunded"
)

// PaymentReply is the answer to a payment.
type PaymentReply struct {
	State PaymentState `json:"state" op:"key" enum:"sold,released,refunded"`
}

// StockRequest asks for the stock of an item.
type StockRequest struct {
	Item string `json:"-" path:"item" op:"key" min:"1" max:"256"`
}

// Stock is one consistent snapshot of an item's units.
type Stock struct {
	Item      string `json:"item" echo:"key" min:"1" max:"256"`
	Units     int64  `json:"units"`
	Available int64  `json:"available"`
	Held      int64  `json:"held"`
	Sold      int64  `json:"sold"`
}

// ResetRequest asks for a new sale with its stock untouched.
type ResetRequest struct {
	Items          int   `json:"items" min:"1" doc:"they are named item-1, item-2 and so on"`
	Units          int   `json:"units" min:"1" doc:"units of each item"`
	PriceCents     int64 `json:"price_cents" min:"1"`
	CartTTLMS      int64 `json:"cart_ttl_ms" min:"1" doc:"after this long an unpaid cart is returned to stock"`
	ReclaimEveryMS int64 `json:"reclaim_every_ms" min:"1" doc:"how often to look for such carts"`
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest {
	return ResetRequest{
		Items: p.Items, Units: p.Units, PriceCents: p.PriceCents,
		CartTTLMS:      p.CartTTL.D().Milliseconds(),
		ReclaimEveryMS: p.ReclaimEvery.D().Milliseconds(),
	}
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Shop] {
	settles := []error{ErrSoldOut, ErrAlreadyBought, ErrConflict, ErrUnknownItem, ErrUnknownOrder,
		ErrNotReady, errOverloaded}
	return &api.Table[Shop]{
		System: "flashsale", Title: "Flash sale",
		About: "The API of a shop in which far more buyers than units arrive at once. stampede serves\n" +
			"its own designs over it, and judges any server that implements it: buying, payments, stock,\n" +
			"reset and audit are all it needs.\n\n" +
			"A part of the audit that is left out is not judged, and the verdicts say so. All its times\n" +
			"are nanoseconds since 1970 on one clock, the store's.",
		Kinds: []api.Kind[Shop]{
			api.Op(KindBuy, "POST /v1/buy", Shop.Buy, api.About{
				Summary: "Put one unit of an item into the buyer's cart.",
				Detail: "op_id is the idempotency key: requests with the same key give the same order, also " +
					"when they\nrace. A repeated request may be refused only if its order has expired, " +
					"because another buyer\nmay have the unit. A buyer has at most one held or paid order of " +
					"an item at any time.",
				Reply:  "The order, new or made earlier for the same key.",
				Status: http.StatusCreated, Refuses: settles}),
			api.Op(KindPayment, "POST /v1/payments", pay, api.About{
				ID: "deliverPayment", Summary: "Deliver the payment provider's webhook.",
				Detail: "A success turns a held order into a paid one. A failure returns its unit. A success " +
					"that comes\nwhen the order is no longer held is refunded. Deliveries with the same " +
					"payment_id have one\neffect and the same answer.",
				Reply: "What became of the payment.", Refuses: settles}),
			api.Op(KindStock, "GET /v1/items/{item}/stock", readStock, api.About{
				ID: "readStock", Summary: "Read one consistent snapshot of an item's stock.",
				Detail:  "It is of a moment between the request and its answer.",
				Reply:   "The snapshot.",
				Refuses: []error{ErrUnknownItem, ErrUnknownOrder, ErrNotReady, errOverloaded, ErrNoStock}}),
		},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: ErrSoldOut},
			{Status: http.StatusConflict, Is: ErrAlreadyBought},
			{Status: http.StatusConflict, Is: ErrConflict},
			{Status: http.StatusNotFound, Is: ErrUnknownItem},
			{Status: http.StatusNotFound, Is: ErrUnknownOrder},
			{Status: http.StatusServiceUnavailable, Is: ErrNotReady},
			{Status: http.StatusTooManyRequests, Is: errOverloaded},
			{Status: http.StatusNotImplemented, Is: ErrNoStock}},
		MaxBody: 16 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin a new sale with nothing sold.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return resetOf(p), err
		},
		PendingMeans: "Optional. A server without it counts as at rest when no unit is in a cart.",
		Left:         unitsInCarts, Audit: Audit{},
	}
}

func pay(s Shop, ctx context.Context, p Payment) (PaymentReply, error) {
	state, err := s.PaymentResult(ctx, p)
	return PaymentReply{state}, err
}

func readStock(s Shop, ctx context.Context, req StockRequest) (Stock, error) {
	return s.Stock(ctx, req.Item)
}

// Order states in an Audit.
const (
	OrderHeld    = "held"
	OrderPaid    = "paid"
	OrderExpired = "expired" // returned by the reclaimer
	OrderFailed  = "failed"  // returned after a failed payment
)

// Unit states in an Audit.
const (
	UnitAvailable = "available"
	UnitHeld      = "held"
	UnitSold      = "sold"
)

// Audit is the final truth of the stores, or of a foreign server's audit
// endpoint. All times are Unix nanoseconds of the store's clock.
type Audit struct {
	Items    []ItemAudit    `json:"items"`
	Units    []UnitAudit    `json:"units,omitempty" doc:"left out if the design keeps no unit rows"`
	Orders   []OrderAudit   `json:"orders"`
	Payments []PaymentAudit `json:"payments"`
	// Seq orders the changes of one unit and of one order.
	Log            []LogEntry   `json:"log" doc:"every change of an order's state, by ascending seq"`
	Redis          []RedisAudit `json:"redis,omitempty" doc:"left out if the design keeps nothing in Redis"`
	CartTTLNS      int64        `json:"cart_ttl_ns" min:"0" doc:"the time after which a cart may be returned"`
	ReclaimSlackNS int64        `json:"reclaim_slack_ns" min:"0" doc:"how much later than that the design promises to have returned its unit and to offer it again. A promise of more than twice the cart's time plus 5 s is not judged"`
}

// Check makes sure that what is closed has an end, and that the log is in order.
func (a *Audit) Check() error {
	for i, o := range a.Orders {
		if o.State != OrderHeld && o.ClosedAt <= 0 {
			return fmt.Errorf("orders[%d].closed_at_ns: expected a number above 0, got %d", i, o.ClosedAt)
		}
	}
	for i := 1; i < len(a.Log); i++ {
		if a.Log[i].Seq <= a.Log[i-1].Seq {
			return fmt.Errorf("log[%d].seq: expected a number above the entry's before (%d), got %d",
				i, a.Log[i-1].Seq, a.Log[i].Seq)
		}
	}
	return nil
}

// ItemAudit is one item with its counts as the system of record has them. These may be
// negative, as Redis's may: a wrong design has such stocks, and it is for the judges to say so.
type ItemAudit struct {
	Item       string `json:"item" min:"1" max:"256" fact:"key"`
	Units      int64  `json:"units"`
	PriceCents int64  `json:"price_cents"`
	Available  int64  `json:"available"`
	Held       int64  `json:"held"`
	Sold       int64  `json:"sold"`
}

// UnitAudit is one unit row.
type UnitAudit struct {
	Item    string `json:"item" min:"1" max:"256"`
	Unit    int64  `json:"unit" min:"1"`
	State   string `json:"state" enum:"available,held,sold"`
	OrderID string `json:"order,omitempty" doc:"the order that has it; left out while it is available"`
	Version int64  `json:"version" doc:"incremented with each change of state"`
}

// OrderAudit is one order row.
type OrderAudit struct {
	ID       string `json:"order" min:"1" fact:"name"`
	OpID     uint64 `json:"op_id" fact:"op" min:"1" max:"9223372036854775807" doc:"the buy's"`
	Item     string `json:"item" min:"1" max:"256" fact:"key"`
	Buyer    string `json:"buyer" fact:"owner" min:"1" max:"256"`
	Unit     int64  `json:"unit,omitempty" fact:"thing" min:"0" doc:"0 or left out if the design keeps no units"`
	State    string `json:"state" fact:"state" enum:"held,paid,expired,failed"`
	HeldAt   int64  `json:"held_at_ns" fact:"from" min:"1" doc:"nanoseconds since 1970 on the store's clock"`
	ClosedAt int64  `json:"closed_at_ns,omitempty" fact:"to" doc:"when it was paid or returned; left out until then"`
}

// PaymentAudit is one payment row.
type PaymentAudit struct {
	ID          string `json:"payment_id" min:"1" max:"256" fact:"name"`
	OrderID     string `json:"order" min:"1" fact:"owner"`
	AmountCents int64  `json:"amount_cents"`
	Captured    bool   `json:"captured" doc:"the provider took the money"`
	Refunded    bool   `json:"refunded" doc:"it was given back because the order was no longer held"`
	Deliveries  int64  `json:"deliveries" min:"0"`
	Effects     int64  `json:"effects" min:"0" doc:"how many deliveries sold a unit or released one or refunded the payment"`
}

// LogEntry is one change of an order's state, written in the transaction that
// made it. From and To are unit states.
type LogEntry struct {
	Seq     int64  `json:"seq" fact:"seq" min:"1"`
	OrderID string `json:"order" min:"1" fact:"name"`
	Item    string `json:"item" min:"1" max:"256" fact:"key"`
	Unit    int64  `json:"unit,omitempty" min:"0" fact:"thing"`
	Version int64  `json:"version,omitempty" fact:"version" doc:"the unit's, after the change"`
	From    string `json:"from" fact:"before" enum:"available,held,sold"`
	To      string `json:"to" fact:"state" enum:"available,held,sold"`
	Cause   string `json:"cause" fact:"cause" enum:"buy,paid,payment-failed,expired"`
	At      int64  `json:"at_ns" min:"1" doc:"nanoseconds since 1970 on the store's clock"`
}

// The causes in a LogEntry.
const (
	causeBuy           = "buy"
	causePaid          = "paid"
	causePaymentFailed = "payment-failed"
	causeExpired       = "expired"
)

// RedisAudit is what Redis says of an item.
type RedisAudit struct {
	Item    string `json:"item" min:"1" max:"256"`
	Present bool   `json:"present" doc:"false if the counter is missing"`
	Stock   int64  `json:"stock"`
	Holds   int64  `json:"holds" doc:"reservations that are neither committed nor released"`
}

// Params are the workload's parameters. Their bounds keep operation identities unique (see
// newWorkload) and the initial state within what a store holds in seconds.
type Params struct {
	Items      int    `json:"items" min:"1" max:"10000" doc:"how many items are on sale"`
	Units      int    `json:"units" min:"1" max:"10000000" doc:"units of each item"`
	PriceCents int64  `json:"price_cents" min:"1" max:"1000000000" doc:"price of a unit in cents"`
	Buyers     int    `json:"buyers" min:"0" doc:"distinct buyers; 0 means one for each scheduled buy"`
	ItemSkew   string `json:"item_skew" enum:"uniform,zipf,hot,moving" doc:"which item a buyer wants"`

	CartTTL      sut.Duration `json:"cart_ttl" min:"1ms" max:"1h" doc:"a cart not paid for this long is returned (12m in production)"`
	ReclaimEvery sut.Duration `json:"reclaim_every" min:"1ms" max:"1h" doc:"how often the reclaimer checks for expired carts"`

	PaySuccess  float64      `json:"pay_success" min:"0" max:"1" doc:"share of carts whose payment succeeds"`
	PayFailure  float64      `json:"pay_failure" min:"0" max:"1" doc:"share of carts whose payment fails; the rest are abandoned"`
	PayDelay    sut.Duration `json:"pay_delay" min:"0s" max:"1h" doc:"shortest time from cart to webhook"`
	PaySpread   sut.Duration `json:"pay_spread" min:"0s" max:"1h" doc:"uniform extra time to the webhook"`
	PayTwice    float64      `json:"pay_twice" min:"0" max:"1" doc:"share of webhooks that are delivered twice"`
	PayLate     float64      `json:"pay_late" min:"0" max:"1" doc:"share of payments that succeed about when the cart expires"`
	LateSpread  sut.Duration `json:"late_spread" min:"0s" max:"1h" doc:"how far around the expiry a late payment falls, each way"`
	ClickTwice  float64      `json:"click_twice" min:"0" max:"1" doc:"share of buyers that send their request twice with the same key"`
	BuyAgain    float64      `json:"buy_again" min:"0" max:"1" doc:"share of buyers that try to buy a second unit of the same item"`
	StockReads  float64      `json:"stock_reads" min:"0" max:"16" doc:"stock snapshots for each scheduled buy"`
	RetryOnLost int          `json:"retry_on_lost" min:"0" max:"15" doc:"how often a buyer repeats a request whose outcome is unknown, with the same key"`
}
