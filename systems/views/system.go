package views

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

type (
	// opened are the opened stores of the API, a role or the gauge.
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Pipeline, Params]
)

//go:embed schema.sql
var schema string

// System returns the view pipeline with all its variants.
func System() sut.System {
	return design.System[Pipeline, Params]{
		Name:     "views",
		Question: "what does a hot video do to a partitioned pipeline, and does the count stay exact?",
		API:      API(),
		Defaults: DefaultParams,
		Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Seed: seed, Ready: ready,
			Empty: []string{"drops", "view_counts"}, Pending: pending, Audit: audit, Gauge: look},
		Designs: []variant{updatePerEvent(), videoKey(), compositeKey(), preaggregated(),
			partitionState(), countsBeforeOffsets(), noRevoke()},
		Costs:      assumedCosts,
		Invariants: Invariants,
		// Counts go wrong behind the log, but nothing competes there for what a heartbeat does
		// not compete for first. A partition has one reader in each stage, so that two effects of
		// one event cannot overlap, unless partitions change hands, which a fault has to prove. Two
		// events about one video meet as heartbeats in flight: in one record (preaggregated), or in
		// partitions that different readers add up at the same time (composite_key).
		Races: &sut.Races{Kinds: []string{KindHeartbeat}, Least: 10,
			Invariants: []string{ExactCounts, AckedInLog, OnceInEffect}},
		Unseen: map[string]string{
			Fresh: "a server's counts are not sampled between operations",
		},
	}.Sut()
}

// pipelined completes a design with what all of them have. The changes are what its counter
// does differently, more are roles that it has beside the others.
func pipelined(v variant, changes func(*counter), more ...role) variant {
	v.Needs = []sut.Service{sut.Redis, sut.Kafka}
	if v.Open == nil {
		v.Open = func(_ context.Context, st *opened) (Pipeline, error) {
			return newPipeline(st, database{st.DB}), nil
		}
	}
	v.Roles = slices.Concat([]role{filterRole([]sut.Service{sut.Redis}, nil),
		counterRole(changes)}, more, []role{reprocessorRole()})
	return v
}

// seed makes the videos, the first rules and the first generation.
func seed(ctx context.Context, tx pgx.Tx, p Params) error {
	videos := pgx.CopyFromSlice(p.Videos, func(i int) ([]any, error) {
		return []any{VideoKey(i + 1), creatorOf(i + 1)}, nil
	})
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"videos"}, []string{"video", "creator"}, videos)
	if err != nil {
		return fmt.Errorf("adding the videos: %w", err)
	}
	if err := insertRules(ctx, tx, p.rules()); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO generations (generation, live_at)
		VALUES (1, clock_timestamp())`)
	return err
}

// ready places the stages at the beginning of every partition and makes the topics. A filter
// that remembers something would not be at the beginning.
func ready(ctx context.Context, st *opened) error {
	if st.Redis != nil {
		found := st.Redis.Scan(ctx, 0, st.Key("*"), 1000).Iterator()
		if found.Next(ctx) {
			return fmt.Errorf("there is already the key %s in Redis", found.Val())
		}
		if err := found.Err(); err != nil {
			return fmt.Errorf("looking for the filter's memory: %w", err)
		}
	}
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return insertStands(ctx, tx, st.Config.Kafka.Partitions, station{stageFilter, 0},
			station{stageCounter, 1})
	})
	if err != nil {
		return err
	}
	return createTopics(ctx, st.Config, st.Params)
}

// createTopics makes both topics.
func createTopics(ctx context.Context, cfg sut.Config, p Params) error {
	keep := map[string]string{
		"retention.ms": strconv.FormatInt(p.Retention.D().Milliseconds(), 10)}
	return topics.Create(ctx, cfg,
		topics.Topic{Name: topicWatch, Configs: keep}, topics.Topic{Name: topicValid, Configs: keep})
}
