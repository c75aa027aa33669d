package flashsale

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

// ClaimSQL is the statement with which units_skip_locked sells.
func ClaimSQL() string { return newUnitShop(newBooks(nil, unitRows())).skip }

// TakeTokenLua is the script with which redis_lua admits.
const TakeTokenLua = takeToken

// Admit returns what passes the gate of an instance without claiming.
func Admit(inst sut.Instance) func(ctx context.Context, op uint64) error {
	shop := inst.(*instance).Shop.(*pipelinedShop)
	return func(ctx context.Context, op uint64) error {
		_, err := shop.pass(ctx, BuyRequest{
			OpID: op, Item: ItemKey(1), Buyer: "b" + strconv.FormatUint(op, 10)})
		return err
	}
}

// LocklessRedlock is redlock with a lock that everybody gets: what remains is
// known to oversell.
func LocklessRedlock() sut.Variant {
	d := redlock()
	d.name, d.breaks = "redlock_lockless", naiveReadWrite().breaks
	d.notApplicable = naiveReadWrite().notApplicable
	d.open = func(_ context.Context, b *backend) (Shop, error) {
		return newRedlockShop(b, func(context.Context, string, uint64) (lease, error) {
			return nobody{}, nil
		}), nil
	}
	return d.variant()
}

// nobody is the lease of a lock that keeps nobody out.
type nobody struct{}

func (nobody) Until() time.Time                            { return time.Now().Add(time.Minute) }
func (nobody) UnlockContext(context.Context) (bool, error) { return true, nil }

// DoubleReturn is redis_lua with a compensation that gives the unit of a
// failed payment back twice. The ledger still decides, and the reconciler
// repairs the counter before the end: only meanwhile it offers too much.
func DoubleReturn() sut.Variant {
	d := redisLua()
	d.name = "redis_lua_double_return"
	d.breaks = []sut.Break{{Invariant: RedisDrift, Under: sut.Load}}
	d.open = func(_ context.Context, b *backend) (Shop, error) {
		return doubleReturnShop{newGatedShop(b, tokenGate{b.redis}, newUnitShop(b.books))}, nil
	}
	return d.variant()
}

type doubleReturnShop struct{ *gatedShop }

func (s doubleReturnShop) PaymentResult(ctx context.Context, p Payment) (PaymentState, error) {
	state, released, err := s.books.payment(ctx, p)
	if err == nil && released != nil {
		plain := s.redis.script.returnPlain
		_, again := s.redis.run(ctx, plain, []string{s.redis.stockKey(released.Item)})
		err = errors.Join(s.redis.release(ctx, *released), again)
	}
	return state, err
}

// DesignName is the variant that an instance was opened from.
func DesignName(inst sut.Instance) string { return inst.(*instance).design.name }

// ReclaimSQL is the reclaimer's statement for unit rows.
func ReclaimSQL() string { return newBooks(nil, unitRows()).reclaimSQL }

// Unreconciled says how Redis and ledger differ, or "".
func Unreconciled(ctx context.Context, inst sut.Instance) (string, error) {
	return inst.(*instance).unreconciled(ctx)
}

// ClaimAdmitted is what becomes of a purchase after Redis has admitted it.
func ClaimAdmitted(ctx context.Context, inst sut.Instance, req BuyRequest) (Order, error) {
	shop := inst.(*instance).Shop
	if r, ok := shop.(*reservationShop); ok {
		return r.claim(ctx, req, admitted)
	}
	return shop.(*gatedShop).claim(ctx, req, admitted)
}

// SettleLapsed is the reconciler's work on the tokens that have lapsed.
func SettleLapsed(ctx context.Context, inst sut.Instance) error {
	return inst.(*instance).settleLapsed(ctx)
}

// Rebuild is the reconciler's repair of an item.
func Rebuild(ctx context.Context, inst sut.Instance, item string) error {
	return inst.(*instance).rebuild(ctx, item)
}

// NewReconcilerRule returns the reconciler's decision about one item.
func NewReconcilerRule(units int64, patience time.Duration) func(
	after time.Duration, present bool, stock, active int64,
) bool {
	r := &reconciliation{mismatches: map[string]mismatch{}}
	begin := time.Unix(0, 0)
	return func(after time.Duration, present bool, stock, active int64) bool {
		b := balance{item: "x", present: present, stock: stock, active: active,
			drift: units - stock - active}
		return r.wrong(b, begin.Add(after), patience)
	}
}

// LineStatuses are the statuses that an answer from the line can have.
func LineStatuses() []string {
	list := []string{answerOrder, answerDecided}
	for status := range refusals {
		list = append(list, status)
	}
	return list
}

// LineResult is what an answer with a status means to the buyer.
func LineResult(status string) error {
	_, err := receipt{Status: status}.result()
	return err
}

// LineGroups are the operations of the groups in which tickets are decided.
func LineGroups(requests []BuyRequest) [][]uint64 {
	var tickets []inLine
	for i, req := range requests {
		tickets = append(tickets, inLine{ticket{BuyRequest: req}, int64(i)})
	}
	var list [][]uint64
	for _, group := range groups(tickets) {
		var ops []uint64
		for _, t := range group {
			ops = append(ops, t.OpID)
		}
		list = append(list, ops)
	}
	return list
}

// DecodeTicket and DecodeReceipt decode what the line's topics hold and encode
// it again.
func DecodeTicket(data []byte) ([]byte, error)  { return encoded(decodeTicket(data)) }
func DecodeReceipt(data []byte) ([]byte, error) { return encoded(decodeReceipt(data)) }

func encoded(value any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// ShortenLine lets few tickets wait in each line of an instance.
func ShortenLine(inst sut.Instance, most int) {
	for _, l := range inst.(*instance).Shop.(*lineShop).lines {
		l.most = most
	}
}

// Redeliver decides a purchase as a cashier does to whom Kafka delivers it at an
// offset of the first line, and returns the status of the answer.
func Redeliver(
	ctx context.Context, inst sut.Instance, offset int64, req BuyRequest,
) (status string, err error) {
	i := inst.(*instance)
	rec, err := record(i.cfg, ticketsTopic, 0, ticket{BuyRequest: req})
	if err != nil {
		return "", err
	}
	rec.Offset = offset
	replies, err := (&cashiers{backend: i.backend}).decide(ctx, 0, []*kgo.Record{rec})
	if err != nil {
		return "", err
	}
	return replies[0].Status, nil
}

// AppClockReclaimer is units_skip_locked whose reclaimer reads the clock of its
// own machine, which is 300 ms ahead of the database's.
func AppClockReclaimer() sut.Variant {
	const ahead = 300 * time.Millisecond
	d := unitsSkipLocked()
	d.name = "units_app_clock"
	d.breaks = []sut.Break{{Invariant: ExpiryOnTime, Under: sut.Load}}
	v := d.variant()
	v.Roles[0].Run = func(ctx context.Context, cfg sut.Config) error {
		return d.run(ctx, cfg, "reclaimer", func(b *backend, ctx context.Context) (time.Duration, error) {
			_, err := b.books.reclaim(ctx, b.params.CartTTL.D()-ahead, reclaimBatch)
			return b.params.ReclaimEvery.D(), err
		})
	}
	return v
}
