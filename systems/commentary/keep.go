package commentary

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// placeCommitted is when a change is kept, and nobody has been told.
const placeCommitted = "committed"

// keep adds a change to Postgres, once, and gives it its version, and the comment that it is about.
// The lock on the match's row, which it takes, puts the changes of a match in the order of their
// commits.
func keep(ctx context.Context, st *opened, c *ChangeRow, also ...string) error {
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `WITH now AS (
				INSERT INTO matches AS m VALUES ($1, 1)
				ON CONFLICT (id) DO UPDATE SET version = m.version + 1 RETURNING version),
			new AS (INSERT INTO comments (match_id, id, version, ball, said)
				SELECT $1, version, version, $4, $5 FROM now WHERE $3::bigint = 0 RETURNING id, ball),
			old AS (UPDATE comments c SET version = now.version, said = $5 FROM now
				WHERE c.match_id = $1 AND c.id = $3 RETURNING c.id, c.ball)
			INSERT INTO changes (op, match_id, version, comment, ball, said)
			SELECT $2, $1, now.version, about.id, about.ball, $5
			FROM now, (TABLE new UNION ALL TABLE old) about
			ON CONFLICT (op) DO NOTHING RETURNING version, comment, ball`, c.Match, c.ID, c.Comment, c.Ball, c.Text).
			Scan(&c.Version, &c.Comment, &c.Ball)
		for _, sql := range also {
			if err == nil {
				_, err = tx.Exec(ctx, sql, fmt.Sprint(c.Match))
			}
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) { // it is kept already, or there is no such comment
		err = st.DB.Row(ctx, `SELECT version, comment, ball FROM changes WHERE op = $1`, []any{c.ID},
			&c.Version, &c.Comment, &c.Ball)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoComment
		}
	}
	return stores.Failed("keeping a change", err)
}

// kept reads a match in Postgres, as who looks is shown it.
func kept(ctx context.Context, st *opened, match uint64) (view, error) {
	return rows(ctx, st, PastRequest{Match: match, Before: maxID, Most: newest})
}

// rows reads the comments of a match that are not archived.
func rows(ctx context.Context, st *opened, req PastRequest) (view, error) {
	v, _, err := rowsBeside(ctx, st.DB, "(SELECT 0::bigint AS n)", req)
	return v, stores.Failed("reading a match", err)
}

// rowsBeside reads them and, at the same moment, the number n of a table's row.
func rowsBeside(
	ctx context.Context, db *stores.Postgres, table string, req PastRequest,
) (v view, n int64, err error) {
	type row struct {
		Comment
		Now, N int64
	}
	list, err := stores.Collect[row](ctx, db, `SELECT coalesce(c.id, 0), coalesce(c.version, 0),
			coalesce(c.ball, ''), coalesce(c.said, ''), coalesce(m.version, 0), b.n
		FROM `+table+` b LEFT JOIN matches m ON m.id = $1
			LEFT JOIN LATERAL (SELECT * FROM comments WHERE match_id = m.id AND id < $2
				ORDER BY id DESC LIMIT $3) c ON true
		ORDER BY c.id DESC`, req.Match, req.Before, req.Most)
	v.comments = []Comment{}
	for _, r := range list {
		v.version, n = r.Now, r.N
		if r.ID > 0 {
			v.comments = append(v.comments, r.Comment)
		}
	}
	return v, n, err
}
