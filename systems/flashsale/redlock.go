package flashsale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redlock is the naive read-then-write inside a lock for each item in Redis (redsync's Redlock,
// on one node). A purchase whose outcome is unknown keeps the lock until it expires. Postgres does
// not know of the lock: a holder that is stopped for longer lets two buyers in.
func redlock() variant {
	return counterRow().sells(variant{
		Name:       "redlock",
		Idea:       "read the counter, then write it, holding a distributed lock per item (redsync)",
		Guarantees: "never more orders than units, as long as no holder pauses until its lock expires",
		GivesUp:    "fencing, since Postgres does not check the lock; one purchase at a time",
		Needs:      []sut.Service{sut.Redis},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newRedlockShop(st, redisLocks(st)), nil
		},
	})
}

const (
	// redlockTries bounds the attempts at the lock.
	redlockTries = 100
	// redlockContenders is how many buyers of one item ask for its lock at a
	// time from this process.
	redlockContenders = 4
)

// lease is a lock that somebody has until a moment or until they return it.
type lease interface {
	Until() time.Time
	UnlockContext(context.Context) (bool, error)
}

// locks takes the lock of an item for an operation.
type locks func(ctx context.Context, item string, op uint64) (lease, error)

// redisLocks are Redlock's, on one node.
func redisLocks(st *opened) locks {
	redlocks, prefix := redsync.New(goredis.NewPool(st.Redis)), st.Key("lock:")
	expiry := redsync.WithExpiry(2 * stores.Timeout(st.Config))
	return func(ctx context.Context, item string, op uint64) (lease, error) {
		lock := redlocks.NewMutex(prefix+item, expiry,
			redsync.WithTries(redlockTries), redsync.WithRetryDelayFunc(lockDelay(op)))
		return lock, lock.LockContext(ctx)
	}
}

// redlockShop is naiveShop, one buyer of an item at a time.
type redlockShop struct {
	*naiveShop
	locks locks
	// turns maps items to channels of redlockContenders places: several may ask, so that the lock
	// decides, but the polling of a crowd would starve its holder of connections.
	turns sync.Map
}

func newRedlockShop(st *opened, l locks) *redlockShop {
	return &redlockShop{naiveShop: newNaiveShop(newBooks(st.DB, counterRow())), locks: l}
}

// Buy looks before and after it waits, so that those who come too late do not
// ask for the lock.
func (s *redlockShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	if order, over, err := s.look(ctx, req); over {
		return order, err
	}
	made, _ := s.turns.LoadOrStore(req.Item, make(chan struct{}, redlockContenders))
	turn := made.(chan struct{})
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		//nolint:errorlint // refused: it must not pass for an outcome unknown by ctx's end
		return Order{}, fmt.Errorf("waiting for %s: %v: %w", req.Item, ctx.Err(), ErrConflict)
	}
	if order, over, err := s.look(ctx, req); over {
		return order, err
	}
	return s.buyLocked(ctx, req)
}

// look says whether the purchase is over before it began.
func (s *redlockShop) look(ctx context.Context, req BuyRequest) (_ Order, over bool, _ error) {
	available, _, err := s.books.counter(ctx, req.Item)
	if err != nil || available > 0 {
		return Order{}, err != nil, err
	}
	order, err := s.books.soldOut(ctx, req)
	return order, true, err
}

// buyLocked is the purchase under the lock.
func (s *redlockShop) buyLocked(ctx context.Context, req BuyRequest) (Order, error) {
	lock, err := s.locks(ctx, req.Item, req.OpID)
	if err != nil {
		// Without the lock nothing was tried, whatever became of the lock.
		//nolint:errorlint // refused: it must not pass for what err may be
		return Order{}, fmt.Errorf("locking %s: %v: %w", req.Item, err, ErrConflict)
	}
	held, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	order, err := s.naiveShop.Buy(held, req)
	if err == nil || errors.Is(err, sut.ErrRefused) {
		// If this fails, the lock expires.
		_, _ = lock.UnlockContext(context.WithoutCancel(ctx))
	}
	return order, err
}

// lockDelay backs off linearly up to 10 ms. Buyers differ by the operation, so
// that those who met at the lock once do not meet there again.
func lockDelay(op uint64) redsync.DelayFunc {
	spread := time.Duration(op*0x9e3779b97f4a7c15>>54) * time.Microsecond // up to 1 ms
	return func(tries int) time.Duration {
		return time.Duration(min(tries, 10))*time.Millisecond + spread
	}
}
