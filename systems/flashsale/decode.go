package flashsale

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// DecodeAudit reads an Audit from JSON. A whole list that is absent stays nil,
// so that judges can say what they miss; within a row every field but those
// marked optional in openapi.yaml must be there and be legal. Fields that it
// does not know are skipped. The error names one bad field by its path,
// for example `orders[3].state`.
func DecodeAudit(raw json.RawMessage) (Audit, error) {
	if len(raw) == 0 {
		return Audit{}, errors.New("the audit is empty")
	}
	var audit Audit
	if err := json.Unmarshal(raw, &audit); err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", err)
	}
	// Once more, for what of a row was left out where zero is a legal value.
	var given struct {
		Items    []row `json:"items"`
		Units    []row `json:"units"`
		Payments []row `json:"payments"`
		Redis    []row `json:"redis"`
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", err)
	}
	f := &fields{}
	complete[ItemAudit](f, "items", given.Items)
	complete[UnitAudit](f, "units", given.Units)
	complete[PaymentAudit](f, "payments", given.Payments)
	complete[RedisAudit](f, "redis", given.Redis)
	f.audit(&audit)
	if f.err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", f.err)
	}
	return audit, nil
}

// row is one row of a list as it was given, by the names of its fields.
type row map[string]json.RawMessage

// complete makes sure that every row has all fields of R but the optional
// ones, which are those that encoding may omit.
func complete[R any](f *fields, list string, given []row) {
	var required []string
	for field := range reflect.TypeFor[R]().Fields() {
		if name, options, _ := strings.Cut(field.Tag.Get("json"), ","); options != "omitempty" {
			required = append(required, name)
		}
	}
	f.list = list
	for i, r := range given {
		f.row = i
		for _, name := range required {
			if value, ok := r[name]; !ok || string(value) == "null" {
				f.fail(name, "it is missing")
			}
		}
	}
}

func (f *fields) audit(a *Audit) {
	each(f, "items", a.Items, (*fields).item)
	each(f, "units", a.Units, (*fields).unit)
	each(f, "orders", a.Orders, (*fields).order)
	each(f, "payments", a.Payments, (*fields).payment)
	each(f, "log", a.Log, (*fields).logEntry)
	each(f, "redis", a.Redis, (*fields).redis)
	f.list, f.row = "", 0
	f.notNegative("cart_ttl_ns", a.CartTTLNS)
	f.notNegative("reclaim_slack_ns", a.ReclaimSlackNS)
	f.ascending(a.Log)
}

// fields checks the fields of one row after another and keeps the first error.
type fields struct {
	list string
	row  int
	err  error
}

// each checks the rows of a list.
func each[R any](f *fields, list string, rows []R, check func(*fields, *R)) {
	f.list = list
	for i := range rows {
		f.row = i
		check(f, &rows[i])
	}
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

func (f *fields) text(field, got string) {
	if got == "" {
		f.fail(field, "expected a text, got none")
	}
}

func (f *fields) positive(field string, got int64) {
	if got <= 0 {
		f.fail(field, "expected a number above 0, got %d", got)
	}
}

func (f *fields) notNegative(field string, got int64) {
	if got < 0 {
		f.fail(field, "expected 0 or more, got %d", got)
	}
}

func (f *fields) oneOf(field, got string, legal ...string) {
	if !slices.Contains(legal, got) {
		f.fail(field, "expected one of %q, got %q", legal, got)
	}
}

// The counts of items and Redis may be negative: a wrong design has such
// stocks, and it is for the judges to say so.

func (f *fields) item(i *ItemAudit) { f.text("item", i.Item) }

func (f *fields) unit(u *UnitAudit) {
	f.text("item", u.Item)
	f.positive("unit", u.Unit)
	f.oneOf("state", u.State, UnitAvailable, UnitHeld, UnitSold)
}

func (f *fields) order(o *OrderAudit) {
	f.text("order", o.ID)
	if o.OpID == 0 {
		f.fail("op_id", "expected the buy's op_id, got 0 or none")
	}
	f.text("item", o.Item)
	f.text("buyer", o.Buyer)
	f.notNegative("unit", o.Unit)
	f.oneOf("state", o.State, OrderHeld, OrderPaid, OrderExpired, OrderFailed)
	f.positive("held_at_ns", o.HeldAt)
	if o.State != OrderHeld {
		f.positive("closed_at_ns", o.ClosedAt)
	}
}

func (f *fields) payment(p *PaymentAudit) {
	f.text("payment_id", p.ID)
	f.text("order", p.OrderID)
	f.notNegative("deliveries", p.Deliveries)
	f.notNegative("effects", p.Effects)
}

func (f *fields) logEntry(e *LogEntry) {
	f.positive("seq", e.Seq)
	f.text("order", e.OrderID)
	f.text("item", e.Item)
	f.notNegative("unit", e.Unit)
	f.oneOf("from", e.From, UnitAvailable, UnitHeld, UnitSold)
	f.oneOf("to", e.To, UnitAvailable, UnitHeld, UnitSold)
	f.oneOf("cause", e.Cause, causeBuy, causePaid, causePaymentFailed, causeExpired)
	f.positive("at_ns", e.At)
}

func (f *fields) redis(r *RedisAudit) { f.text("item", r.Item) }

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
