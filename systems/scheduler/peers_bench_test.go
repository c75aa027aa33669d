package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"stampede/harness/sut"
)

// The benchmark compares with River on the same Postgres in the same run, in turns;
// what it reports is the median of the rounds. One iteration is the whole
// comparison.
const (
	benchRounds = 3
	benchTasks  = 10_000
	benchSlots  = 200
	// benchPaced is how many tasks a second are due where lateness is measured.
	benchPaced = 500
	// benchLooks is how often is looked whether all have ended: a look counts rows,
	// which costs those who are measured.
	benchLooks = 50 * time.Millisecond
)

// BenchmarkTasks runs tasks that are due and do nothing by batch and by two peers.
// The variant river does the same: it leaves a run with its start and its end, has
// an effect once, and ends each task for good before it says so. The aims are twice
// its tasks per second, and a p99 from due to start that is no worse. River bare has
// no history and no effects: its jobs tell of themselves when they were last started
// and when they ended, which is stored in batches some time later. It is no like for
// like, and shows what the records cost; whether twice its rate is reached is told
// apart (met-to-bare). All rates are from the first start to the
// last end, as the rows have them.
func BenchmarkTasks(b *testing.B) {
	for b.Loop() {
		ours, theirs, bare := benchTable(b, "batch"), benchTable(b, "river"), newBareRiver(b)
		var rates, peers, bares []float64
		for range benchRounds {
			rates = append(rates, ours.round(b))
			bares = append(bares, bare.round(b))
			peers = append(peers, theirs.round(b))
		}
		var lates, laters []time.Duration
		for range benchRounds {
			lates = append(lates, ours.paced(b))
			laters = append(laters, theirs.paced(b))
		}
		late, later := middle(lates), middle(laters)
		b.ReportMetric(middle(rates), "batch-tasks/s")
		b.ReportMetric(middle(peers), "river-variant-tasks/s")
		b.ReportMetric(middle(bares), "river-bare-jobs/s")
		b.ReportMetric(middle(rates)/middle(peers), "ratio")
		b.ReportMetric(middle(rates)/middle(bares), "ratio-to-bare")
		b.ReportMetric(late.Seconds()*1000, "batch-late-p99-ms")
		b.ReportMetric(later.Seconds()*1000, "river-late-p99-ms")
		met := 0.0
		if middle(rates) >= 2*middle(peers) && late <= later {
			met = 1
		}
		b.ReportMetric(met, "met")
		met = 0
		if middle(rates) >= 2*middle(bares) {
			met = 1
		}
		b.ReportMetric(met, "met-to-bare")
	}
}

func middle[T cmp.Ordered](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

// benching is an opened variant whose tables are filled by SQL.
type benching struct {
	variant sut.Variant
	cfg     sut.Config
	pool    *pgxpool.Pool
	series  int
}

func benchTable(b *testing.B, name string) *benching {
	b.Helper()
	p := DefaultParams()
	p.Executors, p.MaxFleet, p.PickBatch = benchSlots, benchSlots, 500
	p.PollEvery = sut.Duration(5 * time.Millisecond)
	space := places.Namespace(b)
	all := System().Variants
	s := &benching{variant: all[slices.IndexFunc(all, func(v sut.Variant) bool {
		return v.Name == name
	})], cfg: sut.Config{PostgresURL: space.PostgresURL, Prefix: space.Prefix, Params: &p,
		MaxConns: 16, Timeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(b.Output(), nil))}}
	inst, err := s.variant.Open(b.Context(), s.cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = inst.Close() })
	if err := inst.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	if s.pool, err = pgxpool.New(b.Context(), space.PostgresURL); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.pool.Close)
	s.exec(b, `INSERT INTO calendar (begins_at) VALUES (now())`)
	return s
}

func (s *benching) exec(b *testing.B, sql string, args ...any) {
	b.Helper()
	if _, err := s.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// fill inserts n tasks, the k-th due k times gap from a moment on.
func (s *benching) fill(b *testing.B, n int, from time.Duration, gap time.Duration) {
	b.Helper()
	s.exec(b, `WITH made AS (
			INSERT INTO tasks (series, queue, client, task, work_ms, fails, schedule, zone, times,
				first_at, scheduled_at)
			SELECT $1 + k, 'queue-1', 'bench', 'nothing', 0, false, '', '', 0, at, at
			FROM (SELECT k, clock_timestamp() + $3 * interval '1 us' + k * $4 * interval '1 us' AS at
				FROM generate_series(1, $2) AS k) AS tasks
			RETURNING id, scheduled_at)
		SELECT count(*) FROM made`, s.series, n, from.Microseconds(), gap.Microseconds())
	if s.variant.Name == "river" {
		state := "available"
		if from > 0 {
			state = "scheduled"
		}
		s.exec(b, `INSERT INTO river_job (kind, args, max_attempts, scheduled_at, state)
			SELECT 'stampede_task', jsonb_build_object('row', id, 'occurrence', 1), 10, scheduled_at,
				$2::river_job_state FROM tasks WHERE series > $1`, s.series, state)
	}
	s.series += n
	s.exec(b, `ANALYZE tasks`)
}

// executes runs the variant's executor until the function that it returns is
// called.
func (s *benching) executes() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, role := range s.variant.Roles {
		if role.Name == "executor" {
			all.Go(func() { _ = role.Run(ctx, s.cfg) }) // it returns nil
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// until waits until so many runs have ended.
func (s *benching) until(b *testing.B, runs int) {
	b.Helper()
	for n := 0; n < runs; {
		sut.Pause(b.Context(), benchLooks)
		if err := s.pool.QueryRow(b.Context(),
			`SELECT count(*) FROM runs WHERE outcome = 'done'`).Scan(&n); err != nil {
			b.Fatal(err)
		}
	}
}

// round runs tasks that are due and says how many a second, from the first start to
// the last end.
func (s *benching) round(b *testing.B) (rate float64) {
	b.Helper()
	s.exec(b, `TRUNCATE runs, effects`)
	s.fill(b, benchTasks, 0, 0)
	stop := s.executes()
	s.until(b, benchTasks)
	stop()
	if err := s.pool.QueryRow(b.Context(), `SELECT count(*) / extract(epoch FROM max(ended_at) -
		min(started_at))::float8 FROM runs`).Scan(&rate); err != nil {
		b.Fatal(err)
	}
	return rate
}

// paced runs tasks that are due one after the other, and says how late they start.
func (s *benching) paced(b *testing.B) (p99 time.Duration) {
	b.Helper()
	s.exec(b, `TRUNCATE runs, effects`)
	stop := s.executes()
	defer stop()
	const n = 10 * benchPaced
	s.fill(b, n, 8*time.Second, time.Second/benchPaced)
	s.until(b, n)
	if err := s.pool.QueryRow(b.Context(), `SELECT percentile_disc(0.99) WITHIN GROUP
		(ORDER BY started_at - due) FROM runs`).Scan(&p99); err != nil {
		b.Fatal(err)
	}
	return p99
}

// bareRiver is River with a worker that does nothing.
type bareRiver struct{ pool *pgxpool.Pool }

type nothing struct{}

// Kind names the job.
func (nothing) Kind() string { return "nothing" }

type lazy struct{ river.WorkerDefaults[nothing] }

// Work does nothing.
func (lazy) Work(context.Context, *river.Job[nothing]) error { return nil }

func newBareRiver(b *testing.B) *bareRiver {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), places.Namespace(b).PostgresURL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = m.Migrate(b.Context(), rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	return &bareRiver{pool}
}

// round works on jobs and says how many a second, from the first start to the last
// end.
func (r *bareRiver) round(b *testing.B) float64 {
	b.Helper()
	_, err := r.pool.Exec(b.Context(), `TRUNCATE river_job; INSERT INTO river_job
		(kind, args, max_attempts) SELECT 'nothing', '{}', 10 FROM generate_series(1, `+
		fmt.Sprint(benchTasks)+`)`)
	if err != nil {
		b.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, lazy{})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: benchSlots}},
		Workers: workers, FetchCooldown: 2 * time.Millisecond,
		FetchPollInterval: 5 * time.Millisecond})
	if err == nil {
		err = client.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; n < benchTasks; {
		sut.Pause(b.Context(), benchLooks)
		if err := r.pool.QueryRow(b.Context(),
			`SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n); err != nil {
			b.Fatal(err)
		}
	}
	if err := client.Stop(context.Background()); err != nil {
		b.Error(err)
	}
	var rate float64
	if err := r.pool.QueryRow(b.Context(), `SELECT count(*) / extract(epoch FROM
		max(finalized_at) - min(attempted_at))::float8 FROM river_job`).Scan(&rate); err != nil {
		b.Fatal(err)
	}
	return rate
}
