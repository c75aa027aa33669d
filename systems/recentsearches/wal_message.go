package recentsearches

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/walstream"
)

// walMessage has the database's own log as its outbox.
//
// The idea: the transaction of a change emits a message (pg_logical_emit_message), which is in
// the log if and only if the transaction is, and in no table. A relay reads the log from a
// logical replication slot, in the order of commits, brings the lists to Redis, and then confirms
// up to where they are. The slot retains the rest.
//
// The guarantee: what is acknowledged is in Postgres, and on every device soon.
//
// It gives up: relays side by side, because a slot has one reader, and disk for the log that the
// slot retains while nobody reads. Postgres must run with wal_level = logical. What Redis loses
// after it has confirmed it is missing as in outbox_inline.
func walMessage() variant {
	return inPostgres(variant{Name: "wal_message",
		Idea: "outbox_relay, whose outbox is a message in the log of Postgres; the relay reads that " +
			"from a replication slot",
		Guarantees: "what is acknowledged is kept, and on every device soon",
		GivesUp: "relays side by side, and disk for the log that the slot retains; what Redis loses " +
			"after it has confirmed it is missing in the list until the user's next change",
		Needs: []sut.Service{sut.Redis},
		// If Postgres dies later, it sends messages again from its last checkpoint on, and what Redis has
		// lost comes back.
		Breaks: lostByRedis(),
		Roles: []role{{Name: "relay", Summary: "brings messages of the log to the lists",
			Places: []string{placeTaken, placeShown},
			Do: func(ctx context.Context, st *opened) error {
				for ctx.Err() == nil {
					if err := follow(ctx, st); !walstream.InUse(err) {
						return err
					}
					st.Config.Worked()
					sut.Pause(ctx, standby)
				}
				return nil
			}}},
		State: design.State[Params]{
			Ready: func(ctx context.Context, st *opened) error {
				name, err := walstream.Name(ctx, st.DB)
				if err == nil {
					_, err = st.DB.Exec(ctx, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, name)
				}
				if err == nil { // pgoutput wants one, and messages are in none
					_, err = st.DB.Exec(ctx, `CREATE PUBLICATION `+pgx.Identifier{name}.Sanitize())
				}
				return stores.Failed("making a slot", err)
			},
			Pending: unconfirmed,
		},
	}, plan{then: later,
		beside: func(ctx context.Context, tx pgx.Tx, c *change) error {
			message, err := json.Marshal(entry{User: int64(c.User), Version: c.Version, Terms: c.Terms})
			if err == nil {
				_, err = tx.Exec(ctx, `SELECT pg_logical_emit_message(true, `+walstream.NameOf+`, $1::text)`,
					string(message))
			}
			return err
		}})
}

// standby is how long a relay waits for the slot while another one has it.
const standby = 200 * time.Millisecond

// unconfirmed is how many bytes of the log, of whomever they are, the relay has not confirmed.
func unconfirmed(ctx context.Context, st *opened) (n int64, what string, err error) {
	name, err := walstream.Name(ctx, st.DB)
	if err == nil {
		err = st.DB.Row(ctx, `SELECT greatest(0, pg_current_wal_lsn() - confirmed_flush_lsn)::bigint
			FROM pg_replication_slots WHERE slot_name = $1`, []any{name}, &n)
	}
	return n, fmt.Sprintf("%d bytes of the log may have messages that are in no list", n), err
}

// follow reads the slot.
func follow(ctx context.Context, st *opened) error {
	name, err := walstream.Name(ctx, st.DB)
	if err != nil {
		return err
	}
	log, err := walstream.Follow(ctx, st.DB, name, 0, "messages 'true'")
	if err != nil {
		return err
	}
	defer log.Close(ctx)
	f := follower{opened: st, Stream: log, name: name}
	enough := func() bool { return len(f.ready) >= relayedAtOnce }
	for ctx.Err() == nil {
		err := f.Receive(ctx, time.Now().Add(st.Params.RelayEvery.D()), enough, f.take)
		if err == nil {
			err = f.flush(ctx)
		}
		if err != nil {
			return err
		}
		st.Config.Worked()
	}
	return nil
}

// follower reads messages.
type follower struct {
	*opened
	*walstream.Stream
	name string
	// open are the messages of the transaction that is being sent, ready those of whole ones, which
	// end at to.
	open, ready []entry
	to          pglogrepl.LSN
}

// take takes a message in.
func (f *follower) take(message pglogrepl.Message) error {
	switch m := message.(type) {
	case *pglogrepl.LogicalDecodingMessage:
		var e entry
		if m.Prefix != f.name {
			return nil
		}
		if err := json.Unmarshal(m.Content, &e); err != nil {
			return fmt.Errorf("a message of a design: %w", err)
		}
		f.open = append(f.open, e)
	case *pglogrepl.CommitMessage:
		f.ready, f.open = append(f.ready, f.open...), nil
		f.to = max(f.to, m.TransactionEndLSN)
	}
	return nil
}

// flush shows what is ready, and then confirms it, and what Postgres has sent that concerns nobody.
func (f *follower) flush(ctx context.Context) error {
	if len(f.ready) > 0 {
		f.Config.Passed(placeTaken)
		if err := showAll(ctx, f.opened, f.ready); err != nil {
			return err
		}
		f.Config.Passed(placeShown)
		f.ready = f.ready[:0]
	}
	if len(f.open) == 0 {
		f.to = max(f.to, f.Seen)
	}
	return f.Confirm(ctx, f.to)
}
