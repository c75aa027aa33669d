package idempotency

import (
	"context"
	"strconv"

	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// checkThenInsert looks for the key first and writes it when all is done. It is wrong.
//
// The idea: select the key; if there is none, charge, and insert the key with the answer.
//
// The guarantee: none, once two requests with one key look at the same time.
//
// It gives up: correctness. Both find nothing, and both charge. So does who comes back after a
// crash between the charge and the insert.
func checkThenInsert() variant {
	return inPostgres(variant{
		Name:       "check_then_insert",
		Idea:       "SELECT the key; if there is none, charge, then INSERT it with the answer",
		Guarantees: "nothing, once two requests with one key come at once",
		GivesUp:    "correctness: both find no key, and both charge",
		Breaks:     []sut.Break{{Invariant: ChargedOnce, Under: sut.Load}},
		Roles:      []role{reaper()},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, 0, late{rows{st}})
		},
	})
}

type late struct{ rows }

// Begin looks, and leaves nothing behind.
func (s late) Begin(ctx context.Context, req idem.Request) (idem.Claim, *idem.Response, error) {
	kept, err := s.look(ctx, req)
	if kept != nil || err != nil {
		return nil, kept, err
	}
	return lateClaim{s.rows, req}, nil, nil
}

type lateClaim struct {
	rows
	req idem.Request
}

func (lateClaim) Fence() int64                       { return 0 }
func (lateClaim) Again() bool                        { return false }
func (lateClaim) Noted() []byte                      { return nil }
func (lateClaim) Note(context.Context, []byte) error { return nil }
func (lateClaim) Abandon(context.Context) error      { return nil }

// Finish inserts the key, unless another request has by now.
func (c lateClaim) Finish(ctx context.Context, a idem.Response) error {
	id, err := strconv.ParseInt(c.req.ID, 10, 64)
	if err == nil {
		_, err = c.DB.Exec(ctx, `INSERT INTO keys (key, fingerprint, op_id, method, path, body, state,
				locked_until, status, type, answer, done_at, expires_at)
			SELECT $1, $2, $3, $4, $5, $6, 'done', now, $7, $8, $9, now,
				now + $10::bigint * interval '1 microsecond' FROM clock_timestamp() AS now
			ON CONFLICT DO NOTHING`, c.req.Key, c.req.Fingerprint, id, c.req.Method, c.req.Path,
			c.req.Body, a.Status, a.Type, a.Body, c.Params.TTL.D().Microseconds())
	}
	return unsure("keeping an answer", err)
}
