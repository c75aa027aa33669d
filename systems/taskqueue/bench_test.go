package taskqueue_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/taskqueue"
)

// The benchmarks have benchJobs done whose handlers do nothing.
const (
	benchJobs    = 20_000
	benchWorkers = 8
	benchBatch   = 400
	benchTenants = 4
)

// bench is a design without roles.
type bench struct {
	sut.Instance
	cfg  sut.Config
	next uint64
}

func openBench(b testing.TB, name string, batch int) *bench {
	b.Helper()
	space := stores.Namespace(b)
	p := taskqueue.DefaultParams()
	p.Tenants, p.Batch, p.TenantRate, p.Lease = benchTenants, batch, 0, sut.Duration(time.Hour)
	cfg := sut.Config{PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		Params: &p, MaxConns: 2 * benchWorkers, Timeout: time.Minute}
	for _, v := range taskqueue.System().Variants {
		if v.Name != name {
			continue
		}
		inst, err := v.Open(b.Context(), cfg)
		must(b, err)
		must(b, inst.Prepare(b.Context()))
		b.Cleanup(func() { _ = inst.Close() })
		return &bench{Instance: inst, cfg: cfg}
	}
	b.Fatalf("no design %s", name)
	return nil
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fill inserts ready jobs into the table, and lets it come to rest.
func (t *bench) fill(b *testing.B, n int) {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), t.cfg.PostgresURL)
	must(b, err)
	defer pool.Close()
	for _, sql := range []string{
		`INSERT INTO tenants SELECT 'tenant-' || n FROM generate_series(0, 3) n ON CONFLICT DO NOTHING`,
		`INSERT INTO jobs (id, tenant, priority, unique_key, state, due_at, payload)
			SELECT n, 'tenant-' || n % 4, 1 + n % 3, '', 'ready', now(), jsonb_build_object('op_id', n,
				'tenant', 'tenant-' || n % 4, 'priority', 1 + n % 3)
			FROM generate_series((SELECT coalesce(max(id), 0) FROM jobs) + 1,
				(SELECT coalesce(max(id), 0) FROM jobs) + ` + strconv.Itoa(n) + `) n`,
		`VACUUM ANALYZE jobs`, `CHECKPOINT`,
	} {
		_, err := pool.Exec(b.Context(), sql)
		must(b, err)
	}
}

// enqueue enqueues jobs as clients do.
func (t *bench) enqueue(b *testing.B, n int) {
	b.Helper()
	table, first := taskqueue.API(), t.next
	t.next += uint64(n)
	var all sync.WaitGroup
	for w := range benchWorkers {
		all.Go(func() {
			for i := w; i < n; i += benchWorkers {
				_, err := t.Do(b.Context(), table.Op(taskqueue.KindEnqueue, taskqueue.EnqueueRequest{
					ID: first + uint64(i) + 1, Priority: 1 + int64(i%3),
					Tenant: "tenant-" + strconv.Itoa(i%benchTenants)}))
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// drain has workers do n jobs, and returns how many they did a second.
func (t *bench) drain(b *testing.B, n int) float64 {
	b.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for w := range benchWorkers {
		hand := taskqueue.HandOf(t.Instance, "worker-"+strconv.Itoa(w))
		all.Go(func() {
			for done.Load() < int64(n) {
				did, err := hand.Turn(b.Context(), true)
				if err != nil {
					b.Error(err)
					return
				}
				done.Add(int64(did))
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}

// BenchmarkRiver compares postgres_batch with River's client and its workers. The aim is twice as
// many jobs.
func BenchmarkRiver(b *testing.B) {
	ours, peer := openBench(b, "postgres_batch", benchBatch), openRiver(b)
	suttest.Compare(b, "river", 2, func() float64 {
		ours.fill(b, benchJobs)
		return ours.drain(b, benchJobs)
	}, func() float64 { return peer(b, benchJobs) })
}

// nothing is a job of River's.
type nothing struct {
	N int `json:"n"`
}

// Kind names it.
func (nothing) Kind() string { return "nothing" }

// idler does nothing, often.
type idler struct {
	river.WorkerDefaults[nothing]
	done *atomic.Int64
}

// Work does it.
func (i *idler) Work(context.Context, *river.Job[nothing]) error { i.done.Add(1); return nil }

// openRiver returns a round of River's: jobs are inserted by COPY, and then worked on by a client
// that fetches as often and as much as it may.
func openRiver(b *testing.B) func(b *testing.B, n int) float64 {
	b.Helper()
	conf, err := pgxpool.ParseConfig(stores.Namespace(b).PostgresURL)
	must(b, err)
	conf.MaxConns = 2 * benchWorkers
	pool, err := pgxpool.NewWithConfig(b.Context(), conf)
	must(b, err)
	b.Cleanup(pool.Close)
	quiet := slog.New(slog.DiscardHandler)
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	must(b, err)
	_, err = m.Migrate(b.Context(), rivermigrate.DirectionUp, nil)
	must(b, err)
	return func(b *testing.B, n int) float64 {
		b.Helper()
		var done atomic.Int64
		workers := river.NewWorkers()
		river.AddWorker(workers, &idler{done: &done})
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet,
			Workers: workers, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}}})
		must(b, err)
		list := make([]river.InsertManyParams, n)
		for i := range list {
			list[i] = river.InsertManyParams{Args: nothing{i}}
		}
		_, err = client.InsertManyFast(b.Context(), list)
		must(b, err)
		_, err = pool.Exec(b.Context(), `VACUUM ANALYZE river_job`)
		must(b, err)
		begin := time.Now()
		must(b, client.Start(b.Context()))
		for left := 1; left > 0; {
			sut.Pause(b.Context(), 5*time.Millisecond)
			must(b, pool.QueryRow(b.Context(), `SELECT count(*) FROM (SELECT FROM river_job
				WHERE state IN ('available', 'running') LIMIT 1) j`).Scan(&left))
		}
		rate := float64(done.Load()) / time.Since(begin).Seconds()
		must(b, client.Stop(b.Context()))
		return rate
	}
}

// BenchmarkAsynq compares redis_streams with Asynq, both with a backlog that was enqueued before.
// The aim is one and a half times as many jobs.
func BenchmarkAsynq(b *testing.B) {
	ours, peer := openBench(b, "redis_streams", benchBatch), openAsynq(b)
	suttest.Compare(b, "asynq", 1.5, func() float64 {
		ours.enqueue(b, benchJobs)
		return ours.drain(b, benchJobs)
	}, func() float64 { return peer(b, benchJobs) })
}

// openAsynq returns a round of Asynq's, with 50 workers.
func openAsynq(b *testing.B) func(b *testing.B, n int) float64 {
	b.Helper()
	to, err := asynq.ParseRedisURI(stores.Namespace(b).RedisURL)
	must(b, err)
	client := asynq.NewClient(to)
	b.Cleanup(func() { _ = client.Close() })
	return func(b *testing.B, n int) float64 {
		b.Helper()
		var all sync.WaitGroup
		for w := range benchWorkers {
			all.Go(func() {
				for i := w; i < n; i += benchWorkers {
					if _, err := client.Enqueue(asynq.NewTask("nothing", nil)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		var done atomic.Int64
		finished := make(chan struct{})
		server := asynq.NewServer(to, asynq.Config{Concurrency: 50, LogLevel: asynq.FatalLevel})
		begin := time.Now()
		must(b, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if done.Add(1) == int64(n) {
				close(finished)
			}
			return nil
		})))
		<-finished
		rate := float64(n) / time.Since(begin).Seconds()
		server.Shutdown()
		return rate
	}
}

// BenchmarkClaimCost claims jobs of four tenants out of a queue that has more and more of them.
func BenchmarkClaimCost(b *testing.B) {
	suttest.ClaimCost(b, []string{"postgres_batch"}, func(b *testing.B, name string) suttest.Backlog {
		t := openBench(b, name, suttest.ClaimBatch)
		hand := taskqueue.HandOf(t.Instance, "worker")
		return suttest.Backlog{
			Fill: func(n int) error { t.fill(b, n); return nil },
			Claim: func() error {
				_, err := hand.Turn(b.Context(), false)
				return err
			},
		}
	})
}
