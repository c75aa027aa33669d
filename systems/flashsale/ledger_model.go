package flashsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements whose costs the models of designs need.
const (
	costBuy     = "buy"     // one of buyStatement's, up to the stock
	costPlace   = "place"   // the rest of it, which makes an order
	costLook    = "look"    // reads a counter
	costCount   = "count"   // decrements a counter
	costBegin   = "begin"   // begins or ends a transaction
	costPay     = "pay"     // applies a payment
	costStock   = "stock"   // reads a snapshot
	costReclaim = "reclaim" // looks for carts that have expired
	costReturn  = "return"  // closes one of them
)

// assumedCosts are what statements cost on a CPU of 2023, until somebody measures them.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(40)},
		Postgres: map[string]sim.Cost{costBuy: us(100), costPlace: us(100), costLook: us(50),
			costCount: us(60), costBegin: us(25), costPay: us(180), costStock: us(150),
			costReclaim: us(120), costReturn: us(60), costOrders: us(300), costOwners: us(500)},
		Redis: map[string]sim.Cost{"turn": us(8), "connection": us(4), costTake: us(6), costGive: us(4),
			costGet: us(1), costDecr: us(1), costLookAll: us(20), costRebuild: us(300)},
	}
}

// calibration finds them one after the other.
func calibration() *sut.Calibration {
	const (
		plain = `pay_failure: 0, pay_late: 0, pay_twice: 0, click_twice: 0, buy_again: 0, ` +
			`pay_delay: 20ms, pay_spread: 20ms, cart_ttl: `
		none   = `{pay_success: 0, stock_reads: 0, units: 1, ` + plain + `1m}`
		plenty = `stock_reads: 0, items: 5, units: 5000, ` + plain
	)
	return &sut.Calibration{
		Statements: map[string][]string{costBuy: {"with earlier as ("},
			costLook:  {"select available, version from items"},
			costCount: {"update items set available"}, costBegin: {"begin", "commit", "rollback"}},
		Loads: []sut.CalibrationLoad{
			{Name: "sold out", Params: none, Finds: []string{costBegin, costLook, costCount, costBuy}},
			{Name: "sells", Params: `{pay_success: 0, ` + plenty + `1m}`, Finds: []string{costPlace}},
			{Name: "pays", Params: `{pay_success: 1, ` + plenty + `1m}`, Finds: []string{costPay}},
			{Name: "reads", Params: `{pay_success: 0, stock_reads: 1, units: 200, ` + plain + `1m}`,
				Finds: []string{costStock}},
			{Name: "expires", Params: `{pay_success: 0, ` + plenty + `500ms}`,
				Finds: []string{costReturn}},
		},
		HeldOut: `{stock_reads: 0, items: 5, item_skew: zipf, units: 10000, cart_ttl: 600ms, ` +
			`pay_delay: 100ms, pay_spread: 300ms, late_spread: 100ms}`,
	}
}

// model is what the models of designs with their stock in Postgres have in common: the rows of
// books, by the same rules. See docs/decisions/2026-11-28-a-model-keeps-real-state.md.
type model struct {
	*sim.Cluster
	p        Params
	slack    time.Duration
	call     time.Duration // the limit of a buyer's call of a store
	limit    time.Duration // and of a role's
	stock    stock         // how it is kept
	orders   *sim.Table[int64, OrderAudit]
	byOp     *sim.Table[uint64, int64]    // orders_op
	active   *sim.Table[[2]string, int64] // orders_active, of item and buyer
	counters *sim.Table[string, counted]
	shelf    *sim.Shelf[string]
	units    *sim.Table[unitKey, UnitAudit]
	payments *sim.Table[string, payment]
	log      *sim.Table[int64, LogEntry]
	ids, seq int64
	open     map[string][]int64 // orders by item, without some that are closed
	closed   map[string]int64   // how many orders of an item were closed, of those no longer in open
	due      []int64            // orders in the order in which they were made, likewise
	// returned tells whoever else keeps stock of carts that the ledger has closed.
	returned func(p *sim.Process, limit time.Duration, carts []OrderAudit)
}

// counted is a counter with its version.
type counted struct{ available, version int64 }

type unitKey struct {
	item string
	unit int64
}

type payment struct {
	PaymentAudit
	result PaymentState
}

// taking is a design's part of the statement that buys: the unit that it takes, 0 where units have
// no rows. Busy says that there may be stock although nothing was taken.
type taking func(p *sim.Process, item string) (unit int64, taken, busy bool)

// modelShop is a design's model: a Shop whose Buy is the design's own.
type modelShop struct {
	*model
	buy func(p *sim.Process, req BuyRequest) (claim, error)
}

// Buy takes a unit.
func (s *modelShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	c, err := s.buy(sim.In(ctx), req)
	return c.Order, err
}

// modelled completes a model of a design whose stock is in Postgres.
func (s stock) modelled(
	buy func(m *model) func(*sim.Process, BuyRequest) (claim, error),
) func(*sim.Cluster, Params, sut.Config) design.Model[Shop] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Shop] {
		m := newModel(c, p, cfg, s)
		return design.Model[Shop]{Domain: &modelShop{m, buy(m)}, Pending: m.held,
			Audit: func() any { return m.audit() }}
	}
}

func newModel(c *sim.Cluster, p Params, cfg sut.Config, s stock) *model {
	pg := c.Postgres
	m := &model{Cluster: c, p: p, stock: s, open: map[string][]int64{}, closed: map[string]int64{},
		slack: reclaimSlackOf(p, cfg), call: stores.Timeout(cfg),
		limit:    min(stores.Timeout(cfg), roleTimeout),
		returned: func(*sim.Process, time.Duration, []OrderAudit) {},
		orders:   sim.NewTable[int64, OrderAudit](pg, "orders"),
		byOp:     sim.NewTable[uint64, int64](pg, "orders_op"),
		active:   sim.NewTable[[2]string, int64](pg, "orders_active"),
		counters: sim.NewTable[string, counted](pg, "items"),
		shelf:    sim.NewShelf[string](pg),
		units:    sim.NewTable[unitKey, UnitAudit](pg, "units"),
		payments: sim.NewTable[string, payment](pg, "payments"),
		log:      sim.NewTable[int64, LogEntry](pg, "order_log")}
	for _, item := range itemKeys(p) {
		m.counters.Load(item, counted{available: int64(p.Units)})
		for n := int64(1); s.rows != "" && n <= int64(p.Units); n++ {
			m.shelf.Put(item, n)
			m.units.Load(unitKey{item, n}, UnitAudit{Item: item, Unit: n, State: UnitAvailable})
		}
	}
	c.Role("reclaimer", 1, sut.AfterError, sim.Only(m.reclaimer))
	return m
}

// asks sends a statement on a connection of its own; what is deferred of it gives that back.
func (m *model) asks(p *sim.Process, statement string) {
	p.Do(m.Postgres.Conn(), m.Postgres.Client.Send(), m.Postgres.Burn(statement))
}

// statement is one round trip in a transaction that was begun.
func (m *model) statement(p *sim.Process, cost string) {
	p.Do(m.Postgres.Client.Send(), m.Postgres.Burn(cost))
}

func (m *model) answered(p *sim.Process) { p.Do(m.Postgres.Client.Receive()) }

// claims is books.buy: one statement, in which the design takes a unit.
func (m *model) claims(p *sim.Process, req BuyRequest, take taking) (claim, error) {
	c, err := func() (claim, error) {
		m.asks(p, costBuy)
		defer m.Postgres.Release()
		c, err := m.place(p, req, take)
		if err == nil && c.fresh {
			p.Do(m.Postgres.Commit())
		} else {
			m.Postgres.Rollback()
		}
		m.answered(p)
		return c, err
	}()
	if errors.Is(err, errRaced) {
		return m.orderOf(p, req)
	}
	return c, err
}

// errRaced: another request with the same key has made the order meanwhile.
var errRaced = errors.New("the key was used meanwhile")

// place is what the statement that buys does, but for its commit.
func (m *model) place(p *sim.Process, req BuyRequest, take taking) (claim, error) {
	if id, is := m.byOp.Get(req.OpID); is {
		return m.earlier(id, req)
	}
	buyer := [2]string{req.Item, req.Buyer}
	if _, is := m.active.Get(buyer); is {
		return claim{}, ErrAlreadyBought
	}
	if _, is := m.counters.Get(req.Item); !is {
		return claim{}, ErrUnknownItem
	}
	unit, taken, busy := take(p, req.Item)
	switch {
	case !taken && busy:
		return claim{}, errBusy
	case !taken:
		return claim{}, ErrSoldOut
	}
	p.Do(m.Postgres.Burn(costPlace), m.byOp.Lock(req.OpID))
	if _, is := m.byOp.Get(req.OpID); is {
		return claim{}, errRaced
	}
	p.Do(m.active.Lock(buyer))
	if _, is := m.active.Get(buyer); is {
		return claim{}, ErrAlreadyBought
	}
	m.ids++
	id := m.ids
	p.Do(m.orders.Lock(id))
	o := OrderAudit{ID: strconv.FormatInt(id, 10), OpID: req.OpID, Item: req.Item, Buyer: req.Buyer,
		Unit: unit, State: OrderHeld, HeldAt: int64(p.Now())}
	m.orders.Set(id, o)
	m.byOp.Set(req.OpID, id)
	m.active.Set(buyer, id)
	m.open[req.Item], m.due = append(m.open[req.Item], id), append(m.due, id)
	version := m.move(p, &o, UnitAvailable, UnitHeld)
	m.note(p, &o, version, UnitAvailable, UnitHeld, causeBuy)
	return claim{Order: Order{ID: o.ID, Unit: unit}, fresh: true}, nil
}

// earlier is the order of a key that was used before.
func (m *model) earlier(id int64, req BuyRequest) (claim, error) {
	o, _ := m.orders.Get(id)
	if o.Item != req.Item || o.Buyer != req.Buyer {
		return claim{}, errReused
	}
	return claim{Order: Order{ID: o.ID, Unit: o.Unit},
		closed: o.State != OrderHeld && o.State != OrderPaid}, nil
}

// orderOf is books.orderOf.
func (m *model) orderOf(p *sim.Process, req BuyRequest) (claim, error) {
	m.asks(p, costLook)
	defer m.Postgres.Release()
	id, is := m.byOp.Get(req.OpID)
	m.answered(p)
	if !is { // the one that raced was rolled back after all
		return claim{}, fmt.Errorf("reading the order of a repeated request: %w", sim.ErrLost)
	}
	return m.earlier(id, req)
}

// soldOut is books.soldOut.
func (m *model) soldOut(p *sim.Process, req BuyRequest) (claim, error) {
	return m.claims(p, req, func(*sim.Process, string) (int64, bool, bool) { return 0, false, false })
}

// move changes the row of an order's unit, if units have rows, and returns its version.
func (m *model) move(p *sim.Process, o *OrderAudit, from, to string) int64 {
	if m.stock.rows == "" {
		return 0
	}
	key := unitKey{o.Item, o.Unit}
	p.Do(m.units.Lock(key))
	u, _ := m.units.Get(key)
	if u.State != from {
		return u.Version
	}
	u.State, u.Version, u.OrderID = to, u.Version+1, o.ID
	if to == UnitAvailable {
		u.OrderID = ""
		m.shelf.Add(o.Item, o.Unit)
	}
	m.units.Set(key, u)
	return u.Version
}

// note adds an entry to the log of changes.
func (m *model) note(p *sim.Process, o *OrderAudit, version int64, from, to, cause string) {
	m.seq++
	seq := m.seq
	p.Do(m.log.Lock(seq))
	m.log.Set(seq, LogEntry{Seq: seq, OrderID: o.ID, Item: o.Item, Unit: o.Unit, Version: version,
		From: from, To: to, Cause: cause, At: int64(p.Now())})
}

// close is books.closing: an order that is held, whose lock the transaction has, is paid or
// returned.
func (m *model) close(p *sim.Process, id int64, o OrderAudit, state, cause string) {
	o.State, o.ClosedAt = state, int64(p.Now())
	m.orders.Set(id, o)
	to := UnitSold
	if state != OrderPaid {
		to = UnitAvailable
		buyer := [2]string{o.Item, o.Buyer}
		p.Do(m.active.Lock(buyer))
		m.active.Delete(buyer)
	}
	version := m.move(p, &o, UnitHeld, to)
	m.note(p, &o, version, UnitHeld, to, cause)
}

// giveBack adds so many units to an item's counter, if it has one.
func (m *model) giveBack(p *sim.Process, item string, n int64) {
	if !m.stock.inRow || n == 0 {
		return
	}
	p.Do(m.counters.Lock(item))
	c, _ := m.counters.Get(item)
	m.counters.Set(item, counted{c.available + n, c.version + 1})
}

// PaymentResult is books.payment.
func (m *model) PaymentResult(ctx context.Context, pay Payment) (PaymentState, error) {
	id, err := strconv.ParseInt(pay.OrderID, 10, 64)
	if err != nil {
		return "", ErrUnknownOrder
	}
	p := sim.In(ctx)
	result, released, err := m.pay(p, id, pay)
	if released != nil {
		m.returned(p, m.call, []OrderAudit{*released})
	}
	return result, err
}

// pay applies a delivery. Released is the order whose unit went back by it, nil if none did.
func (m *model) pay(
	p *sim.Process, id int64, pay Payment,
) (result PaymentState, released *OrderAudit, err error) {
	m.asks(p, costPay)
	defer m.Postgres.Release()
	p.Do(m.orders.Lock(id))
	o, is := m.orders.Get(id)
	if !is {
		m.answered(p)
		return "", nil, ErrUnknownOrder
	}
	p.Do(m.payments.Lock(pay.PaymentID))
	row, again := m.payments.Get(pay.PaymentID)
	row.Deliveries++
	if !again {
		if row = m.firstDelivery(p, id, o, pay); o.State == OrderHeld && !pay.Succeeded {
			released = &o
		}
	}
	m.payments.Set(pay.PaymentID, row)
	p.Do(m.Postgres.Commit())
	m.answered(p)
	return row.result, released, nil
}

// firstDelivery applies a payment that is new.
func (m *model) firstDelivery(p *sim.Process, id int64, o OrderAudit, pay Payment) payment {
	isHeld := o.State == OrderHeld
	row := payment{PaymentAudit{ID: pay.PaymentID, OrderID: o.ID, AmountCents: pay.AmountCents,
		Captured: pay.Succeeded, Refunded: pay.Succeeded && !isHeld, Deliveries: 1}, PaymentReleased}
	switch {
	case pay.Succeeded && isHeld:
		row.result, row.Effects = PaymentSold, 1
		m.close(p, id, o, OrderPaid, causePaid)
	case pay.Succeeded:
		row.result, row.Effects = PaymentRefunded, 1
	case isHeld:
		row.Effects = 1
		m.close(p, id, o, OrderFailed, causePaymentFailed)
		m.giveBack(p, o.Item, 1)
	}
	return row
}

// Stock is books.snapshot.
func (m *model) Stock(ctx context.Context, item string) (Stock, error) {
	p := sim.In(ctx)
	m.asks(p, costStock)
	defer m.Postgres.Release()
	s, is := m.count(item)
	m.answered(p)
	if !is {
		return Stock{}, ErrUnknownItem
	}
	return s, nil
}

// count is the stock of an item by its committed rows.
func (m *model) count(item string) (s Stock, is bool) {
	c, is := m.counters.Get(item)
	s = Stock{Item: item, Units: int64(m.p.Units), Available: c.available}
	m.open[item] = slices.DeleteFunc(m.open[item], func(id int64) bool {
		o, is := m.orders.Get(id)
		switch o.State {
		case OrderHeld:
			s.Held++
		case OrderPaid:
			s.Sold++
		}
		over := is && o.State != OrderHeld && o.State != OrderPaid
		if over {
			m.closed[item]++
		}
		return over
	})
	if !m.stock.inRow {
		s.Available = s.Units - s.Held - s.Sold
	}
	return s, is
}

// reclaimer is the role that returns expired carts.
func (m *model) reclaimer(p *sim.Process) {
	for {
		p.Do(m.Sim.Delay(m.p.ReclaimEvery.D()))
		for more := true; more; {
			var carts []OrderAudit
			if p.Within(m.limit, func() { carts, more = m.reclaim(p) }) != nil {
				more = false // it tries again after a pause
			}
			if len(carts) > 0 {
				p.Passed(placeReturned)
			}
			m.returned(p, m.limit, carts)
		}
	}
}

// reclaim returns one batch of carts, and says whether there may be more.
func (m *model) reclaim(p *sim.Process) (carts []OrderAudit, more bool) {
	p.Do(m.Postgres.OwnConn(), m.Postgres.Client.Send(), m.Postgres.Burn(costReclaim))
	defer m.Postgres.Release()
	back := map[string]int64{}
	m.due = slices.DeleteFunc(m.due, func(id int64) bool {
		o, is := m.orders.Get(id)
		return is && o.State != OrderHeld
	})
	for _, id := range slices.Clone(m.due) {
		o, is := m.orders.Get(id)
		if len(carts) == reclaimBatch || is && o.HeldAt > int64(p.Now()-m.p.CartTTL.D()) {
			break
		}
		if !is || !m.orders.TryLock(id) {
			continue
		}
		if o, _ = m.orders.Get(id); o.State == OrderHeld {
			p.Do(m.Postgres.Burn(costReturn))
			m.close(p, id, o, OrderExpired, causeExpired)
			carts = append(carts, o)
			back[o.Item]++
		}
	}
	for _, item := range slices.Sorted(maps.Keys(back)) {
		m.giveBack(p, item, back[item])
	}
	p.Do(m.Postgres.Commit())
	m.answered(p)
	return carts, len(carts) == reclaimBatch
}

// held is stock.held.
func (m *model) held() (n int64, what string) {
	for _, id := range m.due {
		if o, is := m.orders.Get(id); is && o.State == OrderHeld {
			n++
		}
	}
	return n, fmt.Sprintf("%d carts are neither paid nor reclaimed", n)
}

// audit is stock.audit.
func (m *model) audit() *Audit {
	a := &Audit{CartTTLNS: int64(m.p.CartTTL), ReclaimSlackNS: int64(m.slack),
		Orders: []OrderAudit{}, Payments: []PaymentAudit{}, Log: []LogEntry{}}
	for _, item := range itemKeys(m.p) {
		s, _ := m.count(item)
		a.Items = append(a.Items, ItemAudit{Item: item, Units: s.Units, PriceCents: m.p.PriceCents,
			Available: s.Available, Held: s.Held, Sold: s.Sold})
	}
	for _, key := range m.units.Keys() {
		u, _ := m.units.Get(key)
		a.Units = append(a.Units, u)
	}
	for _, id := range m.orders.Keys() {
		o, _ := m.orders.Get(id)
		a.Orders = append(a.Orders, o)
	}
	for _, id := range slices.Sorted(slices.Values(m.payments.Keys())) {
		row, _ := m.payments.Get(id)
		a.Payments = append(a.Payments, row.PaymentAudit)
	}
	for _, seq := range m.log.Keys() {
		e, _ := m.log.Get(seq)
		a.Log = append(a.Log, e)
	}
	slices.SortFunc(a.Log, func(x, y LogEntry) int { return cmp.Compare(x.Seq, y.Seq) })
	return a
}
