package idempotency_test

import (
	"fmt"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/idempotency"
	"stampede/systems/internal/idem"
)

// shop is the smallest correct design: a map of keys, and a provider that takes a moment.
type shop struct {
	p       *idempotency.Params
	w       *suttest.World
	api     *api.Table[idempotency.Till]
	live    map[string]*kept
	keys    []*idempotency.KeyRow
	charges []idempotency.ChargeRow
}

// kept is a key that is not forgotten, and what it stands for.
type kept struct {
	row *idempotency.KeyRow
	req idempotency.ChargeRequest
}

func newShop(w *suttest.World, p *idempotency.Params) *shop {
	s := &shop{p: p, w: w, api: idempotency.API(), live: map[string]*kept{},
		charges: []idempotency.ChargeRow{}}
	w.Every(5*ms, s.reap)
	return s
}

// clock is the store's, of which no time is zero.
func (s *shop) clock() int64 { return int64(1e18) + int64(s.w.Now) }

// Do performs an operation.
func (s *shop) Do(op history.Op, answer func(history.Reply, error)) {
	req, err := api.RequestOf[idempotency.ChargeRequest](s.api, op)
	if err != nil {
		panic(err)
	}
	k := s.live[req.Key]
	switch {
	case k == nil:
		k = &kept{&idempotency.KeyRow{ID: req.ID, Key: req.Key, State: "started"}, req}
		s.live[req.Key], s.keys = k, append(s.keys, k.row)
		s.w.After(s.w.Some(3*ms), func() {
			s.charge(k)
			answer(reply(k), nil)
		})
	case k.req.Amount != req.Amount || k.req.Customer != req.Customer:
		answer(history.Reply{}, idem.ErrOtherBody)
	case k.row.State == "started":
		answer(history.Reply{}, idem.ErrInProgress)
	default:
		answer(reply(k), nil)
	}
}

func reply(k *kept) history.Reply {
	return history.Reply{Key: k.row.Receipt, Value: k.req.Amount,
		Body: fmt.Appendf(nil, `{"customer":%q}`, k.req.Customer)}
}

func (s *shop) charge(k *kept) {
	k.row.Receipt = fmt.Sprint("receipt-", len(s.charges)+1)
	s.charges = append(s.charges, idempotency.ChargeRow{ID: k.req.ID, Key: k.req.Key,
		Customer: k.req.Customer, Amount: k.req.Amount, Receipt: k.row.Receipt, AtNS: s.clock()})
	k.row.State, k.row.DoneNS = "done", s.clock()
}

// reap forgets what has been kept for its time.
func (s *shop) reap() (more bool) {
	for key, k := range s.live {
		if k.row.State == "done" && s.clock() >= k.row.DoneNS+int64(s.p.TTL) {
			k.row.State, k.row.GoneNS = "gone", s.clock()
			delete(s.live, key)
		}
	}
	return false
}

// Audit copies all rows.
func (s *shop) Audit() idempotency.Audit {
	a := idempotency.Audit{Contract: idempotency.Contract{ReapLagNS: int64(s.p.ReapLag)},
		Charges: s.charges, Keys: []idempotency.KeyRow{}}
	for _, k := range s.keys {
		a.Keys = append(a.Keys, *k)
	}
	return a
}
