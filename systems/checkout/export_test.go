package checkout

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Mutants are row_lock, redis_first or waiting_room with a planted error each, by its name, and
// those that they are planted in.
func Mutants() map[string]sut.Variant {
	one := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	inPayer := func(fail func(*payments, context.Context, due, error) error) sut.Variant {
		v := rowLock()
		v.Roles = []role{payerOf(fail, calledBack)}
		return one(v)
	}
	inAdmitter := func(next string, room int) sut.Variant {
		v := waitingRoom()
		for i, r := range v.Roles {
			if r.Name == "admitter" {
				v.Roles[i] = admitter(func(p Params) (int, int) {
					return max(room, p.Batch), max(room, p.Room)
				}, next, showRooms)
			}
		}
		return one(v)
	}
	unrepaired := redisFirst()
	unrepaired.Roles = []role{payer()}
	// Whoever comes has a unit, as if Redis had forgotten what it sold.
	generous := func(settle settle) sut.Variant {
		v := redisDecides(variant{Name: "generous"}, settle)
		v.Open = func(_ context.Context, st *opened) (Shop, error) {
			return generousShop{&counter{st}}, nil
		}
		return one(v)
	}
	// Redis decides, and is repaired often, to something.
	decides := func(to target) sut.Variant {
		v := redisDecides(variant{Name: "decides"}, restock)
		v.Roles = []role{payer(), settler(restock, to)}
		return one(v)
	}
	repaired := redisFirst()
	repaired.Roles = []role{payer(), reconciler(unreturned())}
	credulous := rowLock()
	credulous.Roles = []role{payerOf((*payments).compensate, believes)}
	opens := func(v variant, shop func(*opened) Shop) sut.Variant {
		v.Open = func(_ context.Context, st *opened) (Shop, error) { return shop(st), nil }
		return one(v)
	}
	inRoom := func(edge string, shop func(roomShop) Shop) sut.Variant {
		return opens(waitingRoom(), func(st *opened) Shop { return shop(roomShop{&counter{st}, edge}) })
	}
	unsure := func(undoes bool) sut.Variant {
		return opens(rowLock(), func(st *opened) Shop {
			return unsureShop{lockingShop{&counter{st}}, undoes}
		})
	}
	return map[string]sut.Variant{
		"row_lock": one(rowLock()), "waiting_room": one(waitingRoom()), "redis_first": one(redisFirst()),
		"unsure": unsure(false), "M140": unsure(true),
		"M141": one(compensationForgotten()), "M142": one(keyPerRetry()),
		"decides": decides(unheld), "M144": decides(older()), "M145": decides(ignoresHolds),
		"M146":     one(repaired),
		"M147":     inRoom(edgeLua, newClockShop),
		"M149":     inRoom(fixedWindow, func(s roomShop) Shop { return s }),
		"M151":     inPayer((*payments).keepMoney),
		"M153":     inRoom(edgeLua, func(s roomShop) Shop { return trustingShop{s} }),
		"believes": one(credulous),
		"M148":     inAdmitter(strings.Replace(selectNext, "BY w.seq", "BY md5(w.key)", 1), 0),
		"no edge":  inRoom(edgeLua, func(s roomShop) Shop { return noEdge{s} }),
		"any room": inAdmitter(selectNext, 100_000),
		"restock":  generous(restock), "cancel newest": generous(cancelExcess),
		"unsettled": generous(func(context.Context, pgx.Tx, uint64, int64) error { return nil }),
		"oldest":    generous(cancelOldest),
		"unit lost": inPayer((*payments).keepUnit), "unrepaired": one(unrepaired),
	}
}

// generousShop sells to everybody.
type generousShop struct{ *counter }

func (s generousShop) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	return s.sell(ctx, req, takeAnyway)
}

// cancelOldest is cancelExcess the other way round.
func cancelOldest(ctx context.Context, tx pgx.Tx, product uint64, excess int64) error {
	_, err := tx.Exec(ctx, strings.ReplaceAll(cancelSQL, "DESC", "ASC"), product, excess)
	return stores.Failed("cancelling the oldest", err)
}

// unsureShop is row_lock whose COMMIT is not answered now and then. It may take that for a failure,
// and give back the unit of an order that is there.
type unsureShop struct {
	lockingShop
	undoes bool
}

func (s unsureShop) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	t, err := s.lockingShop.Join(ctx, req)
	if err != nil || req.ID>>idBits%5 != 0 {
		return t, err
	}
	err = errors.New("the answer to COMMIT is lost")
	if s.undoes {
		_, failed := s.DB.Exec(ctx, `UPDATE inventory SET available = available + 1 WHERE product = $1`,
			req.Product)
		err = errors.Join(err, failed)
	}
	return Ticket{}, stores.Unknown("selling", err)
}

// older makes what a repair before this one should have made of Redis.
func older() target {
	before := map[uint64]int64{}
	return func(
		product uint64, v shown, available int64, decided map[string]bool,
	) (left int64, over []any) {
		now, over := unheld(product, v, available, decided)
		left, known := before[product]
		before[product] = now
		if !known {
			left = now
		}
		return left, over
	}
}

// ignoresHolds takes what is held for free.
func ignoresHolds(
	product uint64, v shown, available int64, decided map[string]bool,
) (left int64, over []any) {
	_, over = unheld(product, v, available, decided)
	return available, over
}

// unreturned ends holds whose time is over, and their units do not come back.
func unreturned() target {
	lost := map[uint64]map[string]bool{}
	return func(
		product uint64, v shown, available int64, decided map[string]bool,
	) (left int64, over []any) {
		left, over = unheld(product, v, available, decided)
		for id, until := range v.holds {
			if until <= v.now && !decided[id] {
				if lost[product] == nil {
					lost[product] = map[string]bool{}
				}
				lost[product][id] = true
			}
		}
		return left - int64(len(lost[product])), over
	}
}

// clockShop takes off a position what a room is thought to have admitted since it was looked at. It
// stands for two servers that are asked in turn, and the clock of one is two seconds fast.
type clockShop struct {
	roomShop
	opened time.Time
	asked  atomic.Int64
}

func newClockShop(s roomShop) Shop { return &clockShop{roomShop: s, opened: time.Now()} }

func (s *clockShop) Poll(ctx context.Context, req PollRequest) (Progress, error) {
	p, err := s.roomShop.Poll(ctx, req)
	if p.State == waiting {
		clock := time.Now().Add(time.Duration(s.asked.Add(1)%2) * 2 * time.Second)
		p.Position = max(1, p.Position-clock.Sub(s.opened).Milliseconds()/100)
	}
	return p, err
}

// fixedWindow counts the joins of windows of time, each as long as a full bucket takes to fill. The
// first window is nearly over when the first join comes.
const fixedWindow = `
	local t = redis.call('TIME')
	local now, counts = t[1] * 1000000 + t[2], {}
	for i = 1, 2 do
		local rate, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
		redis.call('HSETNX', KEYS[i], 'first', string.format('%d', now))
		local since = now - redis.call('HGET', KEYS[i], 'first')
		counts[i] = math.floor(since * rate / burst / 1000000 + 0.7)
		if tonumber(redis.call('HGET', KEYS[i], counts[i]) or 0) >= burst then return 0 end
	end
	for i = 1, 2 do redis.call('HINCRBY', KEYS[i], counts[i], 1) end
	return string.format('%d', now)`

// trustingShop takes an address from a header of the request, which bots fill as they like.
type trustingShop struct{ roomShop }

func (s trustingShop) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	if strings.HasPrefix(req.User, "bot-") {
		req.IP = "for " + req.User
	}
	return s.roomShop.Join(ctx, req)
}

// believes does what a callback says, whatever has become of the order.
func believes(ctx context.Context, st *opened, key string, captured bool) error {
	if !captured {
		return calledBack(ctx, st, key, captured)
	}
	_, err := st.DB.Exec(ctx, `WITH paid AS (UPDATE orders SET state = 'paid' WHERE key = $1 RETURNING key)
		UPDATE attempts SET state = 'paid' FROM paid WHERE attempts.key = paid.key`, key)
	return stores.Failed("believing the provider", err)
}

// keepMoney cancels an order and frees its unit, and leaves the payment as it is.
func (t *payments) keepMoney(ctx context.Context, d due, why error) error {
	if !errors.Is(why, errSilent) {
		return t.compensate(ctx, d, why)
	}
	_, err := t.DB.Exec(ctx, `WITH over AS (UPDATE orders SET state = 'cancelled',
			ended_at = clock_timestamp() WHERE key = $1 AND state = 'pending' RETURNING key, product),
		freed AS (UPDATE inventory SET available = available + 1 FROM over
			WHERE inventory.product = over.product)
		UPDATE attempts SET state = 'compensated' FROM over WHERE attempts.key = over.key`, d.Key)
	return stores.Failed("keeping money", err)
}

// noEdge lets everybody through.
type noEdge struct{ roomShop }

func (s noEdge) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	return s.wait(ctx, req, 0)
}

// keepUnit gives no unit back.
func (t *payments) keepUnit(ctx context.Context, d due, err error) error {
	if err := t.compensate(ctx, d, err); err != nil {
		return err
	}
	return t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE inventory SET available = available - 1 WHERE product = $1
			AND available > 0`, d.Product)
		return stores.Failed("losing a unit", err)
	})
}
