package sqlbroker

import (
	"context"
	"fmt"

	"stampede/harness/stores"
)

// Look is what a gauge saw of the tables in one snapshot, and the body of its
// history.Sample. Counts stop at CountMost, so that a look costs little however much
// there is.
type Look struct {
	// Published is how many messages were published in the last minute, by CountMost
	// publications at most.
	Published int64 `json:"published_per_min"`
	// Pending messages wait, Picked ones are with consumers, Stuck ones are for longer
	// than half their time, Dead ones are dead letters.
	Pending int64 `json:"pending"`
	Picked  int64 `json:"picked"`
	Stuck   int64 `json:"stuck"`
	Dead    int64 `json:"dead"`
	// DeletionNS is the mean time from the publication to the acknowledgement of those
	// that were acknowledged last, in nanoseconds; 0 if none is kept.
	DeletionNS int64 `json:"deletion_ns"`
	// DeadRows is how many dead versions of rows the statistics of Postgres know of,
	// which are a second old.
	DeadRows int64 `json:"dead_rows"`
	// SnapshotNS is how old the oldest snapshot of anybody else is, in nanoseconds: of what has
	// died since, no vacuum takes anything away.
	SnapshotNS int64 `json:"snapshot_ns"`
	// Consumed messages have consumers worked off since the beginning, by Claims that took
	// ClaimingUS microseconds in all; claims that got nothing are not counted.
	Consumed   int64 `json:"consumed"`
	Claims     int64 `json:"claims"`
	ClaimingUS int64 `json:"claiming_us"`
}

// CountMost is where the counts of a Look stop.
const CountMost = 10_000

// lookSQL reads by the partial indexes. Stuck selects the messages that consumers have for too
// long, tables is what their tables' names begin with. Parameter: where to stop counting.
func lookSQL(stuck, tables string) string {
	return `
SELECT (SELECT coalesce(sum(messages), 0)::bigint FROM (SELECT messages FROM published
        WHERE published_at > statement_timestamp() - interval '1 minute' LIMIT $1) AS p),
    (SELECT count(*) FROM (SELECT FROM messages m WHERE state = 'ready' {slots} LIMIT $1) AS m),
    (SELECT count(*) FROM (SELECT FROM messages m WHERE state = 'picked' {slots} LIMIT $1) AS m),
    (SELECT count(*) FROM (` + stuck + ` LIMIT $1) AS m),
    (SELECT count(*) FROM (SELECT FROM dead_letters LIMIT $1) AS d),
    (SELECT coalesce(` + nanoseconds + `avg(acked_at - created_at)), 0)::bigint
        FROM (SELECT acked_at, created_at FROM messages m WHERE state = 'acked' {slots}
            ORDER BY acked_at DESC LIMIT 100) AS m),
    (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables
        WHERE relname LIKE '` + tables + `%'), ` + snapshotSQL + consumedSQL
}

// snapshotSQL is how old the oldest snapshot of anybody else is.
const snapshotSQL = `(SELECT coalesce(` + nanoseconds + `max(clock_timestamp() - xact_start)), 0)::bigint
        FROM pg_stat_activity WHERE datname = current_database() AND backend_xmin IS NOT NULL
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()), `

// consumedSQL is what consumers tell.
const consumedSQL = `c.* FROM (SELECT coalesce(sum(consumed), 0)::bigint,
    coalesce(sum(claims), 0)::bigint, coalesce(sum(claiming), 0)::bigint FROM consumers) AS c`

// gauge reads a Look.
func gauge(of opener) func(context.Context, *opened) (any, error) {
	return func(ctx context.Context, st *opened) (any, error) {
		m, err := of(st)
		if err != nil {
			return nil, err
		}
		sql, _ := m.looks()
		if sql, err = m.base().narrow(ctx, sql); err != nil {
			return nil, err
		}
		list, err := stores.Collect[Look](ctx, st.DB, sql, CountMost)
		if err != nil || len(list) != 1 {
			return nil, fmt.Errorf("looking at the tables: %d rows: %w", len(list), err)
		}
		return list[0], nil
	}
}

func (t *table) looks() (gauge, metrics string) {
	return lookSQL(`SELECT FROM messages m WHERE state = 'picked' {slots}
			AND clock_timestamp() - picked_at > (visible_at - picked_at) / 2`, "messages"),
		metricsSQL(tableMetricsSQL)
}
