package adclicks

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Clicks, Params]
)

//go:embed schema.sql
var schema string

// System returns the click counter with all its designs.
func System() sut.System {
	return systemOf(append([]variant{windowsInMemory(), windowsInRedis(), kafkaTransactions(),
		batchOnly(), lambda(), processingTime(), bloomOnly(), offsetsFirst()}, tagged()...)...)
}

func systemOf(designs ...variant) sut.System {
	return design.System[Clicks, Params]{
		Name: "adclicks",
		Question: "clicks come twice, late and from click farms: do the counts of real time, of a " +
			"recount and of the bill agree?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Seed: seed, Ready: ready(),
			Empty:   []string{"decisions", "windows", "objects", "replays", "allotments"},
			Pending: pending, Audit: audit, Gauge: look},
		Designs: designs, Invariants: invariants,
		NoRaces: "what races for a click is the same request sent twice, which is one operation; " +
			"clicks-once counts those",
	}.Sut()
}

// streaming completes a design with what all of them have. Roles are its own.
func streaming(v variant, roles ...role) variant {
	v.Needs = append([]sut.Service{sut.Kafka}, v.Needs...)
	if v.Open == nil {
		v.Open = func(_ context.Context, st *opened) (Clicks, error) { return newEdge(st), nil }
	}
	v.Roles = slices.Concat(roles, []role{archiverRole(), replayerRole()})
	return v
}

// seed makes the campaigns.
func seed(ctx context.Context, tx pgx.Tx, p Params) error {
	rows := pgx.CopyFromSlice(p.Campaigns, func(i int) ([]any, error) {
		return []any{campaignName(i + 1), p.Budget}, nil
	})
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"budgets"}, []string{"campaign", "budget"}, rows)
	return err
}

// ready places every partition at offset 0, and makes the topics and what the brokers keep of
// groups.
func ready(more ...string) func(context.Context, *opened) error {
	return func(ctx context.Context, st *opened) error {
		n := st.Config.Kafka.Partitions
		err := partitions.Begin(ctx, st.DB, n)
		for _, name := range append(more, topicClicks) {
			if err == nil {
				err = topics.Create(ctx, st.Config, topics.Topic{Name: name, Partitions: n})
			}
		}
		if err != nil {
			return err
		}
		return topics.Coordinate(ctx, st.Kafka, st.Config, "aggregators")
	}
}

func pending(ctx context.Context, st *opened) (left int64, what string, err error) {
	stands, err := lags(ctx, st)
	if err != nil {
		return 0, "", err
	}
	var undecided, unarchived, replays int64
	for _, s := range stands {
		undecided, unarchived = undecided+s.end-s.Next, unarchived+s.end-s.Archived
	}
	err = st.DB.Row(ctx, `SELECT count(*) FROM replays WHERE NOT done`, nil, &replays)
	return undecided + unarchived + replays, fmt.Sprintf(
		"%d clicks are not decided, %d not archived, and %d replays are not done", undecided,
		unarchived, replays), err
}
