package scheduler

import (
	"fmt"
	"testing"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// BenchmarkClaimCost starts tasks out of more and more that are due: of skip_locked
// picked ones, of batch those that wait.
func BenchmarkClaimCost(b *testing.B) {
	suttest.ClaimCost(b, []string{"skip_locked", "batch"},
		func(b *testing.B, variant string) suttest.Backlog {
			b.Helper()
			db, err := stores.OpenPostgres(b.Context(), sut.Config{MaxConns: 1,
				PostgresURL: places.Namespace(b).PostgresURL, Timeout: 10 * time.Minute}, "scheduler", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(db.Close)
			if _, err := db.Exec(b.Context(), wholeSchema()); err != nil {
				b.Fatal(err)
			}
			s := statementsOf(db, DefaultParams(), variant, "")
			log := backlog{b: b, db: db, state: "waiting"}
			if variant == "skip_locked" {
				log.state = "picked"
			}
			return suttest.Backlog{Fill: log.fill, Claim: func() error {
				got, err := s.claim(b.Context(), "executor", suttest.ClaimBatch, []int64{})
				if err == nil && len(got) != suttest.ClaimBatch {
					err = fmt.Errorf("%d tasks", len(got))
				}
				return err
			}}
		})
}

// backlog are tasks of one state, all of them due.
type backlog struct {
	b     *testing.B
	db    *stores.Postgres
	state string
	made  int
}

// fillBatch bounds one insert.
const fillBatch = 500_000

func (l *backlog) fill(n int) error {
	for ; n > 0; n -= fillBatch {
		some := min(n, fillBatch)
		if _, err := l.db.Exec(l.b.Context(), `INSERT INTO tasks (series, queue, client, task,
				work_ms, fails, schedule, zone, times, first_at, scheduled_at, state)
			SELECT k, 'queue-1', 'bench', 'nothing', 0, false, '', '', 0, now(),
				now() - interval '1 hour' + k * interval '1 us', $3
			FROM generate_series($1::bigint, $2) AS k`, l.made+1, l.made+some, l.state); err != nil {
			return err
		}
		l.made += some
	}
	for _, sql := range []string{`ANALYZE tasks`, `CHECKPOINT`} {
		if _, err := l.db.Exec(l.b.Context(), sql); err != nil {
			return err
		}
	}
	return nil
}
