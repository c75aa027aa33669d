package idempotency_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/idempotency"
)

// TestMutants: each planted error is named by its invariant, under the fault that shows it. The
// same run of postgres_points breaks nothing.
func TestMutants(t *testing.T) {
	crash := func(at string) func(string, int64) {
		return func(place string, n int64) {
			if place == at && n%20 == 5 {
				runtime.Goexit() // nothing of the request goes on
			}
		}
	}
	sleep := func(place string, n int64) {
		if place == "begun" && n%20 == 5 {
			sut.Pause(t.Context(), 600*ms) // for longer than a lease
		}
	}
	none := func(string, int64) {}
	for _, m := range []struct {
		name, mutant string
		lost         float64
		fault        func(place string, n int64)
		named        []string
	}{
		{"M120 the key is set after the effect", "M120", 0, crash("charged"),
			[]string{idempotency.ChargedOnce}},
		{"M121 a lease without an end", "M121", 0, crash("charged"),
			[]string{idempotency.NothingStuck}},
		{"M122 a lease without a fence", "M122", 0, sleep, []string{idempotency.ChargedOnce}},
		{"M123 no fingerprint", "M123", 0, none, []string{idempotency.OtherBodyRefused}},
		{"M124 keeps what failed", "M124", 0.1, none, []string{idempotency.NothingStuck}},
		{"done before the effect", "early", 0, crash("begun"), []string{idempotency.ChargesKept}},
	} {
		t.Run(m.name, func(t *testing.T) {
			run := func(mutant string) func(uint64) map[string]check.Verdict {
				return func(seed uint64) map[string]check.Verdict {
					p := crowd()
					p.TTL, p.Lease, p.LostAnswers = sut.Duration(time.Second), sut.Duration(200*ms), m.lost
					return trial(t, idempotency.Mutants()[mutant], p, seed, m.fault)
				}
			}
			suttest.Killed(t, m.named, run("control"), run(m.mutant))
		})
	}
}

// errCrashed: the server is gone.
var errCrashed = errors.New("the server crashed")

// trial runs a design in this process for a few seconds, on real stores, and judges it. The fault
// is told of each passage of a fail point of an operation.
func trial(
	t *testing.T, v sut.Variant, p *idempotency.Params, seed uint64, fault func(string, int64),
) map[string]check.Verdict {
	t.Helper()
	space := stores.Namespace(t)
	cfg := sut.Config{PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		Params: p, MaxConns: 16, Timeout: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	ctx, stop := context.WithCancel(t.Context())
	var roles sync.WaitGroup
	failing := cfg
	var passed atomic.Int64
	failing.FailPoint = func(place string) {
		if place == "begun" || place == "charged" {
			fault(place, passed.Add(1))
		}
	}
	inst, err := v.Open(ctx, failing)
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Roles {
		roles.Go(func() { _ = r.Run(ctx, cfg) })
	}
	records := hit(t, inst, seed, p)
	settle(ctx, inst, 5*p.Lease.D())
	stop()
	roles.Wait()
	audit, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Close(); err != nil {
		t.Error(err)
	}
	return suttest.Verdicts(idempotency.System().Invariants(p), history.Slice(records), audit)
}

// settle waits until nothing is left to do, or for so long.
func settle(ctx context.Context, inst sut.Instance, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		left, err := inst.(sut.Quiescer).Quiesced(ctx)
		if err == nil && left == "" || !sut.Pause(ctx, 20*ms) {
			return
		}
	}
}

// hit offers some requests and returns what became of them. One whose server crashed, which
// ends its goroutine, has an unknown outcome.
func hit(
	t *testing.T, inst sut.Instance, seed uint64, p *idempotency.Params,
) (records []history.Record) {
	t.Helper()
	work, err := idempotency.NewWorkload(seed, *p)
	if err != nil {
		t.Fatal(err)
	}
	do := func(ctx context.Context, op history.Op) (reply history.Reply, err error) {
		err = errCrashed
		done := make(chan struct{})
		go func() {
			defer close(done)
			reply, err = inst.Do(ctx, op)
		}()
		<-done
		return reply, err
	}
	rec := &shard{}
	_, err = load.Run(t.Context(), load.Plan{Base: time.Now(), Arrivals: &arrivals{}, Workload: work,
		MaxInFlight: 64, Queue: 10_000, Timeout: 5 * time.Second, Drain: 20 * time.Second}, do,
		func() load.Recorder { return rec }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec.records
}

// arrivals are 300 requests, one every 5 ms.
type arrivals struct{ n int }

func (a *arrivals) Next() (due time.Duration, ok bool) {
	a.n++
	return time.Duration(a.n) * 5 * ms, a.n <= 300
}

// shard keeps the records of all workers.
type shard struct {
	mu      sync.Mutex
	records []history.Record
}

// Append keeps a copy.
func (s *shard) Append(r *history.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, *r)
}
