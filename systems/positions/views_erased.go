package positions

import (
	"context"
	"strconv"

	"stampede/harness/sut"
)

// viewsErased deletes what the API shows. It is wrong: log and archive keep a copy.
//
// The idea: positions are not sealed. Erasing deletes the driver's rows and newest position; what
// is still in the log is not written to the history any more.
//
// The guarantee: the API shows no position of an erased driver.
//
// It gives up: the erasure of log and archive. Rebuilding the newest positions from the log, or
// restoring the history from the archive, brings the driver back.
func viewsErased() variant {
	return twoPaths(variant{Name: "views_erased",
		Idea:       "a log and two paths in the clear; erasing deletes from the views of both",
		Guarantees: "the API shows no position of an erased driver",
		GivesUp:    "the erasure of log and archive, from which views are built again",
		Breaks:     []sut.Break{{Invariant: ErasedForGood, Under: sut.Load}},
	}, plan{
		seal: func(_ []byte, p ping) (ping, error) { return p, nil },
		open: func(_ []byte, p ping) (Point, error) { return unsealed(p) },
		insert: `WITH there AS (
				SELECT driver FROM drivers WHERE driver = ANY($1::bigint[]) AND key IS NOT NULL FOR SHARE)
			INSERT INTO pings SELECT driver, seq, op, body, true
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS p (driver, seq, op, body)
			JOIN there USING (driver)
			ON CONFLICT (driver, seq) DO NOTHING`,
		erase: func(ctx context.Context, st *opened, driver uint64) error {
			_, err := st.DB.Exec(ctx, `DELETE FROM pings WHERE driver = $1`, driver)
			if err == nil {
				err = st.Redis.HDel(ctx, st.Key(hashNewest), strconv.FormatUint(driver, 10)).Err()
			}
			return err
		},
	})
}
