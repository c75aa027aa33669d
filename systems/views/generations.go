package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// views reads a count as readers see it.
func (db *database) views(ctx context.Context, video string, merged bool) (Views, error) {
	v := Views{Video: video}
	counts := `(SELECT coalesce(sum(s.views), 0)::bigint FROM shard_views s
		WHERE s.generation = g.generation AND s.video = $1)`
	if merged {
		counts = `coalesce((SELECT m.views FROM merged_views m
			WHERE m.generation = g.generation AND m.video = $1), 0)`
	}
	err := db.row(ctx, `SELECT g.generation, `+counts+` FROM generations g
		WHERE g.live_at IS NOT NULL AND EXISTS (SELECT FROM videos WHERE video = $1)
		ORDER BY g.generation DESC LIMIT 1`, []any{video}, &v.Generation, &v.Views)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return v, ErrUnknownVideo
	case err != nil:
		return v, fmt.Errorf("reading a count: %w", err)
	}
	return v, nil
}

// addGeneration begins a counting at the beginning of every partition.
func (db *database) addGeneration(
	ctx context.Context, partitions int,
) (generation int64, err error) {
	err = db.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "LOCK TABLE generations IN SHARE ROW EXCLUSIVE MODE")
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `INSERT INTO generations (generation)
			SELECT max(generation) + 1 FROM generations RETURNING generation`).Scan(&generation)
		if err != nil {
			return err
		}
		return insertStands(ctx, tx, partitions, station{stageCounter, generation})
	})
	if err != nil {
		return 0, fmt.Errorf("beginning a generation: %w", err)
	}
	return generation, nil
}

// newest is the newest generation, and whether readers see it.
func (db *database) newest(ctx context.Context) (generation int64, live bool, err error) {
	err = db.row(ctx, `SELECT generation, live_at IS NOT NULL FROM generations
		ORDER BY generation DESC LIMIT 1`, nil, &generation, &live)
	if err != nil {
		return 0, false, fmt.Errorf("looking for a new generation: %w", err)
	}
	return generation, live, nil
}

// cutOver lets readers see a generation once it has come as far, in every
// partition, as those before it.
func (db *database) cutOver(ctx context.Context, generation int64) error {
	_, err := db.pool.Exec(ctx, `UPDATE generations SET live_at = clock_timestamp()
		WHERE generation = $1 AND live_at IS NULL AND NOT EXISTS (
			SELECT FROM progress mine JOIN progress theirs USING (stage, part)
			WHERE mine.stage = $2 AND mine.generation = $1 AND theirs.generation < $1
				AND mine.next_offset < theirs.next_offset)`, generation, stageCounter)
	if err != nil {
		return fmt.Errorf("cutting over to generation %d: %w", generation, err)
	}
	return nil
}

// unmerged says what is not in what readers see, "" if nothing.
func (db *database) unmerged(ctx context.Context, merged bool) (string, error) {
	generation, live, err := db.newest(ctx)
	if err != nil {
		return "", err
	}
	if !live {
		return fmt.Sprintf("generation %d is not live yet", generation), nil
	}
	if !merged {
		return "", nil
	}
	var videos int64
	err = db.row(ctx, `SELECT count(*) FROM (
			SELECT generation, video, sum(views) AS views FROM shard_views GROUP BY 1, 2) s
		LEFT JOIN merged_views m USING (generation, video)
		WHERE m.views IS DISTINCT FROM s.views`, nil, &videos)
	if err != nil {
		return "", fmt.Errorf("looking for counts to merge: %w", err)
	}
	if videos > 0 {
		return fmt.Sprintf("the counts of %d videos are not merged", videos), nil
	}
	return "", nil
}

// merge brings the sums over all shards up to date. It writes sums, not
// differences, and none that is lower than what is there: merging twice, late
// or by two replicas at once does no harm.
func (db *database) merge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	_, err := db.pool.Exec(ctx, `INSERT INTO merged_views AS m (generation, video, views)
		SELECT generation, video, sum(views) FROM shard_views GROUP BY 1, 2 ORDER BY 1, 2
		ON CONFLICT (generation, video) DO UPDATE SET views = excluded.views
			WHERE m.views < excluded.views`)
	if err != nil {
		return fmt.Errorf("merging the counts of the shards: %w", err)
	}
	return nil
}

// merger is the role of the merge stage.
func (d design) merger() sut.Role {
	return sut.Role{
		Name:    "merge",
		Summary: "adds up the counts of a video's partitions for the readers",
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.work(ctx, cfg, "merge", func(_ context.Context, g *gear) (worker, error) {
				return &merging{g}, nil
			})
		},
	}
}

type merging struct{ *gear }

func (m *merging) close(context.Context) {}

// step merges once in a while: as often as counters store.
func (m *merging) step(ctx context.Context) error {
	if err := m.db.merge(ctx); err != nil {
		return err
	}
	sut.Pause(ctx, m.params.clock(m.params.CountWindow))
	return nil
}

// reprocessor is the role that counts all of valid_events again.
//
// Reprocessing is a counter of its own, without a group, that begins at offset
// 0 with empty counts: a new generation. The old one goes on meanwhile and
// readers see it until the new one has come as far. Setting the old one's
// offsets back instead would change nothing: it knows what it has counted.
func (d design) reprocessor() sut.Role {
	return sut.Role{
		Name:    "reprocessor",
		Summary: "counts the log again into a new generation when it is asked to",
		Places:  []string{placeCounting, placeCounted},
		Single:  true,
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.work(ctx, cfg, "reprocessor",
				func(_ context.Context, g *gear) (worker, error) {
					return &recount{design: d, gear: g}, nil
				})
		},
	}
}

// recount waits for new generations and counts the newest.
type recount struct {
	design design
	*gear
	counter *counter
}

func (r *recount) close(ctx context.Context) {
	if r.counter != nil {
		r.counter.close(ctx)
	}
}

func (r *recount) step(ctx context.Context) error {
	generation, live, err := r.db.newest(ctx)
	if err != nil {
		return err
	}
	if r.counter != nil && r.counter.who.generation != generation {
		r.counter.close(ctx)
		r.counter = nil
	}
	switch {
	case generation == 1:
		sut.Pause(ctx, pollWait)
		return nil
	case r.counter == nil:
		c, err := r.design.newCounter(ctx, r.gear, generation, "")
		if err != nil {
			return err
		}
		r.counter = c
		return nil
	}
	if err := r.counter.step(ctx); err != nil || live {
		return err
	}
	return r.db.cutOver(ctx, generation)
}
