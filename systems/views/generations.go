package views

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// views reads a count as readers see it.
func (db database) views(ctx context.Context, video string) (Views, error) {
	v := Views{Video: video}
	err := db.Row(ctx, `SELECT g.generation, coalesce((SELECT s.views FROM shown_views s
			WHERE s.generation = g.generation AND s.video = $1), 0)
		FROM generations g
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

// addGeneration begins a counting at the beginning of every partition. A
// recount that had not gone live yet ends with it: nobody will ever read it.
func (db database) addGeneration(
	ctx context.Context, partitions int,
) (generation int64, err error) {
	err = db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "LOCK TABLE generations IN SHARE ROW EXCLUSIVE MODE")
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE generations SET retired_at = clock_timestamp()
			WHERE generation > 1 AND live_at IS NULL AND retired_at IS NULL`)
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
	return generation, stores.Failed("beginning a generation", err)
}

// recounts are the generations that a reprocessor counts: the one that readers
// see, unless it is the first, and the one that is to follow it.
func (db database) recounts(ctx context.Context) ([]recounting, error) {
	list, err := stores.Collect[recounting](ctx, db.Postgres, `SELECT generation,
		live_at IS NOT NULL FROM generations
		WHERE generation > 1 AND retired_at IS NULL ORDER BY generation`)
	return list, stores.Failed("looking for generations to count", err)
}

// recounting is a generation that is being counted.
type recounting struct {
	Generation int64
	Live       bool
}

// cutOver lets readers see a generation once it has come as far, in every
// partition, as those before it. The recount that they saw so far ends with it.
func (db database) cutOver(ctx context.Context, generation int64) error {
	_, err := db.Exec(ctx, `WITH cut AS (
			UPDATE generations SET live_at = clock_timestamp()
			WHERE generation = $1 AND live_at IS NULL AND retired_at IS NULL AND NOT EXISTS (
				SELECT FROM progress mine JOIN progress theirs USING (stage, part)
				WHERE mine.stage = $2 AND mine.generation = $1 AND theirs.generation < $1
					AND mine.next_offset < theirs.next_offset)
			RETURNING generation)
		UPDATE generations g SET retired_at = clock_timestamp() FROM cut
		WHERE g.generation > 1 AND g.generation < cut.generation AND g.retired_at IS NULL`,
		generation, stageCounter)
	if err != nil {
		return fmt.Errorf("cutting over to generation %d: %w", generation, err)
	}
	return nil
}

// unmerged counts what is not in what readers see, and says what that is.
func (db database) unmerged(ctx context.Context) (left int64, what string, err error) {
	var generation, videos int64
	var live bool
	err = db.Row(ctx, `SELECT g.generation, g.live_at IS NOT NULL, (SELECT count(*) FROM (
			SELECT generation, video, sum(views) AS views FROM shard_views GROUP BY 1, 2) s
			LEFT JOIN shown_views m USING (generation, video)
			WHERE m.views IS DISTINCT FROM s.views)
		FROM generations g ORDER BY generation DESC LIMIT 1`, nil, &generation, &live, &videos)
	switch {
	case err != nil:
		return 0, "", fmt.Errorf("looking for counts to merge: %w", err)
	case !live:
		return 1, fmt.Sprintf("generation %d is not live yet", generation), nil
	case videos > 0:
		what = fmt.Sprintf("the counts of %d videos are not merged", videos)
	}
	return videos, what, nil
}

// reprocessorRole is the role that counts all of valid_events again.
//
// Reprocessing is a counter of its own, without a group, that begins at offset
// 0 with empty counts: a new generation. The old one goes on meanwhile and
// readers see it until the new one has come as far; then it ends, unless it is
// the group's. Setting the old one's
// offsets back instead would change nothing: it knows what it has counted.
func reprocessorRole() role {
	return role{
		Name:    "reprocessor",
		Summary: "recounts the log into a new generation on request",
		Places:  []string{placeCounting, placeCounted},
		Single:  true,
		Needs:   []sut.Service{},
		Timeout: roleTimeout,
		Do: func(ctx context.Context, st *opened) error {
			return consume(ctx, st.Config, "reprocessor", func(context.Context) (consumer, error) {
				return &recount{st, database{st.DB}, make(map[int64]*counter)}, nil
			})
		},
	}
}

// recount counts the generations that are neither the group's nor retired.
type recount struct {
	*opened
	db       database
	counters map[int64]*counter
}

func (r *recount) joined(context.Context) bool { return true }

func (r *recount) close(ctx context.Context) {
	for _, c := range r.counters {
		c.close(ctx)
	}
}

func (r *recount) step(ctx context.Context) error {
	list, err := r.db.recounts(ctx)
	if err != nil {
		return err
	}
	r.retire(ctx, list)
	if len(list) == 0 {
		sut.Pause(ctx, pollWait)
		return nil
	}
	for _, g := range list {
		if err := r.count(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// retire closes the counters of generations that are not in the list any more.
func (r *recount) retire(ctx context.Context, list []recounting) {
	for generation, c := range r.counters {
		if !slices.ContainsFunc(list, func(g recounting) bool { return g.Generation == generation }) {
			c.close(ctx)
			delete(r.counters, generation)
		}
	}
}

// count takes one step with a generation.
func (r *recount) count(ctx context.Context, g recounting) error {
	c := r.counters[g.Generation]
	if c == nil {
		c, err := openCounter(ctx, r.opened, r.db, g.Generation, "", nil)
		if err == nil {
			r.counters[g.Generation] = c
		}
		return err
	}
	if err := c.step(ctx); err != nil || g.Live {
		return err
	}
	return r.db.cutOver(ctx, g.Generation)
}
