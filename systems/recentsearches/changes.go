package recentsearches

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
)

// The fail points between two steps of a change, and of a relay.
const (
	placeCommitted = "committed" // the change is kept, and in no list
	placeShown     = "shown"     // it is in the list, and nobody has noted that
)

// change is a change as it is kept, and the list after it.
type change struct {
	User      uint64
	Version   int64
	Op        uint64
	Term      string
	Forgotten bool
	Terms     []string
	outbox    int64  // its row there
	note      string // its writer's
}

// list is the list after a change.
func (c *change) list() List { return List{c.Version, c.Terms} }

// keep adds a change to Postgres. The lock on the user's row, which it takes, puts the changes of a
// user in the order of their commits, and gives each the list after it.
func keep(ctx context.Context, tx pgx.Tx, c *change) error {
	return tx.QueryRow(ctx, `WITH now AS (
			INSERT INTO users AS u VALUES ($1, 1, CASE WHEN $4 THEN '{}' ELSE ARRAY[$3::text] END)
			ON CONFLICT (id) DO UPDATE SET version = u.version + 1,
				terms = CASE WHEN $4 THEN array_remove(u.terms, $3)
					ELSE ($3::text || array_remove(u.terms, $3))[1:`+strconv.Itoa(most)+`] END
			RETURNING version, terms),
		kept AS (INSERT INTO changes (user_id, version, op, term, forgotten)
			SELECT $1, version, $2, $3, $4 FROM now)
		SELECT version, terms FROM now`, c.User, c.Op, c.Term, c.Forgotten).Scan(&c.Version, &c.Terms)
}

// plan is what a design that keeps changes in Postgres does of its own.
type plan struct {
	// beside writes in the transaction of a change; nil is nothing.
	beside func(ctx context.Context, tx pgx.Tx, c *change) error
	// then is called once a change is kept. It returns how soon all lists show it, in milliseconds.
	then func(ctx context.Context, st *opened, c *change) (within int64, err error)
}

// inPostgres completes a design by an API that keeps changes in Postgres, and the lists in Redis.
func inPostgres(v variant, d plan) variant {
	v.Open = func(_ context.Context, st *opened) (Recents, error) {
		return server{st, d, cached}, nil
	}
	v.Places = append(v.Places, placeCommitted)
	return v
}

// server is the API of a design that keeps changes in Postgres.
type server struct {
	*opened
	plan
	look func(ctx context.Context, st *opened, user uint64) (List, error)
}

// Search keeps a search.
func (s server) Search(ctx context.Context, req SearchRequest) (Kept, error) {
	return s.change(ctx, &change{User: req.User, Op: req.ID, Term: req.Term})
}

// Forget keeps that a term is forgotten.
func (s server) Forget(ctx context.Context, req ForgetRequest) (Kept, error) {
	return s.change(ctx, &change{User: req.User, Op: req.ID, Term: req.Term, Forgotten: true})
}

func (s server) change(ctx context.Context, c *change) (Kept, error) {
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := keep(ctx, tx, c)
		if err == nil && s.beside != nil {
			err = s.beside(ctx, tx, c)
		}
		if err == nil {
			err = pause(ctx, tx, s.Params.slow(c.Op))
		}
		return err
	})
	if err != nil {
		return Kept{}, stores.Failed("keeping a change", err)
	}
	s.Config.Passed(placeCommitted)
	within, err := s.then(ctx, s.opened, c)
	if err != nil {
		return Kept{}, stores.Unknown("showing a change that is kept", err)
	}
	return Kept{c.Version, within}, nil
}

// pause lets a transaction go on.
func pause(ctx context.Context, tx pgx.Tx, d time.Duration) error {
	if d == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, d.Seconds())
	return err
}

// Recent reads the list.
func (s server) Recent(ctx context.Context, req UserRequest) (List, error) {
	return s.look(ctx, s.opened, req.User)
}

// Login fetches the list, so that it is in Redis.
func (s server) Login(ctx context.Context, req LoginRequest) (List, error) {
	return s.look(ctx, s.opened, req.User)
}

// History reads changes.
func (s server) History(ctx context.Context, req HistoryRequest) (History, error) {
	return past(ctx, s.opened, req)
}

// stored reads a user's list in Postgres.
func stored(ctx context.Context, st *opened, user uint64) (List, error) {
	list, err := stores.Collect[List](ctx, st.DB,
		`SELECT version, terms FROM users WHERE id = $1`, user)
	if err != nil || len(list) == 0 {
		return List{Terms: []string{}}, stores.Failed("reading a list", err)
	}
	return list[0], nil
}

// outboxPending counts the rows of the outbox.
func outboxPending() design.State[Params] {
	return design.State[Params]{
		Pending: func(ctx context.Context, st *opened) (n int64, what string, err error) {
			err = st.DB.Row(ctx, `SELECT count(*) FROM outbox`, nil, &n)
			return n, fmt.Sprintf("%d changes may not be in the lists", n), err
		}}
}
