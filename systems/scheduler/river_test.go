package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/harness/sut"
)

// TestRiverGivesUp: how often a task starts at most is our row's matter: after that River's
// job ends, and the task has failed.
func TestRiverGivesUp(t *testing.T) {
	v, p, url := variantOf("river"), tableParams(), places.Namespace(t).PostgresURL
	p.MaxAttempts, p.Lease = 2, sut.Duration(200*time.Millisecond)
	cfg := sut.Config{PostgresURL: url, Params: p}
	inst, err := v.Open(t.Context(), cfg)
	ok(t, err)
	t.Cleanup(func() { ok(t, inst.Close()) })
	ok(t, inst.Prepare(t.Context()))
	_, err = inst.Do(t.Context(), API().Op(KindSchedule, Request{ID: 256, Queue: "queue-1",
		Client: "client-1", Spec: long(), At: p.day()}))
	ok(t, err)
	pool, err := pgxpool.New(t.Context(), url)
	ok(t, err)
	t.Cleanup(pool.Close)

	runs(t, v.Roles, cfg)
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const over = `SELECT (SELECT state FROM tasks) || ' ' || (SELECT state FROM river_job)
		|| (SELECT coalesce(string_agg(' ' || outcome, ''), '') FROM runs)`
	for got, want := "", "failed completed lost lost"; got != want; {
		if err := pool.QueryRow(patience, over).Scan(&got); err != nil {
			t.Fatalf("it is %q, not %q: %v", got, want, err)
		}
	}
}
