package sqlbroker_test

import (
	"encoding/json"
	"slices"
	"strings"
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

type tb = suttest.TB

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
	e.publish(256, 2, 2, 7, 100*ms)
	e.publish(768, 1, 2, 3, 100*ms)
	e.publish(512, 2, 1, 7, 200*ms)
	e.publish(1024, 2, 1, 0, 220*ms)
	e.publish(1280, 2, 1, 0, 240*ms)
	e.publish(1536, 1, 10, 0, 260*ms)
	e.publish(1536, 1, 10, 0, 280*ms)
	e.receive(272, 300*ms, 256, 0, 1)
	e.settle(288, sqlbroker.KindAck, 400*ms, "256.0#1")
	e.receive(273, 500*ms, 256, 1, 1)
	e.receive(528, 1800*ms, 256, 1, 2)
	e.settle(544, sqlbroker.KindAck, 1900*ms, "256.1#2")
	e.settle(289, sqlbroker.KindAck, 2000*ms, "256.1#1")
	e.refuse(289)
	e.receive(529, 2100*ms, 512, 0, 1)
	e.settle(545, sqlbroker.KindExtend, 2150*ms, "512.0#1")
	e.settle(561, sqlbroker.KindAck, 2900*ms, "512.0#1")
	for n := range 3 {
		at := 2200*ms + time.Duration(n)*100*ms
		e.receive(1040+uint64(n), at, 1024, 0, n+1)
		e.settle(1056+uint64(n), sqlbroker.KindRelease, at+50*ms, "1024.0#"+string(rune('1'+n)))
	}
	e.audit = sqlbroker.Audit{
		Queues: []sqlbroker.QueueAudit{
			{Queue: "queue-1", VisibilityNS: 1e9, MaxReceives: 3, RetentionNS: 3600e9},
			{Queue: "queue-2", VisibilityNS: 1e9, MaxReceives: 3, RetentionNS: 3600e9},
		},
		Messages: []sqlbroker.MessageAudit{
			row(256, 0, 2, 7, 1, 405*ms), row(256, 1, 2, 7, 2, 1905*ms), row(512, 0, 2, 7, 1, 2905*ms),
			row(768, 0, 1, 3, 1, 155*ms), row(768, 1, 1, 3, 1, 205*ms),
			{OpID: 1280, Queue: "queue-2", State: sqlbroker.StateReady},
		},
		Dead: []sqlbroker.DeadAudit{{OpID: 1024, Queue: "queue-2", Receives: 3,
			Reason: sqlbroker.DeadReceives, AgeNS: int64(2200 * ms)}},
		Effects: []sqlbroker.EffectAudit{
			effect(768, 0, 1, 150*ms, 155*ms), effect(768, 1, 1, 200*ms, 205*ms),
		},
	}
	for n := range 10 {
		done := effect(1536, n, 1, 300*ms, 305*ms)
		done.Group, done.Consumer = 0, "consumer-"+string(rune('1'+n%2))
		e.audit.Effects = append(e.audit.Effects, done)
		e.audit.Messages = append(e.audit.Messages, row(1536, n, 1, 0, 1, 305*ms))
	}
	return e
}

// row is a message that was acknowledged.
func row(
	op uint64, index, queue int, group uint64, receives int, acked time.Duration,
) sqlbroker.MessageAudit {
	return sqlbroker.MessageAudit{OpID: op, Index: index, Queue: sqlbroker.QueueName(queue),
		Group: group, State: sqlbroker.StateAcked, Receives: receives, AckedNS: clock(acked)}
}

// effect is one in queue-1, of group 3.
func effect(op uint64, index, receives int, received, stored time.Duration) sqlbroker.EffectAudit {
	return sqlbroker.EffectAudit{OpID: op, Index: index, Queue: "queue-1", Group: 3,
		Receives: receives, ReceivedNS: clock(received), VisibleNS: clock(received + time.Second),
		StoredNS: clock(stored)}
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

func (e *evidence) publish(id uint64, queue, n int, group uint64, at time.Duration) {
	e.do(id, sqlbroker.KindPublish, sqlbroker.QueueName(queue), at,
		sqlbroker.Publication{Make: &sqlbroker.Recipe{Messages: n, Group: group}}, int64(n), nil)
}

// receive adds a demand to queue-2 that gets one message, in the middle of its time.
func (e *evidence) receive(id uint64, at time.Duration, op uint64, index, receives int) {
	received := at + 5*ms
	group := uint64(0)
	if op < 1024 {
		group = 7
	}
	made := sqlbroker.Delivery{OpID: op, Index: index, Group: group, Receives: receives,
		Body: sqlbroker.BodyOf(op, index), Receipt: receipt(op, index, receives),
		ReceivedNS: clock(received), VisibleNS: clock(received + time.Second)}
	e.do(id, sqlbroker.KindReceive, "queue-2", at, sqlbroker.Demand{Most: 1}, 1,
		[]sqlbroker.Delivery{made})
}

// receipt names the n-th delivery of a message: "256.1#2".
func receipt(op uint64, index, n int) string {
	return strings.Join([]string{number(op), ".", number(uint64(index)), "#", number(uint64(n))}, "")
}

func number(n uint64) string { return string(text(n)) }

// settle adds an acknowledgement, an extension by a second or a release in queue-2.
func (e *evidence) settle(id uint64, kind string, at time.Duration, receipts ...string) {
	s := sqlbroker.Settlement{OpID: id, Receipts: receipts}
	done := sqlbroker.Settled{Done: receipts}
	if kind == sqlbroker.KindExtend {
		s.ByMS, done.VisibleNS = 1000, clock(at+5*ms+time.Second)
	}
	e.do(id, kind, "queue-2", at, s, int64(len(receipts)), done)
}

// settings gives both queues, early in the run, another visibility timeout, in milliseconds.
func (e *evidence) settings(visibility int64) {
	for _, queue := range []string{"queue-1", "queue-2"} {
		e.do(9001, sqlbroker.KindCreate, queue, 50*ms, sqlbroker.QueueSettings{
			VisibilityMS: visibility, MaxReceives: 3, RetentionMS: time.Hour.Milliseconds()}, 0, nil)
	}
}

// op returns the first attempt of an operation.
func (e *evidence) op(id uint64) *history.Record {
	i := slices.IndexFunc(e.records, func(r history.Record) bool { return r.Op.ID == id })
	return &e.records[i]
}

// last returns the last attempt of an operation.
func (e *evidence) last(id uint64) (r *history.Record) {
	for i := range e.records {
		if e.records[i].Op.ID == id {
			r = &e.records[i]
		}
	}
	return r
}

// refuse makes an operation one whose receipts were called stale.
func (e *evidence) refuse(id uint64) {
	r := e.op(id)
	r.Outcome, r.Reply, r.Err = history.Refused, history.Reply{}, sqlbroker.ErrStaleReceipt.Error()
}

// unknown makes the outcome of an operation unknown.
func (e *evidence) unknown(id uint64) {
	r := e.op(id)
	r.Outcome, r.Reply, r.End = history.Unknown, history.Reply{}, history.Never
}

// move lets an operation begin at another time.
func (e *evidence) move(id uint64, at time.Duration) {
	r := e.op(id)
	r.Start, r.End = at, at+10*ms
}

// forget removes the records of operations.
func (e *evidence) forget(ids ...uint64) {
	e.records = slices.DeleteFunc(e.records, func(r history.Record) bool {
		return slices.Contains(ids, r.Op.ID)
	})
}

// delivery changes what an operation received.
func (e *evidence) delivery(id uint64, change func(*sqlbroker.Delivery)) {
	r := e.op(id)
	var got []sqlbroker.Delivery
	if err := json.Unmarshal(r.Reply.Body, &got); err != nil {
		panic(err) // it is of this file
	}
	change(&got[0])
	r.Reply.Body = text(got)
}

// row is a message at the end.
func (e *evidence) row(op uint64, index int) *sqlbroker.MessageAudit {
	i := slices.IndexFunc(e.audit.Messages, func(m sqlbroker.MessageAudit) bool {
		return m.OpID == op && m.Index == index
	})
	return &e.audit.Messages[i]
}

// collect removes a message from the audit.
func (e *evidence) collect(op uint64, index int) {
	e.audit.Messages = slices.DeleteFunc(e.audit.Messages, func(m sqlbroker.MessageAudit) bool {
		return m.OpID == op && m.Index == index
	})
}

// judge returns the verdicts by name.
func (e *evidence) judge(t tb) map[string]check.Verdict {
	return e.judgeRaw(suttest.Encoded(t, e.audit))
}

func (e *evidence) judgeRaw(audit json.RawMessage) map[string]check.Verdict {
	return suttest.Verdicts(sqlbroker.Invariants(e.params),
		history.Slice(e.records).WithSamples(e.samples), audit)
}

type verdictCase suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), goodBroker, slices.Concat(lossCases(), phantomCases(), placeCases(),
		effectCases(), visibilityCases(), ackCases(), receiptCases(), countCases(), deadCases(),
		groupCases()))
}

// TestNothingIsUndecided: no history and no audit prove nothing.
func TestNothingIsUndecided(t *testing.T) {
	for name, v := range (&evidence{params: sqlbroker.DefaultParams()}).judgeRaw(nil) {
		if v.Status != maybe {
			t.Errorf("without an audit %s is %s", name, v.Status)
		}
	}
	empty := &evidence{params: sqlbroker.DefaultParams(), audit: sqlbroker.Audit{
		Queues: []sqlbroker.QueueAudit{}, Messages: []sqlbroker.MessageAudit{},
		Dead: []sqlbroker.DeadAudit{}, Effects: []sqlbroker.EffectAudit{}}}
	for name, v := range empty.judge(t) {
		if v.Status != maybe {
			t.Errorf("of nothing %s is %s", name, v.Status)
		}
	}
}
