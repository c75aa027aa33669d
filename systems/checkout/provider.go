package checkout

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// provider captures money and gives it back. It stands for somebody else's service: its log has
// every payment, on connections and in tables of its own, so that neither a crash of the shop nor
// a rollback undoes one. It is idempotent: the middleware of package idem is in front of it, and
// the keys are those that the shop's gateway mints. What became of a request it says in its answer,
// and again in callbacks.
type provider struct {
	db     *stores.Postgres
	params Params
	front  http.Handler
	busy   sync.WaitGroup
	// called is what the shop does about a callback. pause is sut.Pause until the provider closes,
	// which close begins.
	shop   *opened
	called callback
	pause  func(time.Duration) bool
	close  context.CancelFunc
	// since is when the first request with a slow key came.
	since sync.Map
}

var (
	// errDeclined: the provider captures nothing, for good.
	errDeclined = errors.New("declined")
	// errSilent: the provider does not answer in time. Whether it captures is not known.
	errSilent = errors.New("the provider does not answer")
	errAnswer = errors.New("an unexpected answer of the provider")
)

// openProvider makes the provider that a payer's process asks.
func openProvider(ctx context.Context, st *opened, called callback) (*provider, error) {
	cfg := st.Config
	cfg.MaxConns = providerConns
	db, err := stores.OpenPostgres(ctx, cfg, "provider", nil)
	open, closing := context.WithCancel(context.WithoutCancel(ctx))
	p := &provider{db: db, params: st.Params, close: closing,
		shop: st, called: called, pause: func(d time.Duration) bool { return sut.Pause(open, d) }}
	p.front = &idem.Middleware{Store: providerKeys{db}, Next: http.HandlerFunc(p.capture)}
	return p, err
}

const providerConns = 4

// Close waits for requests that the provider is still working on.
func (p *provider) Close() error {
	p.close()
	p.busy.Wait()
	p.db.Close()
	return nil
}

func (p *provider) silent(key string) bool { return chance(key, "silent") < p.params.Silent }

// Capture asks for the price of a unit. The provider works on, whether the shop waits or not.
func (p *provider) Capture(ctx context.Context, key string) error {
	if p.silent(key) {
		if chance(key, "unheard") < 0.5 {
			p.busy.Go(func() { _ = p.serve(context.WithoutCancel(ctx), key) }) // the answer is lost
		}
		sut.Pause(ctx, p.params.PayTimeout.D())
		return errSilent
	}
	answer := make(chan error, 1)
	p.busy.Go(func() { answer <- p.serve(context.WithoutCancel(ctx), key) })
	patience := time.NewTimer(p.params.PayTimeout.D())
	defer patience.Stop()
	select {
	case err := <-answer:
		return err
	case <-patience.C:
		return errSilent
	case <-ctx.Done():
		return fmt.Errorf("capturing: %w", ctx.Err())
	}
}

// chance is a number in [0, 1) that depends on a key alone.
func chance(key, of string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(of + key)) // it never fails
	return float64(h.Sum32()%10_000) / 10_000
}

// serve is a request on its way through the provider's front.
func (p *provider) serve(ctx context.Context, key string) error {
	takes := p.params.PayTime.D()
	if chance(key, "slow") < p.params.Slow {
		since, _ := p.since.LoadOrStore(key, time.Now())
		takes = p.params.SlowTime.D() - time.Since(since.(time.Time))
	}
	sut.Pause(ctx, takes)
	r, err := idem.Request{Key: key, Method: http.MethodPost, Path: "/captures",
		Body: fmt.Appendf(nil, `{"amount":%d}`, p.params.Price)}.HTTP(ctx)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	var answer idem.Recorder
	p.front.ServeHTTP(&answer, r)
	switch kept := answer.Response(); kept.Status {
	case http.StatusCreated:
	case http.StatusPaymentRequired, http.StatusGone:
		err = errDeclined
	default:
		return fmt.Errorf("%w: status %d: %s", errAnswer, kept.Status, kept.Body)
	}
	p.busy.Go(func() { p.callBack(ctx, key, err == nil) })
	return err
}

// callBack tells the shop what became of a payment, at once, and again slow_time later: by then the
// order is paid, or the shop has given it up. Of a silent payment the first callback is lost.
func (p *provider) callBack(ctx context.Context, key string, captured bool) {
	pauses := []time.Duration{0, p.params.SlowTime.D()}
	if p.silent(key) {
		pauses = pauses[1:]
	}
	for _, d := range pauses {
		if !p.pause(d) {
			return
		}
		_, err := p.db.Exec(ctx, `INSERT INTO provider_callbacks (key, captured) VALUES ($1, $2)`, key,
			captured)
		if err != nil || p.called(ctx, p.shop, key, captured) != nil {
			return // nobody calls for a third time
		}
	}
}

// capture is the handler behind the middleware. What it writes is committed with the answer.
func (p *provider) capture(w http.ResponseWriter, r *http.Request) {
	x := idem.ExecutionOf(r.Context())
	if chance(x.Key, "declined") < p.params.Declined {
		idem.Write(w, http.StatusPaymentRequired, idem.Failure{Code: "declined"})
		return
	}
	_, err := x.Claim.(*providerClaim).tx.Exec(r.Context(), `INSERT INTO provider_payments
		(key, kind, amount) VALUES ($1, 'capture', $2)`, x.Key, p.params.Price)
	if err != nil {
		idem.Write(w, http.StatusInternalServerError, idem.Failure{Code: "failed",
			Message: err.Error()})
		return
	}
	idem.Write(w, http.StatusCreated, struct{}{})
}

// Void ends what a key stands for: what was captured is refunded, and nothing will be captured
// any more. It may be asked again.
func (p *provider) Void(ctx context.Context, key string) error {
	err := p.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO provider_keys (key, fingerprint, status)
			VALUES ($1, '', $2) ON CONFLICT (key) DO NOTHING`, key, http.StatusGone)
		if err != nil || tag.RowsAffected() == 1 {
			return err // a capture that comes later finds this
		}
		if _, err = tx.Exec(ctx, `SELECT FROM provider_keys WHERE key = $1 FOR UPDATE`, key); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO provider_payments (key, kind, amount)
			SELECT key, 'refund', amount FROM provider_payments AS c WHERE key = $1 AND kind = 'capture'
			AND NOT EXISTS (SELECT FROM provider_payments WHERE key = $1 AND kind = 'refund')`, key)
		return err
	})
	return stores.Failed("voiding a payment", err)
}

// providerKeys are the provider's keys. A claim is a transaction that has written the key, so that
// another request with it waits; the payment and the answer are committed together.
type providerKeys struct{ *stores.Postgres }

// providerClaim is a transaction; it needs neither fences nor notes, because a claim that is not
// finished has had no effect.
type providerClaim struct {
	tx  pgx.Tx
	key string
}

// Begin claims a key, or reads what is kept.
func (s providerKeys) Begin(
	ctx context.Context, req idem.Request,
) (idem.Claim, *idem.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return nil, nil, stores.Failed("beginning a payment", err)
	}
	c := &providerClaim{tx, req.Key}
	tag, err := tx.Exec(ctx, `INSERT INTO provider_keys (key, fingerprint) VALUES ($1, $2)
		ON CONFLICT (key) DO NOTHING`, req.Key, req.Fingerprint)
	if err == nil && tag.RowsAffected() == 1 {
		return c, nil, nil
	}
	var kept idem.Response
	var fingerprint string
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT fingerprint, status, type, answer FROM provider_keys
			WHERE key = $1`, req.Key).Scan(&fingerprint, &kept.Status, &kept.Type, &kept.Body)
	}
	if err == nil && kept.Status != http.StatusGone && fingerprint != req.Fingerprint {
		err = idem.ErrOtherBody
	}
	_ = c.Abandon(context.WithoutCancel(ctx)) // it has only read
	return nil, &kept, err
}

func (c *providerClaim) Fence() int64                       { return 0 }
func (c *providerClaim) Again() bool                        { return false }
func (c *providerClaim) Noted() []byte                      { return nil }
func (c *providerClaim) Note(context.Context, []byte) error { return nil }

// Finish keeps the answer, and makes the payment.
func (c *providerClaim) Finish(ctx context.Context, a idem.Response) error {
	_, err := c.tx.Exec(ctx, `UPDATE provider_keys SET status = $2, type = $3, answer = $4
		WHERE key = $1`, c.key, a.Status, a.Type, a.Body)
	if err != nil {
		return errors.Join(stores.Unknown("keeping an answer", err), c.Abandon(ctx))
	}
	if err := c.tx.Commit(ctx); err != nil {
		return stores.Unknown("making a payment", err)
	}
	return nil
}

// Abandon makes no payment.
func (c *providerClaim) Abandon(ctx context.Context) error {
	if err := c.tx.Rollback(ctx); err != nil {
		return stores.Unknown("abandoning a payment", err)
	}
	return nil
}
