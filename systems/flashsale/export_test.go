package flashsale

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

// ClaimSQL is the statement with which units_skip_locked sells, ReclaimSQL that of its
// reclaimer.
func ClaimSQL() string   { return newUnitShop(newBooks(nil, unitRows())).skip }
func ReclaimSQL() string { return newBooks(nil, unitRows()).reclaimSQL }

// TakeTokenLua is the script with which redis_lua admits.
const TakeTokenLua = takeToken

// Inside is an opened design from inside.
type Inside struct {
	Name string
	Shop
	st *opened
}

// Open opens a design.
func Open(ctx context.Context, name string, cfg sut.Config) (sut.Instance, *Inside, error) {
	inside := &Inside{Name: name}
	for _, v := range designs() {
		if v.Name != name {
			continue
		}
		open := v.Open
		v.Open = func(ctx context.Context, st *opened) (shop Shop, err error) {
			inside.Shop, err = open(ctx, st)
			inside.st = st
			return inside.Shop, err
		}
		inst, err := system(v).Variants[0].Open(ctx, cfg)
		return inst, inside, err
	}
	return nil, nil, errors.New("there is no design " + name)
}

// Admit passes the gate without claiming.
func (i *Inside) Admit(ctx context.Context, op uint64) error {
	_, err := i.Shop.(*pipelinedShop).pass(ctx, BuyRequest{
		OpID: op, Item: ItemKey(1), Buyer: "b" + strconv.FormatUint(op, 10)})
	return err
}

// ClaimAdmitted is what becomes of a purchase after Redis has admitted it.
func (i *Inside) ClaimAdmitted(ctx context.Context, req BuyRequest) (Order, error) {
	if r, ok := i.Shop.(*reservationShop); ok {
		return r.claim(ctx, req, admitted)
	}
	return i.Shop.(*gatedShop).claim(ctx, req, admitted)
}

// SettleLapsed is the reconciler's work on the tokens that have lapsed.
func (i *Inside) SettleLapsed(ctx context.Context) error {
	return reservations(i.st).settleLapsed(ctx)
}

// Rebuild is the reconciler's repair of an item.
func (i *Inside) Rebuild(ctx context.Context, item string) error {
	t := reservations(i.st)
	return (&reconciliation{counters: t.counters, shelf: t}).rebuild(ctx, item)
}

// ShortenLine lets few tickets wait in each line of an instance.
func (i *Inside) ShortenLine(most int) {
	for _, l := range i.Shop.(*lineShop).lines {
		l.most = most
	}
}

// Redeliver decides a purchase as a cashier does to whom Kafka delivers it at an
// offset of the first line, and returns the status of the answer.
func (i *Inside) Redeliver(
	ctx context.Context, offset int64, req BuyRequest,
) (status string, err error) {
	rec, err := record(i.st.Config, ticketsTopic, 0, ticket{BuyRequest: req})
	if err != nil {
		return "", err
	}
	rec.Offset = offset
	c := &cashiers{i.st, newBooks(i.st.DB, unitRows()), nil}
	replies, err := c.decide(ctx, 0, []*kgo.Record{rec})
	if err != nil {
		return "", err
	}
	return replies[0].Status, nil
}

// LocklessRedlock is redlock with a lock that everybody gets: what remains is
// known to oversell.
func LocklessRedlock() sut.Variant {
	v, naive := redlock(), naiveReadWrite()
	v.Name, v.Breaks, v.NotApplicable = "redlock_lockless", naive.Breaks, naive.NotApplicable
	v.Open = func(_ context.Context, st *opened) (Shop, error) {
		return newRedlockShop(st, func(context.Context, string, uint64) (lease, error) {
			return nobody{}, nil
		}), nil
	}
	return system(v).Variants[0]
}

// nobody is the lease of a lock that keeps nobody out.
type nobody struct{}

func (nobody) Until() time.Time                            { return time.Now().Add(time.Minute) }
func (nobody) UnlockContext(context.Context) (bool, error) { return true, nil }

// DoubleReturn is redis_lua with a compensation that gives the unit of a
// failed payment back twice. The ledger still decides, and the reconciler
// repairs the counter before the end: only meanwhile it offers too much.
func DoubleReturn() sut.Variant {
	v := redisLua()
	v.Name = "redis_lua_double_return"
	v.Breaks = []sut.Break{{Invariant: RedisDrift, Under: sut.Load}}
	v.Open = func(_ context.Context, st *opened) (Shop, error) {
		return unitsBehind(st, doubleReturn{newTokens(st, 0)}), nil
	}
	return system(v).Variants[0]
}

type doubleReturn struct{ *tokens }

func (d doubleReturn) release(ctx context.Context, c cart) error {
	return errors.Join(d.tokens.release(ctx, c), plain(d.opened).release(ctx, c))
}

// AppClockReclaimer is units_skip_locked whose reclaimer reads the clock of its
// own machine, which is 300 ms ahead of the database's.
func AppClockReclaimer() sut.Variant {
	const ahead = 300 * time.Millisecond
	v := unitsSkipLocked()
	v.Name = "units_app_clock"
	v.Breaks = []sut.Break{{Invariant: ExpiryOnTime, Under: sut.Load}}
	v.Roles[0].Step = func(ctx context.Context, st *opened) (time.Duration, error) {
		_, err := newBooks(st.DB, unitRows()).reclaim(ctx, st.Params.CartTTL.D()-ahead, reclaimBatch)
		return st.Params.ReclaimEvery.D(), err
	}
	return system(v).Variants[0]
}
