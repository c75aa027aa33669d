package flashsale

import (
	"context"
	"encoding/json"
	"sync"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
const (
	NoOversell         = "no-oversell"
	UnitExclusive      = "unit-exclusive"
	OnePerBuyer        = "one-per-buyer"
	AckedDurable       = "acked-durable"
	NoPhantom          = "no-phantom"
	Conservation       = "conservation"
	RedisDrift         = "redis-drift"
	NoFalseSoldOut     = "no-false-sold-out"
	SellThrough        = "sell-through"
	PaymentExactlyOnce = "payment-exactly-once"
	ExpiryOnTime       = "expiry-on-time"
	UnitPath           = "unit-path"
	IdempotentBuy      = "idempotent-buy"
)

// Invariants returns the thirteen statements about a sale. Each judges from the history and
// the Audit alone, so that it says the same of a design here and of a server that somebody
// else wrote.
func Invariants(p Params) []check.Invariant {
	s := &sale{params: p}
	state := func(name, statement string, judge func(*judging)) check.Invariant {
		return invariant{name: name, statement: statement, judge: judge, sale: s}
	}
	return []check.Invariant{
		state(NoOversell, "no more units of an item are held or sold than it has, "+
			"at the end and at every moment before", judgeNoOversell),
		state(UnitExclusive, "no unit is held by or sold to two orders at once", judgeUnitExclusive),
		state(OnePerBuyer, "no buyer holds or owns two units of one item at once", judgeOnePerBuyer),
		state(AckedDurable, "every acknowledged order exists at the end, with the same buyer, item and "+
			"unit", judgeAckedDurable),
		state(NoPhantom, "every order and payment at the end comes from a request, and from none that "+
			"was refused", judgeNoPhantom),
		state(Conservation, "available + held + sold = units in every snapshot, "+
			"and counts, unit rows and orders agree at the end", judgeConservation),
		state(RedisDrift, "Redis and the ledger together never offer more units than exist, and "+
			"account for all of them at rest", judgeRedisDrift),
		state(NoFalseSoldOut, "no buy is refused as sold out while a unit is certainly free",
			judgeNoFalseSoldOut),
		state(SellThrough, "if enough buyers came, every unit is sold or still for sale",
			judgeSellThrough),
		state(PaymentExactlyOnce, "every captured payment ends in exactly one of "+
			"a sold order and a refund, however often it is delivered", judgePayments),
		state(ExpiryOnTime, "a cart is returned neither before its time is over nor later than promised",
			judgeExpiry),
		state(UnitPath, "every unit and order goes from available to held to sold or back to "+
			"available, without gaps, and sold is final", judgeUnitPath),
		state(IdempotentBuy, "buys with the same key give the same order, and none is refused while "+
			"the order is held or paid", judgeIdempotentBuy),
	}
}

// invariant is one statement with the function that judges it.
type invariant struct {
	name, statement string
	judge           func(*judging)
	sale            *sale
}

func (v invariant) Name() string      { return v.name }
func (v invariant) Statement() string { return v.statement }

// Check judges. See check.Invariant.
func (v invariant) Check(
	ctx context.Context, h history.History, audit json.RawMessage,
) check.Verdict {
	j := &judging{
		Collector: check.Collect(ctx, v.name, h),
		p:         v.sale.params, a: v.sale.decode(audit),
	}
	v.judge(j)
	return j.Verdict()
}

// sale is what the invariants of one sale share: the parameters and the audit
// that was decoded last, because all of them are asked about the same one.
type sale struct {
	params Params

	mu   sync.Mutex
	raw  string
	last *ledger
}

// decode returns the audit with its indexes; it must not be modified.
func (s *sale) decode(raw json.RawMessage) *ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.raw != string(raw) {
		s.raw = string(raw)
		s.last = newLedger(raw)
	}
	return s.last
}

// ledger is a decoded audit with the indexes that judges need.
type ledger struct {
	Audit
	err     error
	byOrder map[string]*OrderAudit
	byOp    map[uint64]*OrderAudit
	latest  int64 // the last time that the audit mentions, Unix nanoseconds
}

func newLedger(raw json.RawMessage) *ledger {
	a, err := api.DecodeAudit[Audit](raw)
	l := &ledger{
		Audit: a, err: err,
		byOrder: make(map[string]*OrderAudit, len(a.Orders)),
		byOp:    make(map[uint64]*OrderAudit, len(a.Orders)),
	}
	for i := range a.Orders {
		o := &a.Orders[i]
		l.byOrder[o.ID] = o
		if l.byOp[o.OpID] == nil {
			l.byOp[o.OpID] = o
		}
		l.latest = max(l.latest, o.HeldAt, o.ClosedAt)
	}
	if n := len(a.Log); n > 0 {
		l.latest = max(l.latest, a.Log[n-1].At)
	}
	return l
}

// live says that an order has a unit: it is in a cart or sold.
func live(o *OrderAudit) bool { return o.State == OrderHeld || o.State == OrderPaid }
