package sqlbroker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

// statements are what a design sends. Those with the same name have the same
// parameters and results in all designs. Where {slots} stands, the table narrows
// them to the partitions that are in use, and where {taken slots} stands what they change;
// where {asked slots} stands, to those of the receipts.
type statements struct {
	publish, claim       string
	ack, extend, release string
}

// The plain statements: n messages at a time, claims that mark, receipts that fence.
func plainStatements() statements {
	return statements{publish: publishSQL, claim: claimSQL, ack: ackSQL, extend: extendSQL,
		release: releaseSQL}
}

// publishSQL is one transaction: either all messages are stored, and the publication
// with them, or nothing, because it was stored before. Parameters: queue, op_id, and
// by message body, group, priority and delay in milliseconds; the digest.
const publishSQL = storeSQL + `
SELECT EXISTS (SELECT FROM known), (SELECT count(*) FROM stored)`

// storeSQL is publishSQL but for its answer.
const storeSQL = `
WITH turns AS MATERIALIZED (` + turnsOf + `unnest($4::bigint[]) AS grp WHERE grp <> 0` + inTurn + `
), known AS (
    SELECT queue FROM queues WHERE queue = $1 AND (SELECT count(*) FROM turns) >= 0
), fresh AS (
    INSERT INTO published (op_id, queue, messages, digest, published_at)
    SELECT $2::bigint, queue, cardinality($3::text[]), $7::bigint, clock_timestamp() FROM known
    ON CONFLICT (op_id) DO NOTHING
    RETURNING op_id, queue, published_at
), stored AS (
    INSERT INTO messages (slot, queue, op_id, idx, grp, priority, state, created_at, visible_at, body)
    SELECT {slot}, queue, op_id, n - 1, grp, priority,
        CASE WHEN delay > 0 THEN 'delayed' ELSE 'ready' END,
        published_at, published_at + delay * interval '1 millisecond', body
    FROM fresh, unnest($3::text[], $4::bigint[], $5::int[], $6::bigint[])
        WITH ORDINALITY AS m (body, grp, priority, delay, n)
    RETURNING id
)`

// turnsOf and inTurn wait for the publishers that are about to store messages of the same
// groups, before any message gets its id. So the messages of a group can be seen in the
// order of their ids: a claim that finds none before a message is right, and no earlier
// one comes to light when that message is with a consumer. Groups share 64 locks, as the
// server's table of locks has no room for one of each; whoever wants several takes them
// in their order. $1 is the queue.
const (
	turnsOf = `
    SELECT pg_advisory_xact_lock(hashtext($1), turn) FROM (
        SELECT DISTINCT (grp % 64)::int AS turn FROM `
	inTurn = ` ORDER BY turn) AS t`
)

// claimSQL takes the first messages that nobody else is taking, by the index
// messages_ready, and marks them: the state keeps others from them when the row
// locks are gone, and the receipt tells this delivery from all others. Of a group,
// only the first message that is not acknowledged may be taken (messages_group); who
// takes it at the same time skips it and then sees it as not acknowledged still. The
// clock is read when all of them are locked (count): a message whose time began before
// it was taken would be due too early, and seem to come before deliveries it came after.
// Parameters: queue, how many.
const claimSQL = `
WITH first AS MATERIALIZED (
    SELECT m.slot, m.id FROM messages m
    WHERE m.queue = $1 AND m.state = 'ready' {slots} AND ` + headOfGroup + `
    ORDER BY m.priority DESC, m.id LIMIT $2
    FOR UPDATE SKIP LOCKED
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, visibility * interval '1 microsecond' AS visibility
    FROM queues WHERE queue = $1 AND (SELECT count(*) FROM first) > 0
)
UPDATE messages m
SET state = 'picked', receives = m.receives + 1, receipt = gen_random_uuid(),
    picked_at = now, visible_at = now + visibility
FROM first, clock WHERE m.slot = first.slot AND m.id = first.id {taken slots}
RETURNING ` + delivered

// headOfGroup says that no earlier message of the same group is unacknowledged.
const headOfGroup = `(m.grp = 0 OR NOT EXISTS (
        SELECT FROM messages e WHERE e.queue = m.queue AND e.grp = m.grp AND e.grp <> 0
            AND e.state <> 'acked' AND e.id < m.id {group slots}))`

// delivered is what a claim returns of a message m.
const delivered = `m.slot, m.id, m.receipt, m.op_id, m.idx, m.body, m.grp, m.priority, m.receives,
    (` + nanoseconds + `m.picked_at))::bigint, (` + nanoseconds + `m.visible_at))::bigint`

// nanoseconds, before a time and a closing bracket, is that time in Unix nanoseconds.
const nanoseconds = `1000000000 * extract(epoch FROM `

// asked are the receipts of a settlement. Parameters: by receipt slot, id and uuid.
const asked = `
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::int[], $2::bigint[], $3::uuid[])
        WITH ORDINALITY AS a (slot, id, receipt, n)
)`

// current says that a receipt is good: it is that of the last delivery, which is
// neither settled nor over. It is asked under the row's lock. No partial index has the
// state as it is written here: one that seems small to the planner, which hears of the
// messages in it a minute late, would be read as a whole.
const current = `m.slot = a.slot AND m.id = a.id AND m.queue = $4 AND m.receipt = a.receipt
        AND m.state || '' = 'picked' AND m.visible_at > clock_timestamp() {asked slots}`

// ackSQL acknowledges by the primary key. A receipt by which the message was acknowledged
// before the statement began is good again; by which it was acknowledged meanwhile, it is
// not among the answers, and to be asked about once more. Parameters: those of asked, queue.
const ackSQL = asked + `, done AS (
    UPDATE messages m SET state = 'acked', acked_at = clock_timestamp()
    FROM asked a WHERE ` + current + `
    RETURNING a.n
)
SELECT n, true, 0::bigint FROM done
UNION ALL
SELECT a.n, false, 0 FROM asked a JOIN messages m ON m.slot = a.slot AND m.id = a.id
WHERE m.queue = $4 AND m.receipt = a.receipt AND m.state || '' = 'acked' {asked slots}`

// extendSQL makes deliveries longer, counted from now. Parameters: those of asked,
// queue, by how many milliseconds.
const extendSQL = asked + `
UPDATE messages m
SET visible_at = greatest(m.visible_at, clock_timestamp() + $5::bigint * interval '1 millisecond')
FROM asked a WHERE ` + current + `
RETURNING a.n, true, (` + nanoseconds + `m.visible_at))::bigint`

// releaseSQL gives messages back. What was delivered as often as it may be stays as
// if its time were over, and the sweeper makes a dead letter of it. Parameters: those
// of asked, queue.
const releaseSQL = asked + `
UPDATE messages m
SET state = CASE WHEN m.receives < q.max_receives THEN 'ready' ELSE 'picked' END,
    receipt = NULL, visible_at = clock_timestamp()
FROM asked a, queues q WHERE q.queue = $4 AND ` + current + `
RETURNING a.n, true, 0::bigint`

// table is a design's messages in Postgres.
type table struct {
	*opened
	sql statements
	// narrow fills in which partitions a statement is about, among those of receipts.
	narrow func(ctx context.Context, sql string) (string, error)
	among  func(sql string, r receipts) string
	// waiters are woken when a queue may have got messages; nil: they look every pollEvery.
	waiters   *queue.Waiters
	pollEvery time.Duration
	// tally counts what goes through the table.
	tally *tally
	// filled are statements with one slot filled in, by how they are written: they are few,
	// and sent often.
	filled sync.Map
}

// newTable is a table that is not divided, without partitions.
func newTable(st *opened) *table {
	t := &table{opened: st, sql: plainStatements(), pollEvery: st.Params.PollEvery.D(),
		tally: &tally{}}
	t.narrow = func(_ context.Context, sql string) (string, error) { return t.inOneSlot(sql), nil }
	t.among = func(sql string, _ receipts) string { return t.inOneSlot(sql) }
	return t
}

func (t *table) base() *table { return t }

// unpartitioned fills in that there is one slot.
var unpartitioned = strings.NewReplacer("{slots}", "", "{group slots}", "", "{slot}", "0",
	"{taken slots}", "", "{asked slots}", "")

// inOneSlot is a statement as it is where there is one slot.
func (t *table) inOneSlot(sql string) string {
	known, _ := t.filled.Load(sql)
	if done, is := known.(string); is {
		return done
	}
	done := unpartitioned.Replace(sql)
	t.filled.Store(sql, done)
	return done
}

// Publish stores messages.
func (t *table) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	sql, err := t.narrow(ctx, t.sql.publish)
	if err != nil {
		return 0, stores.Failed("publishing", err)
	}
	bodies, groups := make([]string, len(p.Messages)), make([]int64, len(p.Messages))
	priorities, delays := make([]int32, len(p.Messages)), make([]int64, len(p.Messages))
	for i, m := range p.Messages {
		bodies[i], groups[i] = m.Body, int64(m.Group)
		priorities[i], delays[i] = int32(m.Priority), m.DelayMS
	}
	var known bool
	var stored int
	err = t.DB.Row(ctx, sql,
		[]any{queue, int64(p.OpID), bodies, groups, priorities, delays, p.digest()}, &known, &stored)
	return t.published(ctx, queue, p, known, stored > 0, err)
}

// published is the answer to a publication: to a queue that is known or not, stored freshly or
// before.
func (t *table) published(
	ctx context.Context, queue string, p Publication, known, fresh bool, err error,
) (int, error) {
	switch {
	case err != nil:
		return 0, stores.Failed("publishing", err)
	case !known:
		return 0, ErrUnknownQueue
	case !fresh:
		return 0, t.repeated(ctx, queue, p)
	}
	return len(p.Messages), nil
}

// repeated says whether a publication whose identity is known is the one that was stored,
// and not another one. Who stored it may have committed after the statement began that came
// upon it; this one begins later.
func (t *table) repeated(ctx context.Context, queue string, p Publication) error {
	var same bool
	err := t.DB.Row(ctx, publishedSQL, []any{int64(p.OpID), queue, len(p.Messages), p.digest()}, &same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("publishing again what is being forgotten: %w", sut.ErrRefused)
	case err != nil:
		return stores.Failed("looking what was published", err)
	case !same:
		return ErrTaken
	}
	return nil
}

// publishedSQL compares a publication with the one that was stored. Parameters: op_id, queue,
// how many messages, their digest.
const publishedSQL = `
SELECT queue = $2 AND messages = $3::int AND digest = $4::bigint FROM published WHERE op_id = $1`

// digest is a hash of the messages, by which one publication is told from another.
func (p Publication) digest() int64 {
	h := sha256.New()
	var head []byte
	for _, m := range p.Messages {
		head = binary.AppendUvarint(head[:0], uint64(len(m.Body)))
		head = binary.AppendUvarint(head, m.Group)
		head = binary.AppendVarint(head, int64(m.Priority))
		head = binary.AppendVarint(head, m.DelayMS)
		_, _ = h.Write(head) // it never fails
		_, _ = io.WriteString(h, m.Body)
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// Receive claims messages and waits for a first one if there is none.
func (t *table) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	return t.await(ctx, queue, d, t.claim)
}

// answerIn is how long before the deadline of a call a demand ends its wait, at most: that
// there is nothing is an answer too.
const answerIn = time.Second

// await claims until there are messages, or the demand will wait no longer, or its time is
// nearly over.
func (t *table) await(
	ctx context.Context, name string, d Demand,
	claim func(ctx context.Context, queue string, n int) ([]Delivery, error),
) ([]Delivery, error) {
	wait := time.Duration(d.WaitMS) * time.Millisecond
	if deadline, is := ctx.Deadline(); is {
		left := time.Until(deadline)
		wait = min(wait, left-min(left/5, answerIn))
	}
	return queue.Await(ctx, t.waiters, name, d.Most, wait, t.pollEvery, func() ([]Delivery, error) {
		began := time.Now()
		got, err := claim(ctx, name, d.Most)
		t.tally.claim(began, len(got))
		return got, err
	})
}

// claim claims up to n messages.
func (t *table) claim(
	ctx context.Context, queue string, n int,
) (got []Delivery, err error) {
	sql, err := t.narrow(ctx, t.sql.claim)
	if err != nil {
		return nil, stores.Failed("claiming messages", err)
	}
	return t.claimBy(ctx, sql, queue, n)
}

func (t *table) claimBy(
	ctx context.Context, sql, queue string, n int,
) (got []Delivery, err error) {
	var list []claimed
	err = t.DB.Rows(ctx, sql, []any{queue, n}, func(row pgx.CollectableRow) error {
		c, err := scanClaimed(row)
		list = append(list, c)
		return err
	})
	if err != nil {
		return nil, stores.Failed("claiming messages", err)
	}
	// An UPDATE returns its rows in no order.
	slices.SortFunc(list, inOrder)
	for _, c := range list {
		got = append(got, c.Delivery)
	}
	return got, nil
}

// claimed is a delivery with the number of its message.
type claimed struct {
	Delivery

	id int64
}

// inOrder is the order of delivery.
func inOrder(a, b claimed) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.id, b.id))
}

func scanClaimed(row pgx.CollectableRow) (c claimed, err error) {
	var slot int32
	var op, group int64
	var receipt pgtype.UUID
	err = row.Scan(&slot, &c.id, &receipt, &op, &c.Index, &c.Body, &group, &c.Priority, &c.Receives,
		&c.ReceivedNS, &c.VisibleNS)
	c.OpID, c.Group, c.Receipt = uint64(op), uint64(group), receiptOf(slot, c.id, receipt)
	return c, err
}

// receiptOf writes a receipt: where the message is, and which delivery it is.
func receiptOf(slot int32, id int64, receipt pgtype.UUID) string {
	return strconv.Itoa(int(slot)) + "." + strconv.FormatInt(id, 10) + "." + receipt.String()
}

// receipts are parsed receipts, as a statement wants them.
type receipts struct {
	slots []int32
	ids   []int64
	uuids []pgtype.UUID
	// at are their places in what was asked for: what is no receipt is left out.
	at []int
}

// cutReceipt reads where the message of a receipt is.
func cutReceipt(text string) (slot int32, id int64, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return 0, 0, false
	}
	s, err := strconv.ParseInt(parts[0], 10, 32)
	n, idErr := strconv.ParseInt(parts[1], 10, 64)
	return int32(s), n, err == nil && idErr == nil
}

func parseReceipts(list []string) receipts {
	var r receipts
	for i, text := range list {
		slot, id, ok := cutReceipt(text)
		var uuid pgtype.UUID
		if !ok || uuid.Scan(text[strings.LastIndexByte(text, '.')+1:]) != nil {
			continue
		}
		r.slots, r.ids = append(r.slots, slot), append(r.ids, id)
		r.uuids, r.at = append(r.uuids, uuid), append(r.at, i)
	}
	return r
}

// without are the receipts but for those that something became of.
func (r receipts) without(done []settled) (rest receipts) {
	for i, at := range r.at {
		if !slices.ContainsFunc(done, func(s settled) bool { return s.at == at }) {
			rest.slots, rest.ids = append(rest.slots, r.slots[i]), append(rest.ids, r.ids[i])
			rest.uuids, rest.at = append(rest.uuids, r.uuids[i]), append(rest.at, at)
		}
	}
	return rest
}

// settled is what became of one of the receipts.
type settled struct {
	at int
	// fresh is false if the message had been acknowledged with the receipt before.
	fresh     bool
	visibleNS int64
}

// settle runs a statement for receipts.
func (t *table) settle(
	ctx context.Context, on stores.Querier, sql, queue string, r receipts, by ...any,
) (done []settled, err error) {
	if len(r.at) == 0 {
		return nil, nil
	}
	args := append([]any{r.slots, r.ids, r.uuids, queue}, by...)
	err = stores.Each(ctx, on, t.among(sql, r), args, func(row pgx.CollectableRow) error {
		var n int
		var s settled
		err := row.Scan(&n, &s.fresh, &s.visibleNS)
		if err == nil {
			s.at = r.at[n-1]
			done = append(done, s)
		}
		return err
	})
	return done, err
}

// Settle acknowledges, extends or releases.
func (t *table) Settle(
	ctx context.Context, queue string, how string, s Settlement,
) (Settled, error) {
	return t.settleBy(ctx, queue, how, s, func(r receipts) []receipts { return []receipts{r} })
}

// settleBy settles by a statement for each part of the receipts.
func (t *table) settleBy(
	ctx context.Context, queue string, how string, s Settlement, parts func(receipts) []receipts,
) (Settled, error) {
	var sql string
	var by []any
	switch how {
	case KindAck:
		sql = t.sql.ack
	case KindRelease:
		sql = t.sql.release
	case KindExtend:
		sql, by = t.sql.extend, []any{s.ByMS}
	}
	all := parseReceipts(s.Receipts)
	done, err := t.settleParts(ctx, sql, queue, parts(all), nil, by...)
	if err == nil && how == KindAck && len(done) < len(all.at) {
		// The same may have been under way already. It is done by now, and the statement, which
		// has waited for it, goes by what was there when it began.
		done, err = t.settleParts(ctx, sql, queue, parts(all.without(done)), done)
	}
	if err != nil {
		return Settled{}, err
	}
	return s.result(done)
}

// settleParts runs a statement for each part and adds what became of the receipts to what is
// done already.
func (t *table) settleParts(
	ctx context.Context, sql, queue string, parts []receipts, done []settled, by ...any,
) ([]settled, error) {
	for _, part := range parts {
		var some []settled
		err := t.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			some, err = t.settle(ctx, conn, sql, queue, part, by...)
			return err
		})
		if err != nil && len(done) > 0 {
			return nil, stores.Unknown("settling the next of some receipts", err)
		}
		if err != nil {
			return nil, stores.Failed("settling receipts", err)
		}
		done = append(done, some...)
	}
	return done, nil
}

// result says what became of the receipts.
func (s Settlement) result(done []settled) (Settled, error) {
	if len(done) == 0 {
		return Settled{}, ErrStaleReceipt
	}
	good := map[int]settled{}
	for _, d := range done {
		good[d.at] = d
	}
	var out Settled
	for i, receipt := range s.Receipts {
		d, is := good[i]
		if !is {
			out.Stale = append(out.Stale, receipt)
			continue
		}
		out.Done = append(out.Done, receipt)
		if out.VisibleNS == 0 || d.visibleNS < out.VisibleNS {
			out.VisibleNS = d.visibleNS
		}
	}
	return out, nil
}

// errIndigestible: a consumer cannot work a batch off, because of one of its messages.
var errIndigestible = errors.New("a message that no consumer can work off")
