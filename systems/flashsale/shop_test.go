package flashsale_test

import (
	"context"
	"errors"
	"reflect"
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

// config is an empty place for a sale.
func config(t testing.TB, p *flashsale.Params) sut.Config {
	t.Helper()
	space := stores.Namespace(t)
	return sut.Config{PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		KafkaBrokers: space.KafkaBrokers, Kafka: sut.DefaultKafka(), Params: p, MaxConns: 16,
		Timeout: 5 * time.Second}
}

// openShop opens a variant with the role without which nobody can buy, if it has one.
func openShop(t testing.TB, name string, p *flashsale.Params) *shop {
	t.Helper()
	s := openVariant(t, name, config(t, p))
	s.run(t, "cashier")
	return s
}

// run runs the shop's roles of a name, all of them for "", until stop is called or the test ends.
func (s *shop) run(t testing.TB, name string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var roles sync.WaitGroup
	for _, role := range variant(t, s.Name).Roles {
		if name != "" && role.Name != name {
			continue
		}
		roles.Go(func() {
			if err := role.Run(ctx, s.cfg); err != nil {
				t.Errorf("role %s: %v", role.Name, err)
			}
		})
	}
	stop = func() {
		cancel()
		roles.Wait()
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
		if again, err = s.buy(1); correct(variant(t, s.Name)) && (err != nil || again != first) {
			t.Errorf("when all are sold: got %+v, %v, want %+v", again, err, first)
		}
		for _, order := range []string{"12345", "no number"} {
			_, err = s.pay("p0", order, true)
			wantErr(t, "a payment for no order", err, flashsale.ErrUnknownOrder)
		}
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

// TestResetBeginsAnew: after a reset every variant is as if just prepared,
// whatever was sold before.
func TestResetBeginsAnew(t *testing.T) {
	eachShop(t, smallSale(3), all, func(t *testing.T, s *shop) {
		resetter, able := s.inst.(api.Resetter)
		if !able {
			t.Fatal("the variant cannot be reset")
		}
		fresh := auditOf(t, s.inst)
		for range 2 {
			for op := range uint64(3) {
				s.mustBuy(t, op+1)
			}
			if sold := auditOf(t, s.inst); len(sold.Orders) != 3 {
				t.Fatalf("%d orders, want 3", len(sold.Orders))
			}
			if err := resetter.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := auditOf(t, s.inst); !reflect.DeepEqual(again, fresh) {
				t.Fatalf("after the reset %+v, before the sale %+v", again, fresh)
			}
		}
	})
}

// TestResetPrepares: a variant that was never prepared may be reset too.
func TestResetPrepares(t *testing.T) {
	s := reopenVariant(t, "redis_lua", config(t, smallSale(3)))
	if err := s.inst.(api.Resetter).Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := s.audit(t); len(a.Units) != 3 || a.Redis[0].Stock != 3 {
		t.Errorf("got %+v", a)
	}
}
