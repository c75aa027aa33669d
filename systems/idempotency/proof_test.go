package idempotency_test

import (
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/idempotency"
)

const ms = time.Millisecond

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[idempotency.Params, idempotency.Audit]
}

// market is a shop of ordinary size, with a day of 300 ms.
func market() *idempotency.Params {
	p := crowd()
	p.TTL, p.Lease, p.ReapLag = sut.Duration(300*ms), sut.Duration(50*ms), sut.Duration(100*ms)
	return p
}

// anyMarket is a shop of any kind.
func anyMarket(d suttest.Draw) *idempotency.Params {
	p := market()
	p.Customers, p.Retry = d.Int("customers", 1, 50), d.Int("retry", 0, 8)
	p.Repeat, p.Resend = d.Share("repeat")*0.9, d.Share("resend")
	p.OtherBody, p.Reuse = d.Share("other"), d.Share("reuse")
	p.TTL = d.Millis("ttl", 50, 1500)
	return p
}

// proof is what the judges of idempotency are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"the provider may charge long before the answer is kept": {"lower at_ns of charges"},
		},
	}, idempotency.System(), market, anyMarket, 200, time.Second, newShop)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a key is charged again", Breaks: idempotency.ChargedOnce,
			Do: func(e *evidence, pick func(int) int) bool {
				again := e.Audit.Charges[pick(len(e.Audit.Charges))]
				again.Receipt, again.AtNS = "again", again.AtNS+int64(ms)
				e.Audit.Charges = append(e.Audit.Charges, again)
				return true
			}},
		{Name: "a kept answer is told otherwise", Breaks: idempotency.SameAnswer,
			Do: func(e *evidence, pick func(int) int) bool {
				first, again := e.twice(pick)
				if again != nil {
					again.Reply.Body = []byte(`{"customer":"somebody"}`)
				}
				return first != nil
			}},
		{Name: "two amounts for one key", Breaks: idempotency.OtherBodyRefused,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Records, pick, func(r *history.Record) bool {
					return r.Code == "other_body" && e.acked(r)
				}, func(r *history.Record) {
					r.Outcome, r.Code, r.Err = history.OK, "", ""
					r.Reply = history.Reply{Key: "other", Value: 1}
				})
			}},
		{Name: "a key is left in progress", Breaks: idempotency.NothingStuck,
			Do: func(e *evidence, pick func(int) int) bool {
				e.Audit.Keys[pick(len(e.Audit.Keys))].State = "started"
				return true
			}},
		{Name: "forgotten too early", Breaks: idempotency.KeptForItsTime,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Keys, pick, func(k *idempotency.KeyRow) bool {
					return k.State == "gone"
				}, func(k *idempotency.KeyRow) { k.GoneNS = k.DoneNS + int64(e.P.TTL) - int64(2*ms) })
			}},
	})
}

// sent is when the first request with a key was.
func (e *evidence) sent(key string) time.Duration {
	first := history.Never
	for i := range e.Records {
		if r := &e.Records[i]; r.Op.Key == key && r.Outcome != history.Dropped {
			first = min(first, r.Start)
		}
	}
	return first
}

// twice are two acknowledgements of a request while its answer was certainly kept.
func (e *evidence) twice(pick func(int) int) (first, again *history.Record) {
	by := map[uint64]*history.Record{}
	var pairs [][2]*history.Record
	for i := range e.Records {
		r := &e.Records[i]
		if r.Outcome != history.OK || r.End >= e.sent(r.Op.Key)+e.P.TTL.D() {
			continue
		}
		if by[r.Op.ID] != nil {
			pairs = append(pairs, [2]*history.Record{by[r.Op.ID], r})
		}
		by[r.Op.ID] = r
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	pair := pairs[pick(len(pairs))]
	return pair[0], pair[1]
}

// acked says whether another request with the key of a denied one was acknowledged, both while
// its answer was certainly kept.
func (e *evidence) acked(denied *history.Record) bool {
	until := e.sent(denied.Op.Key) + e.P.TTL.D()
	for i := range e.Records {
		r := &e.Records[i]
		if r.Op.Key == denied.Op.Key && r.Op.ID != denied.Op.ID && r.Outcome == history.OK &&
			r.End < until {
			return denied.End < until
		}
	}
	return false
}
