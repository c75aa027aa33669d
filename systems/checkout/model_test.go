package checkout_test

import (
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/checkout"
)

// shop is the smallest correct design: a list of attempts, a room for each product from which some
// are admitted from time to time, and payments that mostly succeed.
type shop struct {
	p      *checkout.Params
	w      *suttest.World
	api    *api.Table[checkout.Shop]
	audit  checkout.Audit
	byOp   map[uint64]int
	byTok  map[string]int
	left   []int64            // by product
	places []int64            // by product, the last
	rooms  []int64            // by product, up to which place attempts were admitted
	order  []int64            // by product, how many were admitted
	limits map[string]*bucket // of users and addresses
}

// bucket has tokens.
type bucket struct {
	tokens float64
	at     time.Duration
}

// newShop opens a shop. For every other seed its contract is as if there were a second store,
// which is never wrong.
func newShop(w *suttest.World, p *checkout.Params) *shop {
	list := func() []int64 { return make([]int64, p.Products+1) }
	s := &shop{p: p, w: w, api: checkout.API(), byOp: map[uint64]int{}, byTok: map[string]int{},
		left: list(), places: list(), rooms: list(), order: list(), limits: map[string]*bucket{}}
	s.audit = checkout.Audit{Stock: []checkout.StockRow{}, Gate: []checkout.GateRow{},
		Attempts: []checkout.AttemptRow{}, Steps: []checkout.Step{}, Orders: []checkout.OrderRow{},
		Payments: []checkout.PaymentRow{}, Callbacks: []checkout.CallbackRow{},
		Settlements: []checkout.SettlementRow{}}
	if w.Seed%2 == 1 {
		s.audit.Contract.RepairLagNS = int64(ms)
	}
	for product := range s.left {
		s.left[product] = int64(p.Units)
	}
	w.Every(10*ms, func() bool {
		s.admit()
		return slices.ContainsFunc(s.audit.Attempts, func(a checkout.AttemptRow) bool {
			return a.State == "waiting"
		})
	})
	return s
}

// clock is the store's, of which no time is zero.
func (s *shop) clock() int64 { return int64(1e18) + int64(s.w.Now) }

// Do performs an operation.
func (s *shop) Do(op history.Op, answer func(history.Reply, error)) {
	asked, err := s.api.Asked(op)
	if err != nil {
		panic(err)
	}
	switch req := asked.(type) {
	case *checkout.JoinRequest:
		answer(s.join(*req))
	case *checkout.LeaveRequest:
		i, known := s.byTok[req.Token]
		state := ""
		if known {
			state = s.audit.Attempts[i].State
		}
		switch {
		case !known:
			answer(history.Reply{}, checkout.ErrUnknownToken)
		case state != "waiting" && state != "left":
			answer(history.Reply{}, checkout.ErrNotWaiting)
		default:
			if state == "waiting" {
				s.step(i, "left")
			}
			answer(history.Reply{}, nil)
		}
	case *checkout.PollRequest:
		i, known := s.byTok[req.Token]
		if !known {
			answer(history.Reply{}, checkout.ErrUnknownToken)
			return
		}
		answer(s.said(i), nil)
	}
}

// said is what is told of an attempt.
func (s *shop) said(i int) history.Reply {
	a, at := &s.audit.Attempts[i], int64(0)
	if a.State == "waiting" {
		at = s.position(i)
	}
	return history.Reply{Value: at, Body: fmt.Appendf(nil, `{"state":%q,"position":%d}`, a.State, at)}
}

func (s *shop) position(i int) int64 {
	a := &s.audit.Attempts[i]
	var product, place int64
	_, _ = fmt.Sscanf(a.Token, "%d.%d.", &product, &place) // it is the model's own
	return max(1, place-s.rooms[a.Product])
}

// full says whether a bucket has no token.
func (s *shop) full(name string, rate float64, burst int) *bucket {
	b := s.limits[name]
	if b == nil {
		b = &bucket{float64(burst), s.w.Now}
		s.limits[name] = b
	}
	b.tokens = min(float64(burst), b.tokens+rate*(s.w.Now-b.at).Seconds())
	b.at = s.w.Now
	if b.tokens < 1 {
		return nil
	}
	return b
}

func (s *shop) join(req checkout.JoinRequest) (history.Reply, error) {
	user := s.full("u"+req.User, s.p.UserRate, s.p.UserBurst)
	ip := s.full("i"+req.IP, s.p.IPRate, s.p.IPBurst)
	if user == nil || ip == nil {
		return history.Reply{}, checkout.ErrRateLimited
	}
	user.tokens--
	ip.tokens--
	if i, again := s.byOp[req.ID]; again {
		return s.ticket(i), nil
	}
	if slices.ContainsFunc(s.audit.Attempts, func(a checkout.AttemptRow) bool {
		return a.User == req.User && a.Product == req.Product && a.State != "refused" &&
			a.State != "compensated" && a.State != "left"
	}) {
		return history.Reply{}, checkout.ErrJoined
	}
	if !slices.ContainsFunc(s.audit.Attempts, func(a checkout.AttemptRow) bool {
		return a.Product == req.Product && (a.State == "waiting" || a.State == "admitted")
	}) && s.left[req.Product] == 0 {
		return history.Reply{}, checkout.ErrSoldOut
	}
	i := len(s.audit.Attempts)
	s.places[req.Product]++
	key := fmt.Sprint("key", i)
	token := fmt.Sprintf("%d.%d.%s", req.Product, s.places[req.Product], key)
	s.byOp[req.ID], s.byTok[token] = i, i
	s.audit.Attempts = append(s.audit.Attempts, checkout.AttemptRow{ID: req.ID, Token: token, Key: key,
		User: req.User, IP: req.IP, Product: req.Product, PassedNS: s.clock(), MadeNS: s.clock()})
	s.step(i, "waiting")
	return s.ticket(i), nil
}

func (s *shop) ticket(i int) history.Reply {
	return history.Reply{Key: s.audit.Attempts[i].Token, Value: s.position(i)}
}

func (s *shop) step(i int, state string) {
	a := &s.audit.Attempts[i]
	s.audit.Steps = append(s.audit.Steps, checkout.Step{Seq: int64(len(s.audit.Steps) + 1), ID: a.ID,
		Token: a.Token, Before: a.State, State: state, AtNS: s.clock()})
	a.State = state
}

// admit lets as many in as there is room for. They are decided a little later.
func (s *shop) admit() {
	for product := range s.rooms {
		inside, batch := 0, 0
		for i := range s.audit.Attempts {
			if a := &s.audit.Attempts[i]; int(a.Product) == product && a.State == "admitted" {
				inside++
			}
		}
		for i := range s.audit.Attempts {
			a := &s.audit.Attempts[i]
			full := inside >= s.p.Room || batch >= s.p.Batch
			if int(a.Product) != product || a.State != "waiting" || full {
				continue
			}
			inside, batch = inside+1, batch+1
			s.rooms[product] += s.position(i)
			s.order[product]++
			a.AdmitSeq = s.order[product]
			s.step(i, "admitted")
			s.w.After(s.w.Some(3*ms), func() { s.decide(i) })
		}
	}
}

func (s *shop) decide(i int) {
	a := &s.audit.Attempts[i]
	if s.left[a.Product] == 0 {
		s.step(i, "refused")
		return
	}
	s.left[a.Product]--
	s.step(i, "pending")
	s.audit.Orders = append(s.audit.Orders, checkout.OrderRow{Key: a.Key, ID: a.ID,
		User: a.User, Product: a.Product, State: "pending", MadeNS: s.clock()})
	o := len(s.audit.Orders) - 1
	s.w.After(s.w.Some(20*ms), func() { s.pay(i, o) })
}

// pay captures the money, of some late, so that it is refunded.
func (s *shop) pay(i, o int) {
	order, u := &s.audit.Orders[o], s.w.Rand.Float64()
	enter := func(kind string) {
		s.audit.Payments = append(s.audit.Payments, checkout.PaymentRow{Key: order.Key, Kind: kind,
			Amount: s.p.Price})
	}
	back := checkout.CallbackRow{Key: order.Key, Captured: u < 0.9}
	s.audit.Callbacks = append(s.audit.Callbacks, back, back)
	if u < 0.7 {
		enter("capture")
		order.State = "paid"
		s.step(i, "paid")
		return
	}
	if u < 0.9 {
		enter("capture")
		enter("refund")
	}
	order.State, order.EndedNS = "cancelled", s.clock()
	s.left[order.Product]++
	s.step(i, "compensated")
}

// Audit adds what is left of each product.
func (s *shop) Audit() checkout.Audit {
	for product := 1; product <= s.p.Products; product++ {
		s.audit.Stock = append(s.audit.Stock, checkout.StockRow{Product: uint64(product),
			Available: s.left[product]})
		s.audit.Gate = append(s.audit.Gate, checkout.GateRow{Product: uint64(product),
			Left: s.left[product]})
	}
	return s.audit
}
