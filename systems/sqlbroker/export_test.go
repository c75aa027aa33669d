package sqlbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

// BodyOf is the body of a message that a Recipe without options makes.
func BodyOf(op uint64, index int) string { return Recipe{}.body(op, index) }

// Perform is the one place that knows operations and calls.
func Perform(ctx context.Context, b Broker, op history.Op) (history.Reply, error) {
	return API().Do(ctx, b, op)
}

// LabQueue is the queue of a Lab.
const LabQueue = "queue-1"

// Lab is a design, or a mutant of one, whose steps a test takes one by one.
type Lab struct {
	messages
	t      *table
	Params Params
	inst   sut.Instance
	ring   *slots      // if it is divided
	river  *riverQueue // if it is River's
}

// OpenLab opens and prepares a design, or a mutant, by its name. The tracer sees its
// statements.
func OpenLab(
	ctx context.Context, name string, cfg sut.Config, tracer pgx.QueryTracer,
) (*Lab, error) {
	sys := systemOf(append(designs(), mutants()...)...)
	at := slices.IndexFunc(sys.Variants, func(v sut.Variant) bool { return v.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no design and no mutant %q", name)
	}
	inst, err := sys.Variants[at].Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m := limitedOf(inst).messages
	l := &Lab{messages: m, t: m.base(), inst: inst, Params: m.base().Params}
	switch own := m.(type) {
	case ringed:
		l.ring = own.slots
	case *riverQueue:
		l.river = own
	}
	if err := inst.Prepare(ctx); err != nil {
		return l, err
	}
	if tracer != nil {
		if err := l.trace(ctx, cfg, tracer); err != nil {
			return l, err
		}
	}
	if err := l.silence(ctx); err != nil || l.ring == nil {
		return l, err
	}
	return l, l.RingSeen(ctx) // which slots are in use changes only with time, which does not pass
}

// trace has a tracer see the statements from now on.
func (l *Lab) trace(ctx context.Context, cfg sut.Config, tracer pgx.QueryTracer) error {
	conf, err := pgxpool.ParseConfig(cfg.PostgresURL)
	if err != nil {
		return err
	}
	conf.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return err
	}
	l.t.DB.Close()
	l.t.DB.Pool = pool
	if l.river != nil {
		l.river.River, err = queue.RiverOver(l.t.DB, &river.Config{})
	}
	return err
}

// silence makes River notify of no insert into the lab's queue. It does once in its cooldown,
// so that whether an insert has one statement more would depend on how long ago the last was.
func (l *Lab) silence(ctx context.Context) (err error) {
	if l.river == nil {
		return nil
	}
	l.river.River, err = queue.RiverOver(l.t.DB, &river.Config{FetchCooldown: time.Hour,
		FetchPollInterval: time.Hour})
	if err != nil {
		return err
	}
	tx, err := l.t.DB.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	p := Publication{OpID: 1, Messages: Recipe{Messages: 1}.messages(1)}
	_, err = l.river.Client.InsertManyFastTx(ctx, tx, riverJobs(LabQueue, p, 1, time.Now()))
	return errors.Join(err, tx.Rollback(ctx))
}

// mutant is batched with an error in one statement or in how it works.
type mutant struct {
	*table
	working   func(t *table, ctx context.Context, queue string, batch []Delivery) error
	receiving func(t *table, ctx context.Context, queue string) ([]Delivery, error)
}

func (m mutant) work(ctx context.Context, queue string, batch []Delivery) error {
	if m.working == nil {
		return m.table.work(ctx, queue, batch)
	}
	return m.working(m.table, ctx, queue, batch)
}

// Receive claims.
func (m mutant) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	if m.receiving == nil {
		return m.table.Receive(ctx, queue, d)
	}
	return m.receiving(m.table, ctx, queue)
}

func mutants() (list []variant) {
	for name, plant := range map[string]func(*mutant){
		"M51 claim by a read and an update": func(m *mutant) { m.receiving = readThenUpdate },
		"M53 effect, then unfenced ack": func(m *mutant) {
			m.sql.ack, m.working = unfencedStatements().ack, effectThenAck
		},
		"M54 a look for the effect, then insert": func(m *mutant) {
			m.sql.ack, m.working = unfencedStatements().ack, lookThenInsert
		},
		"M56 extended from the claim": func(m *mutant) {
			m.sql.extend = changed(extendSQL, "clock_timestamp() + $5", "m.picked_at + $5")
		},
		"M5C batches are given back as a whole": func(m *mutant) { m.working = releaseWhole },
		"M58 ignores what is in flight": func(m *mutant) {
			m.sql.claim = changed(claimSQL, "e.state <> 'acked'", "e.state = 'ready'")
		},
		"M5A publishers of a group do not wait": func(m *mutant) {
			m.sql.publish = changed(publishSQL, "grp WHERE grp <> 0", "grp WHERE false")
		},
	} {
		list = append(list, inTable(variant{Name: name}, func(t *table) messages {
			m := mutant{table: t}
			plant(&m)
			return m
		}))
	}
	return list
}

// changed is a statement with an error planted in it.
func changed(sql, right, wrong string) string {
	if strings.Count(sql, right) != 1 {
		panic("there is no place to plant the error in: " + right)
	}
	return strings.Replace(sql, right, wrong, 1)
}

// Close closes the connections.
func (l *Lab) Close() { _ = l.inst.Close() } // nothing is left to lose

// Begin puts so many messages of a group, 0 for none, into an empty queue.
func (l *Lab) Begin(ctx context.Context, queue string, messages int, group uint64) error {
	tables := []string{"messages", "dead_letters", "effects", "published"}
	if l.river != nil {
		tables = []string{"river_job", "effects", "published"}
	}
	for _, name := range tables {
		if _, err := l.t.DB.Exec(ctx, "DELETE FROM "+name); err != nil {
			return err
		}
	}
	r := Recipe{Messages: messages, Group: group}
	_, err := l.Publish(ctx, queue, Publication{OpID: 256, Messages: r.messages(256)})
	return err
}

// Work works a batch off.
func (l *Lab) Work(ctx context.Context, queue string, batch []Delivery) error {
	return l.messages.work(ctx, queue, batch)
}

// Digest works a batch off as the role consumer does.
func (l *Lab) Digest(ctx context.Context, queue string, batch []Delivery) error {
	return digest(ctx, l.messages, queue, batch)
}

// releaseWhole gives back all of a batch that cannot be worked off because of one message.
func releaseWhole(b *table, ctx context.Context, queue string, batch []Delivery) error {
	err := b.work(ctx, queue, batch)
	if errors.Is(err, errIndigestible) {
		_, err = b.Settle(ctx, queue, KindRelease, Settlement{Receipts: receiptsOf(batch)})
	}
	return err
}

// SweepApart does what is due, and belongs to no session.
func (l *Lab) SweepApart(ctx context.Context) error {
	return l.messages.sweep(context.WithoutCancel(apart{ctx}))
}

// Age makes deliveries, acknowledgements and effects older, as if time had passed.
func (l *Lab) Age(ctx context.Context, d time.Duration) error {
	older := `WITH older AS (
		UPDATE effects SET received_at = received_at - $1 * interval '1 us',
			visible_at = visible_at - $1 * interval '1 us', stored_at = stored_at - $1 * interval '1 us'
	) `
	sql := older + `UPDATE messages SET visible_at = visible_at - $1 * interval '1 us',
		picked_at = picked_at - $1 * interval '1 us', acked_at = acked_at - $1 * interval '1 us'
		WHERE state IN ('picked', 'acked')`
	if l.river != nil {
		sql = older + `UPDATE river_job SET attempted_at = attempted_at - $1 * interval '1 us',
			finalized_at = finalized_at - $1 * interval '1 us' WHERE state IN ('running', 'completed')`
	}
	_, err := l.t.DB.Exec(ctx, sql, d.Microseconds())
	return err
}

// Outlive makes messages older, and their queues, as if time had passed: what is with a
// consumer stays there.
func (l *Lab) Outlive(ctx context.Context, d time.Duration) error {
	older := `WITH older AS (UPDATE queues SET retention_at = retention_at - $1 * interval '1 us') `
	sql := older + `UPDATE messages SET created_at = created_at - $1 * interval '1 us',
		visible_at = visible_at - CASE WHEN state = 'picked' THEN 0 ELSE $1 END * interval '1 us'`
	if l.river != nil {
		sql = older + `UPDATE river_job SET created_at = created_at - $1 * interval '1 us',
			scheduled_at = scheduled_at - $1 * interval '1 us'`
	}
	_, err := l.t.DB.Exec(ctx, sql, d.Microseconds())
	return err
}

// Broker is the design as publishers and consumers call it.
func (l *Lab) Broker() Broker { return limitedOf(l.inst) }

// Quiesced says what is left to do.
func (l *Lab) Quiesced(ctx context.Context) (string, error) {
	return l.inst.(sut.Quiescer).Quiesced(ctx)
}

// Create makes a queue or changes its settings.
func (l *Lab) Create(ctx context.Context, queue string, s QueueSettings) error {
	return limitedOf(l.inst).Create(ctx, queue, s)
}

// WriteMetrics tells the metrics at a time.
func (l *Lab) WriteMetrics(w io.Writer, at time.Time) {
	limitedOf(l.inst).scrapes.now = func() time.Time { return at }
	limitedOf(l.inst).writeMetrics(w)
}

// StopClock has a server's idea of queues age by another clock.
func StopClock(inst sut.Instance, now func() time.Time) { limitedOf(inst).rates.now = now }

// FailReads has a server fail to read queues, if err is not nil.
func FailReads(inst sut.Instance, err *error) {
	r := limitedOf(inst).rates
	read := r.read
	r.read = func(ctx context.Context, queue string) (int, []byte, error) {
		if *err != nil {
			return 0, nil, *err
		}
		return read(ctx, queue)
	}
}

// apart is a context without the values of another one: what is sent with it belongs
// to no session.
type apart struct{ context.Context }

// Value has none.
func (apart) Value(any) any { return nil }

// Sweep does what is due.
func (l *Lab) Sweep(ctx context.Context) error { return l.messages.sweep(ctx) }

// Audit reads the tables.
func (l *Lab) Audit(ctx context.Context) (json.RawMessage, error) { return l.inst.Audit(ctx) }

// BuryHalf does one half of what makes dead letters of messages, "insert" or "delete".
func (l *Lab) BuryHalf(ctx context.Context, half string) error {
	sql := `INSERT INTO dead_letters SELECT id, queue, op_id, idx, grp, priority, 2, redrives,
		created_at, clock_timestamp(), 'receives', body FROM messages`
	if half == "delete" {
		sql = `DELETE FROM messages`
	}
	_, err := l.t.DB.Exec(ctx, sql)
	return err
}

// readThenUpdate claims in two statements: it reads which message is first, then it
// marks that one.
func readThenUpdate(l *table, ctx context.Context, queue string) ([]Delivery, error) {
	found, err := l.claimBy(ctx, `SELECT m.slot, m.id, gen_random_uuid(), m.op_id, m.idx, m.body,
		m.grp, m.priority, m.receives + 1, (`+nanoseconds+`clock_timestamp()))::bigint,
		(`+nanoseconds+`clock_timestamp() + interval '1 hour'))::bigint
		FROM messages m WHERE queue = $1 AND state = 'ready' ORDER BY id LIMIT $2`, queue, 1)
	if err != nil || len(found) == 0 {
		return found, err
	}
	r := parseReceipts(receiptsOf(found))
	_, err = l.DB.Exec(ctx, `UPDATE messages SET state = 'picked', receipt = $2,
		receives = receives + 1, picked_at = clock_timestamp(),
		visible_at = clock_timestamp() + interval '1 hour' WHERE slot = 0 AND id = $1`,
		r.ids[0], r.uuids[0])
	return found, err
}

// effectThenAck stores the effects, then acknowledges, and looks at no receipt.
func effectThenAck(b *table, ctx context.Context, queue string, batch []Delivery) error {
	err := b.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return storeEffects(ctx, conn, queue, batch)
	})
	if err != nil {
		return workError(err)
	}
	b.Config.Passed(PlaceBetween)
	_, err = b.Settle(ctx, queue, KindAck, Settlement{Receipts: receiptsOf(batch)})
	return err
}

// lookThenInsert looks whether there is an effect already, and stores it if not.
func lookThenInsert(b *table, ctx context.Context, queue string, batch []Delivery) error {
	var there bool
	err := b.DB.Row(ctx, `SELECT EXISTS (SELECT FROM effects WHERE op_id = $1 AND idx = $2)`,
		[]any{int64(batch[0].OpID), batch[0].Index}, &there)
	if err != nil {
		return err
	}
	if !there {
		return effectThenAck(b, ctx, queue, batch)
	}
	_, err = b.Settle(ctx, queue, KindAck, Settlement{Receipts: receiptsOf(batch)})
	return err
}

// Live lets the time pass that OpenLab has stopped.
func (l *Lab) Live() {
	if l.ring != nil {
		l.ring.asked = time.Time{}
	}
}

// Receipt is a receipt as a delivery has it, "" if the text is none.
func Receipt(text string) string {
	r := parseReceipts([]string{text})
	if len(r.ids) == 0 {
		return ""
	}
	return receiptOf(r.slots[0], r.ids[0], r.uuids[0])
}

// Await waits for messages where there are none.
func Await(ctx context.Context, d Demand) ([]Delivery, error) {
	t := &table{opened: &opened{}, pollEvery: 20 * time.Millisecond}
	return t.await(ctx, LabQueue, d, func(context.Context, string, int) ([]Delivery, error) {
		return nil, nil
	})
}

// PublishSlowly publishes in a transaction that ends later than its statement.
func (l *Lab) PublishSlowly(ctx context.Context, queue string, op, group uint64) error {
	r := Recipe{Messages: 1, Group: group}
	p := Publication{OpID: op, Messages: r.messages(op)}
	if _, perRow := l.messages.(oneByOne); perRow || l.river != nil { // which is slow enough
		_, err := l.Publish(ctx, queue, p)
		return err
	}
	sql, err := l.t.narrow(ctx, l.t.sql.publish)
	if err != nil {
		return err
	}
	var known bool
	var stored int
	err = l.t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, queue, int64(op), []string{BodyOf(op, 0)},
			[]int64{int64(group)}, []int32{0}, []int64{0}, p.digest()).Scan(&known, &stored)
	})
	if err == nil && stored == 0 {
		err = l.t.repeated(ctx, queue, p)
	}
	return err
}

// AckSlowly acknowledges in a transaction that ends later than its statement.
func (l *Lab) AckSlowly(ctx context.Context, queue string, s Settlement) (Settled, error) {
	if l.river != nil { // which is slow enough
		return l.Settle(ctx, queue, KindAck, s)
	}
	var done []settled
	err := l.t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = l.t.settle(ctx, tx, l.t.sql.ack, queue, parseReceipts(s.Receipts))
		return err
	})
	if err != nil {
		return Settled{}, err
	}
	return s.result(done)
}

// AckOnce acknowledges by one statement, and believes what that says of stale receipts.
func (l *Lab) AckOnce(ctx context.Context, queue string, s Settlement) (Settled, error) {
	done, err := l.t.settleParts(ctx, l.t.sql.ack, queue, []receipts{parseReceipts(s.Receipts)}, nil)
	if err != nil {
		return Settled{}, err
	}
	return s.result(done)
}

// RingBegins makes slot 0 and the next ones what these states say, since long ago, and
// all others empty.
func (l *Lab) RingBegins(ctx context.Context, states ...string) error {
	_, err := l.t.DB.Exec(ctx, `UPDATE slots SET state = 'empty', turn = 0`)
	for slot, state := range states {
		if err == nil {
			_, err = l.t.DB.Exec(ctx, `UPDATE slots SET state = $2, turn = 1 + $1::int,
				since = clock_timestamp() - interval '1 hour' WHERE slot = $1`, slot, state)
		}
	}
	if err != nil {
		return err
	}
	l.ring.patience = time.Minute
	l.ring.storing = nil
	return l.RingSeen(ctx)
}

// RingSeen has the server look which slots are in use.
func (l *Lab) RingSeen(ctx context.Context) error {
	l.ring.asked = time.Time{}
	_, err := l.ring.inUse(ctx)
	l.ring.asked = time.Now().Add(time.Hour)
	return err
}

// RingAdvances makes the next slot current.
func (l *Lab) RingAdvances(ctx context.Context) error { return l.ring.advance(ctx, 0) }

// RingCloses closes slot 0 if it may, by the second look; without care it does not ask who
// stores there.
func (l *Lab) RingCloses(ctx context.Context, care bool) error {
	if care {
		slot := ringSlot{0, 1}
		return errors.Join(l.ring.close(ctx, slot, 0), l.ring.close(ctx, slot, 0))
	}
	_, err := l.t.DB.Exec(ctx, `UPDATE slots SET state = 'closed' WHERE slot = 0 AND state = 'open'
		AND NOT EXISTS (SELECT FROM `+partition(0)+` WHERE state <> 'acked')`)
	return err
}

// RingEmpties empties slot 0 if it is closed.
func (l *Lab) RingEmpties(ctx context.Context) error {
	closed, err := l.ring.list(ctx, `slot = 0 AND state = 'closed'`)
	if err != nil || len(closed) == 0 {
		return err
	}
	return l.ring.empty(ctx, 0)
}

// MessagesOf are the messages of a recipe.
func MessagesOf(op uint64, r Recipe) []Message { return r.messages(op) }

// Keep sets for how long what is acknowledged is kept.
func (l *Lab) Keep(d time.Duration) { l.t.opened.Params.Keep = sut.Duration(d) }

// AckSome receives and acknowledges so many messages.
func (l *Lab) AckSome(ctx context.Context, queue string, n int) error {
	got, err := l.Receive(ctx, queue, Demand{Most: n})
	if err != nil || len(got) != n {
		return fmt.Errorf("received %d messages: %w", len(got), err)
	}
	_, err = l.Settle(ctx, queue, KindAck, Settlement{Receipts: receiptsOf(got)})
	return err
}

// Collect does what the collector does.
func (l *Lab) Collect(ctx context.Context) error { return l.messages.collect(ctx) }

// KeepSome acknowledges so many messages behind the planner's back.
func (l *Lab) KeepSome(ctx context.Context, n int) error {
	_, err := l.t.DB.Exec(ctx, `UPDATE messages SET state = 'acked', acked_at = clock_timestamp()
		WHERE slot = 0 AND id < $1 + (SELECT min(id) FROM messages)`, n)
	return err
}

// Truncate empties the tables at once.
func (l *Lab) Truncate(ctx context.Context) error {
	sql := `TRUNCATE messages, dead_letters, effects, published`
	if l.river != nil {
		sql = `TRUNCATE river_job, effects, published`
	}
	_, err := l.t.DB.Exec(ctx, sql)
	return err
}

// fillBatch is how many messages one statement of Fill stores.
const fillBatch = 500_000

// Fill adds messages to a queue, without their publications.
func (l *Lab) Fill(ctx context.Context, queue string, n int) error {
	for n > 0 {
		some := min(n, fillBatch)
		_, err := l.t.DB.Exec(ctx, `INSERT INTO messages (queue, op_id, idx, grp, priority, state, created_at,
				visible_at, body)
			SELECT $1, n, 0, 0, 0, 'ready', clock_timestamp(), clock_timestamp(), repeat('x', 100)
			FROM generate_series(1, $2::int) AS n`, queue, some)
		if err != nil {
			return err
		}
		n -= some
	}
	for _, sql := range []string{`ANALYZE messages`, `CHECKPOINT`} {
		if _, err := l.t.DB.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// PgbenchScript is what batched sends for a batch, as pgbench reads it: its own
// statements, but for a last step that puts the receipts into variables.
func PgbenchScript(batch int) string {
	line := func(sql string, values ...string) string {
		for i := len(values) - 1; i >= 0; i-- {
			sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i+1), values[i])
		}
		return strings.Join(strings.Fields(unpartitioned.Replace(sql)), " ")
	}
	fill := func(value string) string {
		return fmt.Sprintf("array_fill(%s, ARRAY[%d])", value, batch)
	}
	publish := line(publishSQL, "'queue-1'", "(:client_id::bigint * 1000000000 + :n::bigint)",
		fill("'"+strings.Repeat("x", 100)+"'::text"), fill("0::bigint"), fill("0"), fill("0::bigint"),
		"0")
	claim := strings.Replace(line(claimSQL, "'queue-1'", fmt.Sprint(batch)), "UPDATE messages",
		", got AS (UPDATE messages", 1) + `) SELECT coalesce(array_agg(slot), '{}') AS slots,
		coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt), '{}') AS uuids FROM got \gset`
	ack := line(ackSQL, ":slots", ":ids", ":uuids", "'queue-1'")
	return `\set n random(1, 1000000000)` + "\n" + publish + ";\n" +
		strings.Join(strings.Fields(claim), " ") + "\n" + ack + ";\n"
}

// Plans are how Postgres goes about a claim and an acknowledgement, on a connection of
// the design's.
func (l *Lab) Plans(ctx context.Context, queue string) (plans map[string]string, err error) {
	plans = map[string]string{}
	for name, p := range map[string]struct{ sql, args string }{
		"claim": {l.t.sql.claim, `('` + queue + `', 10)`},
		"ack": {l.t.sql.ack, `('{0}', '{1}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '` +
			queue + `')`},
	} {
		sql, err := l.t.narrow(ctx, p.sql)
		if err != nil {
			return nil, err
		}
		plans[name], err = l.plan(ctx, l.t.among(sql, receipts{slots: []int32{0}}), p.args)
		if err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// MetricsPlan is how Postgres goes about a scrape.
func (l *Lab) MetricsPlan(ctx context.Context) (string, error) {
	_, sql := l.looks()
	sql, err := l.t.narrow(ctx, sql)
	if err != nil {
		return "", err
	}
	return l.plan(ctx, sql, `(10, 10)`)
}

func (l *Lab) plan(ctx context.Context, sql, args string) (plan string, err error) {
	err = l.t.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `PREPARE step AS `+sql); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, `EXPLAIN EXECUTE step `+args, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		plan = strings.Join(lines, "\n")
		_, err = conn.Exec(ctx, `DEALLOCATE step`)
		return err
	})
	return plan, err
}
