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
	return systemOf(windowsInMemory(), windowsInRedis(), kafkaTransactions(), batchOnly(), lambda(),
		processingTime(), bloomOnly(), offsetsFirst())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Clicks, Params]{
		Name: "adclicks",
		Question: "clicks come twice, late and from click farms: do the counts of real time, of a " +
			"recount and of the bill agree?",
		API: API(), Defaults: DefaultParams, Workload: NewWorkload,
		State: design.State[Params]{Schema: schema, Seed: seed, Ready: ready,
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
		v.Open = openEdge
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

// ready places everybody at offset 0 and makes the topic.
func ready(ctx context.Context, st *opened) error { return prepare(ctx, st, topicClicks) }

func prepare(ctx context.Context, st *opened, names ...string) error {
	n := st.Config.Kafka.Partitions
	_, err := st.DB.Exec(ctx, `INSERT INTO progress (part)
		SELECT generate_series(0, $1::int - 1)`, n)
	if err != nil {
		return fmt.Errorf("placing the partitions at offset 0: %w", err)
	}
	return coordinate(ctx, st, n, names...)
}

// lags are how many clicks are not decided, and not archived. How far everybody is, is read before
// the ends of the log.
func lags(ctx context.Context, st *opened) (undecided, unarchived int64, err error) {
	stands, err := standsNow(ctx, st)
	if err != nil {
		return 0, 0, err
	}
	ends, err := topics.Ends(ctx, st.Kafka, topics.Name(st.Config, topicClicks))
	for _, s := range stands {
		undecided += ends[s.part] - s.next
		unarchived += ends[s.part] - s.archived
	}
	return undecided, unarchived, err
}

func pending(ctx context.Context, st *opened) (left int64, what string, err error) {
	undecided, unarchived, err := lags(ctx, st)
	if err != nil {
		return 0, "", err
	}
	var replays int64
	err = st.DB.Row(ctx, `SELECT count(*) FROM replays WHERE NOT done`, nil, &replays)
	return undecided + unarchived + replays, fmt.Sprintf(
		"%d clicks are not decided, %d not archived, and %d replays are not done", undecided,
		unarchived, replays), err
}
