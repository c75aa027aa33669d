package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// database is the books in Postgres.
type database struct{ *stores.Postgres }

var _ books = database{}

func insertStands(ctx context.Context, tx pgx.Tx, partitions int, list ...station) error {
	for _, who := range list {
		_, err := tx.Exec(ctx, `INSERT INTO progress (stage, generation, part)
			SELECT $1, $2, p FROM generate_series(0, $3 - 1) p`,
			who.stage, who.generation, partitions)
		if err != nil {
			return fmt.Errorf("placing %s at the beginning: %w", who.stage, err)
		}
	}
	return nil
}

// take raises the epoch of the partitions.
func (db database) take(
	ctx context.Context, who station, partitions []int32,
) ([]stand, error) {
	slices.Sort(partitions)
	var list []stand
	err := db.Rows(ctx, `UPDATE progress SET epoch = epoch + 1
		WHERE stage = $1 AND generation = $2 AND part = ANY ($3)
		RETURNING part, epoch, next_offset, source, decided_offset, views`,
		[]any{who.stage, who.generation, partitions},
		func(row pgx.CollectableRow) error {
			var s stand
			var places []byte
			err := row.Scan(&s.partition, &s.epoch, &s.next, &s.source, &s.decided, &places)
			if err == nil {
				s.views, err = decodePlaces(places)
			}
			list = append(list, s)
			return err
		})
	switch {
	case err != nil:
		return nil, fmt.Errorf("taking partitions for the %s: %w", who.stage, err)
	case len(list) != len(partitions):
		return nil, fmt.Errorf("taking partitions for the %s: %d of %d are in the table progress",
			who.stage, len(list), len(partitions))
	}
	return list, nil
}

// moveOn moves all stands or returns errFenced.
func moveOn(ctx context.Context, tx pgx.Tx, who station, moves []move) error {
	c := columnsOf(moves)
	tag, err := tx.Exec(ctx, `UPDATE progress p SET next_offset = m.next, source = m.source,
			decided_offset = m.decided, views = m.views
		FROM unnest($3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::bigint[], $9::bigint[], $10::bytea[])
			AS m (part, epoch, was, next, source, was_decided, decided, views)
		WHERE p.stage = $1 AND p.generation = $2 AND p.part = m.part AND p.epoch = m.epoch
			AND p.next_offset = m.was AND p.decided_offset = m.was_decided`,
		who.stage, who.generation, c.parts, c.epochs, c.was, c.next, c.sources, c.wasDecided,
		c.decided, c.views)
	if err != nil {
		return fmt.Errorf("moving on: %w", err)
	}
	if n := int(tag.RowsAffected()); n < len(moves) {
		return fenced(moves, n)
	}
	return nil
}

// moveColumns are moves as arrays.
type moveColumns struct {
	parts                      []int32
	epochs, was, next, sources []int64
	wasDecided, decided        []int64
	views                      [][]byte
}

func columnsOf(moves []move) (c moveColumns) {
	for _, m := range moves {
		c.parts, c.epochs = append(c.parts, m.partition), append(c.epochs, m.epoch)
		c.was, c.next = append(c.was, m.next), append(c.next, m.to)
		c.sources = append(c.sources, m.toSource)
		c.wasDecided, c.decided = append(c.wasDecided, m.decided), append(c.decided, m.toDecided)
		c.views = append(c.views, encodePlaces(m.toViews))
	}
	return c
}

// filtered stores decisions and moves on in one transaction.
func (db database) filtered(ctx context.Context, moves []move, drops []DropAudit) error {
	err := db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := moveOn(ctx, tx, station{stageFilter, 0}, moves); err != nil {
			return err
		}
		return addDrops(ctx, tx, drops)
	})
	return stores.Failed("recording what was filtered", err)
}

func addDrops(ctx context.Context, tx pgx.Tx, drops []DropAudit) error {
	if len(drops) == 0 {
		return nil
	}
	parts, events := make([]int32, len(drops)), make([]int64, len(drops))
	videos, reasons := make([]string, len(drops)), make([]string, len(drops))
	for i, d := range drops {
		parts[i], videos[i], reasons[i], events[i] = d.Partition, d.Video, d.Reason, d.Events
	}
	_, err := tx.Exec(ctx, `INSERT INTO drops AS d (part, video, reason, events)
		SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[])
		ON CONFLICT (part, video, reason) DO UPDATE SET events = d.events + excluded.events`,
		parts, videos, reasons, events)
	return err
}

// counted stores views and moves on in one transaction.
func (db database) counted(
	ctx context.Context, who station, moves []move, sums []sum,
) error {
	if len(moves) == 1 && len(sums) == 1 {
		return db.countedOne(ctx, who, moves[0], sums[0])
	}
	err := db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := moveOn(ctx, tx, who, moves); err != nil {
			return err
		}
		return addSums(ctx, tx, who, sums)
	})
	return stores.Failed("storing counts", err)
}

// countedOne is counted for one sum of one partition, as one statement.
func (db database) countedOne(ctx context.Context, who station, m move, s sum) error {
	rows, err := db.Exec(ctx, `WITH moved AS (
			UPDATE progress SET next_offset = $6, source = $7
			WHERE stage = $1 AND generation = $2 AND part = $3 AND epoch = $4 AND next_offset = $5
			RETURNING part),
		counted AS (
			INSERT INTO view_counts AS c (generation, video, window_start, shard, views)
			SELECT $2, $8, $9, part, $10 FROM moved
			ON CONFLICT (generation, video, window_start, shard)
				DO UPDATE SET views = c.views + excluded.views)
		INSERT INTO shard_views AS s (generation, video, shard, views)
		SELECT $2, $8, part, $10 FROM moved
		ON CONFLICT (generation, video, shard) DO UPDATE SET views = s.views + excluded.views`,
		who.stage, who.generation, m.partition, m.epoch, m.next, m.to, m.toSource,
		s.Video, s.WindowStart, s.Views)
	switch {
	case err != nil:
		return fmt.Errorf("storing a count: %w", err)
	case rows == 0:
		return fenced([]move{m}, 0)
	}
	return nil
}

// counts stores views and nothing else.
func (db database) counts(ctx context.Context, who station, sums []sum) error {
	err := db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return addSums(ctx, tx, who, sums)
	})
	return stores.Failed("storing counts", err)
}

// reports notes how far a station has come by its own account.
func (db database) reports(ctx context.Context, who station, moves []move) error {
	err := db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c := columnsOf(moves)
		_, err := tx.Exec(ctx, `UPDATE progress p
			SET next_offset = greatest(p.next_offset, m.next), source = greatest(p.source, m.source)
			FROM unnest($3::int[], $4::bigint[], $5::bigint[]) AS m (part, next, source)
			WHERE p.stage = $1 AND p.generation = $2 AND p.part = m.part`,
			who.stage, who.generation, c.parts, c.next, c.sources)
		return err
	})
	return stores.Failed("reporting progress", err)
}

// addSums adds views to their windows and to the totals of their shards, in
// the order of the keys, so that two writers do not wait for each other.
func addSums(ctx context.Context, tx pgx.Tx, who station, sums []sum) error {
	if len(sums) == 0 {
		return nil
	}
	slices.SortFunc(sums, func(a, b sum) int {
		return cmp.Or(cmp.Compare(a.Video, b.Video), cmp.Compare(a.WindowStart, b.WindowStart),
			cmp.Compare(a.Shard, b.Shard))
	})
	shards, views := make([]int32, len(sums)), make([]int64, len(sums))
	videos, starts := make([]string, len(sums)), make([]int64, len(sums))
	for i, s := range sums {
		videos[i], starts[i], shards[i], views[i] = s.Video, s.WindowStart, s.Shard, s.Views
	}
	_, err := tx.Exec(ctx, `INSERT INTO view_counts AS c
			(generation, video, window_start, shard, views)
		SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::int[], $5::bigint[])
		ON CONFLICT (generation, video, window_start, shard)
			DO UPDATE SET views = c.views + excluded.views`,
		who.generation, videos, starts, shards, views)
	if err != nil {
		return fmt.Errorf("adding to windows: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO shard_views AS s (generation, video, shard, views)
		SELECT $1, video, shard, sum(views)
		FROM unnest($2::text[], $3::int[], $4::bigint[]) AS n (video, shard, views)
		GROUP BY video, shard ORDER BY video, shard
		ON CONFLICT (generation, video, shard) DO UPDATE SET views = s.views + excluded.views`,
		who.generation, videos, shards, views)
	return stores.Failed("adding to totals", err)
}

// The rows of filter_rules that make a set.
const (
	ruleMinWatch  = "min_watch_duration"
	ruleRepeat    = "repeat_view_window"
	ruleIPRate    = "ip_rate_limit"
	ruleBlocklist = "bot_ip_blocklist"
	ruleCreators  = "creator_views"
)

// ruleParameters are the parameters of any rule; each uses some.
type ruleParameters struct {
	MS    int64    `json:"ms,omitempty"`
	Views int64    `json:"views,omitempty"`
	IPs   []string `json:"ips,omitempty"`
}

// rows are the rows that make a set, by their type.
func (r Rules) rows() map[string]ruleParameters {
	rows := map[string]ruleParameters{
		ruleMinWatch: {MS: r.MinWatchMS}, ruleRepeat: {MS: r.RepeatWindowMS},
		ruleIPRate: {Views: r.IPViews, MS: r.IPWindowMS}, ruleBlocklist: {IPs: r.Blocked},
	}
	if r.Creators {
		rows[ruleCreators] = ruleParameters{}
	}
	return rows
}

// rulesOf makes a set of its rows.
func rulesOf(version int64, rows map[string]ruleParameters) (Rules, error) {
	_, creators := rows[ruleCreators]
	r := Rules{Version: version, MinWatchMS: rows[ruleMinWatch].MS,
		RepeatWindowMS: rows[ruleRepeat].MS, IPViews: rows[ruleIPRate].Views,
		IPWindowMS: rows[ruleIPRate].MS, Blocked: rows[ruleBlocklist].IPs, Creators: creators}
	known := r.rows()
	for kind := range rows {
		if _, is := known[kind]; !is {
			return r, fmt.Errorf("version %d has a rule of unknown type %q", version, kind)
		}
	}
	return r, nil
}

// insertRules writes a version, a row for each rule.
func insertRules(ctx context.Context, tx pgx.Tx, r Rules) error {
	_, err := tx.Exec(ctx, `INSERT INTO filter_rules (version, rule_id, rule_type, parameters)
		SELECT $1, row_number() OVER (ORDER BY key), key, value FROM jsonb_each($2)`,
		r.Version, r.rows())
	return stores.Failed("adding rules", err)
}

// addRules gives rules the next version.
func (db database) addRules(ctx context.Context, r Rules) (version int64, err error) {
	err = db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// Versions are given one after the other.
		_, err := tx.Exec(ctx, "LOCK TABLE filter_rules IN SHARE ROW EXCLUSIVE MODE")
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, "SELECT max(version) + 1 FROM filter_rules").Scan(&r.Version)
		if err != nil {
			return err
		}
		return insertRules(ctx, tx, r)
	})
	return r.Version, stores.Failed("adding rules", err)
}

// rules reads the versions above one.
func (db database) rules(ctx context.Context, above int64) ([]Rules, error) {
	var list []Rules
	err := db.Rows(ctx, `SELECT version, jsonb_object_agg(rule_type, parameters) FROM filter_rules
		WHERE version > $1 GROUP BY 1 ORDER BY 1`, []any{above},
		func(row pgx.CollectableRow) error {
			var version int64
			var rows map[string]ruleParameters
			if err := row.Scan(&version, &rows); err != nil {
				return err
			}
			rules, err := rulesOf(version, rows)
			list = append(list, rules)
			return err
		})
	return list, stores.Failed("reading the rules", err)
}

// creators reads who made each video.
func (db database) creators(ctx context.Context) (map[string]string, error) {
	list := make(map[string]string)
	err := db.Rows(ctx, "SELECT video, creator FROM videos", nil,
		func(row pgx.CollectableRow) error {
			var video, creator string
			err := row.Scan(&video, &creator)
			list[video] = creator
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("reading the videos: %w", err)
	}
	return list, nil
}
