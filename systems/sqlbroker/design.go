package sqlbroker

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// design is a variant as its file states it.
type design struct {
	name, idea, guarantees, givesUp string

	breaks        []sut.Break
	notApplicable map[string]string
	// sql is what it sends.
	sql statements
	// one is set where each message has a statement of its own.
	one bool
	// partitioned: messages go to partitions, which are emptied as a whole.
	partitioned bool
	// notifies: publications ring a bell in all servers.
	notifies bool
	// river: River keeps the messages.
	river bool
	// own are what its connections set in Postgres besides.
	own map[string]string
	// work is how its consumers store effects and acknowledge.
	work work
}

// backend is what a design is built on.
type backend struct {
	cfg    sut.Config
	params Params
	db     *stores.Postgres
	table  *table
	// broker is what operators and consumers call; river is the same where River keeps
	// the messages, and nil elsewhere.
	broker Broker
	river  *riverQueue
	// tally counts what goes through the backend.
	tally *tally
	// scrapes remembers what was told of the queues last.
	scrapes *scrapes
	// end stops what listens in the background.
	end func()
}

// variant is the design as the harness sees it.
func (d design) variant() sut.Variant {
	return sut.Variant{
		Name: d.name, Idea: d.idea, Guarantees: d.guarantees, GivesUp: d.givesUp,
		Needs: []sut.Service{sut.Postgres}, Breaks: d.breaks,
		NotApplicable: d.notApplicable,
		Roles:         []sut.Role{d.consumer(), d.sweeper(), d.collector(), d.reporter()},
		Gauge:         d.gauge,
		Open: func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
			return d.instance(ctx, cfg)
		},
	}
}

// backend opens the design's connections. They are closed by close.
func (d design) backend(ctx context.Context, cfg sut.Config) (*backend, error) {
	params, err := sut.ParamsOf[Params](cfg.Params)
	if err != nil {
		return nil, err
	}
	if err := params.Validate(); err != nil {
		return nil, fmt.Errorf("sqlbroker parameters: %w", err)
	}
	db, err := stores.OpenPostgres(ctx, cfg, "sqlbroker", d.settings())
	if err != nil {
		return nil, err
	}
	b, err := d.over(ctx, cfg, params, db)
	if err != nil {
		db.Close()
	}
	return b, err
}

// settings are those of its connections.
func (d design) settings() map[string]string {
	// A plan that is made once does not know its LIMIT, and takes it for a tenth of the
	// table; nor how many messages will be kept, when it is made while there is none. It
	// would read all of them for each batch.
	settings := map[string]string{"plan_cache_mode": "force_custom_plan"}
	maps.Copy(settings, d.own)
	return settings
}

// over is a backend that is built on these connections.
func (d design) over(
	ctx context.Context, cfg sut.Config, params Params, db *stores.Postgres,
) (*backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &backend{cfg: cfg, params: params, db: db, tally: &tally{}, end: func() {}}
	b.scrapes = &scrapes{read: b.scrape, now: time.Now}
	b.table = &table{db: db, sql: d.sql, pollEvery: params.PollEvery.D(), one: d.one, tally: b.tally}
	b.broker = &broker{b.table, operators{b.table}}
	if d.river {
		var err error
		if b.river, err = newRiverQueue(b.table); err != nil {
			return nil, err
		}
		b.broker = b.river
	}
	if d.partitioned {
		b.table.slots = &slots{db: db, patience: lockPatience}
	}
	if d.notifies {
		b.table.bell = newBell()
		b.table.pollEvery *= pollRarely
		b.end = b.hear(ctx)
	}
	return b, nil
}

// close closes what is open.
func (b *backend) close() {
	b.end()
	b.db.Close()
}

func (d design) instance(ctx context.Context, cfg sut.Config) (*instance, error) {
	b, err := d.backend(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening sqlbroker %s: %w", d.name, err)
	}
	return d.on(b), nil
}

// on is an instance of the design on a backend.
func (d design) on(b *backend) *instance {
	i := &instance{backend: b, api: API(), design: d}
	i.rates = newRates(b.db)
	i.Broker = &limited{Broker: b.broker, rates: i.rates}
	return i
}

// broker is the Broker of a table.
type broker struct {
	*table
	operators
}

// instance is an opened design. It is a Broker too.
type instance struct {
	Broker
	*backend
	api    *api.Table[Broker]
	design design
	rates  *rates
	once   sync.Once
}

// schema makes the tables of queues, publications and effects.
//
//go:embed schema.sql
var schema string

// messagesSchema makes those of messages; partitions goes where a table can be divided.
//
//go:embed messages.sql
var messagesSchema string

// Prepare makes the schema and the queues. Where any of it exists already it fails.
func (i *instance) Prepare(ctx context.Context) error {
	text := i.design.schema()
	err := i.db.Prepare(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, text)
		for n := 0; err == nil && n < i.params.Queues; n++ {
			args := append(i.params.settings().args(QueueName(n+1)), false, nil)
			_, err = tx.Exec(ctx, createSQL, args...)
		}
		return err
	})
	if err == nil && i.river != nil {
		err = i.river.migrate(ctx)
	}
	if err != nil {
		return stores.Failed("making the schema and the queues", err)
	}
	return nil
}

// schema is what the design begins with.
func (d design) schema() string {
	switch {
	case d.river:
		return schema
	case d.partitioned:
		return schema + strings.Replace(messagesSchema, "/* partitions */",
			` PARTITION BY LIST (slot)`, 1) + partitionsSQL()
	}
	return schema + messagesSchema
}

// Do performs one operation.
func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return i.api.Do(ctx, i.Broker, op)
}

// Empty says what there is before the first message.
func (i *instance) Empty(ctx context.Context) (string, error) {
	var messages, dead, effects int64
	err := i.db.Row(ctx, `SELECT (SELECT count(*) FROM published), (SELECT count(*) FROM dead_letters),
		(SELECT count(*) FROM effects)`, nil, &messages, &dead, &effects)
	if err != nil {
		return "", stores.Failed("looking whether there are messages", err)
	}
	if messages+dead+effects > 0 {
		return fmt.Sprintf("%d publications, %d dead letters and %d effects", messages, dead,
			effects), nil
	}
	return "", nil
}

// overdueSQL counts by queue what should have died of age: see overdue. By messages_age.
// Parameter: for how long, in microseconds.
const overdueSQL = `
SELECT m.queue, count(*) FROM messages m JOIN queues q USING (queue)
WHERE m.state IN ('ready', 'delayed')
    AND m.created_at < statement_timestamp() - (SELECT min(retention) FROM queues) * interval '1 us'
    AND statement_timestamp() - $1::bigint * interval '1 us' > greatest(
        m.created_at + q.retention * interval '1 us', ` + waitsSince + `, q.retention_at)
GROUP BY m.queue ORDER BY m.queue`

// Quiesced says what the roles have still to do: messages that consumers have not
// worked off, those that are not yet due, and those that the sweeper has left waiting
// although they are too old.
func (i *instance) Quiesced(ctx context.Context) (pending string, err error) {
	list, err := i.List(ctx)
	if err != nil {
		return "", err
	}
	if pending = i.params.waiting(list); pending != "" {
		return pending, nil
	}
	err = i.tooOld(ctx, func(queue string, n int64) {
		pending = fmt.Sprintf("%s has %d messages older than its retention", queue, n)
	})
	return pending, err
}

// Backlog counts the messages that Quiesced is about; some may be counted twice.
func (i *instance) Backlog(ctx context.Context) (left int64, err error) {
	list, err := i.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, q := range list {
		left += i.params.waits(q)
	}
	err = i.tooOld(ctx, func(_ string, n int64) { left += n })
	return left, err
}

// tooOld tells how many messages of each queue should have died of age, if any.
func (i *instance) tooOld(ctx context.Context, tell func(queue string, n int64)) error {
	err := i.db.Rows(ctx, overdueSQL, []any{(i.params.SweepEvery.D() + agePending).Microseconds()},
		func(row pgx.CollectableRow) error {
			var queue string
			var n int64
			err := row.Scan(&queue, &n)
			tell(queue, n)
			return err
		})
	if err != nil {
		return stores.Failed("looking for messages that are too old", err)
	}
	return nil
}

// waiting says which queue has messages that are to be waited for, "" if none has.
func (p Params) waiting(list []QueueInfo) string {
	for _, q := range list {
		if p.waits(q) > 0 {
			return fmt.Sprintf("%s has %d messages ready, %d delayed and %d with consumers",
				q.Queue, q.Ready, q.Delayed, q.Picked)
		}
	}
	return ""
}

// waits counts the messages of a queue that are to be waited for.
func (p Params) waits(q QueueInfo) int64 {
	n := q.Delayed + q.Picked
	if p.worked(q.Queue) {
		n += q.Ready
	}
	return n
}

// Audit reads an Audit in one snapshot.
func (i *instance) Audit(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	a, err := i.audit(ctx)
	if err != nil {
		return nil, fmt.Errorf("auditing: %w", err)
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// Close closes the connections.
func (i *instance) Close() error {
	i.once.Do(i.backend.close)
	return nil
}

// pollRarely is how many times less often those look who are told.
const pollRarely = 10
