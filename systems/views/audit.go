package views

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/topics"
)

// Audit is the final truth: both topics as a whole, and the tables.
type Audit struct {
	// Watch and Valid are the topics; see Log.
	Watch       Log               `json:"watch_events"`
	Valid       Log               `json:"valid_events"`
	Rules       []Rules           `json:"rules" doc:"all versions"`
	Creators    map[string]string `json:"creators" doc:"the creator of each video, as the reset has them"`
	Drops       []DropAudit       `json:"drops" doc:"how many events were rejected"`
	Progress    []ProgressAudit   `json:"progress" doc:"how far each stage has read each partition"`
	Counts      []CountAudit      `json:"counts" doc:"windows with views, of every generation"`
	Totals      []TotalAudit      `json:"totals" doc:"of every generation, each video that has a view in it"`
	Generations []GenerationAudit `json:"generations" doc:"in ascending order; the first is there and live from the reset"`
	// RedisLog is Redis' setting appendonly: "yes" if it keeps a log of its
	// memory, which survives the end of its process; "" if it does not tell. Unused says that
	// nothing was decided by what Redis has.
	RedisLog      string `json:"redis_appendonly,omitempty" doc:"the setting of the Redis in which decisions are kept, or unused if there is none; it tells which faults may lose them"`
	CountWindowMS int64  `json:"count_window_ms" min:"1" doc:"as in the reset"`
}

// DropAudit is one row of the table drops.
type DropAudit struct {
	Partition int32  `json:"partition"`
	Video     string `json:"video"`
	Reason    string `json:"reason" doc:"bot, creator, short, duplicate, continued, repeat or ip-rate"`
	Events    int64  `json:"events"`
}

// ProgressAudit is one row of the table progress.
type ProgressAudit struct {
	Stage      string `json:"stage" doc:"filter, which reads watch_events, or counter, which reads valid_events"`
	Generation int64  `json:"generation" doc:"the counter's; the filter has 0"`
	Partition  int32  `json:"partition"`
	Next       int64  `json:"next_offset" doc:"the first offset of the partition that was not read"`
}

// CountAudit is one window of one video, over all shards.
type CountAudit struct {
	Generation int64  `json:"generation"`
	Video      string `json:"video"`
	WindowMS   int64  `json:"window_ms" doc:"where the window begins, a multiple of count_window_ms, in Unix milliseconds"`
	Views      int64  `json:"views"`
}

// TotalAudit is one video: what its windows should add up to, and what readers
// see.
type TotalAudit struct {
	Generation int64  `json:"generation"`
	Video      string `json:"video"`
	Views      int64  `json:"views" doc:"the sum of its windows"`
	Shown      int64  `json:"shown" doc:"what readers of the generation are told; at rest the same"`
}

// GenerationAudit is one counting of the log.
type GenerationAudit struct {
	Generation int64 `json:"generation"`
	Live       bool  `json:"live" doc:"readers see it, or saw it before it was retired"`
	Retired    bool  `json:"retired,omitempty" doc:"a later one took its place, and it is not counted any more; what it has is compared with the log up to its next_offset"`
}

// audit reads the topics as a whole, and the tables in one snapshot.
func audit(ctx context.Context, st *opened) (any, error) {
	a := Audit{CountWindowMS: st.Params.CountWindow.D().Milliseconds()}
	a.RedisLog = redisLog(ctx, st)
	var first, second error
	a.Watch, first = readTopic(ctx, st, topicWatch)
	a.Valid, second = readTopic(ctx, st, topicValid)
	if err := errors.Join(first, second); err != nil {
		return nil, err
	}
	var err error
	db := database{st.DB}
	if a.Rules, err = db.rules(ctx, 0); err != nil {
		return nil, err
	}
	if a.Creators, err = db.creators(ctx); err != nil {
		return nil, err
	}
	return a, db.audit(ctx, &a)
}

// Unused is the RedisLog of a design without Redis: no loss of Redis excuses it.
const Unused = "unused"

func redisLog(ctx context.Context, st *opened) string {
	if st.Redis == nil {
		return Unused
	}
	return st.Redis.ConfigGet(ctx, "appendonly").Val()["appendonly"] // "" if it may not be asked
}

// readTopic reads a topic from its beginning to its end.
func readTopic(ctx context.Context, st *opened, short string) (Log, error) {
	name := topics.Name(st.Config, short)
	ends, err := topics.Ends(ctx, st.Kafka, name)
	if err != nil {
		return Log{}, err
	}
	partitions := make([][]Logged, len(ends))
	err = topics.Read(ctx, st.Config, name, nil, ends, func(r *kgo.Record) error {
		list := &partitions[r.Partition]
		if short == topicWatch {
			return decodeEvents(string(r.Value), func(index int) *Event {
				*list = append(*list, Logged{Offset: r.Offset, Index: int64(index)})
				return &(*list)[len(*list)-1].Event
			})
		}
		l := Logged{Offset: r.Offset}
		var err error
		l.Source, err = decodeView(r.Value, &l.Event)
		*list = append(*list, l)
		return err
	})
	if err != nil {
		return Log{}, err
	}
	return EncodeLog(partitions)
}

// audit reads the tables in one snapshot.
func (db database) audit(ctx context.Context, a *Audit) error {
	err := db.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if a.Drops, err = stores.CollectOn[DropAudit](ctx, tx, `SELECT part, video, reason, events
			FROM drops ORDER BY 1, 2, 3`); err != nil {
			return err
		}
		if a.Progress, err = stores.CollectOn[ProgressAudit](ctx, tx, `SELECT stage, generation,
			part, next_offset FROM progress ORDER BY 1, 2, 3`); err != nil {
			return err
		}
		if a.Counts, err = stores.CollectOn[CountAudit](ctx, tx, `SELECT generation, video,
			window_start, sum(views)::bigint FROM view_counts
			GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`); err != nil {
			return err
		}
		if a.Totals, err = stores.CollectOn[TotalAudit](ctx, tx, `SELECT generation, video, s.views,
			coalesce(m.views, 0) FROM (SELECT generation, video, sum(views)::bigint AS views
				FROM shard_views GROUP BY 1, 2) s LEFT JOIN shown_views m USING (generation, video)
			ORDER BY 1, 2`); err != nil {
			return err
		}
		a.Generations, err = stores.CollectOn[GenerationAudit](ctx, tx, `SELECT generation,
			live_at IS NOT NULL, retired_at IS NOT NULL FROM generations ORDER BY 1`)
		return err
	})
	return stores.Failed("auditing Postgres", err)
}

// stands reads how far every station is that is still at work.
func (db database) stands(ctx context.Context) ([]ProgressAudit, error) {
	list, err := stores.Collect[ProgressAudit](ctx, db.Postgres, `SELECT stage, generation, part,
			next_offset FROM progress
		WHERE generation NOT IN (SELECT generation FROM generations WHERE retired_at IS NOT NULL)
		ORDER BY 1, 2, 3`)
	return list, stores.Failed("reading the progress", err)
}
