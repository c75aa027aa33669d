package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/harness/design"
	"stampede/harness/stores"
)

// partitioned: messages go to partitions by time, which are emptied as a whole.
//
// Idea: a ring of partitions. New messages go to the current one; after a while the
// next one becomes current. One in which everything is acknowledged, and to which nobody
// can still be storing, is closed: claims do not look at it any more, and when it was kept
// long enough TRUNCATE empties it at once. What is stuck in an old partition is moved to the
// current one. Nobody waits for the ring: who may still be storing is seen in the server's
// table of locks, as CREATE INDEX CONCURRENTLY does it, and no lock is asked for.
//
// Guarantee: that of batched. Claims step over the dead versions of rows in the few
// partitions that are in use, and not over all there are: also while somebody's old
// snapshot keeps every vacuum from taking them away. (TRUNCATE takes files and not
// rows; it does not mind snapshots.)
//
// Gives up: the history of acknowledged messages beyond one turn of the ring. A
// transaction that has read the messages keeps its partitions from being emptied as long as it
// lasts: when the ring is full, the current one grows, and claims step over what is dead in it.
func partitioned() variant {
	v := built(variant{
		Name:       "partitioned",
		Idea:       "batched on a ring of time partitions that are truncated; no row is deleted",
		Guarantees: "what batched guarantees, at a cost that old snapshots do not increase",
		GivesUp: "history beyond one turn of the ring; an open transaction that has read the messages " +
			"stops the ring",
		State: design.State[Params]{Schema: strings.Replace(messagesSchema, "/* partitions */",
			` PARTITION BY LIST (slot)`, 1) + partitionsSQL()},
	}, inRing)
	for i := range v.Roles { // two would rotate partitions twice as fast
		v.Roles[i].Single = v.Roles[i].Single || v.Roles[i].Name == RoleCollector
	}
	return v
}

func inRing(t *table) (messages, error) {
	r := ringed{t, &slots{db: t.DB, patience: lockPatience}}
	t.narrow, t.among = r.slots.narrow, among
	return r, nil
}

// ringed are messages in a ring of partitions.
type ringed struct {
	*table
	slots *slots
}

func (r ringed) collect(ctx context.Context) error {
	if err := r.forget(ctx); err != nil {
		return err
	}
	return r.slots.turn(ctx, r.Params)
}

// among fills in the slots of receipts, as constants: a statement locks all partitions that
// the planner cannot leave out, and would wait for whoever has one of them for itself.
func among(sql string, r receipts) string {
	list := []string{"NULL"}
	for slot := range int32(ring) {
		if slices.Contains(r.slots, slot) {
			list = append(list, strconv.Itoa(int(slot)))
		}
	}
	return strings.ReplaceAll(sql, "{asked slots}", "AND m.slot IN ("+strings.Join(list, ",")+")")
}

// The states of a slot in the ring.
const (
	slotCurrent = "current" // new messages go there
	slotOpen    = "open"    // it may have messages that are not acknowledged
	slotClosed  = "closed"  // it has none
	slotEmpty   = "empty"   // it has no rows
)

const (
	// ring is how many partitions there are.
	ring = 16
	// fewLeft is how many messages are few enough to be moved out of an old partition,
	// and oldTurns for how many turns it must have been open for that.
	fewLeft  = 1000
	oldTurns = 2
	// graceTurns is for how long, in turns, an open slot is left alone: it has messages
	// for a while, and the publications that went to it have ended by then.
	graceTurns = 1
	// lockPatience is how long the ring waits for a closed partition, in which nobody but
	// who reads all of them has to do.
	lockPatience = 50 * time.Millisecond
	// slotsAge is how old a server's idea of the slots in use may be, while it can be had.
	// That one is missing delays messages, one too many costs a look.
	slotsAge = 20 * time.Millisecond
)

// partitionsSQL makes the ring.
func partitionsSQL() string {
	var b strings.Builder
	b.WriteString(`
CREATE TABLE slots (
    slot  int         PRIMARY KEY,
    state text        NOT NULL,
    turn  bigint      NOT NULL, -- when it became current, counted in turns
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX slots_current ON slots (state) WHERE state = 'current';
-- Whether there is one in use that a server does not know.
CREATE INDEX slots_used ON slots (slot) WHERE state IN ('current', 'open');
`)
	for n := range ring {
		state := slotEmpty
		if n == 0 {
			state = slotCurrent
		}
		fmt.Fprintf(&b, "CREATE TABLE messages_%d PARTITION OF messages FOR VALUES IN (%d);\n", n, n)
		fmt.Fprintf(&b, "INSERT INTO slots VALUES (%d, '%s', 0);\n", n, state)
	}
	return b.String()
}

// slots is the ring as one server sees it.
type slots struct {
	db       *stores.Postgres
	patience time.Duration // with a lock

	mu    sync.Mutex
	used  string // "0,1"
	asked time.Time

	// storing are, by slot, the transactions that may have been storing messages there when it
	// was seen to be open. Only the ring's own loop uses it.
	storing map[ringSlot][]string
}

// ringSlot is a slot since it was current last.
type ringSlot struct {
	Slot int
	Turn int64
}

// narrow fills in the slots in use, as constants: the planner then leaves out the
// other partitions. The current one is read by the statement itself. What is asked about
// groups must see every message: if a slot is in use that is not known here, where an
// earlier message of a group may have been moved, nothing is found until it is known.
func (s *slots) narrow(ctx context.Context, sql string) (string, error) {
	sql = strings.ReplaceAll(sql, "{slot}", `(SELECT slot FROM slots WHERE state = 'current')`)
	if !strings.Contains(sql, "{slots}") {
		return sql, nil
	}
	used, err := s.inUse(ctx)
	mine := "AND m.slot IN (" + used + ")"
	sql = strings.ReplaceAll(sql, "{taken slots}", mine)
	if strings.Contains(sql, "{group slots}") {
		mine += ` AND NOT EXISTS (SELECT FROM slots WHERE state IN ('current', 'open')
			AND slot NOT IN (` + used + `))`
		sql = strings.ReplaceAll(sql, "{group slots}", "AND e.slot IN ("+used+")")
	}
	return strings.ReplaceAll(sql, "{slots}", mine), err
}

// inUse lists the slots in use and the one that will be current next, so that a turn of
// the ring leaves nobody without knowledge.
func (s *slots) inUse(ctx context.Context) (string, error) {
	s.mu.Lock()
	if s.used != "" && time.Since(s.asked) < slotsAge {
		defer s.mu.Unlock()
		return s.used, nil
	}
	s.asked = time.Now() // others go by what is known meanwhile
	known := s.used
	s.mu.Unlock()
	var used string
	err := s.db.Row(ctx, `SELECT string_agg(slot::text, ',' ORDER BY slot) FROM slots
		WHERE state IN ('current', 'open') OR slot = (
			SELECT slot FROM slots WHERE state = 'empty' ORDER BY turn, slot LIMIT 1)`, nil, &used)
	if err != nil {
		return known, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = used
	return used, nil
}

// turn does what is due in the ring: it closes slots in which everything is
// acknowledged, moves what is stuck, empties what was kept long enough, and goes on to
// the next slot.
func (s *slots) turn(ctx context.Context, p Params) error {
	every := p.RotateEvery.D().Microseconds()
	open, err := s.list(ctx, `state = 'open' AND since < clock_timestamp() - $1::bigint * interval '1 us'`,
		every*graceTurns)
	if err != nil {
		return err
	}
	for _, slot := range open {
		if err := s.close(ctx, slot, every*oldTurns); err != nil {
			return err
		}
	}
	kept, err := s.list(ctx, `state = 'closed' AND since < clock_timestamp() - $1::bigint * interval '1 us'`,
		p.Keep.D().Microseconds())
	if err != nil {
		return err
	}
	for _, kept := range kept {
		if err := s.empty(ctx, kept.Slot); err != nil {
			return err
		}
	}
	return s.advance(ctx, every)
}

// list lists slots, the oldest first.
func (s *slots) list(ctx context.Context, where string, args ...any) ([]ringSlot, error) {
	return stores.Collect[ringSlot](ctx, s.db, `SELECT slot, turn FROM slots WHERE `+where+
		` ORDER BY turn`, args...)
}

// close closes a slot if nothing in it is unacknowledged and nobody can still be storing
// there. In one that is old it moves what few messages are left, unless somebody has them, to
// the current one, where they keep their places in the queue.
func (s *slots) close(ctx context.Context, open ringSlot, old int64) error {
	done := `NOT EXISTS (SELECT FROM ` + partition(open.Slot) + `
			WHERE state IN ('ready', 'delayed', 'picked'))`
	var likely bool
	if err := s.db.Row(ctx, `SELECT `+done, nil, &likely); err != nil {
		return err
	}
	if !likely {
		delete(s.storing, open)
		_, err := s.db.Exec(ctx, strings.ReplaceAll(moveSQL, "{partition}", partition(open.Slot)),
			open.Slot, fewLeft, old)
		return err
	}
	ended, err := s.storesEnded(ctx, open)
	if err != nil || !ended {
		return err
	}
	_, err = s.db.Exec(ctx, `UPDATE slots SET state = 'closed', since = clock_timestamp()
		WHERE state = 'open' AND slot = $1 AND turn = $2 AND `+done, open.Slot, open.Turn)
	if err == nil {
		delete(s.storing, open)
	}
	return err
}

// moveSQL moves up to $2 messages that wait in a partition, of slot $1, to the current one,
// if it has been open for $3 microseconds and there are no more. It passes over what others
// have: who acknowledges several has some of them, and may wait for others.
const moveSQL = `WITH left_over AS MATERIALIZED (
    SELECT id FROM {partition} WHERE state IN ('ready', 'delayed') AND EXISTS (
        SELECT FROM slots WHERE slot = $1 AND state = 'open'
            AND since < clock_timestamp() - $3::bigint * interval '1 us')
    LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {partition} m USING left_over l
    WHERE m.id = l.id AND (SELECT count(*) FROM left_over) < $2
    RETURNING m.*
)
INSERT INTO messages (slot, id, queue, op_id, idx, grp, priority, state, receives,
    redrives, created_at, picked_at, visible_at, body)
OVERRIDING SYSTEM VALUE
SELECT (SELECT slot FROM slots WHERE state = 'current'), id, queue, op_id, idx, grp, priority,
    state, receives, redrives, created_at, picked_at, visible_at, body FROM gone`

// storesEnded says whether all have ended that may store messages where they went when an
// open slot was current. A statement that stores takes its lock on the table before it looks
// which slot is current. Who has the lock when the slot is seen to be open may have looked
// before; who takes it later finds another one. So it is known at the second look at the
// earliest, and nobody is kept waiting.
func (s *slots) storesEnded(ctx context.Context, open ringSlot) (ended bool, err error) {
	first, looked := s.storing[open]
	if looked {
		err = s.db.Row(ctx, `SELECT NOT EXISTS (SELECT `+storingSQL+` AND virtualtransaction = ANY($1))`,
			[]any{first}, &ended)
		return ended, err
	}
	err = s.db.Row(ctx, `SELECT coalesce(array_agg(virtualtransaction), '{}') `+storingSQL, nil, &first)
	if err != nil {
		return false, err
	}
	if s.storing == nil {
		s.storing = map[ringSlot][]string{}
	}
	s.storing[open] = first
	return false, nil
}

// storingSQL are the locks of those that store, or change, messages.
const storingSQL = `FROM pg_locks WHERE locktype = 'relation' AND granted
    AND mode NOT IN ('AccessShareLock', 'RowShareLock') AND relation = 'messages'::regclass
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// empty empties a closed slot, with a lock on its partition. Who does not get it soon tries
// again another time.
func (s *slots) empty(ctx context.Context, slot int) error {
	table := partition(slot)
	err := s.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			fmt.Sprintf(`SET LOCAL lock_timeout = %d`, s.patience.Milliseconds()),
			`LOCK TABLE ` + table + ` IN ACCESS EXCLUSIVE MODE`, `TRUNCATE ` + table,
			`UPDATE slots SET state = 'empty', since = clock_timestamp() WHERE slot = ` + strconv.Itoa(slot),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock not available
		return nil
	}
	return err
}

// advance makes the next empty slot current if the current one was that for long
// enough. If none is empty, consumers are so far behind that the current one grows.
func (s *slots) advance(ctx context.Context, every int64) error {
	return s.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var next int
		var turn int64
		err := tx.QueryRow(ctx, `SELECT n.slot, c.turn + 1 FROM slots c, slots n
			WHERE c.state = 'current' AND c.since < clock_timestamp() - $1::bigint * interval '1 us'
				AND n.state = 'empty'
			ORDER BY n.turn, n.slot LIMIT 1 FOR UPDATE`, every).Scan(&next, &turn)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE slots SET state = 'open', since = clock_timestamp()
			WHERE state = 'current'`)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE slots SET state = 'current', turn = $2,
				since = clock_timestamp() WHERE slot = $1`, next, turn)
		}
		return err
	})
}

func partition(slot int) string { return "messages_" + strconv.Itoa(slot) }
