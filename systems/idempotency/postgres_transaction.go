package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// postgresTransaction holds one transaction open from the claim to the answer.
//
// The idea: a transaction takes a lock on the key and keeps it while the provider charges; the
// row with the answer is written at its end. A crash rolls all of it back, and with it every
// trace of what was under way, so that each charge asks the provider first.
//
// The guarantee: one charge and one answer for each key. There is no lease that could end too
// early: a lock lasts as long as its connection. Should that break, the next one's fence keeps
// the provider from charging for the last.
//
// It gives up: a connection for as long as the provider takes, and a question to the provider
// for each new key. A server that sleeps keeps its keys locked until it wakes up. Nothing is left
// of a charge whose answer was lost, so that another amount which comes next is charged, too.
func postgresTransaction() variant {
	return inPostgres(variant{
		Name:       "postgres_transaction",
		Idea:       "a transaction locks the key, asks the provider, charges and keeps the answer",
		Guarantees: "one charge and one answer for each key; nothing that ends too early",
		GivesUp: "a connection while the provider charges, a question to it for each new key; " +
			"two amounts at once, if an answer is lost",
		Roles: []role{reaper()},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, st.Params.Wait.D(), locks{rows{st}})
		},
	})
}

type locks struct{ rows }

// lockClaim is a transaction that has the lock.
type lockClaim struct {
	locks
	req   idem.Request
	conn  *pgxpool.Conn
	tx    pgx.Tx
	fence int64
}

// Begin looks for an answer, without a lock, and then takes the lock and looks again.
func (s locks) Begin(ctx context.Context, req idem.Request) (idem.Claim, *idem.Response, error) {
	if kept, err := s.look(ctx, req); kept != nil || err != nil {
		return nil, kept, err
	}
	within, cancel := context.WithTimeout(ctx, stores.Timeout(s.Config))
	defer cancel()
	conn, err := s.DB.Pool.Acquire(within)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for a connection: %w: %w", sut.ErrRefused, err)
	}
	c := &lockClaim{locks: s, req: req, conn: conn}
	kept, err := c.lock(within)
	if kept != nil || err != nil {
		_ = c.Abandon(context.WithoutCancel(ctx)) // nothing was done
		return nil, kept, err
	}
	return c, nil, nil
}

func (c *lockClaim) lock(ctx context.Context) (*idem.Response, error) {
	var err error
	if c.tx, err = c.conn.Begin(ctx); err != nil {
		return nil, stores.Failed("beginning a transaction", err)
	}
	var mine bool
	err = c.tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))`,
		c.req.Key).Scan(&mine)
	switch {
	case err != nil:
		return nil, stores.Failed("locking a key", err)
	case !mine:
		return nil, idem.ErrInProgress
	}
	var kept idem.Response
	var same bool
	err = c.tx.QueryRow(ctx, `SELECT fingerprint = $2, status, type, answer FROM keys WHERE key = $1`,
		c.req.Key, c.req.Fingerprint).Scan(&same, &kept.Status, &kept.Type, &kept.Body)
	switch {
	case err == nil && !same:
		return nil, idem.ErrOtherBody
	case err == nil:
		return &kept, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, stores.Failed("looking for a key", err)
	}
	err = c.tx.QueryRow(ctx, `SELECT nextval('claim_fences')`).Scan(&c.fence)
	return nil, stores.Failed("taking a fence", err)
}

func (c *lockClaim) Fence() int64                       { return c.fence }
func (c *lockClaim) Again() bool                        { return true }
func (c *lockClaim) Noted() []byte                      { return nil }
func (c *lockClaim) Note(context.Context, []byte) error { return nil }

// Finish writes the row and commits.
func (c *lockClaim) Finish(ctx context.Context, a idem.Response) error {
	id, err := strconv.ParseInt(c.req.ID, 10, 64)
	if err == nil {
		_, err = c.tx.Exec(ctx, `INSERT INTO keys (key, fingerprint, op_id, method, path, body, state,
				fence, locked_until, status, type, answer, done_at, expires_at)
			SELECT $1, $2, $3, $4, $5, $6, 'done', $7, now, $8, $9, $10, now,
				now + $11::bigint * interval '1 microsecond' FROM clock_timestamp() AS now`,
			c.req.Key, c.req.Fingerprint, id, c.req.Method, c.req.Path, c.req.Body, c.fence, a.Status,
			a.Type, a.Body, c.Params.TTL.D().Microseconds())
	}
	if err != nil {
		return errors.Join(unsure("keeping an answer", err), c.Abandon(ctx))
	}
	err = c.tx.Commit(ctx)
	c.conn.Release()
	return unsure("keeping an answer", err)
}

// Abandon rolls back, which ends the lock.
func (c *lockClaim) Abandon(ctx context.Context) (err error) {
	if c.tx != nil {
		err = c.tx.Rollback(ctx)
	}
	c.conn.Release()
	return unsure("rolling back", err)
}
