package sqlbroker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/internal/queue"
)

// shared are the stores of all store-backed tests of this package.
var shared = envtest.NewShared(sut.Postgres)

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// configOf is an empty place with parameters.
func configOf(t testing.TB, p Params) sut.Config {
	t.Helper()
	space := shared.Namespace(t)
	return sut.Config{PostgresURL: space.PostgresURL, Prefix: space.Prefix, Params: p, MaxConns: 4,
		Timeout: 10 * time.Second}
}

// rush is few queues, short of time.
func rush() Params {
	ms := func(n int) sut.Duration { return sut.Duration(n) * sut.Duration(time.Millisecond) }
	p := DefaultParams()
	p.Queues, p.Worked, p.Batch, p.ReceiveBatch = 2, 1, 3, 4
	p.Grouped, p.Groups, p.Poison = 0.3, 5, 0.05
	p.Receives, p.Wait, p.Think = 1, ms(20), ms(50)
	p.Late, p.Extend, p.Release, p.Resend = 0.15, 0.1, 0.1, 0.2
	p.Visibility, p.MaxReceives = ms(400), 3
	p.DelayMost, p.SweepEvery, p.PollEvery = ms(50), ms(10), ms(5)
	p.Keep, p.CollectEvery, p.RotateEvery = ms(500), ms(50), ms(300)
	return p
}

// rightNames are the names of the variants that are not known to be wrong.
func rightNames() (names []string) {
	for _, v := range System().Variants {
		if len(v.Breaks) == 0 {
			names = append(names, v.Name)
		}
	}
	return names
}

// must ends a test that cannot go on.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Sections are the lines of a text under each headline, which is not indented.
func Sections(text string) map[string][]string {
	in, name := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		switch words := strings.TrimSpace(line); {
		case words == "" || words[0] == '#':
		case line[0] == ' ':
			in[name] = append(in[name], words)
		default:
			name = words
		}
	}
	return in
}

// labQueue is the queue of a lab.
const labQueue = "queue-1"

// lab is a design, or a mutant of one, whose steps a test takes one by one and whose statements
// can be put in order. It remembers what publishers and consumers did and saw, so that the
// invariants judge it.
//
// Time is made to pass: it is that of a clock which is ahead of Postgres' by all that has
// passed so far, while the rows that are there already become older by as much.
type lab struct {
	messages
	*table
	design sut.Variant
	cfg    sut.Config
	inst   sut.Instance
	users  *limited    // what publishers and consumers call
	ring   *slots      // if it is divided
	river  *riverQueue // if it is River's
	params Params
	begun  time.Time

	mu      sync.Mutex
	ahead   time.Duration
	began   time.Duration // how far ahead it was at the last beginning
	records []history.Record
	audited Audit
}

// openLab opens and prepares a design, or a mutant, by its name. The tracer sees its statements.
func openLab(t testing.TB, name string, cfg sut.Config, tracer pgx.QueryTracer) *lab {
	t.Helper()
	all := systemOf(append(designs(), mutants()...)...).Variants
	v := all[slices.IndexFunc(all, func(v sut.Variant) bool { return v.Name == name })]
	l := &lab{design: v, cfg: cfg, params: cfg.Params.(Params), begun: time.Now()}
	l.inst = l.server(t)
	must(t, l.inst.Prepare(t.Context()))
	l.users = limitedOf(l.inst)
	l.messages, l.table = l.users.messages, l.users.base()
	switch own := l.messages.(type) {
	case ringed:
		l.ring = own.slots
	case *riverQueue:
		l.river = own
	}
	if tracer != nil {
		l.trace(t, tracer)
	}
	if l.river != nil {
		l.silence(t)
	}
	if l.ring != nil { // which slots are in use changes only with time, which does not pass
		must(t, l.look(t.Context()))
	}
	return l
}

// server is one more server of the design.
func (l *lab) server(t testing.TB) sut.Instance {
	t.Helper()
	inst, err := l.design.Open(t.Context(), l.cfg)
	must(t, err)
	t.Cleanup(func() { _ = inst.Close() }) // nothing is left to lose
	return inst
}

// trace has a tracer see the statements from now on.
func (l *lab) trace(t testing.TB, tracer pgx.QueryTracer) {
	t.Helper()
	conf, err := pgxpool.ParseConfig(l.cfg.PostgresURL)
	must(t, err)
	conf.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	must(t, err)
	l.DB.Close()
	l.DB.Pool = pool
}

// silence makes River notify of no insert into the lab's queue. It does once in its cooldown,
// so that whether an insert has one statement more would depend on how long ago the last was.
func (l *lab) silence(t testing.TB) {
	t.Helper()
	client, err := queue.RiverOver(l.DB, &river.Config{FetchCooldown: time.Hour,
		FetchPollInterval: time.Hour})
	must(t, err)
	l.river.River = client
	tx, err := l.DB.Pool.Begin(t.Context())
	must(t, err)
	p := Publication{OpID: 1, Messages: Recipe{Messages: 1}.messages(1)}
	_, err = client.Client.InsertManyFastTx(t.Context(), tx, riverJobs(labQueue, p, 1, time.Now()))
	must(t, err, tx.Rollback(t.Context()))
}

// run runs statements, of which each is told the arguments.
func (l *lab) run(ctx context.Context, statements []string, args ...any) error {
	for _, sql := range statements {
		if _, err := l.DB.Exec(ctx, sql, args...); err != nil {
			return err
		}
	}
	return nil
}

// empty empties the tables, by DELETE FROM or TRUNCATE.
func (l *lab) empty(ctx context.Context, by string) error {
	tables := []string{"messages", "dead_letters", "effects", "published"}
	if l.river != nil {
		tables = []string{"river_job", "effects", "published"}
	}
	for i, name := range tables {
		tables[i] = by + " " + name
	}
	return l.run(ctx, tables)
}

// begin puts so many messages of a group, 0 for none, into an empty queue.
func (l *lab) begin(ctx context.Context, messages int, group uint64) error {
	l.mu.Lock()
	l.records, l.audited, l.began = nil, Audit{}, l.ahead
	l.mu.Unlock()
	return errors.Join(l.empty(ctx, "DELETE FROM"),
		l.publishes(ctx, 256, Recipe{Messages: messages, Group: group}, l.messages.Publish))
}

// publishes publishes and remembers it.
func (l *lab) publishes(
	ctx context.Context, id uint64, r Recipe,
	by func(context.Context, string, Publication) (int, error),
) error {
	return l.does(id, KindPublish, Publication{Make: &r}, func() (any, error) {
		_, err := by(ctx, labQueue, Publication{OpID: id, Messages: r.messages(id)})
		return nil, err
	})
}

// does something and remembers it: id 0 is any that is free.
func (l *lab) does(id uint64, kind string, asks any, do func() (any, error)) error {
	now := func() time.Duration { return time.Since(l.begun) + l.passed() }
	r := history.Record{Op: history.Op{ID: id, Kind: kind, Key: labQueue}, Start: now()}
	reply, err := do()
	if r.End = now(); errors.Is(err, sut.ErrRefused) {
		r.Outcome, r.Err = history.Refused, err.Error()
	} else if err != nil {
		return err
	} else {
		r.Outcome = history.OK
	}
	var encoding error
	r.Op.Body, encoding = json.Marshal(asks)
	if reply != nil {
		r.Reply.Body, _ = json.Marshal(reply) // numbers and strings
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Seq = uint64(len(l.records)); id == 0 {
		r.Op.ID = 1<<20 + r.Seq
	}
	l.records = append(l.records, r)
	return errors.Join(err, encoding)
}

// passed is how far the clock is ahead.
func (l *lab) passed() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ahead
}

// shift moves deliveries from one clock to another.
func shift(batch []Delivery, by time.Duration) []Delivery {
	batch = slices.Clone(batch)
	for i := range batch {
		batch[i].ReceivedNS += int64(by)
		batch[i].VisibleNS += int64(by)
	}
	return batch
}

// receives receives one message.
func (l *lab) receives(ctx context.Context) (got []Delivery, err error) {
	d := Demand{Most: 1}
	err = l.does(0, KindReceive, d, func() (any, error) {
		got, err = l.messages.Receive(ctx, labQueue, d)
		got = shift(got, l.passed())
		return got, err
	})
	return got, err
}

// settles settles what was received.
func (l *lab) settles(
	ctx context.Context, kind string, by time.Duration, batch []Delivery,
) error {
	return l.settlesBy(ctx, kind, by, batch, l.messages.Settle)
}

func (l *lab) settlesBy(
	ctx context.Context, kind string, by time.Duration, batch []Delivery,
	settle func(context.Context, string, string, Settlement) (Settled, error),
) error {
	s := Settlement{ByMS: by.Milliseconds(), Receipts: receiptsOf(batch)}
	return l.does(0, kind, s, func() (any, error) {
		done, err := settle(ctx, labQueue, kind, s)
		if done.VisibleNS > 0 {
			done.VisibleNS += int64(l.passed())
		}
		return done, err
	})
}

// works works off what was received.
func (l *lab) works(ctx context.Context, batch []Delivery) error {
	return l.messages.work(ctx, labQueue, shift(batch, -l.passed()))
}

// age lets some time pass for deliveries, acknowledgements and effects, and nobody come.
func (l *lab) age(ctx context.Context, d time.Duration) error {
	sql := `UPDATE messages SET visible_at = visible_at - $1 * interval '1 us',
		picked_at = picked_at - $1 * interval '1 us', acked_at = acked_at - $1 * interval '1 us'
		WHERE state IN ('picked', 'acked')`
	if l.river != nil {
		sql = `UPDATE river_job SET attempted_at = attempted_at - $1 * interval '1 us',
			finalized_at = finalized_at - $1 * interval '1 us' WHERE state IN ('running', 'completed')`
	}
	err := l.run(ctx, []string{`WITH older AS (
		UPDATE effects SET received_at = received_at - $1 * interval '1 us',
			visible_at = visible_at - $1 * interval '1 us', stored_at = stored_at - $1 * interval '1 us'
	) ` + sql}, d.Microseconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += d
	return err
}

// outlive makes messages older, and their queues, as if time had passed: what is with a
// consumer stays there.
func (l *lab) outlive(ctx context.Context, d time.Duration) error {
	sql := `UPDATE messages SET created_at = created_at - $1 * interval '1 us',
		visible_at = visible_at - CASE WHEN state = 'picked' THEN 0 ELSE $1 END * interval '1 us'`
	if l.river != nil {
		sql = `UPDATE river_job SET created_at = created_at - $1 * interval '1 us',
			scheduled_at = scheduled_at - $1 * interval '1 us'`
	}
	return l.run(ctx, []string{`WITH older AS (
		UPDATE queues SET retention_at = retention_at - $1 * interval '1 us'
	) ` + sql}, d.Microseconds())
}

// apart is a context without the values of another one: what is sent with it belongs
// to no session.
type apart struct{ context.Context }

// Value has none.
func (apart) Value(any) any { return nil }

// expire lets the time of all deliveries pass, and a sweeper come at once, who belongs to no
// session.
func (l *lab) expire(ctx context.Context) error {
	return errors.Join(l.age(ctx, 24*time.Hour),
		l.messages.sweep(context.WithoutCancel(apart{ctx})))
}

// reads is the audit as it is now.
func (l *lab) reads(ctx context.Context) (a Audit, err error) {
	raw, err := l.inst.Audit(ctx)
	if err == nil {
		a, err = api.DecodeAudit[Audit](raw)
	}
	return a, err
}

// judge is what the invariants say in the end.
func (l *lab) judge(ctx context.Context) (map[string]check.Verdict, error) {
	a, err := l.reads(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range a.Messages {
		if a.Messages[i].AckedNS > 0 {
			a.Messages[i].AckedNS += int64(l.ahead)
		}
	}
	for i := range a.Dead { // as old as it is by now: nobody says when it died
		a.Dead[i].AgeNS += int64(l.ahead - l.began)
	}
	for i := range a.Effects {
		a.Effects[i].ReceivedNS += int64(l.ahead)
		a.Effects[i].VisibleNS += int64(l.ahead)
		a.Effects[i].StoredNS += int64(l.ahead)
	}
	l.audited = a
	raw, err := json.Marshal(a)
	return suttest.Verdicts(Invariants(l.params), history.Slice(l.records), raw), err
}

// look has a server look which slots are in use, and go by that for an hour.
func (l *lab) look(ctx context.Context) error {
	l.ring.asked = time.Time{}
	_, err := l.ring.inUse(ctx)
	l.ring.asked = time.Now().Add(time.Hour)
	return err
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

// releaseWhole gives back all of a batch that cannot be worked off because of one message.
func releaseWhole(b *table, ctx context.Context, queue string, batch []Delivery) error {
	err := b.work(ctx, queue, batch)
	if errors.Is(err, errIndigestible) {
		_, err = b.Settle(ctx, queue, KindRelease, Settlement{Receipts: receiptsOf(batch)})
	}
	return err
}

// readThenUpdate claims in two statements: it reads which message is first, then it
// marks that one.
func readThenUpdate(b *table, ctx context.Context, queue string) ([]Delivery, error) {
	found, err := b.claimBy(ctx, `SELECT m.slot, m.id, gen_random_uuid(), m.op_id, m.idx, m.body,
		m.grp, m.priority, m.receives + 1, (`+nanoseconds+`clock_timestamp()))::bigint,
		(`+nanoseconds+`clock_timestamp() + interval '1 hour'))::bigint
		FROM messages m WHERE queue = $1 AND state = 'ready' ORDER BY id LIMIT $2`, queue, 1)
	if err != nil || len(found) == 0 {
		return found, err
	}
	r := parseReceipts(receiptsOf(found))
	_, err = b.DB.Exec(ctx, `UPDATE messages SET state = 'picked', receipt = $2,
		receives = receives + 1, picked_at = clock_timestamp(),
		visible_at = clock_timestamp() + interval '1 hour' WHERE slot = 0 AND id = $1`,
		r.ids[0], r.uuids[0])
	return found, err
}

// effectThenAck stores the effects, then acknowledges, and looks at no receipt.
func effectThenAck(b *table, ctx context.Context, queue string, batch []Delivery) error {
	err := b.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return storeEffects(ctx, tx, queue, batch)
	})
	if err != nil {
		return workError(err)
	}
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
