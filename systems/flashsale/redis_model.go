package flashsale

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// The statements and commands whose costs these models need beside the ledger's.
const (
	costOrders = "orders" // counts orders
	costOwners = "owners" // lists who has units of an item

	costTake    = "take"    // takeToken
	costGive    = "give"    // returnToken, returnOwn or returnPlain
	costGet     = "get"     // reads a counter
	costDecr    = "decr"    // decrements a counter
	costLookAll = "lookall" // lookAll
	costRebuild = "rebuild" // replaces what there is of an item
)

// modelShelf is a shelf of a model. If Redis does not answer, its methods unwind the process.
type modelShelf interface {
	admit(p *sim.Process, req BuyRequest) admission
	unused(c claim) bool
	putBack(p *sim.Process, cart cart, closed bool)
	release(p *sim.Process, cart cart)
	// restore sets who has units of an item.
	restore(item string, owners []OrderAudit)
}

// modelSale is what the models of designs that offer their stock in Redis have in common: the
// books, the counters and the reconciler.
type modelSale struct {
	*model
	modelShelf
	patience time.Duration
	left     *sim.Map[string, int64]
	repairs  *sim.Map[string, string]
	doubtful *sim.Map[string, time.Duration] // until when
}

// modelled completes a model of a design that offers its stock in Redis, watched by a gauge or not.
func (o offered) modelled(
	shelf func(*modelSale) modelShelf,
	buy func(*modelSale) func(*sim.Process, BuyRequest) (claim, error), watched bool,
) func(*sim.Cluster, Params, sut.Config) design.Model[Shop] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Shop] {
		s := &modelSale{model: newModel(c, p, cfg, o.stock), patience: patience(cfg),
			left:     sim.NewMap[string, int64](c.Redis),
			repairs:  sim.NewMap[string, string](c.Redis),
			doubtful: sim.NewMap[string, time.Duration](c.Redis)}
		for _, item := range itemKeys(p) {
			s.left.Set(item, int64(p.Units))
		}
		s.modelShelf = shelf(s)
		s.slack += s.patience + 2*reconcileEvery
		s.returned = s.releaseAll
		c.Role("reconciler", 1, sut.AfterError, sim.Only(s.reconciler))
		m := design.Model[Shop]{Domain: &modelShop{s.model, buy(s)}, Pending: s.pending,
			Audit: func() any {
				a := s.audit()
				s.seen(func(r RedisAudit, _ string) { a.Redis = append(a.Redis, r) })
				return a
			}}
		if watched {
			m.Gauge = func(p *sim.Process) any { return s.lookAtBoth(p) }
		}
		return m
	}
}

// command executes a command or script in Redis.
func (s *modelSale) command(p *sim.Process, name string, effect func()) {
	p.Do(s.Redis.Client.Send(), s.Redis.Execute(effect, name), s.Redis.Client.Receive())
}

// outlives does something that is not cancelled with the operation, and waits for it.
func (s *modelSale) outlives(
	p *sim.Process, limit time.Duration, f func(*sim.Process),
) (err error) {
	_ = p.All(1, func(own *sim.Process, _ int) { err = own.Within(limit, func() { f(own) }) })
	return err
}

// releaseAll tells Redis of carts that the ledger has closed. At the first error it leaves the
// rest to the reconciler.
func (s *modelSale) releaseAll(p *sim.Process, limit time.Duration, carts []OrderAudit) {
	for _, o := range carts {
		release := func(p *sim.Process) { s.release(p, cart{o.OpID, o.Item, o.Buyer}) }
		if s.outlives(p, limit, release) != nil {
			return
		}
	}
}

// passes is gatedShop.pass, but for what the design's gate does.
func (s *modelSale) passes(p *sim.Process, req BuyRequest) (admission, error) {
	if _, is := s.counters.Get(req.Item); !is {
		return 0, ErrUnknownItem
	}
	switch a := s.admit(p, req); a {
	case notReady:
		return 0, ErrNotReady
	case empty:
		return 0, ErrSoldOut
	default:
		return a, nil
	}
}

// gated is gatedShop.Buy with unit rows behind the gate.
func gated(s *modelSale) func(*sim.Process, BuyRequest) (claim, error) {
	till := skipsLocked(s.model)
	return func(p *sim.Process, req BuyRequest) (claim, error) {
		a, err := s.passes(p, req)
		switch {
		case err != nil:
			return claim{}, err
		case a == occupied:
			c, err := s.claims(p, req,
				func(*sim.Process, string) (int64, bool, bool) { return 0, false, true })
			if errors.Is(err, errBusy) {
				err = fmt.Errorf("another request of %s is under way: %w", req.Buyer, ErrConflict)
			}
			return c, err
		case a == unsure:
			return s.soldOut(p, req)
		case a == admitted:
			p.Passed(placeAdmitted)
		}
		c, err := till(p, req)
		useless := err == nil && s.unused(c) || errors.Is(err, sut.ErrRefused)
		if a != admitted || !useless {
			return c, err
		}
		back := s.outlives(p, s.call, func(p *sim.Process) { s.putBack(p, cart(req), c.closed) })
		if back != nil && err != nil { // not refused: the unit it took is missing from the sale
			//nolint:errorlint // thus neither error may be found in it
			return claim{}, fmt.Errorf("%v, and its unit was not returned: %v", err, back)
		}
		return c, err
	}
}

// orderCounts is the function of that name, on a connection of a role or a gauge.
func (s *modelSale) orderCounts(p *sim.Process) map[string]OrderCounts {
	p.Do(s.Postgres.OwnConn(), s.Postgres.Client.Send(), s.Postgres.Burn(costOrders))
	defer s.Postgres.Release()
	counts := s.counts()
	s.answered(p)
	return counts
}

// counts is how many orders there are by the committed rows.
func (s *modelSale) counts() map[string]OrderCounts {
	counts := map[string]OrderCounts{}
	for _, item := range itemKeys(s.p) {
		stock, _ := s.count(item)
		closed := s.closed[item]
		counts[item] = OrderCounts{Made: stock.Held + stock.Sold + closed, Closed: closed}
	}
	return counts
}

// seen calls a function with what Redis has of each item, and its mark of repair.
func (s *modelSale) seen(each func(r RedisAudit, repair string)) {
	for _, item := range itemKeys(s.p) {
		left, is := s.left.Get(item)
		repair, _ := s.repairs.Get(item)
		each(RedisAudit{Item: item, Present: is, Stock: left}, repair)
	}
}

// lookAtBoth is counters.lookAtBoth.
func (s *modelSale) lookAtBoth(p *sim.Process) (look Look) {
	before := s.orderCounts(p)
	s.command(p, costLookAll, func() {
		s.seen(func(r RedisAudit, repair string) {
			look.Items = append(look.Items, LookItem{Item: r.Item, Present: r.Present, Stock: r.Stock,
				Repair: repair, Before: before[r.Item]})
		})
	})
	after := s.orderCounts(p)
	for i := range look.Items {
		look.Items[i].After = after[look.Items[i].Item]
	}
	return look
}

// balanced is what both sides say, the ledger having been read before.
func (s *modelSale) balanced(orders map[string]OrderCounts) (list []balance) {
	s.seen(func(r RedisAudit, _ string) {
		n := orders[r.Item].Made - orders[r.Item].Closed
		list = append(list, balance{item: r.Item, present: r.Present, stock: r.Stock, active: n,
			drift: int64(s.p.Units) - r.Stock - n})
	})
	return list
}

// pending is what the reclaimer and the reconciler have still to do.
func (s *modelSale) pending() (left int64, what string) {
	if left, what = s.held(); left > 0 {
		return left, what
	}
	for _, l := range s.balanced(s.counts()) {
		left += l.left()
		if what = l.text(); what != "" {
			break
		}
	}
	return left, what
}

// reconciler is the role of that name.
func (s *modelSale) reconciler(p *sim.Process) {
	r := &reconciliation{mismatches: map[string]mismatch{}}
	for {
		var list []balance
		failed := p.Within(s.limit, func() {
			orders := s.orderCounts(p)
			s.command(p, costLookAll, func() { list = s.balanced(orders) })
		})
		if failed == nil {
			p.Passed(placeCompared)
		}
		for _, l := range list {
			now := time.Unix(0, int64(p.Now()))
			if failed != nil || !r.wrong(l, now, s.patience) {
				continue
			}
			if failed = p.Within(s.limit, func() { s.rebuild(p, l.item) }); failed == nil {
				delete(r.mismatches, l.item)
			}
		}
		p.Do(s.Sim.Delay(reconcileEvery))
	}
}

// rebuild is reconciliation.rebuild.
func (s *modelSale) rebuild(p *sim.Process, item string) {
	var owners []OrderAudit
	func() {
		p.Do(s.Postgres.OwnConn(), s.Postgres.Client.Send(), s.Postgres.Burn(costOwners))
		defer s.Postgres.Release()
		for _, id := range s.open[item] {
			if o, is := s.orders.Get(id); is && (o.State == OrderHeld || o.State == OrderPaid) {
				owners = append(owners, o)
			}
		}
		s.answered(p)
	}()
	s.command(p, costRebuild, func() {
		s.left.Set(item, int64(s.p.Units-len(owners)))
		s.repairs.Set(item, strconv.FormatInt(int64(s.Sim.Now()), 36))
		s.doubtful.Set(item, s.Sim.Now()+4*(s.patience+reconcileEvery))
		s.restore(item, owners)
	})
}

// plainModel is counters: a number, and nobody's name.
type plainModel struct{ *modelSale }

func (plainModel) unused(made claim) bool { return !made.fresh }

func (c plainModel) release(p *sim.Process, cart cart) {
	c.command(p, costGive, func() { c.backIn(cart.Item) })
}

// backIn adds a unit to a counter that is there.
func (s *modelSale) backIn(item string) {
	if left, is := s.left.Get(item); is {
		s.left.Set(item, left+1)
	}
}

func (c plainModel) putBack(p *sim.Process, cart cart, _ bool) { c.release(p, cart) }

func (plainModel) restore(string, []OrderAudit) {}

// tokensModel is tokens that last.
type tokensModel struct {
	*modelSale
	tokens *sim.Map[[2]string, modelToken] // by item and buyer
}

// modelToken is which operation took a unit, and whether several requests rely on it.
type modelToken struct {
	op     uint64
	shared bool
}

func lastingModel(s *modelSale) modelShelf {
	return &tokensModel{s, sim.NewMap[[2]string, modelToken](s.Redis)}
}

// admit is takeToken.
func (t *tokensModel) admit(p *sim.Process, req BuyRequest) (a admission) {
	t.command(p, costTake, func() {
		owner := [2]string{req.Item, req.Buyer}
		left, is := t.left.Get(req.Item)
		had, has := t.tokens.Get(owner)
		until, _ := t.doubtful.Get(req.Item)
		switch {
		case !is:
			a = notReady
		case has && had.op == req.OpID:
			t.tokens.Set(owner, modelToken{req.OpID, true})
			a = repeated
		case has:
			a = occupied
		case left <= 0 && t.Sim.Now() < until:
			a = unsure
		case left <= 0:
			a = empty
		default:
			t.left.Set(req.Item, left-1)
			t.tokens.Set(owner, modelToken{op: req.OpID})
			a = admitted
		}
	})
	return a
}

func (*tokensModel) unused(made claim) bool { return made.closed }

func (t *tokensModel) release(p *sim.Process, cart cart) { t.returns(p, cart, true) }

func (t *tokensModel) putBack(p *sim.Process, cart cart, closed bool) { t.returns(p, cart, closed) }

// returns is returnToken, or returnOwn.
func (t *tokensModel) returns(p *sim.Process, cart cart, shared bool) {
	t.command(p, costGive, func() {
		owner := [2]string{cart.Item, cart.Buyer}
		if had, has := t.tokens.Get(owner); has && had.op == cart.OpID && (shared || !had.shared) {
			t.tokens.Delete(owner)
			t.backIn(cart.Item)
		}
	})
}

func (t *tokensModel) restore(item string, owners []OrderAudit) {
	t.tokens.DeleteFunc(func(owner [2]string, _ modelToken) bool { return owner[0] == item })
	for _, o := range owners {
		t.tokens.Set([2]string{item, o.Buyer}, modelToken{op: o.OpID})
	}
}
