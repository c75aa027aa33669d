package views

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// partitionState keeps what the filter remembers in the filter's own memory, as stream
// processors do, and a changelog of it in the table changelog.
//
// Sessions, and which user has a view of which video, concern one video, and so one partition:
// only the filter that has the partition needs them. Each batch of decisions adds a row to the
// partition's log, in the transaction that stores the decisions and how far they are. So the
// log and the progress never differ, and whoever takes a partition reads its log up to there:
// all of it, or what it lacks if it had the partition before. A transaction writes what is new;
// rows of few entries are put together 256 at a time, by whoever appends.
//
// How many views an address has concerns all partitions. Decisions about two keys at once, of
// which one rejects what the other has let pass, cannot be made in two places one after the
// other: a second stage, partitioned by address, would reject views for which the first has
// turned away others of the same user. So addresses have one log more, and all filters keep all
// of it in memory (a replicated state machine). In the transaction that stores a batch, a filter
// locks the end of this log, reads what others have appended, decides its candidates, and
// appends its own. Sessions are looked up, and names hashed, before that: under the lock
// a candidate costs two look-ups in memory. A filter that is stopped with the lock in hand loses
// it with its transaction: after a second if Postgres waits for its next statement, and after 5 s
// if it waits for the rest of some that are under way, from Postgres 17 on. Before that, the lock
// then stays until the connection ends.
//
// Entries are kept as video_key's are in Redis, for one to two times the retention. A filter
// needs 24 bytes a slot for each session, each view's user and each address of that time. One
// that restores for longer than a rebalance may take (session_timeout, or 5 s if that is longer)
// loses the partition before it has decided anything.
func partitionState() variant {
	v := pipelined(variant{
		Name: "partition_state",
		Idea: "the filter keeps sessions and windows in its memory, and adds what a batch changes to a " +
			"changelog, in the transaction that stores the batch's decisions",
		Guarantees: "as video_key, also where Redis loses everything: it needs none",
		GivesUp: "whoever takes a partition reads its changelog first; filters store one after the " +
			"other, because an address's views are in all partitions",
		State: design.State[Params]{Schema: changelogSchema},
	}, nil)
	v.Needs = []sut.Service{sut.Kafka}
	v.Roles[0] = filterRole([]sut.Service{}, remembering)
	return v
}

// remembering lets a filter keep what it remembers in its own memory.
func remembering(f *filter, st *opened) {
	f.mind = newOwnMemory(f.books, st.Params)
}

// changelogSchema has the logs of what filters remember. Rows are found by their primary key.
// Entries do not become smaller by compression, so none is tried.
const changelogSchema = `
CREATE TABLE changelog (
    log     int    NOT NULL, -- the partition, -1 for the addresses
    seq     bigint NOT NULL, -- the partition's offset up to which it was decided, or a number
    was     bigint NOT NULL, -- the same before the row
    stretch bigint NOT NULL, -- of the clock, each as long as is to be remembered
    entries bytea  NOT NULL,
    PRIMARY KEY (log, seq)
);
ALTER TABLE changelog ALTER entries SET STORAGE EXTERNAL;
CREATE TABLE addresses_end ( -- one row: the last seq of log -1, and its stretch
    seq     bigint NOT NULL,
    stretch bigint NOT NULL
);
INSERT INTO addresses_end VALUES (0, 0);`

// addressLog is the log of the addresses; those of partitions have their numbers.
const addressLog = -1

// logRow is a row of the changelog.
type logRow struct {
	log               int32
	was, seq, stretch int64
	entries           []byte
}

// The sizes of entries: a digest and a number in the log of a partition, a digest for each view
// in that of the addresses.
const (
	digestBytes = 16
	shareBytes  = digestBytes + 8
)

func appendDigest(out []byte, d digest) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(out, d[0]), d[1])
}

// eachEntry reads entries of a size; see gets the digest and what follows it.
func eachEntry(entries []byte, size int, see func(d digest, rest []byte)) error {
	if len(entries)%size != 0 {
		return fmt.Errorf("%d bytes are no entries of %d", len(entries), size)
	}
	for e := range slices.Chunk(entries, size) {
		d := digest{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[8:])}
		if d == (digest{}) {
			return errors.New("an entry has no digest")
		}
		see(d, e[digestBytes:])
	}
	return nil
}

// changelog is the books of filters with a memory of their own.
type changelog interface {
	// changes reads rows of a log after a place, in order, at most so many.
	changes(ctx context.Context, log int32, after int64, most int) ([]logRow, error)
	// stretch is the current stretch of the clock, each of so many milliseconds.
	stretch(ctx context.Context, keepMS int64) (int64, error)
	// agree lets filters decide one after the other. It calls decide with the current stretch,
	// of so many milliseconds, and with where the log of the addresses ends and its rows after a
	// place, and stores what decide returns, all or nothing. It returns the logs that are swept:
	// none of their rows is over any more.
	agree(ctx context.Context, keepMS, after int64, decide agreeing) (swept []int32, err error)
}

// agreeing decides when it is a filter's turn.
type agreeing func(stretch, end int64, others []logRow) (agreed, error)

// agreed is what a filter has decided.
type agreed struct {
	moves   []move
	drops   []DropAudit
	changes []logRow
	// merge are stretches of logs whose rows become one, if that is not large; over is the
	// last stretch of the clock that is over, and sweep the logs of which such rows go, some of
	// them at a time.
	merge []logRow
	over  int64
	sweep []int32
}

// share is what a filter remembers of a partition: the heartbeats that made sessions watches,
// and the windows in which users have views, which have no number.
type share struct {
	recent
	decided int64 // the offset up to which it is complete
	logged  int64 // the last seq of its log
	batch   fresh
	// merged counts rows to be merged; mergedNext is what it becomes with those of the batch.
	merged, mergedNext merging
}

// fresh is what a batch adds to a table, and its entries in the log.
type fresh struct {
	table
	entries []byte
}

// drop empties it. A small batch does not clear the room that a large one needed.
func (f *fresh) drop() {
	if 16*f.used < len(f.slots) {
		f.table = table{}
	} else {
		f.clear()
	}
	f.entries = f.entries[:0]
}

// mergedAtOnce is how many rows of a log become one.
const mergedAtOnce = 256

// merging counts rows since the last merge.
type merging struct {
	rows  int
	since int64
}

// count counts a row, and says which are to be merged once there are enough: those after was, up
// to seq. Rows from before the partition was taken stay as they are.
func (m *merging) count(row logRow) (list []logRow) {
	if m.rows == 0 {
		m.since = row.was
	}
	if m.rows++; m.rows == mergedAtOnce {
		list = append(list, logRow{log: row.log, was: m.since, seq: row.seq})
		m.rows = 0
	}
	return list
}

// ownMemory is what a filter remembers in its memory.
type ownMemory struct {
	books  books
	keepMS int64
	shares map[int32]*share
	// addresses counts views, up to a row of their log; seen are those of the batch.
	addresses recent
	upTo      int64
	seen      fresh
	open      []contender
	// swept is, by log, the last stretch of which this filter knows no rows to be left.
	swept map[int32]int64
}

// contender is a candidate with the names of its windows.
type contender struct {
	at            int // in the list of the batch
	share         *share
	session       digest
	user, address digest
	id            uint64
	limit         uint64
}

func newOwnMemory(b books, p Params) *ownMemory {
	return &ownMemory{books: b, keepMS: p.Retention.D().Milliseconds(),
		shares: make(map[int32]*share), swept: make(map[int32]int64)}
}

// restoredAtOnce bounds the rows that are read at once, so that each reading has its time.
const restoredAtOnce = 64

// recall brings what is remembered of partitions to where they are decided and to the current
// stretch, after which meet looks sessions up, and the addresses as far as they are.
func (m *ownMemory) recall(ctx context.Context, stands []stand) error {
	m.forget()
	stretch, err := m.books.stretch(ctx, m.keepMS)
	if err != nil {
		return err
	}
	for _, s := range stands {
		sh := m.shares[s.partition]
		if sh == nil || sh.decided > s.decided {
			sh = &share{}
			m.shares[s.partition] = sh
		}
		sh.advance(stretch)
		if err := m.restore(ctx, sh, s); err != nil {
			return fmt.Errorf("restoring partition %d: %w", s.partition, err)
		}
	}
	return stores.Failed("restoring the addresses", m.catchUp(ctx))
}

// mostAnew is how often the log of the addresses is read from its beginning before that is an
// error: rows may be merged while it is being read.
const mostAnew = 3

// catchUp reads the log of the addresses, from its beginning if rows that were not read have been
// merged with some that were.
func (m *ownMemory) catchUp(ctx context.Context) error {
	for anew := 0; ; {
		rows, err := m.books.changes(ctx, addressLog, m.upTo, restoredAtOnce)
		if err == nil {
			err = m.follow(rows)
		}
		switch {
		case errors.Is(err, errMerged) && anew < mostAnew:
			m.addresses, m.upTo = recent{}, 0
			anew++
		case err != nil || len(rows) < restoredAtOnce:
			return err
		}
	}
}

// restore reads what a share lacks. Entries that it has already do no harm.
func (m *ownMemory) restore(ctx context.Context, sh *share, s stand) error {
	for sh.decided < s.decided {
		rows, err := m.books.changes(ctx, s.partition, sh.logged, restoredAtOnce)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := sh.apply(row); err != nil {
				return err
			}
		}
		if len(rows) < restoredAtOnce {
			sh.decided = s.decided
		}
	}
	return nil
}

// apply enters a row.
func (s *share) apply(row logRow) error {
	if into := s.of(row.stretch); into != nil {
		err := eachEntry(row.entries, shareBytes, func(d digest, rest []byte) {
			into.put(d, binary.LittleEndian.Uint64(rest))
		})
		if err != nil {
			return err
		}
	}
	s.logged = row.seq
	return nil
}

// errMerged: a row has been merged with some that were read before.
var errMerged = errors.New("the log of the addresses has gone on without this filter")

// follow counts the views of the rows that come next in the log of the addresses.
func (m *ownMemory) follow(rows []logRow) error {
	for _, row := range rows {
		if row.was != m.upTo && m.upTo > 0 {
			return errMerged
		}
		if into := m.addresses.of(row.stretch); into != nil {
			err := eachEntry(row.entries, digestBytes, func(d digest, _ []byte) { into.add(d, 1) })
			if err != nil {
				return err
			}
		}
		m.upTo = row.seq
	}
	return nil
}

// forget drops what is not stored, which will be read again.
func (m *ownMemory) forget() {
	for _, sh := range m.shares {
		sh.batch.drop()
	}
	m.seen.drop()
	m.open = m.open[:0]
}

// leave drops what is remembered of partitions that go.
func (m *ownMemory) leave(gone []int32) {
	for _, p := range gone {
		delete(m.shares, p)
	}
}

// meet looks an event's session up. The first of a session becomes a contender.
func (m *ownMemory) meet(i int, d *decision, rules *ruleSet) (reason string) {
	sh := m.shares[d.at.Partition]
	session := digestOf('s', span{}, d.event.Session)
	id, known := sh.get(session)
	if !known {
		id, known = sh.batch.get(session)
	}
	switch {
	case known && id == d.event.ID:
		return Duplicate
	case known:
		return Continued
	}
	sh.batch.put(session, d.event.ID)
	c := candidate{event: &d.event, rules: rules}
	user, address := c.spans()
	m.open = append(m.open, contender{i, sh, session,
		digestOf('r', user, d.event.Video, d.event.User), digestOf('i', address, d.event.IP),
		d.event.ID, uint64(rules.IPViews)})
	return ""
}

// judge leaves contenders to store.
func (m *ownMemory) judge(context.Context, []decision) error { return nil }

// decide decides the contenders, and notes what follows from it beside the tables: only what has
// been stored is entered there.
func (m *ownMemory) decide(list []decision) {
	for i := range m.open {
		c := &m.open[i]
		batch := &c.share.batch
		batch.entries = binary.LittleEndian.AppendUint64(appendDigest(batch.entries, c.session), c.id)
		_, before := c.share.get(c.user)
		_, just := batch.get(c.user)
		counted, _ := m.seen.get(c.address)
		switch {
		case before || just:
			list[c.at].reason = Repeat
		case m.addresses.sum(c.address)+counted >= c.limit:
			list[c.at].reason = IPRate
		default:
			batch.put(c.user, 0)
			batch.entries = binary.LittleEndian.AppendUint64(appendDigest(batch.entries, c.user), 0)
			m.seen.add(c.address, 1)
			m.seen.entries = appendDigest(m.seen.entries, c.address)
		}
	}
}

// store decides the contenders, when it is this filter's turn, and stores what follows.
func (m *ownMemory) store(
	ctx context.Context, list []decision, settle func() ([]move, []DropAudit),
) (moves []move, err error) {
	if len(m.open) == 0 {
		moves, drops := settle()
		if err := m.books.filtered(ctx, moves, drops); err != nil {
			return nil, err
		}
		return moves, m.enter(agreed{moves: moves}, nil)
	}
	var a agreed
	swept, err := m.books.agree(ctx, m.keepMS, m.upTo, func(
		stretch, end int64, others []logRow,
	) (agreed, error) {
		if err := m.follow(others); err != nil {
			return a, err
		}
		m.upTo = end // rows before it that are not there any more are over
		for _, sh := range m.shares {
			sh.advance(stretch)
		}
		m.addresses.advance(stretch)
		m.decide(list)
		a.moves, a.drops = settle()
		m.record(stretch, &a)
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return a.moves, m.enter(a, swept)
}

// record makes the rows of what the batch changes, and says which rows go.
func (m *ownMemory) record(stretch int64, a *agreed) {
	a.over = stretch - 2
	m.sweep(a, addressLog)
	for _, to := range a.moves {
		m.sweep(a, to.partition)
		sh := m.shares[to.partition]
		if sh == nil || len(sh.batch.entries) == 0 {
			continue
		}
		row := logRow{to.partition, sh.logged, to.toDecided, stretch, sh.batch.entries}
		a.changes = append(a.changes, row)
		sh.mergedNext = sh.merged
		a.merge = append(a.merge, sh.mergedNext.count(row)...)
	}
	if len(m.seen.entries) == 0 {
		return
	}
	row := logRow{addressLog, m.upTo, m.upTo + 1, stretch, m.seen.entries}
	a.changes = append(a.changes, row)
	// The newest rows stay as they are, for filters that have read some of them.
	if n := row.seq; n%mergedAtOnce == 0 {
		a.merge = append(a.merge, logRow{log: addressLog, was: n - 2*mergedAtOnce,
			seq: n - mergedAtOnce})
	}
}

// sweep has a log swept that may have rows which are over. Whichever filter decides first in
// a stretch, the log of a partition is swept by the one that has it.
func (m *ownMemory) sweep(a *agreed, log int32) {
	if m.swept[log] < a.over {
		a.sweep = append(a.sweep, log)
	}
}

// enter enters what was stored into the tables, and which logs are swept.
func (m *ownMemory) enter(a agreed, swept []int32) (err error) {
	for _, row := range a.changes {
		if row.log == addressLog {
			err = errors.Join(err, m.follow([]logRow{row}))
			continue
		}
		sh := m.shares[row.log]
		err = errors.Join(err, sh.apply(row))
		sh.merged = sh.mergedNext
	}
	for _, log := range swept {
		m.swept[log] = a.over
	}
	for _, to := range a.moves {
		if sh := m.shares[to.partition]; sh != nil {
			sh.decided = to.toDecided
		}
	}
	m.forget()
	return err
}

// changes reads rows of a log.
func (db database) changes(
	ctx context.Context, log int32, after int64, most int,
) ([]logRow, error) {
	var list []logRow
	err := db.With(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		list, err = changesOn(ctx, conn, log, after, most)
		return err
	})
	return list, err
}

func changesOn(
	ctx context.Context, on stores.Querier, log int32, after int64, most int,
) (list []logRow, err error) {
	err = stores.Each(ctx, on, `SELECT log, was, seq, stretch, entries FROM changelog
		WHERE log = $1 AND seq > $2 ORDER BY seq LIMIT $3`, []any{log, after, most},
		func(row pgx.CollectableRow) error {
			var c logRow
			err := row.Scan(&c.log, &c.was, &c.seq, &c.stretch, &c.entries)
			list = append(list, c)
			return err
		})
	return list, stores.Failed("reading the changelog", err)
}

// clock is the current stretch: that of the clock, if it is not earlier than the last one stored.
const clock = `greatest(stretch,
	floor(extract(epoch FROM clock_timestamp()) * 1000 / $1)::bigint)`

// lockEnd waits for a turn, and bounds it: the time between two statements, and, where Postgres
// can, the whole transaction, to what a call may take (roleTimeout).
const lockEnd = `SELECT seq, ` + clock + `,
		set_config('idle_in_transaction_session_timeout', '1s', true),
		CASE WHEN current_setting('server_version_num')::int >= 170000
			THEN set_config('transaction_timeout', '5s', true) END
	FROM addresses_end FOR UPDATE`

// stretch reads the current stretch.
func (db database) stretch(ctx context.Context, keepMS int64) (stretch int64, err error) {
	err = db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT `+clock+` FROM addresses_end`, keepMS).Scan(&stretch)
	})
	return stretch, stores.Failed("reading the stretch of the clock", err)
}

// agree locks the end of the log of the addresses, decides, and stores.
func (db database) agree(
	ctx context.Context, keepMS, after int64, decide agreeing,
) (swept []int32, err error) {
	err = db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var end, stretch int64
		err := tx.QueryRow(ctx, lockEnd, keepMS).Scan(&end, &stretch, nil, nil)
		if err != nil {
			return fmt.Errorf("waiting for its turn: %w", err)
		}
		var others []logRow
		if end > after {
			if others, err = changesOn(ctx, tx, addressLog, after, int(end-after)); err != nil {
				return err
			}
		}
		a, err := decide(stretch, end, others)
		if err != nil {
			return err
		}
		swept, err = storeAgreed(ctx, tx, end, stretch, a)
		return err
	})
	return swept, stores.Failed("deciding candidates", err)
}

// storeAgreed stores decisions, progress and changes, and where the log of the addresses ends.
// The stretch is stored whenever it is a later one: rows of a log are in the order of stretches.
func storeAgreed(
	ctx context.Context, tx pgx.Tx, end, stretch int64, a agreed,
) (swept []int32, err error) {
	if err := moveOn(ctx, tx, station{stageFilter, 0}, a.moves); err != nil {
		return nil, err
	}
	if err := addDrops(ctx, tx, a.drops); err != nil {
		return nil, err
	}
	var rows pgx.Batch
	for _, c := range a.changes {
		rows.Queue(`INSERT INTO changelog (log, seq, was, stretch, entries)
			VALUES ($1, $2, $3, $4, $5)`, c.log, c.seq, c.was, c.stretch, c.entries)
		if c.log == addressLog {
			end = c.seq
		}
	}
	rows.Queue(`UPDATE addresses_end SET seq = $1, stretch = $2
		WHERE (seq, stretch) <> ($1, $2)`, end, stretch)
	for _, c := range a.merge {
		rows.Queue(mergeRows, c.log, c.was, c.seq, mergedBytes)
	}
	for _, log := range a.sweep {
		rows.Queue(sweepRows, log, a.over, sweptAtOnce).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() < sweptAtOnce {
				swept = append(swept, log)
			}
			return nil
		})
	}
	return swept, stores.Failed("writing the changelog", tx.SendBatch(ctx, &rows).Close())
}

// sweptAtOnce bounds the rows of a log that go in one turn: others wait for it.
const sweptAtOnce = 200

// sweepRows deletes what is over among the first rows of a log, which are the oldest.
const sweepRows = `DELETE FROM changelog WHERE log = $1 AND stretch <= $2 AND seq = ANY (ARRAY(
		SELECT seq FROM changelog WHERE log = $1 ORDER BY seq LIMIT $3))`

// mergedBytes bounds what is merged: large rows are few already.
const mergedBytes = 1 << 20

// mergeRows makes one row, for each stretch of the clock, of those of a log after one place up
// to another. What they say does not depend on their order.
const mergeRows = `WITH few AS (
		SELECT seq FROM changelog WHERE log = $1 AND seq > $2 AND seq <= $3
			AND (SELECT sum(length(entries)) FROM changelog
				WHERE log = $1 AND seq > $2 AND seq <= $3) < $4),
	gone AS (
		DELETE FROM changelog c USING few WHERE c.log = $1 AND c.seq = few.seq
		RETURNING c.seq, c.was, c.stretch, c.entries)
	INSERT INTO changelog (log, seq, was, stretch, entries)
	SELECT $1, max(seq), min(was), stretch, string_agg(entries, '' ORDER BY seq)
	FROM gone GROUP BY stretch`
