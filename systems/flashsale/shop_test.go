package flashsale_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// shop is an opened variant on stores of its own.
type shop struct {
	*flashsale.Inside
	inst sut.Instance
	cfg  sut.Config
}

// smallSale is one item with a few units whose carts outlive any test.
func smallSale(units int) *flashsale.Params {
	p := flashsale.DefaultParams()
	p.Units = units
	p.CartTTL = sut.Duration(10 * time.Minute)
	p.ReclaimEvery = sut.Duration(20 * time.Millisecond)
	p.LateSpread = 0
	return &p
}

func openShop(t testing.TB, name string, p *flashsale.Params) *shop {
	t.Helper()
	space := stores.Namespace(t)
	cfg := sut.Config{
		PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		KafkaBrokers: space.KafkaBrokers, Kafka: sut.DefaultKafka(),
		Params: p, MaxConns: 16, Timeout: 5 * time.Second,
	}
	s := openVariant(t, name, cfg)
	serveLines(t, name, cfg)
	return s
}

// serveLines runs the role without which nobody can buy of a variant, if it has
// one.
func serveLines(t testing.TB, name string, cfg sut.Config) {
	t.Helper()
	for _, role := range variant(t, name).Roles {
		if role.Name != "cashier" {
			continue
		}
		runRole(t, role, cfg)
	}
}

// runRole runs a role until stop is called or the test ends.
func runRole(t testing.TB, role sut.Role, cfg sut.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := role.Run(ctx, cfg); err != nil {
			t.Errorf("role %s: %v", role.Name, err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// openVariant opens and prepares a variant; it is closed with the test.
func openVariant(t testing.TB, name string, cfg sut.Config) *shop {
	t.Helper()
	s := reopenVariant(t, name, cfg)
	if err := s.inst.Prepare(t.Context()); err != nil {
		t.Fatalf("prepare %s: %v", name, err)
	}
	return s
}

// reopenVariant opens a variant that was prepared before.
func reopenVariant(t testing.TB, name string, cfg sut.Config) *shop {
	t.Helper()
	inst, inside, err := flashsale.Open(t.Context(), name, cfg)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return &shop{inside, inst, cfg}
}

func variant(t testing.TB, name string) sut.Variant {
	t.Helper()
	for _, v := range flashsale.System().Variants {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no variant %q", name)
	return sut.Variant{}
}

// eachShop runs a test on every variant that wanted accepts.
func eachShop(
	t *testing.T, p *flashsale.Params, wanted func(sut.Variant) bool, test func(*testing.T, *shop),
) {
	for _, v := range flashsale.System().Variants {
		if wanted(v) {
			t.Run(v.Name, func(t *testing.T) { test(t, openShop(t, v.Name, p)) })
		}
	}
}

func all(sut.Variant) bool       { return true }
func correct(v sut.Variant) bool { return len(v.Breaks) == 0 }

const item = "item-1"

// buy buys as the operation's own buyer.
func (s *shop) buy(op uint64) (flashsale.Order, error) {
	return s.Buy(context.Background(), request(op, "buyer-"+strconv.FormatUint(op, 10)))
}

func request(op uint64, buyer string) flashsale.BuyRequest {
	return flashsale.BuyRequest{OpID: op, Item: item, Buyer: buyer}
}

func (s *shop) mustBuy(t testing.TB, op uint64) flashsale.Order {
	t.Helper()
	order, err := s.buy(op)
	if err != nil {
		t.Fatalf("buy %d: %v", op, err)
	}
	return order
}

// pay delivers a payment's webhook.
func (s *shop) pay(id, order string, ok bool) (flashsale.PaymentState, error) {
	return s.PaymentResult(context.Background(), flashsale.Payment{
		OpID: 1, PaymentID: id, OrderID: order, Succeeded: ok, AmountCents: 100})
}

func (s *shop) mustPay(t testing.TB, id, order string, ok bool, want flashsale.PaymentState) {
	t.Helper()
	if got, err := s.pay(id, order, ok); err != nil || got != want {
		t.Errorf("payment %s of order %s: got %q, %v, want %q", id, order, got, err, want)
	}
}

func (s *shop) wantStock(t testing.TB, available, held, sold int64) {
	t.Helper()
	got, err := s.Stock(t.Context(), item)
	want := flashsale.Stock{Item: item, Units: available + held + sold,
		Available: available, Held: held, Sold: sold}
	if err != nil || got != want {
		t.Errorf("stock: got %+v, %v, want %+v", got, err, want)
	}
}

func (s *shop) audit(t testing.TB) flashsale.Audit {
	t.Helper()
	return auditOf(t, s.inst)
}

func auditOf(t testing.TB, inst sut.Instance) flashsale.Audit {
	t.Helper()
	raw, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	audit, err := api.DecodeAudit[flashsale.Audit](raw)
	if err != nil {
		t.Fatal(err)
	}
	return audit
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func isRefused(err error) bool { return errors.Is(err, sut.ErrRefused) }

// TestBuying: what one buyer after the other sees, alike in all variants.
func TestBuying(t *testing.T) {
	eachShop(t, smallSale(2), all, func(t *testing.T, s *shop) {
		first := s.mustBuy(t, 1)
		again, err := s.buy(1)
		if err != nil || again != first {
			t.Errorf("the same request: got %+v, %v, want the same order %+v", again, err, first)
		}
		_, err = s.Buy(t.Context(), request(2, "buyer-1"))
		wantErr(t, "a second unit for the buyer", err, flashsale.ErrAlreadyBought)
		_, err = s.Buy(t.Context(), request(1, "buyer-2"))
		wantErr(t, "another buyer with a key that is used", err, sut.ErrRefused)
		_, err = s.Buy(t.Context(), flashsale.BuyRequest{OpID: 9, Item: "item-2", Buyer: "b"})
		wantErr(t, "an item that is not on sale", err, flashsale.ErrUnknownItem)
		if second := s.mustBuy(t, 3); second.ID == first.ID {
			t.Errorf("two buyers have order %s", first.ID)
		}
		_, err = s.buy(4)
		wantErr(t, "the third of two units", err, flashsale.ErrSoldOut)
		s.wantStock(t, 0, 2, 0)
	})
}

// TestRepeatedWhenSoldOut: a buyer who lost the reply finds the order even
// when nothing is left.
func TestRepeatedWhenSoldOut(t *testing.T) {
	eachShop(t, smallSale(1), correct, func(t *testing.T, s *shop) {
		first := s.mustBuy(t, 1)
		again, err := s.buy(1)
		if err != nil || again != first {
			t.Errorf("got %+v, %v, want %+v", again, err, first)
		}
	})
}

// TestConcurrentRepeats: one key is one order and one unit, however many send
// it at once.
func TestConcurrentRepeats(t *testing.T) {
	// Enough for all requests at once: some of the wrong designs take a unit
	// for each until they notice.
	const units, senders = 64, 8
	eachShop(t, smallSale(units), all, func(t *testing.T, s *shop) {
		for op := range uint64(4) {
			orders := make([]flashsale.Order, senders)
			errs := make([]error, senders)
			var sent sync.WaitGroup
			for i := range senders {
				sent.Go(func() { orders[i], errs[i] = s.buy(op + 1) })
			}
			sent.Wait()
			for i, err := range errs {
				if err != nil || orders[i] != orders[0] {
					t.Errorf("sender %d: got %+v, %v, want %+v", i, orders[i], err, orders[0])
				}
			}
		}
		s.wantStock(t, units-4, 4, 0)
		for _, r := range s.audit(t).Redis {
			if r.Stock != units-4 {
				t.Errorf("Redis has %d of %d units after 4 were taken", r.Stock, units)
			}
		}
	})
}

// TestConcurrentBuyer: one buyer has one unit, however many requests race.
func TestConcurrentBuyer(t *testing.T) {
	const units, requests = 8, 8
	eachShop(t, smallSale(units), all, func(t *testing.T, s *shop) {
		var sent sync.WaitGroup
		errs := make([]error, requests)
		for i := range requests {
			sent.Go(func() {
				_, errs[i] = s.Buy(context.Background(), request(uint64(i+1), "greedy"))
			})
		}
		sent.Wait()
		bought := 0
		for _, err := range errs {
			if err == nil {
				bought++
			} else {
				wantErr(t, "a request too many", err, sut.ErrRefused)
			}
		}
		if bought != 1 {
			t.Errorf("one buyer got %d units", bought)
		}
		s.wantStock(t, units-1, 1, 0)
	})
}

// TestPayments: a webhook is applied once, to a cart that is still there.
func TestPayments(t *testing.T) {
	eachShop(t, smallSale(3), all, func(t *testing.T, s *shop) {
		_, err := s.pay("p0", "12345", true)
		wantErr(t, "a payment for no order", err, flashsale.ErrUnknownOrder)
		_, err = s.pay("p0", "no number", true)
		wantErr(t, "a payment for a name that is no order", err, flashsale.ErrUnknownOrder)

		paid := s.mustBuy(t, 1)
		for range 3 {
			s.mustPay(t, "p1", paid.ID, true, flashsale.PaymentSold)
		}
		s.mustPay(t, "p1b", paid.ID, true, flashsale.PaymentRefunded)
		s.mustPay(t, "p1c", paid.ID, false, flashsale.PaymentReleased)
		s.wantStock(t, 2, 0, 1)

		failed := s.mustBuy(t, 2)
		for range 2 {
			s.mustPay(t, "p2", failed.ID, false, flashsale.PaymentReleased)
		}
		s.mustPay(t, "p2b", failed.ID, true, flashsale.PaymentRefunded)
		s.wantStock(t, 2, 0, 1)
		s.mustBuy(t, 3)
		s.mustBuy(t, 4)
		_, err = s.buy(5)
		wantErr(t, "the fourth of three units", err, flashsale.ErrSoldOut)
		s.wantPayments(t, []flashsale.PaymentAudit{
			{ID: "p1", OrderID: paid.ID, AmountCents: 100, Captured: true, Deliveries: 3, Effects: 1},
			{ID: "p1b", OrderID: paid.ID, AmountCents: 100, Captured: true, Refunded: true,
				Deliveries: 1, Effects: 1},
			{ID: "p1c", OrderID: paid.ID, AmountCents: 100, Deliveries: 1},
			{ID: "p2", OrderID: failed.ID, AmountCents: 100, Deliveries: 2, Effects: 1},
			{ID: "p2b", OrderID: failed.ID, AmountCents: 100, Captured: true, Refunded: true,
				Deliveries: 1, Effects: 1},
		})
	})
}

func (s *shop) wantPayments(t testing.TB, want []flashsale.PaymentAudit) {
	t.Helper()
	got := s.audit(t).Payments
	if len(got) != len(want) {
		t.Fatalf("got %d payments, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got payment %+v, want %+v", got[i], want[i])
		}
	}
}

// TestExpiry: a cart comes back by itself, everywhere; a payment after that
// is refunded, and the buyer may buy again.
func TestExpiry(t *testing.T) {
	p := smallSale(1)
	p.CartTTL = sut.Duration(150 * time.Millisecond)
	eachShop(t, p, all, func(t *testing.T, s *shop) {
		stop := runRoles(t, s)
		lost := s.mustBuy(t, 1)
		settled(t, s.inst)
		stop()
		s.wantStock(t, 1, 0, 0)
		s.mustPay(t, "p1", lost.ID, true, flashsale.PaymentRefunded)
		order, err := s.Buy(t.Context(), request(2, "buyer-1"))
		if err != nil {
			t.Fatalf("buying again after the cart expired: %v", err)
		}
		s.mustPay(t, "p2", order.ID, true, flashsale.PaymentSold)
		s.wantStock(t, 0, 0, 1)
		_, err = s.buy(3)
		wantErr(t, "the second of one unit", err, flashsale.ErrSoldOut)
	})
}

// runRoles runs the roles of a shop's variant until stop is called.
func runRoles(t testing.TB, s *shop) (stop func()) {
	t.Helper()
	var stops []func()
	for _, role := range variantOf(t, s).Roles {
		stops = append(stops, runRole(t, role, s.cfg))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func variantOf(t testing.TB, s *shop) sut.Variant {
	t.Helper()
	return variant(t, s.Name)
}

// settled waits until the roles have nothing left to do.
func settled(t testing.TB, inst sut.Instance) {
	t.Helper()
	eventually(t, func() (string, error) {
		return inst.(sut.Quiescer).Quiesced(t.Context())
	})
}

// eventually polls until nothing is pending.
func eventually(t testing.TB, pending func() (string, error)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		what, err := pending()
		if err == nil && what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still pending: %s (%v)", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
