package views

import (
	"context"
	"time"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// compositeKey spreads the hot video over all partitions. The rules that span partitions, one
// view for each user and so many for each address, are kept in Redis by all filters together.
// The merge stage writes sums, so that merging twice does no harm.
func compositeKey() variant {
	return pipelined(variant{
		Name: "composite_key",
		Idea: "events are partitioned by video and session, each partition counts in its own rows, and " +
			"a merge stage adds them up",
		Guarantees: "as video_key, with a hot video spread over all consumers",
		GivesUp:    "counts are visible one merge later, and a video has a row for each partition",
		State:      design.State[Params]{Schema: mergedSchema},
		Model:      modelled(nil, bySession, true),
		Open: func(_ context.Context, st *opened) (Pipeline, error) {
			p := newPipeline(st, database{st.DB})
			p.key = bySession
			return p, nil
		},
	}, nil, mergeRole())
}

func bySession(h *Heartbeat) string { return h.Video + "|" + h.Session }

// mergedSchema has the sums over all shards, which the merge stage keeps, and lets readers
// see these.
const mergedSchema = `
CREATE TABLE merged_views (
    generation bigint NOT NULL,
    video      text   NOT NULL,
    views      bigint NOT NULL,
    PRIMARY KEY (generation, video)
) WITH (fillfactor = 50);
CREATE OR REPLACE VIEW shown_views AS SELECT generation, video, views FROM merged_views;`

// mergeRole is the role of the merge stage. It merges as often as counters store.
func mergeRole() role {
	return role{
		Name:    "merge",
		Summary: "adds up the counts of a video's partitions for the readers",
		Needs:   []sut.Service{},
		Timeout: roleTimeout,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			return st.Params.clock(st.Params.CountWindow), merge(ctx, st)
		},
	}
}

// merge brings the sums over all shards up to date. It writes sums, not
// differences, and none that is lower than what is there: merging twice, late
// or by two replicas at once does no harm.
func merge(ctx context.Context, st *opened) error {
	_, err := st.DB.Exec(ctx, `INSERT INTO merged_views AS m (generation, video, views)
		SELECT generation, video, sum(views) FROM shard_views GROUP BY 1, 2 ORDER BY 1, 2
		ON CONFLICT (generation, video) DO UPDATE SET views = excluded.views
			WHERE m.views < excluded.views`)
	return stores.Failed("merging the counts of the shards", err)
}
