package adclicks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/topics"
)

// errFenced: somebody else has the partition, and has moved on.
var errFenced = errors.New("the partition has moved on without us")

// partition is what an aggregator has of one in its hands.
type partition struct {
	number  int32
	decider *decider
	windows windows
	// from is the offset up to which results are stored; read is the next record of the topic that
	// is read, which is not always that of the clicks.
	from, read int64
	pending    []decision
	known      func(click string) bool // says that a click seems to have come before; see lambda
}

func newPartition(number int32, r rules) *partition {
	return &partition{number: number, decider: newDecider(r), windows: windows{}}
}

// take decides a click.
func (p *partition) take(e event) error {
	return p.apply(p.decider.decide(e))
}

// follow applies a decision that was taken elsewhere.
func (p *partition) follow(d decision) error {
	p.decider.next, p.decider.maxMS = d.LogOffset+1, max(p.decider.maxMS, d.AtMS)
	return p.apply(d)
}

// apply adds a decision to what is to be stored.
func (p *partition) apply(d decision) error {
	p.pending = append(p.pending, d)
	return p.windows.add(&d)
}

// stored says that everything is, and forgets windows that no click can change.
func (p *partition) stored() {
	p.from, p.pending = p.decider.next, nil
	oldest := p.decider.maxMS - p.decider.lateness - p.decider.horizon
	for k, s := range p.windows {
		s.dirty = false
		if k.startMS+p.decider.window <= oldest {
			delete(p.windows, k)
		}
	}
}

// step changes something of a partition in a transaction.
type step = func(*partition, context.Context, pgx.Tx) error

// inOne takes steps with each partition in one transaction.
func inOne(ctx context.Context, st *opened, list []*partition, steps ...step) error {
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, p := range list {
			for _, step := range steps {
				if err := step(p, ctx, tx); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return stores.Failed("storing results", err)
}

// storeAll stores the results of partitions and how far they are in one transaction.
func storeAll(ctx context.Context, st *opened, list []*partition) error {
	return inOne(ctx, st, list, (*partition).moveOn, (*partition).write)
}

// moveOn stores how far the partition is, unless somebody else has moved it on. It is the fence:
// of two that begin at the same offset one moves on.
func (p *partition) moveOn(ctx context.Context, tx pgx.Tx) error {
	return p.move(ctx, tx, `UPDATE progress SET next_offset = $3, max_ms = $4, read_offset = $5
		WHERE part = $1 AND next_offset = $2`, p.number, p.from, p.decider.next, p.decider.maxMS, p.read)
}

// move changes the row of the partition, which must be there.
func (p *partition) move(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	tag, err := tx.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() == 0 {
		return fmt.Errorf("partition %d at offset %d: %w", p.number, p.from, errFenced)
	}
	return err
}

// write stores decisions and windows as they are.
func (p *partition) write(ctx context.Context, tx pgx.Tx) error {
	if len(p.pending) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO decisions
		SELECT $1, log_offset, click, campaign, ad, ip, window_ms, verdict
		FROM jsonb_to_recordset($2) AS d (log_offset bigint, click text, campaign text, ad text,
			ip text, window_ms bigint, verdict text)
		ON CONFLICT (part, log_offset) DO NOTHING`, p.number, p.pending)
	if err != nil {
		return fmt.Errorf("storing decisions: %w", err)
	}
	var c struct {
		campaigns, ads                 []string
		starts, clicks, cents, onTimes []int64
		sketches                       [][]byte
	}
	for _, k := range p.windows.dirty() {
		s := p.windows[k]
		if err := s.seal(); err != nil {
			return err
		}
		c.campaigns, c.ads = append(c.campaigns, k.campaign), append(c.ads, k.ad)
		c.starts, c.clicks = append(c.starts, k.startMS), append(c.clicks, s.Clicks)
		c.cents, c.onTimes = append(c.cents, s.Cents), append(c.onTimes, s.OnTime)
		c.sketches = append(c.sketches, s.Sketch)
	}
	_, err = tx.Exec(ctx, `INSERT INTO windows
		SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
			$7::bigint[], $8::bytea[])
		ON CONFLICT (campaign, ad, window_ms) DO UPDATE SET clicks = excluded.clicks,
			cents = excluded.cents, on_time = excluded.on_time, sketch = excluded.sketch`,
		p.number, c.campaigns, c.ads, c.starts, c.clicks, c.cents, c.onTimes, c.sketches)
	return stores.Failed("storing windows", err)
}

// loader takes partitions over.
type loader func(ctx context.Context, st *opened, parts []int32) (map[int32]*partition, error)

// deciders changes what a load takes over.
func deciders(load loader, change func(*decider)) loader {
	return func(ctx context.Context, st *opened, numbers []int32) (map[int32]*partition, error) {
		list, err := load(ctx, st, numbers)
		for _, p := range list {
			change(p.decider)
		}
		return list, err
	}
}

// loadAll reads partitions as their last owners have stored them, with what those remembered.
func loadAll(ctx context.Context, st *opened, numbers []int32) (map[int32]*partition, error) {
	list := map[int32]*partition{}
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, n := range numbers {
			p := newPartition(n, st.Params.rules())
			list[n] = p
			err := tx.QueryRow(ctx, `SELECT next_offset, max_ms, read_offset FROM progress
				WHERE part = $1`, n).Scan(&p.from, &p.decider.maxMS, &p.read)
			if err == nil {
				p.decider.next = p.from
				err = p.remember(ctx, tx)
			}
			if err != nil {
				return fmt.Errorf("partition %d: %w", n, err)
			}
		}
		return nil
	})
	return list, stores.Failed("taking partitions over", err)
}

// remember reads what the decider knows of windows that may still change, and these.
func (p *partition) remember(ctx context.Context, tx pgx.Tx) error {
	oldest := p.decider.maxMS - p.decider.lateness - p.decider.horizon - p.decider.window
	list, err := decisionsOf(ctx, tx, p.number, oldest)
	if err != nil {
		return err
	}
	for i := range list {
		p.decider.note(&list[i])
	}
	p.windows, err = windowsOf(ctx, tx, p.number, oldest)
	return err
}

// decisionsOf reads the decisions about windows that begin after a time, in order.
func decisionsOf(
	ctx context.Context, on stores.Querier, part int32, after int64,
) ([]decision, error) {
	list, err := stores.CollectOn[decision](ctx, on, `SELECT click, campaign, ad, ip, log_offset,
			window_ms, verdict
		FROM decisions WHERE part = $1 AND window_ms > $2 ORDER BY log_offset`, part, after)
	return list, stores.Failed("reading decisions", err)
}

// windowsOf reads the windows of a partition that begin after a time.
func windowsOf(
	ctx context.Context, on stores.Querier, part int32, after int64,
) (windows, error) {
	list, err := stores.CollectOn[named](ctx, on, `SELECT campaign, ad, window_ms, clicks, cents,
			on_time, sketch
		FROM windows WHERE part = $1 AND window_ms > $2`, part, after)
	w := windows{}
	for i := range list {
		w[list[i].key()] = &list[i].sums
	}
	return w, stores.Failed("reading windows", err)
}

// stand is how far a partition is: a row of the table progress, and the end of the log.
type stand struct {
	Part                     int32
	Next, Consumed, Archived int64
	end                      int64 // see lags
}

// lags are how far every partition is, and then where the log ends.
func lags(ctx context.Context, st *opened) ([]stand, error) {
	list, err := standsNow(ctx, st)
	if err != nil {
		return nil, err
	}
	ends, err := topics.Ends(ctx, st.Kafka, topics.Name(st.Config, topicClicks))
	for i := range list {
		list[i].end = ends[list[i].Part]
	}
	return list, err
}

// selectStands reads how far every partition is.
const selectStands = `SELECT part, next_offset, greatest(next_offset, speed_next), archived_next
	FROM progress ORDER BY part`

// standsNow is how far every partition is at this moment.
func standsNow(ctx context.Context, st *opened) ([]stand, error) {
	list, err := stores.Collect[stand](ctx, st.DB, selectStands)
	return list, stores.Failed("reading the progress", err)
}

// inOrder are partitions with something to store, by their numbers, so that two that store do not
// wait for each other in a circle.
func inOrder(held map[int32]*partition) (list []*partition) {
	for _, p := range held {
		if len(p.pending) > 0 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *partition) int { return int(a.number - b.number) })
	return list
}
