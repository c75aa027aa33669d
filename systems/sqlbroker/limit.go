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
	messages
	rates *rates
	// scrapes remembers what was told of the queues last.
	scrapes *scrapes
}

func newLimited(m messages) *limited {
	l := &limited{messages: m, rates: newRates(m.base().DB)}
	l.scrapes = &scrapes{read: l.scrape, now: time.Now}
	return l
}

// Publish takes a token for each message.
func (l *limited) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	if err := l.rates.take(ctx, queue, len(p.Messages)); err != nil {
		return 0, err
	}
	return l.messages.Publish(ctx, queue, p)
}

// Receive takes a token.
func (l *limited) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	if err := l.rates.take(ctx, queue, 1); err != nil {
		return nil, err
	}
	return l.messages.Receive(ctx, queue, d)
}

// Create makes a queue, and forgets what was known of one with this name.
func (l *limited) Create(ctx context.Context, queue string, s QueueSettings) error {
	err := l.messages.Create(ctx, queue, s)
	l.rates.forget(queue)
	return err
}

// rates are the token buckets of one server. A bucket holds the tokens of a second;
// more than that are lent to who asks for more at once, and the others wait longer.
type rates struct {
	read func(ctx context.Context, queue string) (perSecond int, token []byte, err error)
	now  func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	perSecond int
	token     []byte    // the hash of the queue's token, if it has one
	asked     time.Time // when somebody last went to read them
	known     time.Time // when they were so
	tokens    float64
	filled    time.Time
}

const (
	// settingAge is how old a server's idea of a queue's rate and token may be before it
	// reads them again.
	settingAge = time.Second
	// tokenAge is how old its idea of a token may be when it goes by it: nobody is let in by
	// what was true longer ago. Rates may be older while they cannot be read.
	tokenAge = 2 * time.Second
)

func newRates(db *stores.Postgres) *rates {
	read := func(ctx context.Context, queue string) (perSecond int, token []byte, err error) {
		err = db.Row(ctx, `SELECT rate_per_s, token FROM queues WHERE queue = $1`, []any{queue},
			&perSecond, &token)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, nil, ErrUnknownQueue
		}
		if err != nil {
			return 0, nil, stores.Failed("reading the rate of a queue", err)
		}
		return perSecond, token, nil
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

// tokenOf is the hash of a queue's token, none if it has none.
func (r *rates) tokenOf(ctx context.Context, queue string) ([]byte, error) {
	if err := r.learn(ctx, queue); err != nil {
		return nil, err
	}
	if token, fresh := r.lately(queue); fresh {
		return token, nil
	}
	return r.learnNow(ctx, queue)
}

// lately is the hash of a queue's token, if it was that lately.
func (r *rates) lately(queue string) (token []byte, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[queue]
	if b == nil || r.now().Sub(b.known) >= tokenAge {
		return nil, false
	}
	return b.token, true
}

// forget has the settings of a queue read again.
func (r *rates) forget(queue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.buckets[queue]; b != nil {
		b.asked, b.known = time.Time{}, time.Time{}
	}
}

// learn reads a queue's rate and token if what is known of them is old. While they cannot be
// read it leaves what is known.
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
	_, err := r.learnNow(ctx, queue)
	if err != nil && b != nil && !errors.Is(err, ErrUnknownQueue) {
		return nil // what is known is good enough for a rate; see tokenOf
	}
	return err
}

// learnNow reads a queue's rate and token, and returns the token's hash.
func (r *rates) learnNow(ctx context.Context, queue string) ([]byte, error) {
	began := r.now()
	rate, token, err := r.read(ctx, queue)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[queue]
	if b == nil {
		b = &bucket{tokens: float64(rate), filled: began, asked: began}
		r.buckets[queue] = b
	}
	if !began.Before(b.known) { // nobody has read later than that
		b.perSecond, b.token, b.known = rate, token, began
	}
	return token, nil
}
