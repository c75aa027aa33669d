package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// TestPlansGoByIndex: with many tasks of every state, each statement that is executed
// all the time reads the rows that it is about, by an index, and not all there are;
// whatever the planner makes of a LIMIT that it does not know.
func TestPlansGoByIndex(t *testing.T) {
	url := places.Namespace(t).PostgresURL
	db, err := stores.OpenPostgres(t.Context(), sut.Config{PostgresURL: url, MaxConns: 1,
		Timeout: time.Minute}, "scheduler", nil) // rather than 5 s: it is filled first
	ok(t, err)
	t.Cleanup(db.Close)
	_, err = db.Exec(t.Context(), wholeSchema())
	ok(t, err)
	_, err = db.Exec(t.Context(), `INSERT INTO tasks (series, queue, client, task, work_ms, fails,
			schedule, zone, times, first_at, scheduled_at, state, hand_at, lease_until, ended_at)
		SELECT k << 8, 'queue-1', 'client', 'report', 0, false, '', '', 0, now(),
			now() + (k - 100000) * interval '10 ms', s.state,
			CASE s.state WHEN 'picked' THEN now() - k * interval '1 ms' END,
			CASE s.state WHEN 'running' THEN now() + (k - 1000) * interval '1 ms' END,
			CASE s.state WHEN 'done' THEN now() - k * interval '1 ms' END
		FROM generate_series(1, 200000) AS k,
			LATERAL (SELECT CASE WHEN k % 100 = 0 THEN 'running' WHEN k % 4 = 1 THEN 'picked'
				WHEN k % 4 = 2 THEN 'done' ELSE 'waiting' END AS state) AS s`)
	ok(t, err)
	_, err = db.Exec(t.Context(), `INSERT INTO runs (series, occurrence, fence, queue, due,
			picked_at, started_at, outcome, executor)
		SELECT series, 1, 1, queue, scheduled_at, now(), now(),
			CASE state WHEN 'done' THEN 'done' ELSE '' END, 'executor'
		FROM tasks WHERE state IN ('done', 'running')`)
	ok(t, err)
	_, err = db.Exec(t.Context(), `INSERT INTO effects SELECT series, 1, 0, 1, now() FROM runs`)
	ok(t, err)
	_, err = db.Exec(t.Context(), `INSERT INTO changes SELECT series, series, 'pause', '', now()
		FROM runs`)
	ok(t, err)
	_, err = db.Exec(t.Context(), `ANALYZE`)
	ok(t, err)
	for name, plan := range plans(t, db) {
		for _, whole := range []string{"Seq Scan", "Hash Join", "Merge Join"} {
			if strings.Contains(plan, whole) {
				t.Errorf("%s in the plan of %s\n%s", whole, name, plan)
			}
		}
	}
}

// plans explains the statements of all designs.
func plans(t *testing.T, db *stores.Postgres) map[string]string {
	t.Helper()
	plans := map[string]string{}
	for _, p := range allPrepared() {
		err := db.With(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, `PREPARE step AS `+p.sql); err != nil {
				return err
			}
			rows, err := conn.Query(ctx, `EXPLAIN EXECUTE step `+p.args,
				pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			plans[p.name] = strings.Join(lines, "\n")
			_, err = conn.Exec(ctx, `DEALLOCATE step`)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	return plans
}

// prepared is a statement with arguments for EXECUTE.
type prepared struct{ name, sql, args string }

// allPrepared are the statements that are executed all the time.
func allPrepared() (list []prepared) {
	for _, s := range schemes() {
		d := s.full()
		if d.execute != nil || d.claim != nil {
			continue
		}
		list = append(list, prepared{s.Name + "'s claim", d.claimSQL(), `(50, 1000, 'e', NULL)`})
		if d.picks() {
			args := `(1000, 50, NULL)`
			if d.mayPick != nil {
				args = `(1000, 50, NULL, 3)`
			}
			list = append(list, prepared{s.Name + "'s pick", d.pickSQL(), args})
		}
	}
	d := schemeOf("kafka_topic").full()
	return append(list,
		prepared{"mark", d.markSQL(), `('{100,200}')`},
		prepared{"hand-over", handOverSQL, `(50, 1000)`},
		prepared{"start of what was handed over", d.startHandedSQL(),
			`('{100,200}', 1000, 'e', '{1,2}')`},
		prepared{"heartbeat", heartbeatSQL, `('{100,200}', '{1,2}', 1000)`},
		prepared{"letting go", letGoSQL, `('{25600,51200}', '{1,1}', '{1,2}')`},
		prepared{"effect", d.effectSQL(), `(100, 1, 25600, 1, 0)`},
		prepared{"end", d.endSQL(), `(100, 1, 1, 'done', NULL, 25600, 1)`},
		prepared{"batch's end", batchEndSQL(),
			`('{100,200}', '{1,2}', '{1,2}', '{25600,51200}', '{1,1}', '{NULL,NULL}')`},
		prepared{"release", releaseSQL, `(100, 10, 1, 1, 25600, 1)`},
		prepared{"rescue", rescueSQL, `(200, 10)`},
		prepared{"purge", purgeSQL, `(1000000, 1000)`})
}
