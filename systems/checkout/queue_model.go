package checkout

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sim"
)

// recordBytes is the size of an attempt in the queue.
const recordBytes = 130

// queueModel is the queue between admitter and workers, and what these do.
type queueModel struct {
	*shopModel
	topic     *sim.Topic[attempt]
	partition func(product uint64) int
}

// queues makes the queue.
func (m *shopModel) queues() *queueModel {
	n := partitions(m.p)
	by := kgo.StickyKeyPartitioner(nil).ForTopic(checkoutTopic)
	return &queueModel{m, sim.NewTopic[attempt](m.Kafka, checkoutTopic, n), func(product uint64) int {
		return by.Partition(&kgo.Record{Key: []byte(productKey(product))}, n)
	}}
}

// decidesLater is the shop of kafka_queue, by the sequence of its workers.
func (m *shopModel) decidesLater(in func(p *sim.Process, decide, commit func())) {
	m.join = m.joinsQueue
	q := m.queues()
	batch, room := everybody(m.p)
	q.admits(batch, room, func(*sim.Process, *sim.Conns) {})
	q.works(in, func(p *sim.Process, db *sim.Conns, product uint64, list []attempt) {
		m.decideAmong(p, db, product, list, func(attempt) bool { return true })
	})
	m.pays((*payerModel).compensate)
}

// admits starts the admitter.
func (q *queueModel) admits(batch, room int, admitted func(*sim.Process, *sim.Conns)) {
	q.role("admitter", 2, func(_ *sim.Replica, db *sim.Conns) func(*sim.Process) {
		return func(p *sim.Process) {
			for {
				n := q.admitNext(p, db, batch, room)
				admitted(p, db)
				if n < batch || batch <= q.p.Batch {
					p.Do(q.Sim.Delay(q.p.AdmitEvery.D()))
				}
			}
		}
	})
}

// admitNext is the same of the design.
func (q *queueModel) admitNext(p *sim.Process, db *sim.Conns, batch, room int) (n int) {
	_ = db.Transaction(p, func() error {
		var next []attemptRow
		db.QueryTimes(p, costNext, float64(q.p.Products), func() { next = q.selectNext(p, batch, room) })
		if n = len(next); n == 0 {
			return nil
		}
		q.send(p, next)
		p.Passed(placeSent)
		db.QueryTimes(p, costAdmit, float64(n), func() {
			for _, a := range next {
				p.Do(q.rooms.Lock(a.Product))
				room, _ := q.rooms.Get(a.Product)
				room = roomRow{max(room.admittedTo, a.place), room.admitted + 1}
				q.rooms.Set(a.Product, room)
				a.AdmitSeq = room.admitted
				q.become(p, a, admitted)
			}
		})
		return nil
	})
	return n
}

// selectNext locks the first that wait of each product. One that leaves meanwhile leaves a place.
func (q *queueModel) selectNext(p *sim.Process, batch, room int) (next []attemptRow) {
	var first []attemptRow
	for _, product := range q.p.all() {
		inside := 0
		for _, a := range q.admitted.From(attemptRow{AttemptRow: AttemptRow{Product: product}}) {
			if a.Product != product {
				break
			}
			inside++
		}
		most := min(batch, room-inside)
		for _, a := range q.waiting.From(attemptRow{AttemptRow: AttemptRow{Product: product}}) {
			if most <= 0 || a.Product != product {
				break
			}
			most--
			first = append(first, a)
		}
	}
	for _, a := range first {
		if a, is := q.attempts.LockIf(p, a.ID, isWaiting); is {
			next = append(next, a)
		}
	}
	return next
}

// send writes attempts to the partitions of their products, at the same time.
func (q *queueModel) send(p *sim.Process, list []attemptRow) {
	to := map[int][]attempt{}
	for _, a := range list {
		n := q.partition(a.Product)
		to[n] = append(to[n], attempt{a.ID, a.Key, a.User, a.Product, a.place})
	}
	numbers := slices.Sorted(maps.Keys(to))
	err := p.All(len(numbers), func(p *sim.Process, i int) {
		p.Do(q.topic.ProduceAll(numbers[i], to[numbers[i]], func(attempt) int64 { return recordBytes },
			func(attempt, int) {}))
	})
	if err != nil {
		p.Fail(err)
	}
}

// works starts the workers, each with partitions of its own: they are not given to another one
// while theirs is dead.
func (q *queueModel) works(
	in func(p *sim.Process, decide, commit func()),
	decide func(p *sim.Process, db *sim.Conns, product uint64, list []attempt),
) {
	n := max(1, q.replicas["worker"])
	readers := map[int]*sim.Consumer[attempt]{}
	q.role("worker", 4, func(r *sim.Replica, db *sim.Conns) func(*sim.Process) {
		if readers[r.Number] == nil {
			var mine []int // each n-th partition
			for i := r.Number; i < partitions(q.p); i += n {
				mine = append(mine, i)
			}
			readers[r.Number] = q.topic.Consumer(mine...)
		}
		reader := readers[r.Number]
		rest := time.Duration(0)
		if ago, died := r.Died(); died {
			rest = max(0, queueSession-ago)
		}
		reader.Crash(rest)
		return func(p *sim.Process) {
			for {
				p.Do(reader.Poll(workerBatch))
				list := reader.Records()
				in(p, func() { q.decideAll(p, db, list, decide) }, func() { p.Do(reader.Commit()) })
			}
		}
	})
}

// thenCommits is decideThenCommit.
func thenCommits(_ *sim.Process, decide, commit func()) {
	decide()
	commit()
}

func (q *queueModel) decideAll(
	p *sim.Process, db *sim.Conns, list []attempt,
	decide func(p *sim.Process, db *sim.Conns, product uint64, list []attempt),
) {
	byProduct, order := map[uint64][]attempt{}, []uint64{}
	for _, v := range list {
		if byProduct[v.Product] == nil {
			order = append(order, v.Product)
		}
		byProduct[v.Product] = append(byProduct[v.Product], v)
	}
	for _, product := range order {
		decide(p, db, product, byProduct[product])
	}
}

// decideAmong is the same of the design.
func (m *shopModel) decideAmong(
	p *sim.Process, db *sim.Conns, product uint64, list []attempt, may func(attempt) bool,
) {
	_ = db.Transaction(p, func() error {
		var units int64
		db.Query(p, costStock, func() {
			p.Do(m.stock.Lock(product))
			units, _ = m.stock.Get(product)
		})
		open := map[uint64]bool{}
		db.QueryTimes(p, costOpen, float64(len(list)), func() {
			for _, v := range list {
				p.Do(m.attempts.Lock(v.ID))
				a, _ := m.attempts.Get(v.ID)
				open[v.ID] = a.State == admitted
			}
		})
		var sold, turnedAway []uint64
		for _, v := range list {
			switch {
			case !open[v.ID]:
			case int64(len(sold)) < units && may(v):
				sold = append(sold, v.ID)
			default:
				turnedAway = append(turnedAway, v.ID)
			}
			delete(open, v.ID)
		}
		if len(sold) > 0 {
			db.Query(p, costTake, func() { m.stock.Set(product, units-int64(len(sold))) })
			m.conclude(p, db, costOrder, sold, pending)
		}
		if len(turnedAway) > 0 {
			m.conclude(p, db, costRefuse, turnedAway, refused)
		}
		return nil
	})
	p.Passed(placeOrdered)
}

// conclude writes what attempts came to, whose locks the transaction has.
func (m *shopModel) conclude(
	p *sim.Process, db *sim.Conns, cost string, ids []uint64, state string,
) {
	db.QueryTimes(p, cost, float64(len(ids)), func() {
		for _, id := range ids {
			a, _ := m.attempts.Get(id)
			m.become(p, a, state)
			if state == pending {
				m.order(p, a)
			}
		}
	})
}

// waits is counter.wait.
func (m *shopModel) waits(p *sim.Process, req JoinRequest, passedNS int64) (t Ticket, err error) {
	err = m.db.Transaction(p, func() error {
		row, _, err := m.begin(p, req, waiting, passedNS)
		t = row.ticket()
		return err
	})
	return t, err
}

// joinsQueue is queuedShop.Join.
func (m *shopModel) joinsQueue(p *sim.Process, req JoinRequest) (Ticket, error) {
	t, err := m.waits(p, req, 0)
	t.Position = 0
	return t, err
}

// reservationsModel is reservations.
type reservationsModel struct {
	*shopModel
	units *sim.Map[uint64, shown]
}

// reserves puts reservations before the stock, with their reconciler.
func (m *shopModel) reserves() *reservationsModel {
	s := &reservationsModel{m, sim.NewMap[uint64, shown](m.Redis)}
	for _, product := range m.p.all() {
		s.units.Set(product, shown{left: int64(m.p.Units), known: true, changes: "1"})
	}
	m.reservation, m.pending = s, s.openOrDrifted
	m.role("reconciler", 2, func(_ *sim.Replica, db *sim.Conns) func(*sim.Process) {
		return func(p *sim.Process) {
			for {
				s.mend(p, db, m.p.all()...)
				p.Do(m.Sim.Delay(m.p.Reconcile.D()))
			}
		}
	})
	return s
}

// asks executes a command or script in Redis.
func (m *shopModel) asks(p *sim.Process, effect func(), commands sim.Times) {
	ask := func() {
		p.Do(m.Redis.Client.Send(), m.Redis.ExecuteTimes(effect, commands), m.Redis.Client.Receive())
	}
	if err := p.Within(m.limit, ask); err != nil {
		p.Fail(err)
	}
}

// change changes what Redis says of a product, and counts that.
func (s *reservationsModel) change(product uint64, v shown, do func(holds map[string]int64)) {
	n, _ := strconv.ParseInt(v.changes, 10, 64) // "" is 0
	v.changes, v.holds = strconv.FormatInt(n+1, 10), maps.Clone(v.holds)
	if v.holds == nil {
		v.holds = map[string]int64{}
	}
	do(v.holds)
	s.units.Set(product, v)
}

// reserve is the same of reservations: it says whether a unit is held for an attempt.
func (s *reservationsModel) reserve(p *sim.Process, db *sim.Conns, product, id uint64) bool {
	for range 3 {
		known, held := true, false
		s.asks(p, func() {
			v, _ := s.units.Get(product)
			known = v.known
			hold := strconv.FormatUint(id, 10)
			if _, held = v.holds[hold]; !known || held || v.left < 1 {
				return
			}
			v.left, held = v.left-1, true
			s.change(product, v, func(holds map[string]int64) {
				holds[hold] = (p.Now() + s.p.HoldTTL.D()).Milliseconds()
			})
		}, sim.Times{costReserve: 1})
		if known {
			return held
		}
		s.mend(p, db, product)
	}
	p.Fail(errUnready)
	return false
}

// mend is reservations.mend.
func (s *reservationsModel) mend(p *sim.Process, db *sim.Conns, products ...uint64) {
	all := gate{}
	s.asks(p, func() {
		for _, product := range products {
			v, _ := s.units.Get(product)
			v.now = p.Now().Milliseconds()
			all[product] = v
		}
	}, sim.Times{costHolds: float64(len(products))})
	available, decided := s.stockOf(p, db, all)
	p.Passed(placeRead)
	for _, product := range products {
		v := all[product]
		units, over := unheld(product, v, available[product], decided)
		if v.known && v.left == units && len(over) == 0 {
			continue
		}
		s.asks(p, func() {
			now, _ := s.units.Get(product)
			if now.changes != v.changes {
				return
			}
			now.left, now.known = max(0, units), true
			s.change(product, now, func(holds map[string]int64) {
				for _, id := range over {
					delete(holds, id.(string))
				}
			})
		}, sim.Times{costReserve: 1})
	}
}

// stockOf is reservations.stock for what Redis says.
func (s *reservationsModel) stockOf(
	p *sim.Process, db *sim.Conns, all gate,
) (available map[uint64]int64, decided map[string]bool) {
	available, decided = map[uint64]int64{}, map[string]bool{}
	var ids []string
	for _, v := range all {
		ids = slices.AppendSeq(ids, maps.Keys(v.holds))
	}
	_ = db.Transaction(p, func() error {
		db.Query(p, costStock, func() {
			for product := range all {
				available[product], _ = s.stock.Get(product)
			}
			s.decided(ids, decided) // of one snapshot
		})
		if len(ids) > 0 {
			db.QueryTimes(p, costDecided, float64(len(ids)), func() {})
		}
		return nil
	})
	return available, decided
}

// decided adds which of some attempts wait no more and are not at the checkout.
func (m *shopModel) decided(ids []string, decided map[string]bool) {
	for _, id := range ids {
		n, _ := strconv.ParseUint(id, 10, 64)
		if a, is := m.attempts.Get(n); is && a.State != waiting && a.State != admitted {
			decided[id] = true
		}
	}
}

// decideReserved is the same of the design.
func (s *reservationsModel) decideReserved(
	p *sim.Process, db *sim.Conns, product uint64, list []attempt,
) {
	decided, reserved := map[string]bool{}, map[uint64]bool{}
	ids := make([]string, len(list))
	for i, v := range list {
		ids[i] = strconv.FormatUint(v.ID, 10)
	}
	db.ExecTimes(p, costDecided, float64(len(list)), func() { s.decided(ids, decided) })
	var open []attempt
	for i, v := range list {
		if !decided[ids[i]] {
			open = append(open, v)
			reserved[v.ID] = s.reserve(p, db, product, v.ID)
		}
	}
	p.Passed(placeReserved)
	s.decideAmong(p, db, product, open, func(v attempt) bool { return reserved[v.ID] })
	s.mend(p, db, product)
}

// openOrDrifted is the same of the design.
func (s *reservationsModel) openOrDrifted() (n int64, what string) {
	if n, what = s.open(); n > 0 {
		return n, what
	}
	for _, product := range s.p.all() {
		v, _ := s.units.Get(product)
		if units, _ := s.stock.Get(product); !v.known || v.left != units || len(v.holds) > 0 {
			n++
		}
	}
	return n, strconv.FormatInt(n, 10) + " products are not in Redis as in Postgres"
}

// gate is what Redis says at the end.
func (s *reservationsModel) gate() (list []GateRow) {
	list = []GateRow{}
	for _, product := range s.p.all() {
		if v, _ := s.units.Get(product); v.known {
			list = append(list, GateRow{product, v.left})
		}
	}
	return list
}
