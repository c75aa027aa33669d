package sqlbroker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// limited lets as many messages and demands through as each queue's rate allows.
type limited struct {
	Broker
	rates *rates
}

// Publish takes a token for each message.
func (l *limited) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	if err := l.rates.take(ctx, queue, len(p.Messages)); err != nil {
		return 0, err
	}
	return l.Broker.Publish(ctx, queue, p)
}

// Receive takes a token.
func (l *limited) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	if err := l.rates.take(ctx, queue, 1); err != nil {
		return nil, err
	}
	return l.Broker.Receive(ctx, queue, d)
}

// rates are the token buckets of one server. A bucket holds the tokens of a second;
// more than that are lent to who asks for more at once, and the others wait longer.
type rates struct {
	read func(ctx context.Context, queue string) (perSecond int, err error)
	now  func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	perSecond int
	asked     time.Time // when the setting was read last
	tokens    float64
	filled    time.Time
}

// settingAge is how old a server's idea of a queue's rate may be.
const settingAge = time.Second

func newRates(db *stores.Postgres) *rates {
	read := func(ctx context.Context, queue string) (perSecond int, err error) {
		err = db.Row(ctx, `SELECT rate_per_s FROM queues WHERE queue = $1`, []any{queue}, &perSecond)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, ErrUnknownQueue
		}
		if err != nil {
			return 0, stores.Failed("reading the rate of a queue", err)
		}
		return perSecond, nil
	}
	return &rates{read: read, now: time.Now, buckets: map[string]*bucket{}}
}

// take takes n tokens of a queue, or says how long to wait for the first of them.
func (r *rates) take(ctx context.Context, queue string, n int) error {
	if err := r.learn(ctx, queue); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[queue]
	if b == nil || b.perSecond == 0 {
		return nil
	}
	rate, now := float64(b.perSecond), r.now()
	b.tokens = min(rate, b.tokens+rate*now.Sub(b.filled).Seconds())
	b.filled = now
	if b.tokens < 1 {
		return &RateError{Wait: time.Duration((1 - b.tokens) / rate * float64(time.Second))}
	}
	b.tokens -= float64(n)
	return nil
}

// learn reads a queue's rate if what is known of it is old.
func (r *rates) learn(ctx context.Context, queue string) error {
	r.mu.Lock()
	now := r.now()
	b := r.buckets[queue]
	if b != nil && now.Sub(b.asked) < settingAge {
		r.mu.Unlock()
		return nil
	}
	if b != nil {
		b.asked = now // others go by what is known meanwhile
	}
	r.mu.Unlock()
	rate, err := r.read(ctx, queue)
	if err != nil {
		if b != nil && !errors.Is(err, ErrUnknownQueue) {
			return nil // what is known is good enough
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b = r.buckets[queue]; b == nil {
		b = &bucket{tokens: float64(rate), filled: now, asked: now}
		r.buckets[queue] = b
	}
	b.perSecond = rate
	return nil
}
