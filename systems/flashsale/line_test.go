package flashsale_test

import (
	"context"
	"fmt"
	"testing"

	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// lineOnly is the variant whose buyers stand in a line.
const lineOnly = "queue_serialized"

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

// leave buys, as the nth in the line, and leaves before there can be an answer.
func (s *shop) leave(t testing.TB, n uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := s.Buy(ctx, request(n, "buyer"+string(rune('a'+n)))); left <- err }()
	s.wantQueued(t, fmt.Sprintf("%d purchases are queued", n))
	cancel()
	if err := <-left; err == nil || isRefused(err) {
		t.Errorf("buy %d without anybody to decide: got %v, want an unknown outcome", n, err)
	}
}

// again buys with a key that was used by leave.
func (s *shop) again(op uint64) (flashsale.Order, error) {
	return s.Buy(context.Background(), request(op, "buyer"+string(rune('a'+op))))
}

// TestLineDecidesForThoseWhoLeft: who left is served all the same, in the order
// of arrival, and learns of it by asking again.
func TestLineDecidesForThoseWhoLeft(t *testing.T) {
	s := openVariant(t, lineOnly, config(t, smallSale(2)))
	for op := range uint64(3) {
		s.leave(t, op+1)
	}
	s.wantQueued(t, "3 purchases are queued")
	s.run(t, "cashier")
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
	s := openVariant(t, lineOnly, config(t, smallSale(9)))
	s.ShortenLine(2)
	s.leave(t, 1)
	s.leave(t, 2)
	for op := range uint64(3) {
		_, err := s.again(op + 3)
		wantErr(t, "a third in a line of two", err, flashsale.ErrLineFull)
		wantErr(t, "a third in a line of two", err, sut.ErrRefused)
	}
	s.wantQueued(t, "2 purchases are queued")
	s.run(t, "cashier")
	eventually(t, func() (string, error) { _, err := s.again(6); return "", err })
	s.wantStock(t, 6, 3, 0)
}

// TestRedeliveredRefusal: a purchase that was refused stays refused when Kafka
// delivers it again after a unit has come back. Without the line's offset in
// the ledger it would be sold now, to somebody who was told that it is not.
func TestRedeliveredRefusal(t *testing.T) {
	s := openVariant(t, lineOnly, config(t, smallSale(1)))
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

// TestResetForgetsTheLine: purchases of the sale before are not decided in this
// one.
func TestResetForgetsTheLine(t *testing.T) {
	s := openVariant(t, lineOnly, config(t, smallSale(2)))
	s.leave(t, 1)
	s.wantQueued(t, "1 purchases are queued")
	if err := s.inst.(interface{ Reset(context.Context) error }).Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantQueued(t, "")
	s.run(t, "cashier")
	eventually(t, func() (string, error) { _, err := s.again(2); return "", err })
	if orders := s.audit(t).Orders; len(orders) != 1 || orders[0].OpID != 2 {
		t.Errorf("after the reset there are %+v", orders)
	}
}
