package positions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/stores"
)

// oneTable keeps everything in one table.
//
// The idea: a ping is a row, and the newest position is the last one by the primary key. A ping
// shares the lock of its driver's row; who erases takes that alone, deletes the rows and writes
// every object of the archive anew in which the driver is.
//
// The guarantee: what is acknowledged is read at once, and an erasure is over when it is answered.
//
// It gives up: a transaction for each ping, and an erasure that is cheap: it reads and writes all
// of a person's past.
func oneTable() variant {
	return variant{Name: "one_table",
		Idea:       "a row for each ping; erasing deletes rows, and writes the archive's objects anew",
		Guarantees: "a ping is read once it is acknowledged, an erasure is over when it is answered",
		GivesUp:    "a transaction for each ping; an erasure writes all objects in which the driver is",
		Open: func(_ context.Context, st *opened) (Tracker, error) {
			return table{st}, nil
		},
		Roles: []role{{Name: "history", Summary: "packs what is new in the history into the archive",
			Places: []string{placeCollected, placeKept}, Step: pack}},
		State: design.State[Params]{
			Pending: func(ctx context.Context, st *opened) (n int64, what string, err error) {
				err = st.DB.Row(ctx, `SELECT count(*) FROM pings WHERE NOT archived`, nil, &n)
				return n, fmt.Sprintf("%d pings are not archived", n), err
			}},
	}
}

// table is an API on Postgres alone.
type table struct{ *opened }

// Ping inserts a row, unless the driver is erased: who erases waits for the lock of the driver's
// row, or has it already.
func (t table) Ping(ctx context.Context, req PingRequest) (Pinged, error) {
	var erased bool
	err := t.DB.Row(ctx, `WITH who AS (
			SELECT key IS NULL AS erased FROM drivers WHERE driver = $1 FOR SHARE),
		put AS (INSERT INTO pings SELECT $1, $2, $3, $4, false FROM who WHERE NOT erased
			ON CONFLICT (driver, seq) DO NOTHING)
		SELECT erased FROM who`, []any{req.Driver, req.Seq, req.ID, plain(req.Lat, req.Lon)}, &erased)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Pinged{}, ErrUnknownDriver
	case err == nil && erased:
		return Pinged{}, ErrErased
	}
	return Pinged{req.Seq}, stores.Failed("keeping a ping", err)
}

// Latest reads the last row of a driver.
func (t table) Latest(ctx context.Context, req DriverRequest) (Point, error) {
	list, err := t.Track(ctx, TrackRequest{Driver: req.Driver, Most: 1})
	if err != nil || list.Found == 0 {
		return Point{}, err
	}
	return list.Points[0], nil
}

// Track reads the last rows of a driver. That the driver is erased is seen first: whoever is erased
// in between has no rows.
func (t table) Track(ctx context.Context, req TrackRequest) (Track, error) {
	if _, err := keyOf(ctx, t.DB, req.Driver); err != nil {
		return Track{}, err
	}
	return tracked(ctx, t.DB, req, func(p ping) (Point, error) { return point(p.Seq, p.Body) })
}

// Erase deletes a driver's rows and writes the objects of the archive anew, while no other object
// is made.
func (t table) Erase(ctx context.Context, req DriverRequest) (api.Nothing, error) {
	err := t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, alone); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE drivers SET key = NULL WHERE driver = $1`, req.Driver)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrUnknownDriver
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM pings WHERE driver = $1`, req.Driver)
		}
		if err != nil {
			return err
		}
		return rewrite(ctx, tx, req.Driver)
	})
	if errors.Is(err, ErrUnknownDriver) {
		return api.Nothing{}, ErrUnknownDriver
	}
	return api.Nothing{}, stores.Failed("erasing a driver", err)
}

// alone lets one transaction at a time change the archive.
const alone = `LOCK TABLE archive IN SHARE ROW EXCLUSIVE MODE`

// rewrite takes a driver out of the archive.
func rewrite(ctx context.Context, tx pgx.Tx, driver uint64) error {
	list, err := stores.CollectOn[struct {
		Name string
		Body []byte
	}](ctx, tx, `SELECT name, body FROM archive WHERE drivers @> ARRAY[$1::bigint]`, driver)
	for _, object := range list {
		pings, err := unpacked(object.Body)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(pings, func(p ping) bool { return p.Driver == driver })
		if _, err = tx.Exec(ctx, `DELETE FROM archive WHERE name = $1`, object.Name); err != nil {
			return err
		}
		if err = archive(ctx, tx, object.Name, kept); err != nil {
			return err
		}
	}
	return err
}

// packMost is how many pings an object has.
const packMost = 5000

// pack makes an object of what is not archived.
func pack(ctx context.Context, st *opened) (time.Duration, error) {
	again := st.Params.FlushEvery.D()
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, alone); err != nil {
			return err
		}
		list, err := stores.CollectOn[ping](ctx, tx, `UPDATE pings SET archived = true
			WHERE NOT archived AND (driver, seq) IN
				(SELECT driver, seq FROM pings WHERE NOT archived LIMIT $1)
			RETURNING driver, seq, op, body`, packMost)
		if err != nil || len(list) == 0 {
			return err
		}
		if len(list) == packMost {
			again = 0
		}
		st.Config.Passed(placeCollected)
		var name string
		if err := tx.QueryRow(ctx, `SELECT gen_random_uuid()`).Scan(&name); err != nil {
			return err
		}
		return archive(ctx, tx, name, list)
	})
	if err == nil {
		st.Config.Passed(placeKept)
	}
	return again, stores.Failed("archiving", err)
}
