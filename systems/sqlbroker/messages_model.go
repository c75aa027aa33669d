package sqlbroker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements whose costs the models of designs need, and what each of their rows costs.
const (
	costRate     = "rate"     // reads a queue's rate and token
	costPublish  = "publish"  // stores a publication
	costRepeated = "repeated" // compares one that was stored
	costClaim    = "claim"
	costAck      = KindAck
	costExtend   = KindExtend
	costRelease  = KindRelease
	costEffect   = "effect" // stores what came of a batch
	costDue      = "due"    // the sweeper's
	costExpired  = "expired"
	costWorn     = "worn"
	costAged     = "aged"
	costCollect  = "collect" // the collector's
	costForget   = "forget"

	costMessage = "message" // of a publication
	costTaken   = "taken"   // of a claim
	costSkipped = "skipped" // a row that a claim or the sweeper passes over, because it is locked
	costSettled = "settled" // of an acknowledgement, extension or release
	costStored  = "stored"  // of the effects
	costSwept   = "swept"   // of the sweeper's and the collector's
)

// assumedCosts are what statements cost on a CPU of 2023, until somebody measures them. A row
// that is written is assumed to cost what one of likes' batches does, or less where it has fewer
// indexes.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costRate: us(30), costPublish: us(130),
			costRepeated: us(40), costClaim: us(100), costAck: us(80), costExtend: us(80),
			costRelease: us(80), costEffect: us(60), costDue: us(50), costExpired: us(50),
			costWorn: us(50), costAged: us(50), costCollect: us(50), costForget: us(40),
			costMessage: us(25), costTaken: us(25), costSkipped: us(1), costSettled: us(20),
			costStored: us(15), costSwept: us(20)},
	}
}

// model is what the models of designs with their messages in a table have in common: the rows, by
// the statements of table. Queues never change; the load changes none. What consumers tell gauges
// is left out, for there are none.
type model struct {
	*sim.Cluster
	p         Params
	pollEvery time.Duration
	published *sim.Table[uint64, publishedRow]
	rows      *sim.Table[int64, messageRow]
	dead      *sim.Table[int64, DeadAudit]
	effects   *sim.Table[int64, EffectAudit]
	turns     *sim.Table[turn, struct{}] // advisory locks

	old                              *sim.Index[uint64, publishedRow] // published_age
	ready, groups, due, young, acked *sim.Index[int64, messageRow]    // messages_…

	ids, seq, receipts int64

	// What designs do in their own way. channel is where publications notify, if they do; mark is
	// what a claim makes of a row at a time; unfenced settles rows whatever their receipts are;
	// counts is by how much a release raises the number of deliveries; and works is how consumers
	// work a batch off.
	channel  *sim.Channel[notice]
	mark     func(row messageRow, now time.Duration) messageRow
	unfenced bool
	counts   int
	works    func(s *modelServer, p *sim.Process, queue string, batch []Delivery) error
}

// messageRow is a row of messages; its times are of the simulation.
type messageRow struct {
	id                                int64
	queue                             string
	op                                uint64
	index                             int
	group                             uint64
	priority                          int
	state                             string
	receives                          int
	receipt                           int64 // 0: none
	created, picked, visible, ackedAt time.Duration
	body                              string
}

type publishedRow struct {
	op       uint64
	queue    string
	messages int
	digest   int64
	at       time.Duration
}

// turn is one of the advisory locks of turnsOf.
type turn struct {
	queue string
	n     uint64
}

// notice says how many messages a queue has got.
type notice struct {
	queue string
	n     int
}

// modelled is the model of a design whose messages are in one table. Own changes what it does in
// its own way.
func modelled(own func(*model)) func(*sim.Cluster, Params, sut.Config) design.Model[Broker] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Broker] {
		m := newMessagesModel(c, p)
		if own != nil {
			own(m)
		}
		api := m.server(c.Postgres.Conns())
		api.most = cfg.Timeout
		m.roles(cfg)
		serve := func(*sim.Replica) (Broker, []func(*sim.Process)) { return newModelBroker(api), nil }
		return design.Model[Broker]{Open: serve, Pending: m.pending,
			Audit: func() any { return m.audit() }}
	}
}

func newMessagesModel(c *sim.Cluster, p Params) *model {
	pg := c.Postgres
	m := &model{Cluster: c, p: p, pollEvery: p.PollEvery.D(),
		published: sim.NewTable[uint64, publishedRow](pg, "published"),
		rows:      sim.NewTable[int64, messageRow](pg, "messages"),
		dead:      sim.NewTable[int64, DeadAudit](pg, "dead_letters"),
		effects:   sim.NewTable[int64, EffectAudit](pg, "effects"),
		turns:     sim.NewTable[turn, struct{}](pg, "groups")}
	m.mark, m.works = m.picked, (*modelServer).ackWithEffect
	m.old = sim.NewIndex(m.published, func(publishedRow) bool { return true },
		func(a, b publishedRow) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op)) })
	in := func(compare func(a, b messageRow) int, states ...string) *sim.Index[int64, messageRow] {
		return sim.NewIndex(m.rows, func(r messageRow) bool { return slices.Contains(states, r.state) },
			func(a, b messageRow) int { return cmp.Or(compare(a, b), cmp.Compare(a.id, b.id)) })
	}
	m.ready = in(func(a, b messageRow) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(b.priority, a.priority))
	}, StateReady)
	m.due = in(func(a, b messageRow) int { return cmp.Compare(a.visible, b.visible) },
		StateDelayed, StatePicked)
	m.young = in(func(a, b messageRow) int { return cmp.Compare(a.created, b.created) },
		StateReady, StateDelayed)
	m.acked = in(func(a, b messageRow) int { return cmp.Compare(a.ackedAt, b.ackedAt) }, StateAcked)
	m.groups = sim.NewIndex(m.rows,
		func(r messageRow) bool { return r.group != 0 && r.state != StateAcked },
		func(a, b messageRow) int {
			return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.group, b.group),
				cmp.Compare(a.id, b.id))
		})
	return m
}

// modelServer is a process that speaks to the table: the API or a consumer.
type modelServer struct {
	*model
	conns *sim.Conns
	// most bounds a call; 0 is no limit.
	most    time.Duration
	waiting map[string][]*modelWaiter
}

func (m *model) server(conns *sim.Conns) *modelServer {
	s := &modelServer{model: m, conns: conns, waiting: map[string][]*modelWaiter{}}
	if m.channel != nil {
		m.channel.Listen(func(n notice) { s.wake(n.queue, n.n) }, s.wakeAll)
	}
	return s
}

// modelBroker is the API's server as its users see it.
type modelBroker struct {
	*modelServer
	unmodelled
	rates *rates
}

func newModelBroker(s *modelServer) *modelBroker {
	now := func() time.Time { return time.Unix(0, int64(s.Sim.Now())) }
	read := func(ctx context.Context, queue string) (perSecond int, token []byte, err error) {
		s.conns.Exec(sim.In(ctx), costRate, func() {})
		if !s.known(queue) {
			return 0, nil, ErrUnknownQueue
		}
		return s.p.RatePerS, nil, nil
	}
	return &modelBroker{modelServer: s, rates: &rates{read: read, now: now,
		buckets: map[string]*bucket{}}}
}

// unmodelled are the calls of operators, which no load makes.
type unmodelled struct{}

var errUnmodelled = fmt.Errorf("operators have no model: %w", sut.ErrRefused)

func (unmodelled) Create(context.Context, string, QueueSettings) error { return errUnmodelled }
func (unmodelled) Purge(context.Context, string) (int, error)          { return 0, errUnmodelled }
func (unmodelled) Redrive(context.Context, string) (int, error)        { return 0, errUnmodelled }
func (unmodelled) List(context.Context) ([]QueueInfo, error)           { return nil, errUnmodelled }

// Publish is limited.Publish.
func (b *modelBroker) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	if err := b.rates.take(ctx, queue, len(p.Messages)); err != nil {
		return 0, err
	}
	return b.publish(sim.In(ctx), queue, p)
}

// Receive is limited.Receive.
func (b *modelBroker) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	if err := b.rates.take(ctx, queue, 1); err != nil {
		return nil, err
	}
	return b.receive(sim.In(ctx), queue, d), nil
}

func (m *model) known(queue string) bool { return isOf(queue, m.p.Queues) }

// publish is publishSQL, and table.repeated where it stores nothing.
func (s *modelServer) publish(p *sim.Process, queue string, pub Publication) (int, error) {
	known, fresh := s.known(queue), false
	s.conns.Exec(p, costPublish, func() {
		s.takeTurns(p, queue, pub)
		if known {
			if _, is := s.published.Get(pub.OpID); !is {
				p.Do(s.published.Lock(pub.OpID))
				if _, is = s.published.Get(pub.OpID); !is {
					fresh = true
					p.Do(s.Postgres.BurnTimes(costMessage, float64(len(pub.Messages))))
					s.store(queue, pub)
				}
			}
		}
		if s.channel != nil {
			n := notice{queue: queue}
			if fresh {
				n.n = len(pub.Messages)
			}
			p.Do(s.channel.Notify(n))
		}
	})
	switch {
	case !known:
		return 0, ErrUnknownQueue
	case fresh:
		return len(pub.Messages), nil
	}
	var row publishedRow
	var is bool
	s.conns.Exec(p, costRepeated, func() { row, is = s.published.Get(pub.OpID) })
	switch {
	case !is:
		return 0, fmt.Errorf("publishing again what is being forgotten: %w", sut.ErrRefused)
	case row.queue != queue || row.messages != len(pub.Messages) || row.digest != pub.digest():
		return 0, ErrTaken
	}
	return 0, nil
}

// takeTurns is turnsOf.
func (m *model) takeTurns(p *sim.Process, queue string, pub Publication) {
	var turns []uint64
	for _, msg := range pub.Messages {
		if msg.Group != 0 {
			turns = append(turns, msg.Group%64)
		}
	}
	slices.Sort(turns)
	for _, n := range slices.Compact(turns) {
		p.Do(m.turns.Lock(turn{queue, n}))
	}
}

// store writes the rows of a publication, whose lock the transaction has.
func (m *model) store(queue string, pub Publication) {
	now := m.Sim.Now()
	m.published.Set(pub.OpID, publishedRow{pub.OpID, queue, len(pub.Messages), pub.digest(), now})
	for i, msg := range pub.Messages {
		m.ids++
		row := messageRow{id: m.ids, queue: queue, op: pub.OpID, index: i, group: msg.Group,
			priority: msg.Priority, state: StateReady, created: now,
			visible: now + time.Duration(msg.DelayMS)*time.Millisecond, body: msg.Body}
		if msg.DelayMS > 0 {
			row.state = StateDelayed
		}
		m.rows.TryLock(row.id) // nobody else knows it
		m.rows.Set(row.id, row)
	}
}

// receive is table.await.
func (s *modelServer) receive(p *sim.Process, queue string, d Demand) []Delivery {
	wait := time.Duration(d.WaitMS) * time.Millisecond
	if s.most > 0 {
		wait = min(wait, s.most-min(s.most/5, answerIn))
	}
	told := false // of what the next look should find
	for until := p.Now() + wait; ; {
		if got, over := s.look(p, queue, d.Most, until, &told); over {
			return got
		}
	}
}

// look claims once and waits if there is nothing. It is over if that need not be repeated. Others
// are woken then if it was woken for no look of its own, and if it was told of messages and its
// claim failed.
func (s *modelServer) look(
	p *sim.Process, queue string, most int, until time.Duration, told *bool,
) (got []Delivery, over bool) {
	w, again, inVain := s.join(queue), false, *told
	defer func() {
		w.leave()
		for _, owed := range []bool{w.woken && !again, inVain} {
			if owed {
				s.wake(queue, most)
			}
		}
		*told = w.woken
	}()
	got = s.claim(p, queue, most)
	inVain = false
	left := until - p.Now()
	if len(got) > 0 || left <= 0 {
		return got, true
	}
	w.wait(p, min(left, s.pollEvery))
	again = true
	return nil, false
}

// claim is claimSQL.
func (s *modelServer) claim(p *sim.Process, queue string, n int) (got []Delivery) {
	s.conns.Exec(p, costClaim, func() {
		first, skipped := s.rows.Claim(s.ready.From(messageRow{queue: queue, priority: math.MaxInt}), n,
			func(row messageRow) bool { return row.queue == queue }, s.headOfGroup)
		p.Do(s.Postgres.BurnTimes(costTaken, float64(len(first))),
			s.Postgres.BurnTimes(costSkipped, float64(skipped)))
		for _, row := range first {
			got = append(got, s.mark(row, p.Now()).delivery())
		}
	})
	return got
}

func (m *model) headOfGroup(row messageRow) bool {
	if row.group == 0 {
		return true
	}
	for _, first := range m.groups.From(messageRow{queue: row.queue, group: row.group}) {
		return first.id >= row.id
	}
	return true
}

// delivered is a row as a claim of it makes it.
func (m *model) delivered(row messageRow, now time.Duration) messageRow {
	m.receipts++
	row.receives, row.receipt = row.receives+1, m.receipts
	row.picked, row.visible = now, now+m.p.Visibility.D()
	return row
}

// picked marks the row of a delivery.
func (m *model) picked(row messageRow, now time.Duration) messageRow {
	row = m.delivered(row, now)
	row.state = StatePicked
	m.rows.Set(row.id, row)
	return row
}

func (row messageRow) delivery() Delivery {
	return Delivery{OpID: row.op, Index: row.index, Body: row.body, Group: row.group,
		Priority: row.priority, Receives: row.receives, ReceivedNS: int64(row.picked),
		VisibleNS: int64(row.visible),
		Receipt:   "0." + strconv.FormatInt(row.id, 10) + "." + strconv.FormatInt(row.receipt, 10)}
}

// good is current or, in designs without a fence, identified.
func (m *model) good(row messageRow, receipt int64) bool {
	if m.unfenced {
		return row.state != StateAcked
	}
	return row.state == StatePicked && row.receipt == receipt && row.visible > m.Sim.Now()
}

// askedReceipt is a receipt of a settlement, and its place in it.
type askedReceipt struct {
	id, receipt int64
	at          int
}

func readReceipts(list []string) (asked []askedReceipt) {
	for at, text := range list {
		if _, id, ok := cutReceipt(text); ok {
			n, err := strconv.ParseInt(text[strings.LastIndexByte(text, '.')+1:], 10, 64)
			if err == nil {
				asked = append(asked, askedReceipt{id, n, at})
			}
		}
	}
	return asked
}

// Settle is table.Settle.
func (s *modelServer) Settle(
	ctx context.Context, queue string, how string, st Settlement,
) (Settled, error) {
	p, asked := sim.In(ctx), readReceipts(st.Receipts)
	var done []settled
	s.conns.Exec(p, how, func() { done = s.settle(p, queue, how, asked, st.ByMS) })
	if rest := without(asked, done); how == KindAck && len(rest) > 0 {
		s.conns.Exec(p, how, func() { done = append(done, s.settle(p, queue, how, rest, 0)...) })
	}
	return st.result(done)
}

func without(asked []askedReceipt, done []settled) []askedReceipt {
	return slices.DeleteFunc(slices.Clone(asked), func(a askedReceipt) bool {
		return slices.ContainsFunc(done, func(s settled) bool { return s.at == a.at })
	})
}

// settle is ackSQL, extendSQL or releaseSQL. Which rows it locks, and which were acknowledged
// before, is seen when it begins.
func (m *model) settle(
	p *sim.Process, queue, how string, asked []askedReceipt, byMS int64,
) (done []settled) {
	var mine []askedReceipt
	for _, a := range asked {
		row, is := m.rows.Get(a.id)
		switch {
		case !is || row.queue != queue:
		case m.good(row, a.receipt):
			mine = append(mine, a)
		case how == KindAck && row.state == StateAcked && (m.unfenced || row.receipt == a.receipt):
			done = append(done, settled{at: a.at})
		}
	}
	p.Do(m.Postgres.BurnTimes(costSettled, float64(len(mine))))
	for _, a := range mine {
		p.Do(m.rows.Lock(a.id))
		row, is := m.rows.Get(a.id)
		if is && m.good(row, a.receipt) {
			row = m.settledAs(row, how, p.Now(), byMS)
			m.rows.Set(a.id, row)
			done = append(done, settled{at: a.at, fresh: true})
			if how == KindExtend {
				done[len(done)-1].visibleNS = int64(row.visible)
			}
		}
	}
	return done
}

// settledAs is what a settlement makes of a row.
func (m *model) settledAs(row messageRow, how string, now time.Duration, byMS int64) messageRow {
	switch how {
	case KindAck:
		row.state, row.ackedAt = StateAcked, now
	case KindExtend:
		row.visible = max(row.visible, now+time.Duration(byMS)*time.Millisecond)
	case KindRelease:
		row.receives += m.counts
		row.state, row.receipt, row.visible = StatePicked, 0, now
		if row.receives < m.p.MaxReceives {
			row.state = StateReady
		}
	}
	return row
}

// ackWithEffect is table.work.
func (s *modelServer) ackWithEffect(p *sim.Process, queue string, batch []Delivery) error {
	return s.conns.Transaction(p, func() error {
		var good []Delivery
		s.conns.Query(p, costAck, func() {
			for _, done := range s.settle(p, queue, KindAck, readReceipts(receiptsOf(batch)), 0) {
				if done.fresh {
					good = append(good, batch[done.at])
				}
			}
		})
		p.Passed(PlaceBetween)
		return s.storeEffects(p, queue, good)
	})
}

// storeEffects is effectSQL, which fails if a body is not digestible.
func (s *modelServer) storeEffects(p *sim.Process, queue string, batch []Delivery) (err error) {
	if len(batch) == 0 {
		return nil
	}
	s.conns.Query(p, costEffect, func() {
		if slices.ContainsFunc(batch, indigestible) {
			err = errIndigestible
			return
		}
		p.Do(s.Postgres.BurnTimes(costStored, float64(len(batch))))
		for _, d := range batch {
			s.seq++
			s.effects.TryLock(s.seq) // nobody else knows it
			s.effects.Set(s.seq, EffectAudit{OpID: d.OpID, Index: d.Index, Queue: queue, Group: d.Group,
				Receives: d.Receives, Consumer: d.consumer, ReceivedNS: d.ReceivedNS,
				VisibleNS: d.VisibleNS, StoredNS: int64(p.Now())})
		}
	})
	return err
}

// modelDigester is a server for digest.
type modelDigester struct{ *modelServer }

func (d modelDigester) work(ctx context.Context, queue string, batch []Delivery) error {
	return d.works(d.modelServer, sim.In(ctx), queue, batch)
}

// roles begins the background work.
func (m *model) roles(cfg sut.Config) {
	limit := stores.Timeout(cfg)
	servers := make([]*modelServer, max(1, cfg.Replicas[RoleConsumer]))
	for n := range servers {
		name := fmt.Sprintf("%s-%d", RoleConsumer, n+1)
		servers[n] = m.server(m.Postgres.OwnConns(name, m.p.Workers+1, limit))
	}
	m.Role(RoleConsumer, len(servers), sut.AfterError,
		func(r *sim.Replica) (works []func(*sim.Process)) {
			for worker := range min(m.p.Workers, m.p.Workers*m.p.Worked) {
				works = append(works, func(p *sim.Process) {
					name := fmt.Sprintf("%s-%d.%d", RoleConsumer, r.Number+1, worker)
					servers[r.Number].consume(p, name, worker)
				})
			}
			return works
		})
	m.stepped(cfg, RoleSweeper, m.p.SweepEvery.D(), (*modelServer).sweep)
	m.stepped(cfg, RoleCollector, m.p.CollectEvery.D(), (*modelServer).collect)
}

// stepped is the processes of a role that does a step again and again.
func (m *model) stepped(
	cfg sut.Config, role string, every time.Duration, step func(*modelServer, *sim.Process),
) {
	n := max(1, cfg.Replicas[role])
	m.Role(role, n, sut.AfterError, func(r *sim.Replica) []func(*sim.Process) {
		s := &modelServer{model: m, conns: m.Postgres.OwnConns(r.Name, 1, stores.Timeout(cfg))}
		return []func(*sim.Process){func(p *sim.Process) {
			for {
				step(s, p)
				p.Do(m.Sim.Delay(every))
			}
		}}
	})
}

// consume is what a worker of the role does.
func (s *modelServer) consume(p *sim.Process, name string, worker int) {
	for turn := worker; ; turn++ {
		queue := QueueName(turn%s.p.Worked + 1)
		batch := s.receive(p, queue, Demand{Most: s.p.ReceiveBatch,
			WaitMS: s.p.turn().Milliseconds()})
		if len(batch) == 0 {
			continue
		}
		for i := range batch {
			batch[i].consumer = name
		}
		p.Passed(PlaceReceived)
		p.Do(s.Sim.Delay(s.p.Handle.D()))
		err := digest(p.Context(context.Background()), modelDigester{s}, queue, batch)
		if err != nil {
			p.Fail(err)
		}
	}
}

// sweep is table.sweep.
func (s *modelServer) sweep(p *sim.Process) {
	due := func(row messageRow) bool { return row.visible <= p.Now() }
	visible := func(row messageRow) { s.rows.Set(row.id, row) }
	s.batches(p, costDue, sweepBatch, s.due, due, func(row messageRow) bool {
		return row.state == StateDelayed
	}, func(row messageRow) {
		row.state = StateReady
		visible(row)
	})
	p.Passed(PlaceSwept)
	s.batches(p, costExpired, sweepBatch, s.due, due, func(row messageRow) bool {
		return row.state == StatePicked && row.receives < s.p.MaxReceives
	}, func(row messageRow) {
		row.state, row.receipt, row.visible = StateReady, 0, p.Now()
		visible(row)
	})
	p.Passed(PlaceSwept)
	s.batches(p, costWorn, sweepBatch, s.due, due, func(row messageRow) bool {
		return row.state == StatePicked && row.receives >= s.p.MaxReceives
	}, func(row messageRow) { s.bury(row, DeadReceives) })
	p.Passed(PlaceSwept)
	s.batches(p, costAged, sweepBatch, s.young, func(row messageRow) bool {
		return row.created < p.Now()-s.p.Retention.D()
	}, func(messageRow) bool { return true }, func(row messageRow) { s.bury(row, DeadRetention) })
	p.Passed(PlaceSwept)
}

func (m *model) bury(row messageRow, reason string) {
	m.rows.Delete(row.id)
	m.dead.TryLock(row.id) // nobody else has the row
	m.dead.Set(row.id, DeadAudit{OpID: row.op, Index: row.index, Queue: row.queue,
		Receives: row.receives, Reason: reason, AgeNS: int64(m.Sim.Now() - row.created)})
}

// batches does something to the first rows of an index that are due, wanted and not locked, as
// table.batches does.
func (s *modelServer) batches(
	p *sim.Process, cost string, most int, of *sim.Index[int64, messageRow],
	due, wanted func(messageRow) bool, do func(messageRow),
) {
	for n := most; n == most; {
		s.conns.Exec(p, cost, func() {
			rows, skipped := s.rows.Claim(of.All(), most, due, wanted)
			p.Do(s.Postgres.BurnTimes(costSwept, float64(len(rows))),
				s.Postgres.BurnTimes(costSkipped, float64(skipped)))
			for _, row := range rows {
				do(row)
			}
			n = len(rows)
		})
	}
}

// collect is table.collect.
func (s *modelServer) collect(p *sim.Process) {
	s.conns.Exec(p, costForget, func() {
		for op, row := range s.old.All() {
			if row.at >= p.Now()-remember {
				break
			}
			if s.published.TryLock(op) {
				s.published.Delete(op)
			}
		}
	})
	s.batches(p, costCollect, s.p.CollectBatch, s.acked, func(row messageRow) bool {
		return row.ackedAt < p.Now()-s.p.Keep.D()
	}, func(messageRow) bool { return true }, func(row messageRow) { s.rows.Delete(row.id) })
}

// pending is the same of the rows.
func (m *model) pending() (left int64, what string) {
	list := make([]QueueInfo, m.p.Queues)
	of := map[string]*QueueInfo{}
	for n := range list {
		list[n].Queue = QueueName(n + 1)
		of[list[n].Queue] = &list[n]
	}
	for _, row := range m.ready.All() {
		of[row.queue].Ready++
	}
	for _, row := range m.due.All() {
		if row.state == StatePicked {
			of[row.queue].Picked++
		} else {
			of[row.queue].Delayed++
		}
	}
	left, what = m.p.waiting(list)
	long := m.Sim.Now() - m.p.SweepEvery.D() - agePending
	for _, row := range m.young.All() {
		if row.created >= m.Sim.Now()-m.p.Retention.D() {
			break
		}
		if long > max(row.created+m.p.Retention.D(), row.waitsSince()) {
			if left++; what == "" {
				what = row.queue + " has messages older than its retention"
			}
		}
	}
	return left, what
}

func (row messageRow) waitsSince() time.Duration {
	if row.receives == 0 {
		return row.created
	}
	return row.visible
}

// audit is the same of the rows.
func (m *model) audit() Audit {
	a := Audit{Messages: []MessageAudit{}, Dead: []DeadAudit{}, Effects: []EffectAudit{}}
	now, waits := m.Sim.Now(), map[string]bool{}
	for _, id := range m.rows.Keys() {
		row, _ := m.rows.Get(id)
		one := MessageAudit{OpID: row.op, Index: row.index, Queue: row.queue, Group: row.group,
			State: row.state, Receives: row.receives, AckedNS: int64(row.ackedAt),
			AgeNS: int64(now - row.created)}
		if row.state == StateReady || row.state == StateDelayed {
			one.WaitsNS = int64(now - row.waitsSince())
		}
		waits[row.queue] = waits[row.queue] || row.state != StateAcked
		a.Messages = append(a.Messages, one)
	}
	for n := range m.p.Queues {
		q := QueueAudit{Queue: QueueName(n + 1), VisibilityNS: int64(m.p.Visibility),
			MaxReceives: m.p.MaxReceives, RetentionNS: int64(m.p.Retention)}
		if waits[q.Queue] {
			q.RetentionAgeNS = int64(now)
		}
		a.Queues = append(a.Queues, q)
	}
	for _, id := range m.dead.Keys() {
		letter, _ := m.dead.Get(id)
		a.Dead = append(a.Dead, letter)
	}
	for _, seq := range slices.Sorted(slices.Values(m.effects.Keys())) {
		e, _ := m.effects.Get(seq)
		a.Effects = append(a.Effects, e)
	}
	return a
}

// modelWaiter is one who waits for messages of a queue, as queue.Waiter is.
type modelWaiter struct {
	server *modelServer
	queue  string
	woken  bool
	signal *sim.Signal
}

func (s *modelServer) join(queue string) *modelWaiter {
	w := &modelWaiter{server: s, queue: queue}
	if s.channel != nil {
		w.signal = sim.NewSignal(s.Sim)
		s.waiting[queue] = append(s.waiting[queue], w)
	}
	return w
}

// wait waits until it is woken, but no longer than d.
func (w *modelWaiter) wait(p *sim.Process, d time.Duration) {
	switch {
	case w.signal == nil:
		p.Do(sim.Harmless(p.Sim().Delay(d)))
	case !w.woken:
		_ = p.Within(d, func() { p.Do(sim.Harmless(w.signal.Wait())) }) // it ends with the deadline
	}
}

// leave ends the waiting.
func (w *modelWaiter) leave() {
	list := w.server.waiting[w.queue]
	if i := slices.Index(list, w); i >= 0 {
		w.server.waiting[w.queue] = slices.Delete(list, i, i+1)
	}
}

// wake wakes those who wait for a queue until they would take n.
func (s *modelServer) wake(queue string, n int) {
	for n > 0 && len(s.waiting[queue]) > 0 {
		w := s.waiting[queue][0]
		s.waiting[queue] = s.waiting[queue][1:]
		w.woken = true
		w.signal.Wake()
		n -= s.p.ReceiveBatch
	}
}

func (s *modelServer) wakeAll() {
	for n := range s.p.Queues {
		s.wake(QueueName(n+1), math.MaxInt)
	}
}
