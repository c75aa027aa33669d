package sqlbroker_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

const (
	// pace is how often the roles of the reference do something.
	pace = 10 * ms
	// consumers take turns at receiving, and work on what they got side by side.
	consumers = 3
)

// runOf is a run of so many scheduled operations within a second. Consumers die over a batch,
// or sleep, as often as dies and sleeps say.
func runOf(
	t suttest.TB, seed uint64, p sqlbroker.Params, tr suttest.Trouble, dies, sleeps float64, ops int,
) *evidence {
	t.Helper()
	b := &refBroker{w: suttest.NewWorld(t, sqlbroker.System(), seed, p, tr), api: sqlbroker.API(),
		p: p, dies: dies, sleeps: sleeps, published: map[uint64]bool{},
		receipts: map[string]*refMessage{}}
	b.w.After(0, b.work)
	b.w.Run(b, ops, time.Second)
	return &evidence{params: p, records: b.w.Records, audit: b.audit()}
}

// refBroker is the simplest correct broker, as far as the workload asks for it.
type refBroker struct {
	sqlbroker.Broker
	w            *suttest.World
	api          *api.Table[sqlbroker.Broker]
	p            sqlbroker.Params
	dies, sleeps float64

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

// Do performs an operation.
func (b *refBroker) Do(op history.Op, answer func(history.Reply, error)) {
	answer(b.api.Do(context.Background(), b, op))
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
		state, due := sqlbroker.StateReady, b.w.Now
		if m.DelayMS > 0 {
			state, due = sqlbroker.StateDelayed, b.w.Now+time.Duration(m.DelayMS)*ms
		}
		b.live = append(b.live, &refMessage{body: m.Body, priority: m.Priority, created: b.w.Now,
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
		m.receipt = fmt.Sprintf("%d.%d.%d", m.OpID, m.Index, m.Receives)
		b.receipts[m.receipt] = m
		m.received, m.visible = b.w.Now, b.w.Now+b.p.Visibility.D()
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
		m.visible = max(m.visible, b.w.Now+time.Duration(s.ByMS)*ms)
		return clock(m.visible)
	case how == sqlbroker.KindRelease:
		m.receipt = ""
		m.visible = b.w.Now
	case m.State != sqlbroker.StateAcked:
		m.State, m.AckedNS = sqlbroker.StateAcked, clock(b.w.Now)
	}
	return 0
}

// sweep does what is due.
func (b *refBroker) sweep() {
	b.live = slices.DeleteFunc(b.live, func(m *refMessage) bool {
		return m.buried || m.State == sqlbroker.StateAcked
	})
	for _, m := range b.live {
		if m.visible > b.w.Now {
			continue
		}
		switch {
		case m.State == sqlbroker.StateDelayed:
			m.State = sqlbroker.StateReady
		case m.State == sqlbroker.StatePicked && m.Receives < b.p.MaxReceives:
			m.State, m.receipt = sqlbroker.StateReady, ""
		case m.State == sqlbroker.StatePicked:
			m.buried, m.receipt = true, ""
			b.dead = append(b.dead, sqlbroker.DeadAudit{OpID: m.OpID, Index: m.Index, Queue: m.Queue,
				Receives: m.Receives, Reason: sqlbroker.DeadReceives, AgeNS: int64(b.w.Now - m.created)})
		}
	}
}

// work lets the next consumer receive from each queue that is theirs, again and again until
// nobody has anything to do.
func (b *refBroker) work() {
	b.sweep()
	for n := range b.p.Worked {
		queue := sqlbroker.QueueName(n + 1)
		got, _ := b.Receive(context.Background(), queue,
			sqlbroker.Demand{Most: b.p.ReceiveBatch})
		u := b.w.Rand.Float64()
		takes := b.w.Some(consumers * pace)
		if u < b.sleeps {
			takes += b.p.Visibility.D()
		}
		b.turns++
		who := "consumer-" + strconv.Itoa(b.turns%consumers)
		if len(got) > 0 && u < 1-b.dies {
			b.w.After(takes, func() { b.digest(queue, who, got) })
		}
	}
	if b.w.Busy() || slices.ContainsFunc(b.live, b.pending) {
		b.w.After(pace, b.work)
	}
}

func (b *refBroker) pending(m *refMessage) bool {
	if m.buried || m.State == sqlbroker.StateAcked {
		return false
	}
	worked, _ := strconv.Atoi(strings.TrimPrefix(m.Queue, "queue-"))
	return m.State != sqlbroker.StateReady || worked <= b.p.Worked
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
				ReceivedNS: d.ReceivedNS, VisibleNS: d.VisibleNS, StoredNS: clock(b.w.Now)})
		}
	}
}

// audit is the truth; half of what is acknowledged has been collected.
func (b *refBroker) audit() sqlbroker.Audit {
	a := sqlbroker.Audit{Messages: []sqlbroker.MessageAudit{}, Dead: []sqlbroker.DeadAudit{},
		Effects: []sqlbroker.EffectAudit{}}
	for n := range b.p.Queues {
		a.Queues = append(a.Queues, sqlbroker.QueueAudit{Queue: sqlbroker.QueueName(n + 1),
			VisibilityNS: b.p.Visibility.D().Nanoseconds(), MaxReceives: b.p.MaxReceives,
			RetentionNS: b.p.Retention.D().Nanoseconds()})
	}
	for _, m := range b.messages {
		if !m.buried && (m.State != sqlbroker.StateAcked || b.w.Rand.IntN(2) == 0) {
			a.Messages = append(a.Messages, m.MessageAudit)
		}
	}
	a.Dead = append(a.Dead, b.dead...)
	a.Effects = append(a.Effects, b.effects...)
	return a
}
