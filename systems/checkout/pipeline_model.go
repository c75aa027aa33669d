package checkout

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements and scripts whose costs the models need, those of several rows for each of them.
const (
	costAttempt = "attempt" // begins one
	costBefore  = "before"  // looks for an earlier one
	costPoll    = "poll"
	costLeave   = "leave"
	costStock   = "stock" // reads or locks a product
	costTake    = "take"  // changes it
	costOrder   = "order"
	costRefuse  = "refuse"
	costOpen    = "open"  // locks attempts
	costNext    = "next"  // selectNext
	costAdmit   = "admit" // marks them
	costPlaces  = "places"
	costDecided = "decided"
	costClaim   = "claim" // claimDue
	costSettle  = "settle"
	costKey     = "key" // claims a key of the provider, or keeps its answer
	costMoney   = "money"
	costCall    = "callback"
	costLook    = "look"

	costEdge    = "edge"    // edge.lua
	costShown   = "shown"   // reads how far a room is
	costShow    = "show"    // showPlace
	costReserve = "reserve" // reserve.lua
	costHolds   = "holds"   // reads a product
)

// assumedCosts are what these cost on a CPU of 2023, until somebody measures them.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(40), "kafka": us(30)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costAttempt: us(150), costBefore: us(40),
			costPoll: us(40), costLeave: us(80), costStock: us(40), costTake: us(60), costOrder: us(120),
			costRefuse: us(80), costOpen: us(20), costNext: us(30), costAdmit: us(80), costPlaces: us(40),
			costDecided: us(40), costClaim: us(80), costSettle: us(120), costKey: us(60),
			costMoney: us(60), costCall: us(60), costLook: us(500)},
		Redis: map[string]sim.Cost{"turn": us(8), "connection": us(4), costEdge: us(12),
			costShown: us(8), costShow: us(6), costReserve: us(8), costHolds: us(4)},
		Kafka: map[string]sim.Cost{"request": us(30), "batch": us(10), "record": us(1),
			"byte": us(0.002), "fetch": us(30)},
	}
}

// shopModel is what the models of designs have in common: the tables of schema.sql and the
// transactions on them.
type shopModel struct {
	*sim.Cluster
	p        Params
	limit    time.Duration // of an operation of a role
	replicas map[string]int
	db       *sim.Conns // the shop's

	stock    *sim.Table[uint64, int64]
	rooms    *sim.Table[uint64, roomRow]
	attempts *sim.Table[uint64, attemptRow]
	users    *sim.Table[customer, uint64] // attempts_user: who has or may get a unit
	orders   *sim.Table[string, orderRow]
	payments *sim.Table[string, paymentRow] // provider_keys, and what they stand for
	called   *sim.Table[int64, CallbackRow]

	waiting, admitted *sim.Index[uint64, attemptRow] // attempts_…
	due               *sim.Index[string, orderRow]   // orders_due

	ops         map[string]uint64 // by key, of attempts some of which were rolled back
	places      map[uint64]int64  // sequences
	seq, calls  int64
	moved       time.Duration // the last change of an attempt but a payment
	draw        *sim.Stream
	reservation *reservationsModel // nil where there are none

	// What designs do in their own way.
	join    func(p *sim.Process, req JoinRequest) (Ticket, error)
	poll    func(p *sim.Process, req PollRequest) (Progress, error)
	pending func() (int64, string)
}

// roomRow is a row of room.
type roomRow struct{ admittedTo, admitted int64 }

// customer is a user who wants a product.
type customer struct {
	user    string
	product uint64
}

// attemptRow is a row of attempts, with its place and its steps: a trigger writes those.
type attemptRow struct {
	AttemptRow
	place int64
	steps []Step
}

func (a attemptRow) customer() customer { return customer{a.User, a.Product} }

func (a attemptRow) ticket() Ticket { return Ticket{a.Token, a.place} }

// orderRow is a row of orders.
type orderRow struct {
	OrderRow
	tries int
	due   time.Duration
}

// modelled makes models of a design, which says what it does in its own way and starts its roles.
func modelled(
	own func(*shopModel),
) func(*sim.Cluster, Params, sut.Config) design.Model[Shop] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Shop] {
		m := newShopModel(c, p, cfg)
		own(m)
		gauge := c.Postgres.OwnConns("gauge", 1, 0)
		return design.Model[Shop]{Domain: m, Pending: m.pending,
			Audit: func() any { return m.audit() },
			Gauge: func(p *sim.Process) (s any) {
				gauge.Exec(p, costLook, func() { s = m.look() })
				return s
			}}
	}
}

func newShopModel(c *sim.Cluster, p Params, cfg sut.Config) *shopModel {
	pg := c.Postgres
	m := &shopModel{Cluster: c, p: p, limit: min(stores.Timeout(cfg), 2*time.Second),
		replicas: cfg.Replicas, db: pg.Conns(),
		stock:    sim.NewTable[uint64, int64](pg, "inventory"),
		rooms:    sim.NewTable[uint64, roomRow](pg, "room"),
		attempts: sim.NewTable[uint64, attemptRow](pg, "attempts"),
		users:    sim.NewTable[customer, uint64](pg, "attempts_user"),
		orders:   sim.NewTable[string, orderRow](pg, "orders"),
		payments: sim.NewTable[string, paymentRow](pg, "provider_keys"),
		called:   sim.NewTable[int64, CallbackRow](pg, "provider_callbacks"),
		ops:      map[string]uint64{}, places: map[uint64]int64{}, draw: c.Sim.Stream("checkout.keys")}
	in := func(state string) *sim.Index[uint64, attemptRow] {
		return sim.NewIndex(m.attempts, func(a attemptRow) bool { return a.State == state },
			func(a, b attemptRow) int {
				return cmp.Or(cmp.Compare(a.Product, b.Product), cmp.Compare(a.place, b.place))
			})
	}
	m.waiting, m.admitted = in(waiting), in(admitted)
	m.due = sim.NewIndex(m.orders,
		func(o orderRow) bool { return o.State == pending || o.State == cancelling },
		func(a, b orderRow) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.Key, b.Key)) })
	for _, product := range p.all() {
		m.stock.Load(product, int64(p.Units))
		m.rooms.Load(product, roomRow{})
	}
	m.poll, m.pending = m.polled, m.open
	return m
}

func (m *shopModel) now() int64 { return int64(m.Sim.Now()) }

// role starts the processes of a role, each with connections of its own. An error of work is
// followed by a pause and another begin.
func (m *shopModel) role(
	name string, conns int, begin func(r *sim.Replica, db *sim.Conns) func(*sim.Process),
) {
	m.Role(name, max(1, m.replicas[name]), sut.AfterError,
		func(r *sim.Replica) []func(*sim.Process) {
			return []func(*sim.Process){begin(r, m.Postgres.OwnConns(r.Name, conns, m.limit))}
		})
}

// Join begins an attempt.
func (m *shopModel) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	if !m.p.has(req.Product) {
		return Ticket{}, ErrUnknownProduct
	}
	return m.join(sim.In(ctx), req)
}

// Poll asks what has become of one.
func (m *shopModel) Poll(ctx context.Context, req PollRequest) (Progress, error) {
	return m.poll(sim.In(ctx), req)
}

// polled is counter.Poll.
func (m *shopModel) polled(p *sim.Process, req PollRequest) (progress Progress, err error) {
	m.db.Exec(p, costPoll, func() {
		row, is := m.attempts.Get(m.ops[keyOf(req.Token)])
		if progress.State = row.State; !is {
			err = ErrUnknownToken
		}
	})
	return progress, err
}

// Leave gives an attempt up.
func (m *shopModel) Leave(ctx context.Context, req LeaveRequest) (none api.Nothing, err error) {
	p, gone := sim.In(ctx), false
	m.db.Exec(p, costLeave, func() {
		var row attemptRow
		if row, gone = m.attempts.LockIf(p, m.ops[keyOf(req.Token)], isWaiting); gone {
			m.become(p, row, left)
		}
	})
	if gone {
		return none, nil
	}
	progress, err := m.polled(p, PollRequest(req))
	if err == nil && progress.State != left {
		err = ErrNotWaiting
	}
	return none, err
}

func isWaiting(a attemptRow) bool { return a.State == waiting }

// begin is counter.begin.
func (m *shopModel) begin(
	p *sim.Process, req JoinRequest, state string, passedNS int64,
) (row attemptRow, again bool, err error) {
	fresh := false
	m.db.Query(p, costAttempt, func() {
		m.places[req.Product]++
		place := m.places[req.Product]
		p.Do(m.attempts.Lock(req.ID))
		who := customer{req.User, req.Product}
		if _, again := m.attempts.Get(req.ID); again {
			return
		}
		p.Do(m.users.Lock(who))
		if _, joined := m.users.Get(who); joined {
			return
		}
		key := strconv.FormatInt(int64(m.draw.IntN(math.MaxInt)), 36)
		row = attemptRow{place: place, AttemptRow: AttemptRow{ID: req.ID, Key: key, User: req.User,
			Token: fmt.Sprintf("%d.%d.%s", req.Product, place, key), IP: req.IP, Product: req.Product,
			PassedNS: passedNS, MadeNS: m.now()}}
		m.ops[key] = req.ID
		m.users.Set(who, req.ID)
		m.become(p, row, state)
		fresh = true
	})
	if fresh {
		return row, false, nil
	}
	m.db.Query(p, costBefore, func() { row, again = m.attempts.Get(req.ID) })
	if !again {
		err = ErrJoined
	}
	return row, again, err
}

// become changes the state of an attempt, whose lock the transaction has.
func (m *shopModel) become(p *sim.Process, row attemptRow, state string) {
	m.seq++
	row.steps = append(slices.Clip(row.steps), Step{Seq: m.seq, ID: row.ID, Token: row.Token,
		Before: row.State, State: state, AtNS: m.now()})
	row.State = state
	m.attempts.Set(row.ID, row)
	if state == refused || state == compensated || state == left {
		p.Do(m.users.Lock(row.customer()))
		m.users.Delete(row.customer())
	}
	if state != paid {
		m.moved = m.Sim.Now()
	}
}

// order makes the order of an attempt.
func (m *shopModel) order(p *sim.Process, a attemptRow) {
	p.Do(m.orders.Lock(a.Key))
	m.orders.Set(a.Key, orderRow{due: m.Sim.Now(), OrderRow: OrderRow{Key: a.Key, ID: a.ID,
		User: a.User, Product: a.Product, State: pending, MadeNS: m.now()}})
}

// sellsAtOnce is the shop of row_lock, by what its payer does about a payment that has failed.
func (m *shopModel) sellsAtOnce(fail func(*payerModel, *sim.Process, orderRow, error)) {
	m.join = m.sells
	m.pays(fail)
}

// sells is counter.sell with the lock of row_lock: it decides at once.
func (m *shopModel) sells(p *sim.Process, req JoinRequest) (t Ticket, err error) {
	again, row := false, attemptRow{}
	err = m.db.Transaction(p, func() (err error) {
		var units int64
		m.db.Query(p, costStock, func() {
			p.Do(m.stock.Lock(req.Product))
			units, _ = m.stock.Get(req.Product)
		})
		if units < 1 {
			if m.db.Query(p, costBefore, func() { row, again = m.attempts.Get(req.ID) }); !again {
				return ErrSoldOut
			}
			t = row.ticket()
			return nil
		}
		m.db.Query(p, costTake, func() { m.stock.Set(req.Product, units-1) })
		row, again, err = m.begin(p, req, pending, 0)
		t = row.ticket()
		switch {
		case err != nil:
			return err
		case again:
			return errAgain // and give the unit back
		}
		m.db.Query(p, costOrder, func() { m.order(p, row) })
		return nil
	})
	t.Position = 0
	if err == nil {
		p.Passed(placeOrdered)
	}
	if again {
		err = nil
	}
	return t, err
}

// open is openAttempts. Attempts that are pending have an order that is due.
func (m *shopModel) open() (n int64, what string) {
	n = int64(m.waiting.Len() + m.admitted.Len() + m.due.Len())
	return n, fmt.Sprintf("%d attempts have not ended", n)
}

// sold are the orders of each product that were not cancelled.
func (m *shopModel) sold() map[uint64]int64 {
	sold := map[uint64]int64{}
	for _, key := range m.orders.Keys() {
		if o, _ := m.orders.Get(key); o.State != cancelled {
			sold[o.Product]++
		}
	}
	return sold
}

// look is the gauge's.
func (m *shopModel) look() (s seen) {
	s.Open, _ = m.open()
	sold := m.sold()
	for _, product := range m.p.all() {
		units, _ := m.stock.Get(product)
		s.Most = max(s.Most, sold[product])
		if units+sold[product] != int64(m.p.Units) {
			s.Off++
		}
	}
	return s
}

// audit is the final truth.
func (m *shopModel) audit() Audit {
	a := Audit{Gate: []GateRow{}, Attempts: []AttemptRow{}, Steps: []Step{}, Orders: []OrderRow{},
		Payments: []PaymentRow{}, Callbacks: []CallbackRow{}, Settlements: []SettlementRow{}}
	for _, product := range m.p.all() {
		units, _ := m.stock.Get(product)
		a.Stock = append(a.Stock, StockRow{product, units})
	}
	for _, id := range slices.Sorted(slices.Values(m.attempts.Keys())) {
		row, _ := m.attempts.Get(id)
		a.Attempts, a.Steps = append(a.Attempts, row.AttemptRow), append(a.Steps, row.steps...)
	}
	slices.SortFunc(a.Steps, func(x, y Step) int { return cmp.Compare(x.Seq, y.Seq) })
	for _, key := range m.orders.Keys() {
		o, _ := m.orders.Get(key)
		a.Orders = append(a.Orders, o.OrderRow)
	}
	for _, key := range m.payments.Keys() {
		row, _ := m.payments.Get(key)
		a.Payments = append(a.Payments, row.entries...)
	}
	for _, seq := range m.called.Keys() {
		c, _ := m.called.Get(seq)
		a.Callbacks = append(a.Callbacks, c)
	}
	if m.reservation != nil {
		a.Contract.RepairLagNS = int64(m.p.RepairLag)
		a.Gate = m.reservation.gate()
	}
	return a
}
