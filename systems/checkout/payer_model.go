package checkout

import (
	"errors"
	"net/http"
	"time"

	"stampede/harness/sim"
)

// payerModel is a payer's process, with the provider in it.
type payerModel struct {
	*shopModel
	own, provider *sim.Conns
	fail          func(*payerModel, *sim.Process, orderRow, error)
	since         map[string]time.Duration // the first request with a slow key
}

// paymentRow is a key of the provider, with its part of the log.
type paymentRow struct {
	status  int
	entries []PaymentRow
}

// pays starts the payer, by what it does about a payment that has failed.
func (m *shopModel) pays(fail func(*payerModel, *sim.Process, orderRow, error)) {
	m.role("payer", 6, func(r *sim.Replica, db *sim.Conns) func(*sim.Process) {
		t := &payerModel{m, db, m.Postgres.OwnConns(r.Name+"-provider", providerConns, m.limit), fail,
			map[string]time.Duration{}}
		return func(p *sim.Process) {
			for {
				list := t.claim(p)
				if err := p.All(len(list), func(p *sim.Process, i int) { t.settle(p, list[i]) }); err != nil {
					p.Fail(err)
				}
				if len(list) < payers {
					p.Do(m.Sim.Delay(m.p.PayEvery.D()))
				}
			}
		}
	})
}

// claim is claimDue.
func (t *payerModel) claim(p *sim.Process) (list []orderRow) {
	t.own.Exec(p, costClaim, func() {
		for key, o := range t.due.All() {
			if len(list) == payers || o.due > p.Now() {
				break
			}
			if t.orders.TryLock(key) {
				list = append(list, o)
			}
		}
		for i := range list {
			o := &list[i]
			o.tries, o.due = o.tries+1, p.Now()+t.p.PayRetry.D()
			t.orders.Set(o.Key, *o)
		}
	})
	return list
}

// settle is payments.settle.
func (t *payerModel) settle(p *sim.Process, o orderRow) {
	switch {
	case o.State == cancelling:
		t.fail(t, p, o, errDeclined)
		return
	case o.tries > t.p.PayTries:
		t.fail(t, p, o, errSilent)
		return
	}
	err := t.capture(p, o.Key)
	switch {
	case err == nil:
		p.Passed(placeCaptured)
		t.paid(p, o.Key)
	case errors.Is(err, errDeclined), errors.Is(err, errSilent) && o.tries >= t.p.PayTries:
		t.fail(t, p, o, err)
	case !errors.Is(err, errSilent):
		p.Fail(err)
	}
}

// paid is paidFor.
func (t *payerModel) paid(p *sim.Process, key string) {
	t.own.Exec(p, costSettle, func() {
		if o, is := t.orders.LockIf(p, key, isPending); is {
			o.State = paid
			t.orders.Set(key, o)
			t.attempt(p, o, paid)
		}
	})
}

func isPending(o orderRow) bool { return o.State == pending }

func isCancelling(o orderRow) bool { return o.State == cancelling }

// attempt changes the attempt of an order.
func (t *payerModel) attempt(p *sim.Process, o orderRow, state string) {
	p.Do(t.attempts.Lock(o.ID))
	a, _ := t.attempts.Get(o.ID)
	t.become(p, a, state)
}

// mark marks an order to be cancelled.
func (t *payerModel) mark(p *sim.Process, key string, which func(orderRow) bool) (marked bool) {
	t.own.Exec(p, costSettle, func() {
		var o orderRow
		if o, marked = t.orders.LockIf(p, key, which); marked {
			o.State = cancelling
			t.orders.Set(key, o)
		}
	})
	return marked
}

// compensate is payments.compensate.
func (t *payerModel) compensate(p *sim.Process, o orderRow, _ error) {
	open := func(o orderRow) bool { return isPending(o) || isCancelling(o) }
	if !t.mark(p, o.Key, open) {
		return
	}
	t.void(p, o.Key)
	p.Passed(placeVoided)
	_ = t.own.Transaction(p, func() error {
		t.own.Query(p, costStock, func() { p.Do(t.stock.Lock(o.Product)) })
		is := false
		t.own.Query(p, costSettle, func() {
			if o, is = t.orders.LockIf(p, o.Key, isCancelling); is {
				o.State, o.EndedNS = cancelled, t.now()
				t.orders.Set(o.Key, o)
			}
		})
		if !is {
			return nil // another one was faster
		}
		t.own.Query(p, costSettle, func() { t.attempt(p, o, compensated) })
		t.own.Query(p, costTake, func() {
			units, _ := t.stock.Get(o.Product)
			t.stock.Set(o.Product, units+1)
		})
		return nil
	})
}

// capture is provider.Capture.
func (t *payerModel) capture(p *sim.Process, key string) (err error) {
	silent := chance(key, "silent") < t.p.Silent
	if silent && chance(key, "unheard") >= 0.5 {
		p.Do(t.Sim.Delay(t.p.PayTimeout.D()))
		return errSilent
	}
	err = errSilent
	answer := sim.NewSignal(t.Sim)
	p.Go(func(p *sim.Process) {
		var served error
		failed := p.Try(func() { served = t.serve(p, key) })
		if !silent { // else the answer is lost
			err = errors.Join(failed, served)
			answer.Wake()
		}
	})
	if p.Within(t.p.PayTimeout.D(), func() { p.Do(answer.Wait()) }) != nil {
		return errSilent
	}
	return err
}

// serve is provider.serve.
func (t *payerModel) serve(p *sim.Process, key string) error {
	takes := t.p.PayTime.D()
	if chance(key, "slow") < t.p.Slow {
		if _, again := t.since[key]; !again {
			t.since[key] = p.Now()
		}
		takes = t.p.SlowTime.D() - (p.Now() - t.since[key])
	}
	p.Do(t.Sim.Delay(takes))
	var kept paymentRow
	_ = t.provider.Transaction(p, func() error {
		var again bool
		t.provider.Query(p, costKey, func() {
			p.Do(t.payments.Lock(key))
			kept, again = t.payments.Get(key)
		})
		if again {
			t.provider.Query(p, costKey, func() {})
			return nil
		}
		if kept.status = http.StatusPaymentRequired; chance(key, "declined") >= t.p.Declined {
			kept = paymentRow{http.StatusCreated, []PaymentRow{{key, "capture", t.p.Price}}}
			t.provider.Query(p, costMoney, func() {})
		}
		t.provider.Query(p, costKey, func() { t.payments.Set(key, kept) })
		return nil
	})
	captured := kept.status == http.StatusCreated
	p.Go(func(p *sim.Process) { t.callBack(p, key, captured) })
	if !captured {
		return errDeclined
	}
	return nil
}

// callBack is provider.callBack with calledBack.
func (t *payerModel) callBack(p *sim.Process, key string, captured bool) {
	pauses := []time.Duration{0, t.p.SlowTime.D()}
	if chance(key, "silent") < t.p.Silent {
		pauses = pauses[1:]
	}
	for _, d := range pauses {
		p.Do(t.Sim.Delay(d))
		t.provider.Exec(p, costCall, func() {
			t.calls++
			t.called.TryLock(t.calls) // nobody else knows it
			t.called.Set(t.calls, CallbackRow{key, captured})
		})
		if captured {
			t.paid(p, key)
		} else {
			t.mark(p, key, isPending)
		}
	}
}

// void is provider.Void.
func (t *payerModel) void(p *sim.Process, key string) {
	_ = t.provider.Transaction(p, func() error {
		var row paymentRow
		var is bool
		t.provider.Query(p, costKey, func() {
			p.Do(t.payments.Lock(key))
			if row, is = t.payments.Get(key); !is {
				t.payments.Set(key, paymentRow{status: http.StatusGone})
			}
		})
		if is {
			t.provider.Query(p, costKey, func() {})
			t.provider.Query(p, costMoney, func() {
				if len(row.entries) == 1 { // captured, and not refunded
					row.entries = append(row.entries[:1:1], PaymentRow{key, "refund", t.p.Price})
					t.payments.Set(key, row)
				}
			})
		}
		return nil
	})
}
