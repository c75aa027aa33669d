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
	"stampede/harness/sut"
)

// oneTable keeps everything in one table.
//
// The idea: a ping is a row, and the newest position is the last one by the primary key. A ping
// takes a shared lock on its driver's row. An erasure takes the exclusive one, deletes the rows and
// rewrites every object of the archive that contains the driver.
//
// The guarantee: what is acknowledged is read at once, and an erasure is over when it is answered.
//
// It gives up: a transaction for each ping, and cheap erasures: each reads and rewrites the
// driver's whole past.
func oneTable() variant {
	return variant{Name: "one_table",
		Idea:       "a row for each ping; erasing deletes rows, and writes the archive's objects anew",
		Guarantees: "a ping is read once it is acknowledged, an erasure is over when it is answered",
		GivesUp:    "a transaction for each ping; an erasure writes all objects in which the driver is",
		Open: func(_ context.Context, st *opened) (Tracker, error) {
			return table{st, oldSide}, nil
		},
		Roles: []role{{Name: "history", Summary: "packs what is new in the history into the archive",
			Places: []string{placeCollected, placeKept},
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				return archiving(st, func(pack func(context.Context, pgx.Tx, table) error) error {
					return st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
						return pack(ctx, tx, table{st, oldSide})
					})
				})
			}}},
		State: design.State[Params]{
			Pending: func(ctx context.Context, st *opened) (n int64, what string, err error) {
				err = st.DB.Row(ctx, `SELECT count(*) FROM pings WHERE NOT archived`, nil, &n)
				return n, fmt.Sprintf("%d pings are not archived", n), err
			}},
	}
}

// table is an API on a table of a database alone.
type table struct {
	*opened
	name string
}

// Ping inserts a row.
func (t table) Ping(ctx context.Context, req PingRequest) (Pinged, error) {
	err := t.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return t.ping(ctx, conn, req)
	})
	return Pinged{req.Seq}, failed("keeping a ping", err)
}

// failed is stores.Failed, unless an error is a documented refusal.
func failed(doing string, err error) error {
	if errors.Is(err, sut.ErrRefused) {
		return err
	}
	return stores.Failed(doing, err)
}

// ping inserts a row, unless the driver is erased. The lock on the driver's row orders it before or
// after an erasure.
func (t table) ping(ctx context.Context, on stores.Querier, req PingRequest) error {
	list, err := stores.CollectOn[struct{ Erased bool }](ctx, on, `WITH who AS (
			SELECT key IS NULL AS erased FROM drivers WHERE driver = $1 FOR SHARE),
		put AS (INSERT INTO `+t.name+` SELECT $1, $2, $3, $4, false FROM who WHERE NOT erased
			ON CONFLICT (driver, seq) DO NOTHING)
		SELECT erased FROM who`, req.Driver, req.Seq, req.ID, plain(req.Lat, req.Lon))
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return ErrUnknownDriver
	case list[0].Erased:
		return ErrErased
	}
	return nil
}

// Latest reads the last row of a driver.
func (t table) Latest(ctx context.Context, req DriverRequest) (Point, error) {
	return last(t.Track(ctx, TrackRequest{Driver: req.Driver, Most: 1}))
}

// last is the first position of a track, if there is one.
func last(list Track, err error) (Point, error) {
	if err != nil || list.Found == 0 {
		return Point{}, err
	}
	return list.Points[0], nil
}

// Track reads the last rows of a driver. That the driver is erased is seen first: whoever is erased
// in between has no rows.
func (t table) Track(ctx context.Context, req TrackRequest) (list Track, err error) {
	if _, err := keyOf(ctx, t.DB, req.Driver); err != nil {
		return Track{}, err
	}
	err = t.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		list, err = tracked(ctx, conn, t.name, req, unsealed)
		return err
	})
	return list, stores.Failed("reading a track", err)
}

// unsealed reads a position that is not sealed.
func unsealed(p ping) (Point, error) { return point(p.Seq, p.Body) }

// Erase deletes a driver's rows and writes the objects of the archive anew.
func (t table) Erase(ctx context.Context, req DriverRequest) (api.Nothing, error) {
	err := t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return t.erase(ctx, tx, req.Driver)
	})
	return api.Nothing{}, failed("erasing a driver", err)
}

// erase does that while no other object is made.
func (t table) erase(ctx context.Context, tx pgx.Tx, driver uint64) error {
	if _, err := tx.Exec(ctx, lockArchive); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `UPDATE drivers SET key = NULL WHERE driver = $1`, driver)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrUnknownDriver
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM `+t.name+` WHERE driver = $1`, driver)
	}
	if err != nil {
		return err
	}
	return rewrite(ctx, tx, driver)
}

// lockArchive lets one transaction at a time change the archive.
const lockArchive = `LOCK TABLE archive IN SHARE ROW EXCLUSIVE MODE`

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
		if len(kept) == 0 {
			continue
		}
		if err = archive(ctx, tx, object.Name, kept); err != nil {
			return err
		}
	}
	return err
}

// packMost is how many pings an object has.
const packMost = 5000

// archiving makes an object of what is not archived, in a transaction of the caller's, and says
// when to look again.
func archiving(
	st *opened, within func(pack func(context.Context, pgx.Tx, table) error) error,
) (time.Duration, error) {
	packed := 0
	err := within(func(ctx context.Context, tx pgx.Tx, t table) (err error) {
		packed, err = t.pack(ctx, tx)
		return err
	})
	if err == nil && packed > 0 {
		st.Config.Passed(placeKept)
	}
	if packed == packMost {
		return 0, stores.Failed("archiving", err)
	}
	return st.Params.FlushEvery.D(), stores.Failed("archiving", err)
}

// pack makes an object, and says of how many pings.
func (t table) pack(ctx context.Context, tx pgx.Tx) (int, error) {
	if _, err := tx.Exec(ctx, lockArchive); err != nil {
		return 0, err
	}
	list, err := stores.CollectOn[ping](ctx, tx, `UPDATE `+t.name+` SET archived = true
		WHERE NOT archived AND (driver, seq) IN
			(SELECT driver, seq FROM `+t.name+` WHERE NOT archived LIMIT $1)
		RETURNING driver, seq, op, body`, packMost)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	t.Config.Passed(placeCollected)
	var name string
	if err := tx.QueryRow(ctx, `SELECT gen_random_uuid()`).Scan(&name); err != nil {
		return 0, err
	}
	return len(list), archive(ctx, tx, name, list)
}
