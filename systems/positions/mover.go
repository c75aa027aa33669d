package positions

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/walstream"
)

// The fail points of a mover.
const (
	placeCopied   = "copied"   // a snapshot is copied, and nobody knows
	placeStreamed = "streamed" // changes are applied and not confirmed, or the other way round
)

// mover moves the history.
type mover struct {
	*opened
	move
}

// copyParts is in how many parts drivers are copied, of copyMost drivers at most; a pause between
// two limits the load on the store. At most about flushMost changes are applied at once. There is
// no cut-over while the log is further ahead than nearEnd bytes.
const (
	copyParts = 20
	copyMost  = 200
	flushMost = 2000
	copyPause = 30 * time.Millisecond
	nearEnd   = 1 << 20
)

// run continues the migration from its current phase.
func (m mover) run(ctx context.Context) error {
	for ctx.Err() == nil {
		phase, err := phaseNow(ctx, m.opened)
		switch {
		case err != nil:
		case phase == phaseWaiting:
			var n int
			err = m.DB.Row(ctx, `SELECT count(*) FROM pings`, nil, &n)
			if err == nil && n >= m.Params.MoveAfter {
				err = m.backfill(ctx)
			}
		case phase == phaseMoved:
			err = m.finish(ctx)
		case phase != phaseDone:
			err = m.catchUp(ctx)
		}
		if err != nil {
			return stores.Failed("moving the history", err)
		}
		m.Config.Worked()
		sut.Pause(ctx, m.Params.FlushEvery.D())
	}
	return nil
}

// backfill begins anew: it makes the slot and copies the snapshot of exactly where the slot begins.
func (m mover) backfill(ctx context.Context) error {
	name, err := walstream.Name(ctx, m.DB)
	if err != nil {
		return err
	}
	conn, err := walstream.Connect(ctx, m.DB)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := m.clear(ctx, name); err != nil {
		return err
	}
	if m.late {
		if err := m.copyRows(ctx, ""); err != nil {
			return err
		}
	}
	made, err := pglogrepl.CreateReplicationSlot(ctx, conn, `"`+name+`"`, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Mode: pglogrepl.LogicalReplication,
			SnapshotAction: "EXPORT_SNAPSHOT"})
	if err != nil {
		return fmt.Errorf("making a slot: %w", err)
	}
	if !m.late {
		if err := m.copyRows(ctx, made.SnapshotName); err != nil {
			return err
		}
	}
	m.Config.Passed(placeCopied)
	_, err = m.DB.Exec(ctx, `UPDATE migration SET phase = $1, applied = $2::text::pg_lsn`,
		phaseStreaming, made.ConsistentPoint)
	return err
}

// clear removes what another attempt has left, and makes the publication.
func (m mover) clear(ctx context.Context, name string) error {
	err := m.drop(ctx, name)
	for _, statement := range []string{`TRUNCATE pings_next`,
		`CREATE PUBLICATION ` + pgx.Identifier{name}.Sanitize() + ` FOR TABLE pings`} {
		if err == nil {
			_, err = m.DB.Exec(ctx, statement)
		}
	}
	return err
}

// drop drops the slot and the publication.
func (m mover) drop(ctx context.Context, name string) error {
	_, err := m.DB.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
		WHERE slot_name = $1`, name)
	if err == nil {
		_, err = m.DB.Exec(ctx, `DROP PUBLICATION IF EXISTS `+pgx.Identifier{name}.Sanitize())
	}
	return err
}

// copyRows copies what a snapshot has, some drivers at a time. Without a snapshot it copies what
// there is, each part as of when it is copied.
func (m mover) copyRows(ctx context.Context, snapshot string) error {
	drivers := min(copyMost, (m.Params.Drivers+copyParts-1)/copyParts)
	part := func(on stores.Querier, from int) error {
		list, err := stores.CollectOn[row](ctx, on, `SELECT driver, seq, op, body, archived FROM pings
			WHERE driver BETWEEN $1 AND $2`, from, from+drivers-1)
		if err != nil {
			return err
		}
		err = m.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.CopyFrom(ctx, pgx.Identifier{newSide},
				[]string{"driver", "seq", "op", "body", "archived"},
				pgx.CopyFromSlice(len(list), func(i int) ([]any, error) { return list[i].values(), nil }))
			return err
		})
		sut.Pause(ctx, copyPause)
		return err
	}
	copyAll := func(ctx context.Context, on stores.Querier) error {
		for from := 1; from <= m.Params.Drivers; from += drivers {
			if err := part(on, from); err != nil {
				return fmt.Errorf("copying a snapshot: %w", err)
			}
		}
		return ctx.Err()
	}
	conn, err := m.DB.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if snapshot == "" {
		return copyAll(ctx, conn)
	}
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead},
		func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET TRANSACTION SNAPSHOT '`+snapshot+`'`); err != nil {
				return err
			}
			return copyAll(ctx, tx)
		})
}

// stream is the log as it is followed.
type stream struct {
	mover
	*walstream.Stream
	// applied is up to where changes are applied.
	applied pglogrepl.LSN
	columns []string
	// open are the changes of the transaction that is being sent, ready those of whole ones, which
	// end at to.
	open, ready pgx.Batch
	to          pglogrepl.LSN
}

// catchUp applies changes until the cut-over. If a mover died while the history was frozen, it is
// thawed first, and Params.Follow is not waited for again.
func (m mover) catchUp(ctx context.Context) error {
	name, err := walstream.Name(ctx, m.DB)
	if err != nil {
		return err
	}
	var from, phase string
	err = m.DB.Row(ctx, `SELECT applied::text, phase FROM migration`, nil, &from, &phase)
	if err == nil && phase == phaseFrozen {
		err = m.thaw(ctx)
	}
	if err != nil {
		return err
	}
	s := &stream{mover: m}
	if s.applied, err = pglogrepl.ParseLSN(from); err != nil {
		return err
	}
	s.Stream, err = walstream.Follow(ctx, m.DB, name, s.applied)
	if walstream.Lost(err) {
		_, err = m.DB.Exec(ctx, `UPDATE migration SET phase = $1`, phaseWaiting)
		return err
	}
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	for begun := time.Now(); ctx.Err() == nil; {
		// A flush takes what has come meanwhile.
		if err := s.receive(ctx, time.Now().Add(m.Params.FlushEvery.D())); err != nil {
			return err
		}
		if err := s.flush(ctx); err != nil {
			return err
		}
		m.Config.Worked()
		if phase != phaseFrozen && time.Since(begun) < m.Params.Follow.D() {
			continue
		}
		if over, err := s.cutOver(ctx); over || err != nil {
			return err
		}
	}
	return nil
}

// thaw lets writers go on.
func (m mover) thaw(ctx context.Context) error {
	_, err := m.DB.Exec(ctx, `UPDATE migration SET phase = $1 WHERE phase = $2`, phaseStreaming,
		phaseFrozen)
	return err
}

// receive takes in what is sent until a time, or until there is much of it.
func (s *stream) receive(ctx context.Context, until time.Time) error {
	enough := func() bool { return len(s.ready.QueuedQueries) >= flushMost }
	return s.Receive(ctx, until, enough, s.change)
}

// change takes a change in.
func (s *stream) change(message pglogrepl.Message) error {
	switch c := message.(type) {
	case *pglogrepl.RelationMessage:
		s.columns = s.columns[:0]
		for _, column := range c.Columns {
			s.columns = append(s.columns, column.Name)
		}
	case *pglogrepl.InsertMessage:
		return s.put(c.Tuple)
	case *pglogrepl.UpdateMessage:
		return s.put(c.NewTuple)
	case *pglogrepl.DeleteMessage:
		row, err := s.row(c.OldTuple)
		if err != nil {
			return err
		}
		s.open.Queue(`DELETE FROM pings_next WHERE driver = $1 AND seq = $2`, row.Driver, row.Seq)
	case *pglogrepl.CommitMessage:
		s.ready.QueuedQueries = append(s.ready.QueuedQueries, s.open.QueuedQueries...)
		s.open, s.to = pgx.Batch{}, c.TransactionEndLSN
	}
	return nil
}

// put queues a row as it is after a change.
func (s *stream) put(tuple *pglogrepl.TupleData) error {
	row, err := s.row(tuple)
	if err == nil {
		s.open.Queue(`INSERT INTO pings_next VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (driver, seq) DO UPDATE SET archived = excluded.archived`, row.values()...)
	}
	return err
}

// row is a row of either side.
type row struct {
	Driver, Seq, Op int64
	Body            []byte
	Archived        bool
}

// values are those of the columns, in their order.
func (r row) values() []any { return []any{r.Driver, r.Seq, r.Op, r.Body, r.Archived} }

// row reads the texts of which pgoutput makes a row.
func (s *stream) row(tuple *pglogrepl.TupleData) (r row, err error) {
	if tuple == nil || len(tuple.Columns) != len(s.columns) {
		return r, errMalformed
	}
	for i, column := range tuple.Columns {
		text, wrong := string(column.Data), error(nil)
		switch s.columns[i] {
		case "driver":
			r.Driver, wrong = strconv.ParseInt(text, 10, 64)
		case "seq":
			r.Seq, wrong = strconv.ParseInt(text, 10, 64)
		case "op":
			if text != "" { // a key has no other columns
				r.Op, wrong = strconv.ParseInt(text, 10, 64)
			}
		case "body":
			r.Body, wrong = hex.DecodeString(strings.TrimPrefix(text, `\x`))
		case "archived":
			r.Archived = text == "t"
		}
		err = errors.Join(err, wrong)
	}
	return r, err
}

// flush applies whole transactions, in one that also says up to where, and then lets the slot
// forget them.
func (s *stream) flush(ctx context.Context) error {
	if s.early && s.to > s.applied {
		if err := s.Confirm(ctx, s.to); err != nil {
			return err
		}
		s.Config.Passed(placeStreamed)
	}
	if s.to > s.applied {
		err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := tx.SendBatch(ctx, &s.ready).Close(); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE migration SET applied = $1::text::pg_lsn`, s.to)
			return err
		})
		if err != nil {
			return fmt.Errorf("applying changes: %w", err)
		}
		s.applied, s.ready = s.to, pgx.Batch{}
		if !s.early {
			s.Config.Passed(placeStreamed)
		}
	}
	return s.Confirm(ctx, s.applied)
}

// cutOver freezes the old side if the stream is nearly at the end, applies the rest, compares both
// sides, and sends all requests to the new one. An error thaws the old side.
func (s *stream) cutOver(ctx context.Context) (over bool, err error) {
	last, err := s.end(ctx)
	if err != nil || s.Seen+nearEnd < last {
		return false, err
	}
	err = s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sqlFreeze)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE migration SET phase = $1`, phaseFrozen)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.thaw(context.WithoutCancel(ctx)))
		}
	}()
	if last, err = s.end(ctx); err != nil {
		return false, err
	}
	if err := s.drain(ctx, last); err != nil {
		return false, err
	}
	next := phaseMoved
	if !s.late && !s.early {
		equal, err := s.sidesEqual(ctx)
		if err != nil {
			return false, err
		}
		if !equal {
			s.Config.Warn("both sides differ, and the migration begins anew", nil)
			next = phaseWaiting
		}
	}
	_, err = s.DB.Exec(ctx, `UPDATE migration SET phase = $1`, next)
	return true, err
}

// drain applies everything up to a position, within the time of an operation.
func (s *stream) drain(ctx context.Context, last pglogrepl.LSN) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(s.Config))
	defer cancel()
	for s.Seen < last || len(s.open.QueuedQueries) > 0 {
		if err := s.flush(ctx); err != nil {
			return err
		}
		if err := s.receive(ctx, time.Now().Add(thawPause)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for the last change: %w", err)
		}
	}
	return s.flush(ctx)
}

// sidesEqual compares both sides, without a statement timeout.
func (s *stream) sidesEqual(ctx context.Context) (equal bool, err error) {
	err = s.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `WITH old AS (SELECT driver, seq, op, body, archived FROM pings),
			new AS (SELECT driver, seq, op, body, archived FROM pings_next)
			SELECT NOT EXISTS (TABLE old EXCEPT TABLE new) AND NOT EXISTS (TABLE new EXCEPT TABLE old)`).
			Scan(&equal)
	})
	if err != nil {
		return false, fmt.Errorf("comparing both sides: %w", err)
	}
	return equal, nil
}

// end is where the log of Postgres ends.
func (s *stream) end(ctx context.Context) (pglogrepl.LSN, error) {
	var text string
	if err := s.DB.Row(ctx, `SELECT pg_current_wal_lsn()::text`, nil, &text); err != nil {
		return 0, err
	}
	return pglogrepl.ParseLSN(text)
}

// finish empties the old side, and drops what the migration has made.
func (m mover) finish(ctx context.Context) error {
	for from := 1; from <= m.Params.Drivers; from += copyMost {
		_, err := m.DB.Exec(ctx, `DELETE FROM pings WHERE driver BETWEEN $1 AND $2`, from,
			from+copyMost-1)
		if err != nil {
			return err
		}
	}
	name, err := walstream.Name(ctx, m.DB)
	if err == nil {
		err = m.drop(ctx, name)
	}
	if err == nil {
		_, err = m.DB.Exec(ctx, `UPDATE migration SET phase = $1`, phaseDone)
	}
	return err
}
