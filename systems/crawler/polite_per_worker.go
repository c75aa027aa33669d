package crawler

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// politePerWorker lets each worker be polite for itself.
//
// The idea: a page is leased, and not its address: all workers take whatever is due. Each remembers
// when it last asked an address, and waits.
//
// The guarantee: each page once, and no worker asks an address too often.
//
// It gives up: politeness. An address is asked by as many workers at once as there are.
func politePerWorker() variant {
	return inStore(variant{Name: "polite_per_worker",
		Idea: "pages are leased, and not addresses; each worker remembers when it last asked an " +
			"address",
		Guarantees: "each page once, and no worker asks an address too often",
		GivesUp:    "politeness: many workers ask an address at once",
		Breaks:     []sut.Break{{Invariant: Polite, Under: sut.Load}},
	}, remembered, func(st *opened) frontier {
		return &eachWorker{tables: tables{st}, next: map[workerAt]time.Time{}}
	})
}

// eachWorker has a clock for each worker and address.
type eachWorker struct {
	tables
	mu   sync.Mutex
	turn int
	next map[workerAt]time.Time
}

// workerAt is a worker and an address.
type workerAt struct {
	worker int
	ip     string
}

func (s *eachWorker) take(ctx context.Context, n int) ([]*job, time.Duration, error) {
	until := time.Now().Add(s.Params.Lease.D())
	var jobs []*job
	err := s.DB.Rows(ctx, `WITH due AS (SELECT p.seq FROM pages AS p JOIN hosts AS h USING (host)
			WHERE p.state = 'waiting' AND p.due_at <= clock_timestamp()
				AND h.not_before <= clock_timestamp()
			ORDER BY p.priority, p.seq LIMIT $1 FOR UPDATE OF p SKIP LOCKED),
		taken AS (UPDATE pages AS p SET
			due_at = clock_timestamp() + $2::bigint * interval '1 microsecond'
			FROM due WHERE p.seq = due.seq RETURNING p.*)
		SELECT `+jobColumns+` FROM taken AS p JOIN hosts AS h USING (host)`,
		[]any{n, s.Params.Lease.D().Microseconds()}, func(row pgx.CollectableRow) error {
			j, err := readJob(row)
			j.Until, j.Wait = until, s.wait(j.IP)
			jobs = append(jobs, j)
			return err
		})
	return jobs, idle, stores.Failed("taking pages", err)
}

// wait is for how long the next worker waits before it asks an address.
func (s *eachWorker) wait(ip string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = (s.turn + 1) % s.Params.Workers
	mine := workerAt{s.turn, ip}
	wait := max(0, time.Until(s.next[mine]))
	s.next[mine] = time.Now().Add(wait + s.Params.Delay.D())
	return wait
}

func (s *eachWorker) finish(ctx context.Context, j *job, r *result) error {
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := s.keepHost(ctx, tx, j, r)
		if err == nil { // what was not asked for is due again
			_, err = tx.Exec(ctx, `UPDATE pages SET due_at = clock_timestamp() WHERE url = ANY($1)
				AND state = 'waiting'`, urlsOf(j))
		}
		for _, o := range r.Pages {
			if err == nil {
				err = keepPage(ctx, tx, o)
			}
		}
		return err
	})
	return stores.Failed("storing a page", err)
}
