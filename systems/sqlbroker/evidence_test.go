package sqlbroker_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

const ms = time.Millisecond

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  sqlbroker.Params
	records []history.Record
	samples []history.Sample
	audit   sqlbroker.Audit
}

// change is something that happens in a run, or that its evidence says otherwise.
type change func(*evidence)

// epoch is what the store's clock shows at the beginning of the run.
const epoch = int64(1e18)

// clock is the store's clock at a moment of the run.
func clock(at time.Duration) int64 { return epoch + at.Nanoseconds() }

// goodBroker is a small run that every invariant accepts. Consumers work queue-1 off,
// operations queue-2:
//
//   - 256.0, of group 7, is received at 300ms and acknowledged;
//   - 256.1, of the same, is received at 500ms, comes back, is received at 1.8s and
//     acknowledged; its first receipt comes too late at 2s;
//   - 512.0, of group 7 too, is received at 2.1s, extended and acknowledged;
//   - 1024.0 is given back three times and dies;
//   - 1280.0 waits at the end;
//   - 768.0 and 768.1, of group 3, are worked off by consumers;
//   - 1536.0 to 1536.9, published twice, too, by two of them at the same time.
func goodBroker() *evidence {
	e := &evidence{params: sqlbroker.DefaultParams()}
	e.params.Queues, e.params.Worked, e.params.MaxReceives = 2, 1, 3
	for _, happens := range []change{
		publish(256, 2, 2, 7, 100*ms), publish(768, 1, 2, 3, 100*ms), publish(512, 2, 1, 7, 200*ms),
		publish(1024, 2, 1, 0, 220*ms), publish(1280, 2, 1, 0, 240*ms),
		publish(1536, 1, 10, 0, 260*ms), publish(1536, 1, 10, 0, 280*ms),
		receive(272, 300*ms, 256, 0, 1), settle(288, sqlbroker.KindAck, 400*ms, "256.0#1"),
		receive(273, 500*ms, 256, 1, 1), receive(528, 1800*ms, 256, 1, 2),
		settle(544, sqlbroker.KindAck, 1900*ms, "256.1#2"),
		settle(289, sqlbroker.KindAck, 2000*ms, "256.1#1"), refuse(289),
		receive(529, 2100*ms, 512, 0, 1), settle(545, sqlbroker.KindExtend, 2150*ms, "512.0#1"),
		settle(561, sqlbroker.KindAck, 2900*ms, "512.0#1"),
		receive(1040, 2200*ms, 1024, 0, 1), settle(1056, sqlbroker.KindRelease, 2250*ms, "1024.0#1"),
		receive(1041, 2300*ms, 1024, 0, 2), settle(1057, sqlbroker.KindRelease, 2350*ms, "1024.0#2"),
		receive(1042, 2400*ms, 1024, 0, 3), settle(1058, sqlbroker.KindRelease, 2450*ms, "1024.0#3"),
		acked(256, 0, 2, 7, 1, 405*ms), acked(256, 1, 2, 7, 2, 1905*ms), acked(512, 0, 2, 7, 1, 2905*ms),
		acked(768, 0, 1, 3, 1, 155*ms), effect(768, 0, 1, 150*ms, 155*ms),
		acked(768, 1, 1, 3, 1, 205*ms), effect(768, 1, 1, 200*ms, 205*ms),
		dead(1024, 0, 2, 2200*ms),
	} {
		happens(e)
	}
	for _, queue := range []string{"queue-1", "queue-2"} {
		e.audit.Queues = append(e.audit.Queues, sqlbroker.QueueAudit{Queue: queue, VisibilityNS: 1e9,
			MaxReceives: 3, RetentionNS: 3600e9})
	}
	e.audit.Messages = append(e.audit.Messages, sqlbroker.MessageAudit{OpID: 1280, Queue: "queue-2",
		State: sqlbroker.StateReady})
	for n := range 10 {
		effect(1536, n, 1, 300*ms, 305*ms)(e)
		done := &e.audit.Effects[len(e.audit.Effects)-1]
		done.Group, done.Consumer = 0, "consumer-"+strconv.Itoa(n%2)
		acked(1536, n, 1, 0, 1, 305*ms)(e)
	}
	return e
}

// acked is a message that is acknowledged at the end.
func acked(op uint64, index, queue int, group uint64, receives int, at time.Duration) change {
	return func(e *evidence) {
		e.audit.Messages = append(e.audit.Messages, sqlbroker.MessageAudit{OpID: op, Index: index,
			Queue: sqlbroker.QueueName(queue), Group: group, State: sqlbroker.StateAcked,
			Receives: receives, AckedNS: clock(at)})
	}
}

// effect is one in queue-1, of group 3.
func effect(op uint64, index, receives int, received, stored time.Duration) change {
	return func(e *evidence) {
		e.audit.Effects = append(e.audit.Effects, sqlbroker.EffectAudit{OpID: op, Index: index,
			Queue: "queue-1", Group: 3, Receives: receives, ReceivedNS: clock(received),
			VisibleNS: clock(received + time.Second), StoredNS: clock(stored)})
	}
}

// dead is a dead letter of deliveries.
func dead(op uint64, index, queue int, age time.Duration) change {
	return func(e *evidence) {
		e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: op, Index: index,
			Queue: sqlbroker.QueueName(queue), Receives: 3, Reason: sqlbroker.DeadReceives,
			AgeNS: int64(age)})
	}
}

// do adds an acknowledged operation that takes 10 ms.
func (e *evidence) do(
	id uint64, kind, queue string, at time.Duration, body any, value int64, reply any,
) *history.Record {
	e.records = append(e.records, history.Record{
		Seq: uint64(len(e.records)), Op: history.Op{ID: id, Kind: kind, Key: queue, Body: text(body)},
		Outcome: history.OK, Reply: history.Reply{Value: value, Body: text(reply)},
		Intended: at, Start: at, End: at + 10*ms,
	})
	return &e.records[len(e.records)-1]
}

func text(v any) []byte {
	if v == nil {
		return nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings
	}
	return body
}

// parsed is what text has written.
func parsed[T any](body []byte) (v T) {
	if err := json.Unmarshal(body, &v); err != nil {
		panic(err) // it is of these tests
	}
	return v
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func publish(id uint64, queue, n int, group uint64, at time.Duration) change {
	return func(e *evidence) {
		e.do(id, sqlbroker.KindPublish, sqlbroker.QueueName(queue), at,
			sqlbroker.Publication{Make: &sqlbroker.Recipe{Messages: n, Group: group}}, int64(n), nil)
	}
}

// receive is a demand to queue-2 that gets one message, in the middle of its time. The receipt
// of the second delivery of message 256.1 is "256.1#2".
func receive(id uint64, at time.Duration, op uint64, index, receives int) change {
	return func(e *evidence) {
		name := number(op) + "." + strconv.Itoa(index)
		made := sqlbroker.Delivery{OpID: op, Index: index, Receives: receives, Body: "message " + name,
			Receipt:    name + "#" + strconv.Itoa(receives),
			ReceivedNS: clock(at + 5*ms), VisibleNS: clock(at + 5*ms + time.Second)}
		if op < 1024 {
			made.Group = 7
		}
		e.do(id, sqlbroker.KindReceive, "queue-2", at, sqlbroker.Demand{Most: 1}, 1,
			[]sqlbroker.Delivery{made})
	}
}

// settle is an acknowledgement, an extension by a second or a release in queue-2.
func settle(id uint64, kind string, at time.Duration, receipts ...string) change {
	return func(e *evidence) {
		s, done := sqlbroker.Settlement{OpID: id, Receipts: receipts}, sqlbroker.Settled{Done: receipts}
		if kind == sqlbroker.KindExtend {
			s.ByMS, done.VisibleNS = 1000, clock(at+5*ms+time.Second)
		}
		e.do(id, kind, "queue-2", at, s, int64(len(receipts)), done)
	}
}

// asks is an operation of somebody who has no consumer.
func asks(id uint64, kind string, queue int, at time.Duration) change {
	return func(e *evidence) {
		e.do(id, kind, sqlbroker.QueueName(queue), at, sqlbroker.Demand{Most: 1}, 1, nil)
	}
}

// sets gives a queue other settings for a while; its visibility timeout is in milliseconds.
func sets(
	queue int, at time.Duration, visibility int64, receives int, retention time.Duration,
) change {
	return func(e *evidence) {
		e.do(9001, sqlbroker.KindCreate, sqlbroker.QueueName(queue), at, sqlbroker.QueueSettings{
			VisibilityMS: visibility, MaxReceives: receives, RetentionMS: retention.Milliseconds()}, 0, nil)
	}
}

// record changes the first attempt of an operation, last the last one.
func record(id uint64, does func(*history.Record)) change {
	return func(e *evidence) { does(&e.records[slices.IndexFunc(e.records, isOf(id))]) }
}

func last(id uint64, does func(*history.Record)) change {
	return func(e *evidence) {
		for i := len(e.records) - 1; i >= 0; i-- {
			if e.records[i].Op.ID == id {
				does(&e.records[i])
				return
			}
		}
	}
}

func isOf(ids ...uint64) func(history.Record) bool {
	return func(r history.Record) bool { return slices.Contains(ids, r.Op.ID) }
}

// refuse makes an operation one whose receipts were called stale, refuseFor one that was refused
// for another reason.
func refuse(id uint64) change { return refuseFor(id, sqlbroker.ErrStaleReceipt) }

func refuseFor(id uint64, err error) change {
	return last(id, func(r *history.Record) {
		r.Outcome, r.Reply, r.Err = history.Refused, history.Reply{}, err.Error()
	})
}

// unknown makes the outcome of an operation unknown.
func unknown(id uint64) change {
	return record(id, func(r *history.Record) {
		r.Outcome, r.Reply, r.End = history.Unknown, history.Reply{}, history.Never
	})
}

// move lets an operation begin at another time, until lets it end at one.
func move(id uint64, at time.Duration) change {
	return record(id, func(r *history.Record) { r.Start, r.End = at, at+10*ms })
}

func until(id uint64, end time.Duration) change {
	return record(id, func(r *history.Record) { r.End = end })
}

// accept makes an operation one that settled a receipt.
func accept(id uint64, receipt string) change {
	return record(id, func(r *history.Record) {
		r.Outcome, r.Err = history.OK, ""
		r.Reply = history.Reply{Value: 1, Body: text(sqlbroker.Settled{Done: []string{receipt}})}
	})
}

// replies has a settlement answer something else.
func replies(id uint64, s sqlbroker.Settled) change {
	return record(id, func(r *history.Record) { r.Reply.Body = text(s) })
}

// forget removes the records of operations.
func forget(ids ...uint64) change {
	return func(e *evidence) { e.records = slices.DeleteFunc(e.records, isOf(ids...)) }
}

// made changes what the messages of a publication are.
func made(id uint64, does func(*sqlbroker.Recipe)) change {
	return record(id, func(r *history.Record) {
		p := parsed[sqlbroker.Publication](r.Op.Body)
		does(p.Make)
		r.Op.Body = text(p)
	})
}

// delay has a publication ask for a delay.
func delay(id uint64, d time.Duration) change {
	return made(id, func(r *sqlbroker.Recipe) { r.DelayMS = d.Milliseconds() })
}

// delivery changes what an operation received; received says when it was, numbered as which
// delivery.
func delivery(id uint64, does func(*sqlbroker.Delivery)) change {
	return record(id, func(r *history.Record) {
		got := parsed[[]sqlbroker.Delivery](r.Reply.Body)
		does(&got[0])
		r.Reply.Body = text(got)
	})
}

func received(id uint64, at time.Duration) change {
	return delivery(id, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(at) })
}

func numbered(id uint64, n int) change {
	return delivery(id, func(d *sqlbroker.Delivery) { d.Receives = n })
}

// message changes a message at the end; state says where it is, receives how often it says that
// it was delivered.
func message(op uint64, index int, does func(*sqlbroker.MessageAudit)) change {
	return func(e *evidence) {
		does(&e.audit.Messages[slices.IndexFunc(e.audit.Messages, at(op, index))])
	}
}

func at(op uint64, index int) func(sqlbroker.MessageAudit) bool {
	return func(m sqlbroker.MessageAudit) bool { return m.OpID == op && m.Index == index }
}

func state(op uint64, index int, s string) change {
	return message(op, index, func(m *sqlbroker.MessageAudit) { m.State = s })
}

func receives(op uint64, index, n int) change {
	return message(op, index, func(m *sqlbroker.MessageAudit) { m.Receives = n })
}

func ackedAt(op uint64, index int, when time.Duration) change {
	return message(op, index, func(m *sqlbroker.MessageAudit) { m.AckedNS = clock(when) })
}

// collect removes a message from the audit; dies also makes a dead letter of it.
func collect(op uint64, index int) change {
	return func(e *evidence) { e.audit.Messages = slices.DeleteFunc(e.audit.Messages, at(op, index)) }
}

func dies(op uint64, index, queue int, age time.Duration) change {
	return func(e *evidence) {
		collect(op, index)(e)
		dead(op, index, queue, age)(e)
	}
}

// letter changes the first dead letter, done an effect; ineffective removes that of 768.1.
func letter(does func(*sqlbroker.DeadAudit)) change {
	return func(e *evidence) { does(&e.audit.Dead[0]) }
}

func done(i int, does func(*sqlbroker.EffectAudit)) change {
	return func(e *evidence) { does(&e.audit.Effects[i]) }
}

func ineffective(e *evidence) { e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2) }

func noEffects(e *evidence) { e.audit.Effects = []sqlbroker.EffectAudit{} }

func noDead(e *evidence) { e.audit.Dead = []sqlbroker.DeadAudit{} }

// judge returns the verdicts by name.
func (e *evidence) judge(t suttest.TB) map[string]check.Verdict {
	return e.judgeRaw(suttest.Encoded(t, e.audit))
}

func (e *evidence) judgeRaw(audit json.RawMessage) map[string]check.Verdict {
	return suttest.Verdicts(sqlbroker.Invariants(e.params),
		history.Slice(e.records).WithSamples(e.samples), audit)
}

type verdictCase suttest.Case[*evidence]

// of are the cases of an invariant.
func of(invariant string, cases ...verdictCase) []verdictCase {
	for i := range cases {
		cases[i].Invariant = invariant
	}
	return cases
}

// breaks is a case that is broken, holds one that is not, open one that is left open.
func breaks(name, says string, changes ...change) verdictCase {
	return verdictCase{Name: name + " - fail", Want: fail, Says: says, Change: func(e *evidence) {
		for _, does := range changes {
			does(e)
		}
	}}
}

func holds(name string, changes ...change) verdictCase {
	c := breaks(name, "", changes...)
	c.Name, c.Want = name+" - pass", pass
	return c
}

func open(name, says string, changes ...change) verdictCase {
	c := breaks(name, says, changes...)
	c.Name, c.Want = name+" - undecided", maybe
	return c
}

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), goodBroker, slices.Concat(lossCases(), phantomCases(), placeCases(),
		effectCases(), visibilityCases(), ackCases(), receiptCases(), countCases(), deadCases(),
		aliveCases(), groupCases()))
}

// TestNothingIsUndecided: no history and no audit prove nothing.
func TestNothingIsUndecided(t *testing.T) {
	for _, audit := range []string{"", `{"queues":[],"messages":[],"dead":[],"effects":[]}`} {
		for name, v := range (&evidence{params: sqlbroker.DefaultParams()}).judgeRaw([]byte(audit)) {
			if v.Status != maybe {
				t.Errorf("with the audit %q %s is %s", audit, name, v.Status)
			}
		}
	}
}
