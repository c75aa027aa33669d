package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/topics"
)

// Audit is the final truth: both topics as a whole, and the tables.
type Audit struct {
	// Watch and Valid are the topics; see Log.
	Watch Log `json:"watch_events"`
	Valid Log `json:"valid_events"`
	// Rules are all versions, Creators says who made each video.
	Rules    []Rules           `json:"rules"`
	Creators map[string]string `json:"creators"`
	// Drops is what the filter says that it turned away.
	Drops    []DropAudit     `json:"drops"`
	Progress []ProgressAudit `json:"progress"`
	// Counts are the windows, Totals the sums, of each generation.
	Counts      []CountAudit      `json:"counts"`
	Totals      []TotalAudit      `json:"totals"`
	Generations []GenerationAudit `json:"generations"`
	// RedisLog is Redis' setting appendonly: "yes" if it keeps a log of its
	// memory, which survives the end of its process; "" if it does not tell.
	RedisLog string `json:"redis_appendonly,omitempty"`
	// CountWindowMS is the length of a window of counts, in milliseconds.
	CountWindowMS int64 `json:"count_window_ms" min:"1"`
}

// DropAudit is one row of the table drops.
type DropAudit struct {
	Partition int32  `json:"partition"`
	Video     string `json:"video"`
	Reason    string `json:"reason"`
	Events    int64  `json:"events"`
}

// ProgressAudit is one row of the table progress.
type ProgressAudit struct {
	Stage      string `json:"stage"`
	Generation int64  `json:"generation"`
	Partition  int32  `json:"partition"`
	Next       int64  `json:"next_offset"`
}

// CountAudit is one window of one video, over all shards.
type CountAudit struct {
	Generation int64  `json:"generation"`
	Video      string `json:"video"`
	WindowMS   int64  `json:"window_ms"` // where it starts, Unix milliseconds
	Views      int64  `json:"views"`
}

// TotalAudit is one video: what its windows should add up to, and what readers
// see.
type TotalAudit struct {
	Generation int64  `json:"generation"`
	Video      string `json:"video"`
	Views      int64  `json:"views"`
	Shown      int64  `json:"shown"`
}

// GenerationAudit is one counting of the log.
type GenerationAudit struct {
	Generation int64 `json:"generation"`
	// Live says that readers have come to see it.
	Live bool `json:"live"`
	// Retired says that a later one took its place, so that nobody counts it
	// any more.
	Retired bool `json:"retired,omitempty"`
}

func (i *instance) audit(ctx context.Context) (Audit, error) {
	a := Audit{CountWindowMS: i.params.CountWindow.D().Milliseconds(),
		RedisLog: i.windows.log(ctx)}
	var err error
	if a.Watch, err = i.readTopic(ctx, topicWatch); err != nil {
		return a, err
	}
	if a.Valid, err = i.readTopic(ctx, topicValid); err != nil {
		return a, err
	}
	if a.Rules, err = i.db.rules(ctx, 0); err != nil {
		return a, err
	}
	if a.Creators, err = i.db.creators(ctx); err != nil {
		return a, err
	}
	return a, i.db.audit(ctx, &a, i.composite)
}

// readTopic reads a topic from its beginning to its end.
func (i *instance) readTopic(ctx context.Context, short string) (Log, error) {
	ends, err := ends(ctx, i.client, i.cfg)
	if err != nil {
		return Log{}, err
	}
	name, list := topics.Name(i.cfg, short), ends[short]
	from, left := make(map[int32]kgo.Offset), int64(0)
	for p, end := range list {
		left += end
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	log := newLogWriter(len(list), short == topicValid)
	if left == 0 {
		return log.log()
	}
	reader, err := openKafka(ctx, i.cfg,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: from}))
	if err != nil {
		return Log{}, err
	}
	defer reader.Close()
	for left > 0 {
		fetches := reader.PollRecords(ctx, counterBatch)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return Log{}, fmt.Errorf("reading %s: %w", short, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= list[r.Partition] {
				return // it came after the question for the end
			}
			left--
			if err == nil {
				err = log.add(r)
			}
		})
		if err != nil {
			return Log{}, fmt.Errorf("reading %s: %w", short, err)
		}
	}
	return log.log()
}

// audit reads the tables in one snapshot.
func (db database) audit(ctx context.Context, a *Audit, merged bool) error {
	err := pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{
		IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly,
	}, func(tx pgx.Tx) error {
		var err error
		if a.Drops, err = collect[DropAudit](ctx, tx, `SELECT part, video, reason, events
			FROM drops ORDER BY 1, 2, 3`); err != nil {
			return err
		}
		if a.Progress, err = collect[ProgressAudit](ctx, tx, selectStands); err != nil {
			return err
		}
		if a.Counts, err = collect[CountAudit](ctx, tx, `SELECT generation, video, window_start,
			sum(views)::bigint FROM view_counts GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`); err != nil {
			return err
		}
		shown := "s.views"
		if merged {
			shown = "coalesce(m.views, 0)"
		}
		if a.Totals, err = collect[TotalAudit](ctx, tx, `SELECT generation, video, s.views, `+shown+`
			FROM (SELECT generation, video, sum(views)::bigint AS views FROM shard_views
				GROUP BY 1, 2) s LEFT JOIN merged_views m USING (generation, video)
			ORDER BY 1, 2`); err != nil {
			return err
		}
		a.Generations, err = collect[GenerationAudit](ctx, tx, `SELECT generation,
			live_at IS NOT NULL, retired_at IS NOT NULL FROM generations ORDER BY 1`)
		return err
	})
	if err != nil {
		return fmt.Errorf("auditing Postgres: %w", err)
	}
	return nil
}

// selectStands reads a ProgressAudit.
const selectStands = `SELECT stage, generation, part, next_offset FROM progress
	ORDER BY 1, 2, 3`

// collect reads rows by the position of their columns; none is an empty list.
func collect[R any](ctx context.Context, tx pgx.Tx, sql string) ([]R, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[R])
	if list == nil {
		list = []R{}
	}
	return list, err
}

// stands reads how far every station is that is still at work.
func (db database) stands(ctx context.Context) (list []ProgressAudit, err error) {
	err = db.Rows(ctx, `SELECT stage, generation, part, next_offset FROM progress
		WHERE generation NOT IN (SELECT generation FROM generations WHERE retired_at IS NOT NULL)
		ORDER BY 1, 2, 3`, nil, func(row pgx.CollectableRow) error {
		s, err := pgx.RowToStructByPos[ProgressAudit](row)
		list = append(list, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the progress: %w", err)
	}
	return list, nil
}
