package flashsale

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// DecodeAudit reads an Audit from JSON. A whole list that is absent stays nil,
// so that judges can say what they miss; within a row every field but those
// marked optional in openapi.yaml must be there and be legal. Fields that it
// does not know are skipped. The error names the first bad field by its path,
// for example `orders[3].state`.
func DecodeAudit(raw json.RawMessage) (Audit, error) {
	if len(raw) == 0 {
		return Audit{}, errors.New("the audit is empty")
	}
	var wire wireAudit
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", err)
	}
	audit, err := wire.audit()
	if err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", err)
	}
	return audit, nil
}

// wireAudit is Audit with pointers where zero is a legal value that must not
// be mistaken for a field that was left out.
type wireAudit struct {
	Items          []wireItem    `json:"items"`
	Units          []wireUnit    `json:"units"`
	Orders         []OrderAudit  `json:"orders"`
	Payments       []wirePayment `json:"payments"`
	Log            []LogEntry    `json:"log"`
	Redis          []wireRedis   `json:"redis"`
	CartTTLNS      int64         `json:"cart_ttl_ns"`
	ReclaimSlackNS int64         `json:"reclaim_slack_ns"`
}

type wireItem struct {
	Item       string `json:"item"`
	Units      *int64 `json:"units"`
	PriceCents *int64 `json:"price_cents"`
	Available  *int64 `json:"available"`
	Held       *int64 `json:"held"`
	Sold       *int64 `json:"sold"`
}

type wireUnit struct {
	Item    string `json:"item"`
	Unit    int64  `json:"unit"`
	State   string `json:"state"`
	OrderID string `json:"order"`
	Version *int64 `json:"version"`
}

type wirePayment struct {
	ID          string `json:"payment_id"`
	OrderID     string `json:"order"`
	AmountCents *int64 `json:"amount_cents"`
	Captured    *bool  `json:"captured"`
	Refunded    *bool  `json:"refunded"`
	Deliveries  *int64 `json:"deliveries"`
	Effects     *int64 `json:"effects"`
}

type wireRedis struct {
	Item    string `json:"item"`
	Present *bool  `json:"present"`
	Stock   *int64 `json:"stock"`
	Holds   *int64 `json:"holds"`
}

func (w *wireAudit) audit() (Audit, error) {
	f := &fields{}
	a := Audit{
		Items:    rows(f, "items", w.Items, (*fields).item),
		Units:    rows(f, "units", w.Units, (*fields).unit),
		Orders:   rows(f, "orders", w.Orders, (*fields).order),
		Payments: rows(f, "payments", w.Payments, (*fields).payment),
		Log:      rows(f, "log", w.Log, (*fields).logEntry),
		Redis:    rows(f, "redis", w.Redis, (*fields).redis),

		CartTTLNS: w.CartTTLNS, ReclaimSlackNS: w.ReclaimSlackNS,
	}
	f.list, f.row = "", 0
	f.notNegative("cart_ttl_ns", w.CartTTLNS)
	f.notNegative("reclaim_slack_ns", w.ReclaimSlackNS)
	f.ascending(a.Log)
	return a, f.err
}

// fields checks the fields of one row after another and keeps the first error.
type fields struct {
	list string
	row  int
	err  error
}

// rows converts a list, keeping the difference between absent and empty.
func rows[W, R any](f *fields, list string, wire []W, convert func(*fields, *W) R) []R {
	if wire == nil {
		return nil
	}
	out := make([]R, len(wire))
	f.list = list
	for i := range wire {
		f.row = i
		out[i] = convert(f, &wire[i])
		if f.err != nil {
			return nil
		}
	}
	return out
}

func (f *fields) fail(field, format string, args ...any) {
	if f.err != nil {
		return
	}
	path := field
	if f.list != "" {
		path = fmt.Sprintf("%s[%d].%s", f.list, f.row, field)
	}
	f.err = fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
}

func (f *fields) text(field, got string) string {
	if got == "" {
		f.fail(field, "expected a text, got none")
	}
	return got
}

func (f *fields) number(field string, got *int64) int64 {
	if got == nil {
		f.fail(field, "expected a number, got none")
		return 0
	}
	return *got
}

func (f *fields) truth(field string, got *bool) bool {
	if got == nil {
		f.fail(field, "expected true or false, got none")
		return false
	}
	return *got
}

func (f *fields) positive(field string, got int64) int64 {
	if got <= 0 {
		f.fail(field, "expected a number above 0, got %d", got)
	}
	return got
}

func (f *fields) notNegative(field string, got int64) int64 {
	if got < 0 {
		f.fail(field, "expected 0 or more, got %d", got)
	}
	return got
}

func (f *fields) oneOf(field, got string, legal ...string) string {
	if !slices.Contains(legal, got) {
		f.fail(field, "expected one of %q, got %q", legal, got)
	}
	return got
}

// The counts of items and Redis may be negative: a wrong design has such
// stocks, and it is for the judges to say so.

func (f *fields) item(w *wireItem) ItemAudit {
	return ItemAudit{
		Item:       f.text("item", w.Item),
		Units:      f.number("units", w.Units),
		PriceCents: f.number("price_cents", w.PriceCents),
		Available:  f.number("available", w.Available),
		Held:       f.number("held", w.Held),
		Sold:       f.number("sold", w.Sold),
	}
}

func (f *fields) unit(w *wireUnit) UnitAudit {
	return UnitAudit{
		Item:    f.text("item", w.Item),
		Unit:    f.positive("unit", w.Unit),
		State:   f.oneOf("state", w.State, UnitAvailable, UnitHeld, UnitSold),
		OrderID: w.OrderID,
		Version: f.number("version", w.Version),
	}
}

func (f *fields) order(w *OrderAudit) OrderAudit {
	f.text("order", w.ID)
	if w.OpID == 0 {
		f.fail("op_id", "expected the buy's op_id, got 0 or none")
	}
	f.text("item", w.Item)
	f.text("buyer", w.Buyer)
	f.notNegative("unit", w.Unit)
	f.oneOf("state", w.State, OrderHeld, OrderPaid, OrderExpired, OrderFailed)
	f.positive("held_at_ns", w.HeldAt)
	if w.State != OrderHeld {
		f.positive("closed_at_ns", w.ClosedAt)
	}
	return *w
}

func (f *fields) payment(w *wirePayment) PaymentAudit {
	return PaymentAudit{
		ID:          f.text("payment_id", w.ID),
		OrderID:     f.text("order", w.OrderID),
		AmountCents: f.number("amount_cents", w.AmountCents),
		Captured:    f.truth("captured", w.Captured),
		Refunded:    f.truth("refunded", w.Refunded),
		Deliveries:  f.notNegative("deliveries", f.number("deliveries", w.Deliveries)),
		Effects:     f.notNegative("effects", f.number("effects", w.Effects)),
	}
}

func (f *fields) logEntry(w *LogEntry) LogEntry {
	f.positive("seq", w.Seq)
	f.text("order", w.OrderID)
	f.text("item", w.Item)
	f.notNegative("unit", w.Unit)
	f.oneOf("from", w.From, UnitAvailable, UnitHeld, UnitSold)
	f.oneOf("to", w.To, UnitAvailable, UnitHeld, UnitSold)
	f.oneOf("cause", w.Cause, causeBuy, causePaid, causePaymentFailed, causeExpired)
	f.positive("at_ns", w.At)
	return *w
}

func (f *fields) redis(w *wireRedis) RedisAudit {
	return RedisAudit{
		Item:    f.text("item", w.Item),
		Present: f.truth("present", w.Present),
		Stock:   f.number("stock", w.Stock),
		Holds:   f.number("holds", w.Holds),
	}
}

// ascending makes sure that the log is in the order of its sequence numbers,
// on which every judge of the log relies.
func (f *fields) ascending(log []LogEntry) {
	for i := 1; i < len(log); i++ {
		if log[i].Seq <= log[i-1].Seq {
			f.list, f.row = "log", i
			f.fail("seq", "expected a number above the entry's before (%d), got %d",
				log[i-1].Seq, log[i].Seq)
			return
		}
	}
}

// The causes in a LogEntry.
const (
	causeBuy           = "buy"
	causePaid          = "paid"
	causePaymentFailed = "payment-failed"
	causeExpired       = "expired"
)
