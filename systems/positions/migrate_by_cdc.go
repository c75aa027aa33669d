package positions

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// migrateByCDC moves the history to another database while it is written.
//
// The idea: a logical replication slot retains changes from an LSN on, and exports the snapshot at
// exactly that LSN. The mover copies the snapshot and then applies the changes in order; one
// transaction holds a batch and its LSN, and the slot is confirmed after that. When the new side is
// nearly up to date the old one is frozen: writers wait. Once the last change is applied, both
// sides are compared. If they are equal, all requests go to the new side and the old one is
// emptied; if not, the migration begins again.
//
// The guarantee: what is acknowledged before, during or after the migration is in the history once,
// what is erased is on neither side, and no reader sees the past fall back, whoever dies.
//
// It gives up: a short pause for writers, and disk for the WAL that the slot retains. Until the
// next batch an erased driver's rows remain on the new side, which no request reads yet. Postgres
// must run with wal_level = logical. How it is judged, and why, is in
// docs/decisions/2026-11-27-a-migration-is-judged-by-its-history.md.
func migrateByCDC() variant {
	return migrating(variant{Name: "migrate_by_cdc",
		Idea: "one_table that moves to another one: a snapshot, the changes since from the log, a " +
			"comparison, and a cut-over",
		Guarantees: "what is acknowledged in any phase is kept once, and what is erased on neither side",
		GivesUp:    "a pause for writers at the cut-over, and disk for the WAL that the slot retains",
	}, move{})
}

// move is how a design migrates.
type move struct {
	// late makes the slot when the snapshot is copied; early confirms what is not applied yet.
	// Neither compares the two sides.
	late, early bool
}

// The phases of a migration, in their order.
const (
	phaseWaiting   = "waiting"   // there is little to move yet
	phaseStreaming = "streaming" // the snapshot is copied, changes are applied
	phaseFrozen    = "frozen"    // writers wait
	phaseMoved     = "moved"     // requests go to the new side
	phaseDone      = "done"      // and the old one is empty
)

// The two sides of the migration. No transaction writes to both of these, so that they act as two
// databases; keys, archive and the phase belong to neither.
const (
	oldSide = "pings"
	newSide = "pings_next"
)

//go:embed migrate_by_cdc.sql
var migrationSchema string

// migrating completes a design that is on the old side first.
func migrating(v variant, m move) variant {
	v.Open = func(_ context.Context, st *opened) (Tracker, error) { return moving{st}, nil }
	v.Roles = []role{
		{Name: "history", Summary: "packs what is new in the history into the archive",
			Places: []string{placeCollected, placeKept}, Step: packCurrent},
		{Name: "mover", Summary: "copies the history to the new side, and applies its changes there",
			Single: true, Places: []string{placeCopied, placeStreamed}, Conns: 3,
			Do: func(ctx context.Context, st *opened) error { return mover{st, m}.run(ctx) }},
	}
	v.State = design.State[Params]{Schema: migrationSchema,
		Empty: []string{"pings", "pings_next", "archive"},
		Ready: func(ctx context.Context, st *opened) error {
			var level string
			var may bool
			err := st.DB.Row(ctx, `SELECT current_setting('wal_level'), rolreplication OR rolsuper
				FROM pg_roles WHERE rolname = current_user`, nil, &level, &may)
			switch {
			case err != nil:
				return stores.Failed("asking whether the log can be followed", err)
			case level != "logical":
				return fmt.Errorf("wal_level is %s; expected logical, without which Postgres shows nobody "+
					"its log", level)
			case !may:
				return errors.New("the user of Postgres may not follow its log; expected the " +
					"attribute REPLICATION")
			}
			return nil
		},
		Pending: func(ctx context.Context, st *opened) (n int64, what string, err error) {
			var phase string
			var there int
			err = st.DB.Row(ctx, `SELECT phase, (SELECT count(*) FROM pings),
				(SELECT count(*) FROM pings WHERE NOT archived) +
				(SELECT count(*) FROM pings_next WHERE NOT archived) FROM migration`, nil, &phase, &there, &n)
			if phase != phaseDone && (phase != phaseWaiting || there >= st.Params.MoveAfter) {
				n++
			}
			return n, fmt.Sprintf("the migration is %s, and the rest are pings that are not archived",
				phase), stores.Failed("asking for the phase", err)
		},
		Audit: func(ctx context.Context, st *opened) (any, error) {
			phase, err := phaseNow(ctx, st)
			if err != nil {
				return nil, err
			}
			if sideOf(phase) == newSide { // what is left on the old one is there twice, or not erased
				return audit(ctx, st, "(TABLE pings_next UNION ALL TABLE pings) AS both_sides", nil)
			}
			return audit(ctx, st, oldSide, nil)
		}}
	return v
}

// phaseNow is the phase of the migration.
func phaseNow(ctx context.Context, st *opened) (phase string, err error) {
	err = st.DB.Row(ctx, `SELECT phase FROM migration`, nil, &phase)
	return phase, stores.Failed("asking for the phase", err)
}

// sideOf is where the history is in a phase.
func sideOf(phase string) string {
	if phase == phaseMoved || phase == phaseDone {
		return newSide
	}
	return oldSide
}

// errFrozen says that writers have to wait.
var errFrozen = errors.New("the history is frozen")

// thawPause is how long a writer waits before it looks again.
const thawPause = 10 * time.Millisecond

// moving is an API while the history moves.
type moving struct{ *opened }

// sqlShare is the advisory lock that each writing transaction shares, and sqlFreeze its exclusive
// side, with which the mover waits for them before it freezes the history. Postgres grants advisory
// locks in the order of requests, so that neither starves; row locks can be overtaken.
const (
	sqlShare  = `SELECT pg_advisory_xact_lock_shared(hashtext(current_schema()))`
	sqlFreeze = `SELECT pg_advisory_xact_lock(hashtext(current_schema()))`
)

// write does something on the side where the history is, which stays there until the end of the
// transaction.
func (m moving) write(ctx context.Context, do func(context.Context, pgx.Tx, table) error) error {
	for {
		err := m.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, sqlShare); err != nil {
				return err
			}
			var phase string // as it is now that the lock is there
			err := tx.QueryRow(ctx, `SELECT phase FROM migration`).Scan(&phase)
			switch {
			case err != nil:
				return err
			case phase == phaseFrozen:
				return errFrozen
			}
			return do(ctx, tx, table{m.opened, sideOf(phase)})
		})
		if !errors.Is(err, errFrozen) || !sut.Pause(ctx, thawPause) {
			return err
		}
	}
}

// Ping inserts a row.
func (m moving) Ping(ctx context.Context, req PingRequest) (Pinged, error) {
	err := m.write(ctx, func(ctx context.Context, tx pgx.Tx, t table) error {
		return t.ping(ctx, tx, req)
	})
	return Pinged{req.Seq}, failed("keeping a ping", err)
}

// Erase deletes on the side where the history is. What the old side still has goes with the rest of
// it, or in a transaction of its own.
func (m moving) Erase(ctx context.Context, req DriverRequest) (api.Nothing, error) {
	moved := false
	err := m.write(ctx, func(ctx context.Context, tx pgx.Tx, t table) error {
		moved = t.name == newSide
		return t.erase(ctx, tx, req.Driver)
	})
	if err != nil {
		return api.Nothing{}, failed("erasing a driver", err)
	}
	if moved {
		if _, err := m.DB.Exec(ctx, `DELETE FROM pings WHERE driver = $1`, req.Driver); err != nil {
			return api.Nothing{}, stores.Unknown("erasing a driver from the old side", err)
		}
	}
	return api.Nothing{}, nil
}

// Latest reads the last row of a driver.
func (m moving) Latest(ctx context.Context, req DriverRequest) (Point, error) {
	return last(m.Track(ctx, TrackRequest{Driver: req.Driver, Most: 1}))
}

// Track reads the side where the history is, in the snapshot that says so: the old side is emptied
// by deleting, which no earlier snapshot sees.
func (m moving) Track(ctx context.Context, req TrackRequest) (list Track, err error) {
	if _, err := keyOf(ctx, m.DB, req.Driver); err != nil {
		return Track{}, err
	}
	err = m.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var phase string
		if err := tx.QueryRow(ctx, `SELECT phase FROM migration`).Scan(&phase); err != nil {
			return err
		}
		list, err = tracked(ctx, tx, sideOf(phase), req, unsealed)
		return err
	})
	return list, stores.Failed("reading a track", err)
}

// packCurrent archives the side that has the history.
func packCurrent(ctx context.Context, st *opened) (time.Duration, error) {
	return archiving(st, func(pack func(context.Context, pgx.Tx, table) error) error {
		return moving{st}.write(ctx, pack)
	})
}
