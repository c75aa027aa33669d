// Package flashsale is the system in which far more buyers than there are
// units arrive at once. Its question: which design sells exactly N units, and
// what does it cost?
//
// A unit is a thing on a shelf. Buying puts it into a cart (a held order);
// payment happens outside any transaction; the payment provider's webhook
// turns the held order into a paid one or returns the unit; a reclaimer
// returns carts that expired; a payment that comes too late is refunded.
package flashsale

import (
	"context"

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
	// OpID is the idempotency key.
	OpID  uint64 `json:"op_id"`
	Item  string `json:"item"`
	Buyer string `json:"buyer"`
}

// Order is a cart: a unit held for a buyer.
type Order struct {
	ID string `json:"order"`
	// Unit is the unit's number from 1, 0 if the design keeps no units.
	Unit int64 `json:"unit"`
}

// Payment is one delivery of a payment provider's webhook.
type Payment struct {
	// OpID is the delivery's identity, PaymentID the payment's; duplicate
	// deliveries share the latter.
	OpID      uint64 `json:"op_id"`
	PaymentID string `json:"payment_id"`
	OrderID   string `json:"order"`
	Succeeded bool   `json:"succeeded"`
	// AmountCents is the price that was captured.
	AmountCents int64 `json:"amount_cents"`
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

// Stock is one consistent snapshot of an item's units.
type Stock struct {
	Item      string `json:"item"`
	Units     int64  `json:"units"`
	Available int64  `json:"available"`
	Held      int64  `json:"held"`
	Sold      int64  `json:"sold"`
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
	Units    []UnitAudit    `json:"units,omitempty"` // absent if the design keeps no unit rows
	Orders   []OrderAudit   `json:"orders"`
	Payments []PaymentAudit `json:"payments"`
	// Log has every change of an order's state in the order of Seq.
	Log []LogEntry `json:"log"`
	// Redis is absent if the design keeps nothing there.
	Redis []RedisAudit `json:"redis,omitempty"`
	// CartTTLNS is the time after which a cart may be reclaimed, and
	// ReclaimSlackNS how much later than that the design promises to do it.
	CartTTLNS      int64 `json:"cart_ttl_ns"`
	ReclaimSlackNS int64 `json:"reclaim_slack_ns"`
}

// ItemAudit is one item with its counts as the system of record has them.
type ItemAudit struct {
	Item       string `json:"item"`
	Units      int64  `json:"units"`
	PriceCents int64  `json:"price_cents"`
	Available  int64  `json:"available"`
	Held       int64  `json:"held"`
	Sold       int64  `json:"sold"`
}

// UnitAudit is one unit row.
type UnitAudit struct {
	Item    string `json:"item"`
	Unit    int64  `json:"unit"`
	State   string `json:"state"`
	OrderID string `json:"order,omitempty"`
	Version int64  `json:"version"`
}

// OrderAudit is one order row.
type OrderAudit struct {
	ID       string `json:"order"`
	OpID     uint64 `json:"op_id"`
	Item     string `json:"item"`
	Buyer    string `json:"buyer"`
	Unit     int64  `json:"unit"`
	State    string `json:"state"`
	HeldAt   int64  `json:"held_at_ns"`
	ClosedAt int64  `json:"closed_at_ns,omitempty"` // paid, expired or failed at
}

// PaymentAudit is one payment row.
type PaymentAudit struct {
	ID          string `json:"payment_id"`
	OrderID     string `json:"order"`
	AmountCents int64  `json:"amount_cents"`
	// Captured says that the provider took the money; Refunded that it was
	// given back.
	Captured bool `json:"captured"`
	Refunded bool `json:"refunded"`
	// Deliveries counts the webhook's deliveries, Effects those that changed
	// anything.
	Deliveries int64 `json:"deliveries"`
	Effects    int64 `json:"effects"`
}

// LogEntry is one change of an order's state, written in the transaction that
// made it.
type LogEntry struct {
	Seq     int64  `json:"seq"`
	OrderID string `json:"order"`
	Item    string `json:"item"`
	Unit    int64  `json:"unit"`
	// Version is the unit's version after the change, 0 without unit rows.
	Version int64 `json:"version"`
	// From and To are unit states.
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is buy, paid, payment-failed or expired.
	Cause string `json:"cause"`
	At    int64  `json:"at_ns"`
}

// RedisAudit is what Redis says of an item.
type RedisAudit struct {
	Item string `json:"item"`
	// Present is false if the counter is missing.
	Present bool  `json:"present"`
	Stock   int64 `json:"stock"`
	// Holds counts reservations that are neither committed nor released.
	Holds int64 `json:"holds"`
}

// Params are the workload's parameters.
type Params struct {
	Items      int    `json:"items" doc:"how many items are on sale"`
	Units      int    `json:"units" doc:"units of each item"`
	PriceCents int64  `json:"price_cents" doc:"price of a unit in cents"`
	Buyers     int    `json:"buyers" doc:"distinct buyers; 0 means one for each scheduled buy"`
	ItemSkew   string `json:"item_skew" doc:"which item a buyer wants: uniform, zipf, hot or moving"`

	CartTTL      sut.Duration `json:"cart_ttl" doc:"a cart not paid for this long is returned (12m in production)"`
	ReclaimEvery sut.Duration `json:"reclaim_every" doc:"how often the reclaimer checks for expired carts"`

	PaySuccess  float64      `json:"pay_success" doc:"share of carts whose payment succeeds"`
	PayFailure  float64      `json:"pay_failure" doc:"share of carts whose payment fails; the rest are abandoned"`
	PayDelay    sut.Duration `json:"pay_delay" doc:"shortest time from cart to webhook"`
	PaySpread   sut.Duration `json:"pay_spread" doc:"uniform extra time to the webhook"`
	PayTwice    float64      `json:"pay_twice" doc:"share of webhooks that are delivered twice"`
	PayLate     float64      `json:"pay_late" doc:"share of payments that succeed about when the cart expires"`
	LateSpread  sut.Duration `json:"late_spread" doc:"how far around the expiry a late payment falls, each way"`
	ClickTwice  float64      `json:"click_twice" doc:"share of buyers that send their request twice with the same key"`
	BuyAgain    float64      `json:"buy_again" doc:"share of buyers that try to buy a second unit of the same item"`
	StockReads  float64      `json:"stock_reads" doc:"stock snapshots for each scheduled buy"`
	RetryOnLost int          `json:"retry_on_lost" doc:"how often a buyer repeats a request whose outcome is unknown, with the same key"`
}
