package flashsale_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// lineOnly accepts the variant whose buyers stand in a line.
const lineOnly = "queue_serialized"

// openQueue opens the variant with nobody to serve.
func openQueue(t *testing.T, p *flashsale.Params) *shop {
	t.Helper()
	space := stores.Namespace(t)
	cfg := sut.Config{PostgresURL: space.PostgresURL, Prefix: space.Prefix, Params: p,
		KafkaBrokers: space.KafkaBrokers, Kafka: sut.DefaultKafka(), MaxConns: 8,
		Timeout: 10 * time.Second}
	return openVariant(t, lineOnly, cfg)
}

// cashier is the role, with a fail point if passed is not nil.
func (s *shop) cashier(t testing.TB, passed func(string)) (stop func()) {
	t.Helper()
	cfg := s.cfg
	cfg.FailPoint = passed
	for _, role := range variant(t, lineOnly).Roles {
		if role.Name == "cashier" {
			return runRole(t, role, cfg)
		}
	}
	t.Fatal("there is no cashier")
	return nil
}

// wantQueued waits until so much stands in the line.
func (s *shop) wantQueued(t testing.TB, want string) {
	t.Helper()
	eventually(t, func() (string, error) {
		got, err := s.inst.(sut.Quiescer).Quiesced(t.Context())
		if got == want {
			return "", err
		}
		return "queued: " + got, err
	})
}

// leave buys and leaves before there can be an answer.
func (s *shop) leave(t testing.TB, op uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Buy(ctx, request(op, "buyer"+string(rune('a'+op))))
	if err == nil || isRefused(err) {
		t.Errorf("buy %d without anybody to decide: got %v, want an unknown outcome", op, err)
	}
}

// again buys with a key that was used by leave.
func (s *shop) again(op uint64) (flashsale.Order, error) {
	return s.Buy(context.Background(), request(op, "buyer"+string(rune('a'+op))))
}

// TestLineDecidesForThoseWhoLeft: who left is served all the same, in the order
// of arrival, and learns of it by asking again.
func TestLineDecidesForThoseWhoLeft(t *testing.T) {
	s := openQueue(t, smallSale(2))
	for op := range uint64(3) {
		s.leave(t, op+1)
	}
	s.wantQueued(t, "3 purchases are queued")
	s.cashier(t, nil)
	eventually(t, func() (string, error) { _, err := s.again(1); return "", err })
	for op, want := range map[uint64]int64{1: 1, 2: 2} {
		if order, err := s.again(op); err != nil || order.Unit != want {
			t.Errorf("buy %d: got %+v, %v, want unit %d", op, order, err, want)
		}
	}
	_, err := s.again(3)
	wantErr(t, "the third of two units", err, flashsale.ErrSoldOut)
	s.wantStock(t, 0, 2, 0)
}

// TestLineIsBounded: a full line refuses before anything is written, and goes on
// when it has been served, although those who stood in it have left.
func TestLineIsBounded(t *testing.T) {
	s := openQueue(t, smallSale(9))
	s.ShortenLine(2)
	s.leave(t, 1)
	s.leave(t, 2)
	for op := range uint64(3) {
		_, err := s.again(op + 3)
		wantErr(t, "a third in a line of two", err, flashsale.ErrLineFull)
		wantErr(t, "a third in a line of two", err, sut.ErrRefused)
	}
	s.wantQueued(t, "2 purchases are queued")
	s.cashier(t, nil)
	eventually(t, func() (string, error) { _, err := s.again(6); return "", err })
	s.wantStock(t, 6, 3, 0)
}

// TestCashierDiesBeforeItAnswers: what was decided stays so, those who wait get
// no answer, and what Kafka delivers again to the next cashier has no effect.
func TestCashierDiesBeforeItAnswers(t *testing.T) {
	s := openQueue(t, smallSale(2))
	var passages atomic.Int64
	stop := s.cashier(t, func(place string) {
		if place != "ordered" {
			t.Errorf("passed %q", place)
		}
		passages.Add(1)
		runtime.Goexit() // this batch goes no further, as if killed
	})
	s.leave(t, 1)
	eventually(t, func() (string, error) {
		if passages.Load() == 0 {
			return "nothing was decided", nil
		}
		return "", nil
	})
	stop()
	s.wantStock(t, 1, 1, 0)
	s.cashier(t, nil)
	order, err := s.again(1)
	if err != nil || order.Unit != 1 {
		t.Errorf("asking again: %+v, %v", order, err)
	}
	s.wantStock(t, 1, 1, 0)
	if n := len(s.audit(t).Orders); n != 1 {
		t.Errorf("there are %d orders for one purchase", n)
	}
}

// TestRedeliveredRefusal: a purchase that was refused stays refused when Kafka
// delivers it again after a unit has come back. Without the line's offset in
// the ledger it would be sold now, to somebody who was told that it is not.
func TestRedeliveredRefusal(t *testing.T) {
	s := openQueue(t, smallSale(1))
	deliver := func(offset int64, op uint64, buyer, want string) {
		t.Helper()
		got, err := s.Redeliver(t.Context(), offset, request(op, buyer))
		if err != nil || got != want {
			t.Errorf("offset %d: got %q, %v, want %q", offset, got, err, want)
		}
	}
	deliver(0, 1, "ann", "order")
	deliver(1, 2, "bob", "sold out")
	order := s.audit(t).Orders[0]
	s.mustPay(t, "p1", order.ID, false, flashsale.PaymentReleased)
	s.wantStock(t, 1, 0, 0)
	deliver(1, 2, "bob", "decided")
	deliver(0, 1, "ann", "decided")
	s.wantStock(t, 1, 0, 0)
	deliver(2, 3, "cid", "order") // the line goes on
	s.wantStock(t, 0, 1, 0)
}

// TestTwoCashiers share the lines and each purchase is decided once; one that
// goes leaves its lines to the other.
func TestTwoCashiers(t *testing.T) {
	p := smallSale(50)
	p.Items = 4
	s := openQueue(t, p)
	stop := s.cashier(t, nil)
	s.cashier(t, nil)
	bought := 0
	for op := range uint64(60) {
		if op == 30 {
			stop()
		}
		req := request(op+1, "buyer")
		req.Item = flashsale.ItemKey(int(op%4) + 1)
		req.Buyer += string(rune('a' + op))
		if order, err := s.Buy(t.Context(), req); err == nil && order.ID != "" {
			bought++
		} else if isRefused(err) {
			t.Errorf("buy %d: %v", op+1, err)
		}
	}
	settledLine(t, s)
	if n := len(s.audit(t).Orders); bought == 0 || n < bought || n > 60 {
		t.Errorf("%d were told of an order, %d of 60 have one", bought, n)
	}
}

// settledLine waits until nobody stands in the line.
func settledLine(t testing.TB, s *shop) {
	t.Helper()
	eventually(t, func() (string, error) {
		pending, err := s.inst.(sut.Quiescer).Quiesced(t.Context())
		if bytes.Contains([]byte(pending), []byte("queued")) {
			return pending, err
		}
		return "", err
	})
}

// TestBrokerPause: while the broker is silent nobody gets an answer and nothing
// is promised; afterwards every purchase was decided once.
func TestBrokerPause(t *testing.T) {
	s := openQueue(t, smallSale(9))
	s.cashier(t, nil)
	eventually(t, func() (string, error) { _, err := s.again(1); return "", err })
	broker := stores.Cluster(t).Component(sut.Kafka).(env.Breakable)
	if _, err := broker.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	resumed := false
	defer func() {
		if !resumed {
			_ = broker.Resume(context.WithoutCancel(t.Context()))
		}
	}()
	s.leave(t, 2)
	if err := broker.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	resumed = true
	eventually(t, func() (string, error) { _, err := s.again(2); return "", err })
	settledLine(t, s)
	s.wantStock(t, 7, 2, 0)
}

// TestResetForgetsTheLine: purchases of the sale before are not decided in this
// one.
func TestResetForgetsTheLine(t *testing.T) {
	s := openQueue(t, smallSale(2))
	s.leave(t, 1)
	s.wantQueued(t, "1 purchases are queued")
	if err := s.inst.(interface{ Reset(context.Context) error }).Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantQueued(t, "")
	s.cashier(t, nil)
	eventually(t, func() (string, error) { _, err := s.again(2); return "", err })
	if orders := s.audit(t).Orders; len(orders) != 1 || orders[0].OpID != 2 {
		t.Errorf("after the reset there are %+v", orders)
	}
}

// TestLineGroups: order is kept, equal requests share a place, and of two
// requests of a buyer, or with a key, the later waits for the next group.
func TestLineGroups(t *testing.T) {
	req := func(op uint64, item, buyer string) flashsale.BuyRequest {
		return flashsale.BuyRequest{OpID: op, Item: item, Buyer: buyer}
	}
	for name, c := range map[string]struct {
		requests []flashsale.BuyRequest
		want     [][]uint64
	}{
		"none":      {nil, nil},
		"strangers": {[]flashsale.BuyRequest{req(1, "x", "a"), req(2, "x", "b")}, [][]uint64{{1, 2}}},
		"double click": {[]flashsale.BuyRequest{req(1, "x", "a"), req(2, "x", "b"),
			req(1, "x", "a")}, [][]uint64{{1, 2, 1}}},
		"a second unit": {[]flashsale.BuyRequest{req(1, "x", "a"), req(2, "x", "a"),
			req(3, "x", "b")}, [][]uint64{{1, 3}, {2}}},
		"another's key": {[]flashsale.BuyRequest{req(1, "x", "a"), req(1, "x", "b"),
			req(3, "x", "b")}, [][]uint64{{1}, {1}, {3}}},
		"two items": {[]flashsale.BuyRequest{req(1, "x", "a"), req(2, "y", "a"), req(3, "x", "b")},
			[][]uint64{{1, 3}, {2}}},
		"one key for two items": {[]flashsale.BuyRequest{req(1, "x", "a"), req(1, "y", "a")},
			[][]uint64{{1}, {1}}},
		"click, another, click": {[]flashsale.BuyRequest{req(1, "x", "a"), req(2, "x", "a"),
			req(1, "x", "a")}, [][]uint64{{1}, {2}, {1}}},
	} {
		if got := flashsale.LineGroups(c.requests); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestLineStatuses: each status is one outcome, and only refusals refuse.
func TestLineStatuses(t *testing.T) {
	seen := map[error]bool{}
	for _, status := range flashsale.LineStatuses() {
		err := flashsale.LineResult(status)
		if refuses := status != "order" && status != "decided"; isRefused(err) != refuses {
			t.Errorf("%s: got %v", status, err)
		}
		if (err == nil) != (status == "order") || seen[err] {
			t.Errorf("%s: got %v, which another status is", status, err)
		}
		seen[err] = true
	}
	if err := flashsale.LineResult("no such status"); err == nil || errors.Is(err, sut.ErrRefused) {
		t.Errorf("an unknown status: got %v", err)
	}
}

// FuzzLineRecords: what decodes encodes to what decodes to the same.
func FuzzLineRecords(f *testing.F) {
	f.Add([]byte(`{"op_id":1,"item":"item-1","buyer":"ann","from":"x","desk":3,"number":7}`))
	f.Add([]byte(`{"from":"x","number":7,"line":1,"offset":5,"status":"order","order":{"order":"1"}}`))
	f.Add([]byte(`{"desk":16}`))
	f.Add([]byte(`{"desk":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, decode := range map[string]func([]byte) ([]byte, error){
			"ticket": flashsale.DecodeTicket, "receipt": flashsale.DecodeReceipt,
		} {
			first, err := decode(data)
			if err != nil {
				continue
			}
			if second, err := decode(first); err != nil || !bytes.Equal(first, second) {
				t.Errorf("%s: %s became %s, %v", name, first, second, err)
			}
		}
	})
}
