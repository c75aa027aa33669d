package flashsale_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// world is a whole run in virtual time, with a correct shop.
type world struct {
	*suttest.World
	params  flashsale.Params
	shop    *refShop
	samples []history.Sample
	drifts  []map[string]int64 // at the moment of each sample
	watcher *rand.Rand         // so that looking changes nothing in the sale
}

type tb = suttest.TB

// saleOf is a sale of so many scheduled operations, within a second, at a correct shop.
func saleOf(t tb, seed uint64, p flashsale.Params, tr suttest.Trouble, ops int) *evidence {
	t.Helper()
	w := &world{World: suttest.NewWorld(t, flashsale.System(), seed, p, tr), params: p,
		watcher: rand.New(rand.NewPCG(seed, 2))}
	w.shop = newRefShop(w)
	w.After(0, w.look)
	w.Run(w.shop, ops, time.Second)
	return w.evidence(t)
}

// lookEvery is how often the world's gauge is asked.
const lookEvery = 20 * time.Millisecond

// look takes a sample as the real gauge does: the ledger, the shelf, and the
// ledger again, with time passing between them; now and then it sees nothing.
func (w *world) look() {
	if !w.Pending() {
		return // nothing will happen any more
	}
	from, before := w.Now, w.shop.orderCounts()
	passes := func() time.Duration {
		return time.Duration(w.watcher.Int64N(int64(2 * suttest.NetDelay)))
	}
	w.After(passes(), func() {
		items, tokens := w.shop.lookItems(before)
		drifts := w.shop.drifts()
		w.After(passes(), func() {
			s := history.Sample{From: from, To: w.Now, Err: "timeout"}
			if w.watcher.IntN(10) > 0 {
				w.shop.claim(items, tokens)
				s.Err = ""
				s.Body, _ = json.Marshal(flashsale.Look{Items: items}) // numbers and text
			}
			w.samples, w.drifts = append(w.samples, s), append(w.drifts, drifts)
			w.After(lookEvery, w.look)
		})
	})
}

// evidence is what the judges see.
func (w *world) evidence(t tb) *evidence {
	t.Helper()
	audit := w.shop.audit()
	decoded, err := api.DecodeAudit[flashsale.Audit](suttest.Encoded(t, audit))
	if err != nil {
		t.Fatalf("the reference shop's audit: %v", err)
	}
	return &evidence{params: w.params, records: w.Records,
		samples: w.samples, drifts: w.drifts, audit: decoded}
}

// refShop is a correct shop: one thing at a time, except that a buy has a unit
// in hand for a moment before it looks at who is asking, and that the shelf
// learns of a return a moment after the order is closed.
type refShop struct {
	w        *world
	shelf    map[string][]int64 // free units
	versions map[string][]int64
	orders   []*flashsale.OrderAudit
	byOp     map[uint64]*flashsale.OrderAudit
	active   map[[2]string]bool
	payments map[string]*flashsale.PaymentAudit
	states   map[string]flashsale.PaymentState
	payOrder []string
	log      []flashsale.LogEntry
	// transit counts the units that are closed in the ledger and not yet on
	// the shelf, or in hand and not yet in an order.
	transit map[string]int64
	// tokens are the operations with a unit in hand, until a moment after
	// they have their order.
	tokens []*token
	slack  time.Duration
}

// token is a unit in hand.
type token struct {
	op   uint64
	item string
}

const storeOffset = 1_700_000_000 * time.Second

func newRefShop(w *world) *refShop {
	s := &refShop{
		w: w, shelf: map[string][]int64{}, versions: map[string][]int64{},
		byOp: map[uint64]*flashsale.OrderAudit{}, active: map[[2]string]bool{},
		payments: map[string]*flashsale.PaymentAudit{},
		states:   map[string]flashsale.PaymentState{}, transit: map[string]int64{},
		slack: 60 * time.Millisecond,
	}
	for n := range w.params.Items {
		item := flashsale.ItemKey(n + 1)
		s.versions[item] = make([]int64, w.params.Units+1)
		for u := range w.params.Units {
			s.shelf[item] = append(s.shelf[item], int64(u+1))
		}
	}
	return s
}

func (s *refShop) now() int64 { return int64(storeOffset + s.w.Now) }

// Do performs an operation.
func (s *refShop) Do(op history.Op, done func(history.Reply, error)) {
	switch op.Kind {
	case flashsale.KindBuy:
		s.buy(op, done)
	case flashsale.KindPayment:
		done(s.pay(op))
	case flashsale.KindStock:
		done(s.stock(op.Key))
	}
}

func (s *refShop) buy(op history.Op, done func(history.Reply, error)) {
	free := s.shelf[op.Key]
	if o := s.byOp[op.ID]; o != nil {
		done(history.Reply{Key: o.ID, Value: o.Unit}, nil)
		return
	}
	if len(free) == 0 {
		done(history.Reply{}, flashsale.ErrSoldOut)
		return
	}
	unit, held := free[0], &token{op.ID, op.Key}
	s.shelf[op.Key], s.tokens = free[1:], append(s.tokens, held)
	s.transit[op.Key]++
	s.w.After(s.w.Some(suttest.NetDelay), func() {
		s.transit[op.Key]--
		reply, err := s.place(op, unit)
		if err != nil || reply.Value != unit {
			s.shelf[op.Key] = append(s.shelf[op.Key], unit)
			s.commit(held)
		}
		s.w.After(suttest.NetDelay, func() { s.commit(held) })
		done(reply, err)
	})
}

// commit forgets a token.
func (s *refShop) commit(held *token) {
	s.tokens = slices.DeleteFunc(s.tokens, func(t *token) bool { return t == held })
}

// orderCounts are the ledger's counts by item.
func (s *refShop) orderCounts() map[string]flashsale.OrderCounts {
	counts := map[string]flashsale.OrderCounts{}
	for _, o := range s.orders {
		c := counts[o.Item]
		c.Made++
		if o.State == flashsale.OrderExpired || o.State == flashsale.OrderFailed {
			c.Closed++
		}
		counts[o.Item] = c
	}
	return counts
}

// lookItems reads the shelf and the tokens.
func (s *refShop) lookItems(
	before map[string]flashsale.OrderCounts,
) (items []flashsale.LookItem, tokens []token) {
	for n := range s.w.params.Items {
		item := flashsale.ItemKey(n + 1)
		items = append(items, flashsale.LookItem{Item: item, Before: before[item],
			Present: true, Stock: int64(len(s.shelf[item]))})
	}
	for _, t := range s.tokens {
		tokens = append(tokens, *t)
	}
	return items, tokens
}

// drifts are the units of each item that are neither on the shelf, nor in hand
// without an order, nor in an active order.
func (s *refShop) drifts() map[string]int64 {
	drifts := map[string]int64{}
	for item, shelf := range s.shelf {
		drifts[item] = int64(s.w.params.Units - len(shelf))
	}
	for item, c := range s.orderCounts() {
		drifts[item] -= c.Made - c.Closed
	}
	for _, t := range s.tokens {
		if s.byOp[t.op] == nil {
			drifts[t.item]--
		}
	}
	return drifts
}

// claim completes what was read with the ledger as it is now.
func (s *refShop) claim(items []flashsale.LookItem, tokens []token) {
	after := s.orderCounts()
	for i := range items {
		l := &items[i]
		l.After = after[l.Item]
		for _, t := range tokens {
			if t.item != l.Item {
				continue
			}
			l.Tokens++
			if s.byOp[t.op] == nil {
				l.Unclaimed++
			}
		}
	}
}

// place makes the order of a unit in hand, unless there is one for the key or
// the buyer.
func (s *refShop) place(op history.Op, unit int64) (history.Reply, error) {
	buyer := [2]string{op.Key, op.Client}
	if o := s.byOp[op.ID]; o != nil {
		return history.Reply{Key: o.ID, Value: o.Unit}, nil
	}
	if s.active[buyer] {
		return history.Reply{}, flashsale.ErrAlreadyBought
	}
	o := &flashsale.OrderAudit{
		ID: "o" + strconv.Itoa(len(s.orders)+1), OpID: op.ID, Item: op.Key, Buyer: op.Client,
		Unit: unit, State: flashsale.OrderHeld, HeldAt: s.now(),
	}
	s.orders = append(s.orders, o)
	s.byOp[op.ID], s.active[buyer] = o, true
	s.note(o, "available", "held", "buy")
	s.w.After(s.w.params.CartTTL.D()+s.w.Some(s.slack/3), func() { s.reclaim(o) })
	return history.Reply{Key: o.ID, Value: unit}, nil
}

func (s *refShop) note(o *flashsale.OrderAudit, from, to, cause string) {
	s.versions[o.Item][o.Unit]++
	s.log = append(s.log, flashsale.LogEntry{
		Seq: int64(3*len(s.log) + 1), OrderID: o.ID, Item: o.Item, Unit: o.Unit,
		Version: s.versions[o.Item][o.Unit], From: from, To: to, Cause: cause, At: s.now(),
	})
}

func (s *refShop) reclaim(o *flashsale.OrderAudit) {
	if o.State == flashsale.OrderHeld {
		s.release(o, flashsale.OrderExpired, "expired")
	}
}

func (s *refShop) release(o *flashsale.OrderAudit, state, cause string) {
	o.State, o.ClosedAt = state, s.now()
	delete(s.active, [2]string{o.Item, o.Buyer})
	s.note(o, "held", "available", cause)
	s.transit[o.Item]++
	s.w.After(s.w.Some(s.slack/3), func() {
		s.transit[o.Item]--
		s.shelf[o.Item] = append(s.shelf[o.Item], o.Unit)
	})
}

func (s *refShop) pay(op history.Op) (history.Reply, error) {
	i := slices.IndexFunc(s.orders, func(o *flashsale.OrderAudit) bool { return o.ID == op.Key })
	if i < 0 {
		return history.Reply{}, flashsale.ErrUnknownOrder
	}
	p := s.payments[op.Client]
	if p == nil {
		p = &flashsale.PaymentAudit{ID: op.Client, OrderID: op.Key, AmountCents: max(op.Arg, -op.Arg)}
		s.payments[op.Client] = p
		s.payOrder = append(s.payOrder, op.Client)
		s.states[op.Client] = s.settle(s.orders[i], p, op.Arg > 0)
	}
	p.Deliveries++
	return history.Reply{Key: string(s.states[op.Client])}, nil
}

// settle applies a payment's first delivery.
func (s *refShop) settle(
	o *flashsale.OrderAudit, p *flashsale.PaymentAudit, succeeded bool,
) flashsale.PaymentState {
	held := o.State == flashsale.OrderHeld
	p.Captured = succeeded
	p.Effects = 1
	switch {
	case succeeded && held:
		o.State, o.ClosedAt = flashsale.OrderPaid, s.now()
		s.note(o, "held", "sold", "paid")
		return flashsale.PaymentSold
	case succeeded:
		p.Refunded = true
		return flashsale.PaymentRefunded
	case held:
		s.release(o, flashsale.OrderFailed, "payment-failed")
	default:
		p.Effects = 0
	}
	return flashsale.PaymentReleased
}

func (s *refShop) counts(item string) flashsale.ItemAudit {
	a := flashsale.ItemAudit{
		Item: item, Units: int64(s.w.params.Units), PriceCents: s.w.params.PriceCents,
		Available: int64(s.w.params.Units),
	}
	for _, o := range s.orders {
		switch {
		case o.Item != item:
		case o.State == flashsale.OrderHeld:
			a.Held++
			a.Available--
		case o.State == flashsale.OrderPaid:
			a.Sold++
			a.Available--
		}
	}
	return a
}

func (s *refShop) stock(item string) (history.Reply, error) {
	a := s.counts(item)
	body, err := json.Marshal(flashsale.Stock{
		Item: item, Units: a.Units, Available: a.Available, Held: a.Held, Sold: a.Sold})
	return history.Reply{Body: body}, err
}

func (s *refShop) audit() flashsale.Audit {
	a := flashsale.Audit{
		Items: []flashsale.ItemAudit{}, Units: []flashsale.UnitAudit{},
		Orders: []flashsale.OrderAudit{}, Payments: []flashsale.PaymentAudit{}, Log: s.log,
		CartTTLNS: int64(s.w.params.CartTTL), ReclaimSlackNS: int64(s.slack),
	}
	if a.Log == nil {
		a.Log = []flashsale.LogEntry{}
	}
	owner := make(map[[2]string]*flashsale.OrderAudit)
	for _, o := range s.orders {
		a.Orders = append(a.Orders, *o)
		if o.State == flashsale.OrderHeld || o.State == flashsale.OrderPaid {
			owner[[2]string{o.Item, strconv.FormatInt(o.Unit, 10)}] = o
		}
	}
	for n := range s.w.params.Items {
		item := flashsale.ItemKey(n + 1)
		a.Items = append(a.Items, s.counts(item))
		a.Redis = append(a.Redis, flashsale.RedisAudit{
			Item: item, Present: true,
			Stock: int64(len(s.shelf[item])), Holds: s.transit[item],
		})
		for u := int64(1); u <= int64(s.w.params.Units); u++ {
			row := flashsale.UnitAudit{
				Item: item, Unit: u, State: "available", Version: s.versions[item][u]}
			if o := owner[[2]string{item, strconv.FormatInt(u, 10)}]; o != nil {
				row.OrderID = o.ID
				row.State = map[string]string{"held": "held", "paid": "sold"}[o.State]
			}
			a.Units = append(a.Units, row)
		}
	}
	for _, id := range s.payOrder {
		a.Payments = append(a.Payments, *s.payments[id])
	}
	return a
}
