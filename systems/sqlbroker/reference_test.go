package sqlbroker_test

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// world is a whole run in virtual time: the workload, a network that loses and
// delays, and a correct broker with consumers that die and sleep. Everything follows
// from the seed.
type world struct {
	params sqlbroker.Params
	rng    *rand.Rand
	load   sut.Workload
	trouble

	now     time.Duration
	events  events
	records []history.Record
	// followed says of each record whether others may follow: not from a second sending.
	followed []bool
	busy     int // attempts under way, and operations that are still to come
	broker   *refBroker
}

// trouble is how often an attempt meets each mishap, and a batch a consumer that dies
// or sleeps.
type trouble struct {
	lostRequest, lostReply, late, hang, dialFails, dropped, dies, sleeps float64
}

const (
	netDelay  = 2 * ms
	opTimeout = 100 * ms
	// pace is how often the roles of the reference do something.
	pace = 10 * ms
	// consumers take turns at receiving, and work on what they got side by side.
	consumers = 3
)

// runOf is a run of so many scheduled operations within a second.
func runOf(t tb, seed uint64, p sqlbroker.Params, tr trouble, ops int) *evidence {
	t.Helper()
	load, err := sqlbroker.NewWorkload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{params: p, rng: rand.New(rand.NewPCG(seed, 1)), load: load, trouble: tr}
	w.broker = newRefBroker(w)
	for i := range ops {
		op := load.Op(uint64(i))
		w.after(time.Duration(i)*time.Second/time.Duration(ops), func() { w.send(op) })
	}
	w.broker.work()
	for w.events.Len() > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	return &evidence{params: p, records: w.records, audit: w.broker.audit()}
}

// event is something that happens at a moment; n breaks ties in the order of planning.
type event struct {
	at time.Duration
	n  int
	do func()
}

type events struct {
	list []event
	n    int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, k int) bool {
	a, b := e.list[i], e.list[k]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) < 0
}
func (e *events) Swap(i, k int) { e.list[i], e.list[k] = e.list[k], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

// at plans what roles do; after what operations do, for which the roles wait.
func (w *world) at(in time.Duration, do func()) {
	w.events.n++
	heap.Push(&w.events, event{w.now + in, w.events.n, do})
}

func (w *world) after(in time.Duration, do func()) {
	w.busy++
	w.at(in, func() {
		w.busy--
		do()
	})
}

// some of a duration, uniform.
func (w *world) some(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

// send starts one attempt, and a second one beside it if there is one.
func (w *world) send(op history.Op) {
	if when, _ := w.load.(sut.Resender).Resend(op); when == sut.Together {
		w.after(0, func() { w.attempt(op, false) })
	}
	w.attempt(op, true)
}

// attempt decides what the network does to an attempt, from which others may follow.
func (w *world) attempt(op history.Op, followed bool) {
	i := len(w.records)
	w.followed = append(w.followed, followed)
	w.records = append(w.records, history.Record{
		Seq: uint64(i), Op: op, Intended: w.now, Start: w.now, End: history.Never})
	u := w.rng.Float64()
	for _, fate := range []struct {
		share float64
		do    func()
	}{
		{w.dropped, func() {
			w.records[i].Outcome, w.records[i].Start = history.Dropped, history.Never
		}},
		{w.dialFails, func() { w.end(i, w.some(netDelay), history.Refused, history.Reply{}, nil) }},
		{w.lostRequest, func() { w.lose(i) }},
		{w.lostReply, func() {
			w.execute(i, w.some(netDelay), func(history.Reply, error) {})
			w.lose(i)
		}},
		{w.late, func() {
			w.execute(i, opTimeout+w.some(2*opTimeout), func(history.Reply, error) {})
			w.lose(i)
		}},
		{w.hang, func() {}},
		{1, func() {
			w.execute(i, w.some(netDelay), func(reply history.Reply, err error) {
				outcome := history.OK
				if errors.Is(err, sut.ErrRefused) {
					outcome = history.Refused
				}
				w.end(i, w.some(netDelay), outcome, reply, err)
			})
		}},
	} {
		if u -= fate.share; u < 0 {
			fate.do()
			return
		}
	}
}

// lose ends an attempt without an answer.
func (w *world) lose(i int) { w.end(i, opTimeout, history.Unknown, history.Reply{}, nil) }

// execute has the broker perform an operation.
func (w *world) execute(i int, in time.Duration, then func(history.Reply, error)) {
	op := w.records[i].Op
	w.after(in, func() { then(sqlbroker.Perform(context.Background(), w.broker, op)) })
}

// end completes a record and plans what follows.
func (w *world) end(
	i int, in time.Duration, outcome history.Outcome, reply history.Reply, err error,
) {
	w.after(in, func() {
		r := &w.records[i]
		r.Outcome, r.Reply, r.End = outcome, reply, w.now
		if err != nil {
			r.Err = err.Error()
		}
		if !w.followed[i] {
			return
		}
		when, pause := w.load.(sut.Resender).Resend(r.Op)
		if op := r.Op; when == sut.Later && outcome == history.OK {
			w.after(pause, func() { w.attempt(op, false) })
		}
		for _, next := range w.load.Follow(r.Op, outcome, reply) {
			w.after(next.After, func() { w.send(next.Op) })
		}
	})
}

// refBroker is the simplest correct broker.
type refBroker struct {
	w         *world
	published map[uint64]bool
	messages  []*refMessage // in the order of publication
	live      []*refMessage // those of them that were not acknowledged or dead lately
	receipts  map[string]*refMessage
	dead      []sqlbroker.DeadAudit
	effects   []sqlbroker.EffectAudit
	turns     int // of consumers
}

type refMessage struct {
	sqlbroker.MessageAudit
	body                       string
	priority                   int
	created, received, visible time.Duration
	receipt                    string
	buried                     bool
}

func newRefBroker(w *world) *refBroker {
	return &refBroker{w: w, published: map[uint64]bool{}, receipts: map[string]*refMessage{}}
}

// Publish stores what was not stored before.
func (b *refBroker) Publish(
	_ context.Context, queue string, p sqlbroker.Publication,
) (int, error) {
	if b.published[p.OpID] {
		return 0, nil
	}
	b.published[p.OpID] = true
	for i, m := range p.Messages {
		state, due := sqlbroker.StateReady, b.w.now
		if m.DelayMS > 0 {
			state, due = sqlbroker.StateDelayed, b.w.now+time.Duration(m.DelayMS)*ms
		}
		b.live = append(b.live, &refMessage{body: m.Body, priority: m.Priority, created: b.w.now,
			visible: due,
			MessageAudit: sqlbroker.MessageAudit{OpID: p.OpID, Index: i, Queue: queue, Group: m.Group,
				State: state}})
	}
	b.messages = append(b.messages, b.live[len(b.live)-len(p.Messages):]...)
	return len(p.Messages), nil
}

// Receive delivers the first ready messages, of each group the first one only.
func (b *refBroker) Receive(
	_ context.Context, queue string, d sqlbroker.Demand,
) (got []sqlbroker.Delivery, _ error) {
	b.sweep()
	held := map[uint64]bool{}
	var ready []*refMessage
	for _, m := range b.live {
		if m.Queue != queue || m.buried {
			continue
		}
		if m.State == sqlbroker.StateReady && (m.Group == 0 || !held[m.Group]) {
			ready = append(ready, m)
		}
		held[m.Group] = true
	}
	slices.SortStableFunc(ready, func(a, b *refMessage) int { return b.priority - a.priority })
	for _, m := range ready[:min(len(ready), d.Most)] {
		m.State, m.Receives = sqlbroker.StatePicked, m.Receives+1
		m.receipt = strings.Join([]string{strconv.FormatUint(m.OpID, 10), strconv.Itoa(m.Index),
			strconv.Itoa(m.Receives)}, ".")
		b.receipts[m.receipt] = m
		m.received, m.visible = b.w.now, b.w.now+b.w.params.Visibility.D()
		got = append(got, sqlbroker.Delivery{OpID: m.OpID, Index: m.Index, Body: m.body,
			Group: m.Group, Priority: m.priority, Receipt: m.receipt, Receives: m.Receives,
			ReceivedNS: clock(m.received), VisibleNS: clock(m.visible)})
	}
	return got, nil
}

// Settle settles what has a good receipt.
func (b *refBroker) Settle(
	_ context.Context, _ string, how string, s sqlbroker.Settlement,
) (sqlbroker.Settled, error) {
	b.sweep()
	var out sqlbroker.Settled
	for _, receipt := range s.Receipts {
		m := b.receipts[receipt]
		if m == nil || m.receipt != receipt || m.State != sqlbroker.StatePicked &&
			(how != sqlbroker.KindAck || m.State != sqlbroker.StateAcked) {
			out.Stale = append(out.Stale, receipt)
			continue
		}
		out.Done = append(out.Done, receipt)
		if until := b.change(m, how, s); out.VisibleNS == 0 || until < out.VisibleNS {
			out.VisibleNS = until
		}
	}
	if len(out.Done) == 0 {
		return out, sqlbroker.ErrStaleReceipt
	}
	return out, nil
}

func (b *refBroker) change(m *refMessage, how string, s sqlbroker.Settlement) int64 {
	switch {
	case how == sqlbroker.KindExtend:
		m.visible = max(m.visible, b.w.now+time.Duration(s.ByMS)*ms)
		return clock(m.visible)
	case how == sqlbroker.KindRelease:
		m.receipt = ""
		m.visible = b.w.now
	case m.State != sqlbroker.StateAcked:
		m.State, m.AckedNS = sqlbroker.StateAcked, clock(b.w.now)
	}
	return 0
}

// sweep does what is due.
func (b *refBroker) sweep() {
	b.live = slices.DeleteFunc(b.live, func(m *refMessage) bool {
		return m.buried || m.State == sqlbroker.StateAcked
	})
	for _, m := range b.live {
		if m.visible > b.w.now {
			continue
		}
		switch {
		case m.State == sqlbroker.StateDelayed:
			m.State = sqlbroker.StateReady
		case m.State == sqlbroker.StatePicked && m.Receives < b.w.params.MaxReceives:
			m.State, m.receipt = sqlbroker.StateReady, ""
		case m.State == sqlbroker.StatePicked:
			m.buried, m.receipt = true, ""
			b.dead = append(b.dead, sqlbroker.DeadAudit{OpID: m.OpID, Index: m.Index, Queue: m.Queue,
				Receives: m.Receives, Reason: sqlbroker.DeadReceives, AgeNS: int64(b.w.now - m.created)})
		}
	}
}

// work lets the next consumer receive from each queue that is theirs, again and again until
// nobody has anything to do.
func (b *refBroker) work() {
	b.sweep()
	for n := range b.w.params.Worked {
		queue := sqlbroker.QueueName(n + 1)
		got, _ := b.Receive(context.Background(), queue,
			sqlbroker.Demand{Most: b.w.params.ReceiveBatch})
		u := b.w.rng.Float64()
		takes := b.w.some(consumers * pace)
		if u < b.w.sleeps {
			takes += b.w.params.Visibility.D()
		}
		b.turns++
		who := "consumer-" + strconv.Itoa(b.turns%consumers)
		if len(got) > 0 && u < 1-b.w.dies {
			b.w.at(takes, func() { b.digest(queue, who, got) })
		}
	}
	if b.w.busy > 0 || slices.ContainsFunc(b.live, b.pending) {
		b.w.at(pace, b.work)
	}
}

func (b *refBroker) pending(m *refMessage) bool {
	if m.buried || m.State == sqlbroker.StateAcked {
		return false
	}
	worked, _ := strconv.Atoi(strings.TrimPrefix(m.Queue, "queue-"))
	return m.State != sqlbroker.StateReady || worked <= b.w.params.Worked
}

// digest stores the effects of what it can acknowledge.
func (b *refBroker) digest(queue, who string, batch []sqlbroker.Delivery) {
	for _, d := range batch {
		how := sqlbroker.KindAck
		if strings.HasPrefix(d.Body, "poison") {
			how = sqlbroker.KindRelease
		}
		_, err := b.Settle(context.Background(), queue, how,
			sqlbroker.Settlement{Receipts: []string{d.Receipt}})
		if err == nil && how == sqlbroker.KindAck {
			b.effects = append(b.effects, sqlbroker.EffectAudit{OpID: d.OpID, Index: d.Index,
				Queue: queue, Group: d.Group, Receives: d.Receives, Consumer: who,
				ReceivedNS: d.ReceivedNS, VisibleNS: d.VisibleNS, StoredNS: clock(b.w.now)})
		}
	}
}

// audit is the truth; half of what is acknowledged has been collected.
func (b *refBroker) audit() sqlbroker.Audit {
	a := sqlbroker.Audit{Messages: []sqlbroker.MessageAudit{}, Dead: []sqlbroker.DeadAudit{},
		Effects: []sqlbroker.EffectAudit{}}
	for n := range b.w.params.Queues {
		a.Queues = append(a.Queues, sqlbroker.QueueAudit{Queue: sqlbroker.QueueName(n + 1),
			VisibilityNS: b.w.params.Visibility.D().Nanoseconds(), MaxReceives: b.w.params.MaxReceives,
			RetentionNS: b.w.params.Retention.D().Nanoseconds()})
	}
	for _, m := range b.messages {
		if !m.buried && (m.State != sqlbroker.StateAcked || b.w.rng.IntN(2) == 0) {
			a.Messages = append(a.Messages, m.MessageAudit)
		}
	}
	a.Dead = append(a.Dead, b.dead...)
	a.Effects = append(a.Effects, b.effects...)
	return a
}

// Create is not asked for by the workload; nor are the following.
func (b *refBroker) Create(context.Context, string, sqlbroker.QueueSettings) error {
	return errors.ErrUnsupported
}

func (b *refBroker) Purge(context.Context, string) (int, error) {
	return 0, errors.ErrUnsupported
}

func (b *refBroker) Redrive(context.Context, string) (int, error) {
	return 0, errors.ErrUnsupported
}

func (b *refBroker) List(context.Context) ([]sqlbroker.QueueInfo, error) {
	return nil, errors.ErrUnsupported
}
