// Package walstream reads the log of Postgres from a logical replication slot, by the plug-in
// pgoutput.
package walstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"stampede/harness/stores"
)

// NameOf is the SQL of the name that slot, publication and messages of a design have: that of the
// database, or of the schema, that is the design's alone. By it the harness drops what is left.
const NameOf = `CASE current_schema() WHEN 'public' THEN current_database()
	ELSE current_schema() END`

// Name reads that name.
func Name(ctx context.Context, db *stores.Postgres) (name string, err error) {
	err = db.Row(ctx, `SELECT `+NameOf, nil, &name)
	return name, err
}

// Connect makes a connection that speaks the protocol of replication.
func Connect(ctx context.Context, db *stores.Postgres) (*pgconn.PgConn, error) {
	conf := db.Pool.Config().ConnConfig.Config.Copy()
	conf.RuntimeParams["replication"] = "database"
	conf.RuntimeParams["statement_timeout"] = "0"
	return pgconn.ConnectConfig(ctx, conf)
}

// Stream is a log that is followed. It is used by one goroutine at a time.
type Stream struct {
	conn *pgconn.PgConn
	// Seen is up to where Postgres has sent its log.
	Seen pglogrepl.LSN
}

// Follow begins to read the slot and the publication of a name, from a position at the earliest, or
// from where the slot is if that is later. More are further options of pgoutput. The
// caller calls Close.
func Follow(
	ctx context.Context, db *stores.Postgres, name string, from pglogrepl.LSN, more ...string,
) (*Stream, error) {
	conn, err := Connect(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("following the log: %w", err)
	}
	s := &Stream{conn: conn}
	err = pglogrepl.StartReplication(ctx, conn, `"`+name+`"`, from,
		pglogrepl.StartReplicationOptions{PluginArgs: append([]string{"proto_version '1'",
			"publication_names '\"" + name + "\"'"}, more...)})
	if err != nil {
		s.Close(ctx)
		return nil, fmt.Errorf("following the log: %w", err)
	}
	return s, nil
}

// Close closes the connection.
func (s *Stream) Close(ctx context.Context) { _ = s.conn.Close(context.WithoutCancel(ctx)) }

// InUse says that somebody else reads the slot.
func InUse(err error) bool { return coded(err, "55006") }

// Lost says that the slot is gone, or that Postgres has thrown away its log.
func Lost(err error) bool { return coded(err, "42704", "55000") }

func coded(err error, codes ...string) bool {
	pg, is := errors.AsType[*pgconn.PgError](err)
	return is && slices.Contains(codes, pg.Code)
}

// Receive takes in what is sent, until a time or until it is enough.
func (s *Stream) Receive(
	ctx context.Context, until time.Time, enough func() bool, take func(pglogrepl.Message) error,
) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for !enough() {
		message, err := s.conn.ReceiveMessage(ctx)
		if err != nil {
			if pgconn.Timeout(err) {
				return nil
			}
			return fmt.Errorf("reading the log: %w", err)
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyData:
			err = s.read(m.Data, take)
		default:
			err = fmt.Errorf("a message of type %T", message)
		}
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
	}
	return nil
}

// read reads a message of the protocol of replication.
func (s *Stream) read(data []byte, take func(pglogrepl.Message) error) error {
	if len(data) == 0 {
		return errors.New("an empty message")
	}
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		alive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		s.Seen = max(s.Seen, alive.ServerWALEnd)
		return err
	case pglogrepl.XLogDataByteID:
		log, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return err
		}
		message, err := pglogrepl.Parse(log.WALData)
		if err != nil {
			return err
		}
		return take(message)
	}
	return nil
}

// Confirm lets the slot forget what is before a position, and asks up to where Postgres has sent
// its log.
func (s *Stream) Confirm(ctx context.Context, to pglogrepl.LSN) error {
	return pglogrepl.SendStandbyStatusUpdate(ctx, s.conn,
		pglogrepl.StandbyStatusUpdate{WALWritePosition: to, ReplyRequested: true})
}
