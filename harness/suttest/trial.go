package suttest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/sut"
)

// Trial is a run of one variant for a few seconds in this process, on real stores. It judges errors
// that are planted in the variant.
type Trial struct {
	System  sut.System
	Variant sut.Variant
	Params  any
	// Space makes an empty place in real stores.
	Space func(testing.TB) env.Namespace
	// Ops are offered, one Every so often. Settle bounds the time in which the variant comes to
	// rest after them; the audit is read then, settled or not.
	Ops           int
	Every, Settle time.Duration
	// Fault, unless it is nil, is called each time an operation passes one of Places, with the
	// number of passages so far. It may end the goroutine, and the request with it.
	Places []string
	Fault  func(place string, n int64)
	// Break, unless it is nil, runs beside the operations: it breaks a store and mends it. The
	// windows that it returns are in the history, and now is how long the load has run.
	Break func(ctx context.Context, now func() time.Duration) ([]history.Window, error)
}

// Kills checks by runs with several seeds, as Killed does, that an error that is planted in one
// variant is named by invariants, and that none breaks in the variant without it. The trial's own
// variant is not used.
func (tr Trial) Kills(t *testing.T, control, planted sut.Variant, named ...string) {
	t.Helper()
	of := func(v sut.Variant) func(uint64) map[string]check.Verdict {
		tr := tr
		tr.Variant = v
		return func(seed uint64) map[string]check.Verdict { return tr.Run(t, seed) }
	}
	Killed(t, named, of(control), of(planted))
}

// Run makes the run and judges it by what applies to the variant.
func (tr Trial) Run(t *testing.T, seed uint64) map[string]check.Verdict {
	t.Helper()
	space := tr.Space(t)
	cfg := sut.Config{PostgresURL: space.PostgresURL, ReplicaURL: replicaOf(space),
		RedisURL: space.RedisURL, KafkaBrokers: space.KafkaBrokers, Kafka: sut.DefaultKafka(),
		Prefix: space.Prefix, Folder: folderOf(t, tr.Variant), Params: tr.Params,
		MaxConns: 16, Timeout: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failing := cfg
	var passed atomic.Int64
	if tr.Fault != nil {
		failing.FailPoint = func(place string) {
			if slices.Contains(tr.Places, place) {
				tr.Fault(place, passed.Add(1))
			}
		}
	}
	inst, err := tr.Variant.Open(ctx, failing)
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	var roles sync.WaitGroup
	for _, r := range tr.Variant.Roles {
		roles.Go(func() { _ = r.Run(ctx, cfg) })
	}
	base, end := time.Now(), func() []history.Window { return nil }
	if tr.Break != nil {
		end = tr.breaking(ctx, t, base)
	}
	records := tr.offer(t, inst, seed, base)
	windows := end()
	settle(ctx, inst, tr.Settle)
	stop()
	roles.Wait()
	audit, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Close(); err != nil {
		t.Error(err)
	}
	applies := slices.DeleteFunc(tr.System.Invariants(tr.Params), func(v check.Invariant) bool {
		_, not := tr.Variant.NotApplicable[v.Name()]
		return not
	})
	return Verdicts(applies, history.Slice(records, windows...), audit)
}

// breaking begins to break a store. What it returns waits until that is mended.
func (tr Trial) breaking(
	ctx context.Context, t *testing.T, base time.Time,
) (end func() []history.Window) {
	var windows []history.Window
	var err error
	mended := make(chan struct{})
	go func() {
		defer close(mended)
		windows, err = tr.Break(ctx, func() time.Duration { return time.Since(base) })
	}()
	return func() []history.Window {
		if <-mended; err != nil {
			t.Fatal(err)
		}
		return windows
	}
}

// settle waits until nothing is left to do, or for so long.
func settle(ctx context.Context, inst sut.Instance, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		left, err := inst.(sut.Quiescer).Quiesced(ctx)
		if err == nil && left == "" || !sut.Pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// errCrashed is the outcome of a request whose goroutine the fault ended.
var errCrashed = errors.New("the server crashed")

// offer returns what became of some requests. One whose server crashed, which ends its goroutine,
// has an unknown outcome.
func (tr Trial) offer(
	t *testing.T, inst sut.Instance, seed uint64, base time.Time,
) []history.Record {
	t.Helper()
	work, err := tr.System.Workload(seed, tr.Params)
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
	rec := &recorder{}
	_, err = load.Run(t.Context(), load.Plan{Base: base,
		Arrivals: &evenly{ops: tr.Ops, every: tr.Every}, Workload: work, MaxInFlight: 64,
		Queue: 10_000, Timeout: 5 * time.Second, Drain: 20 * time.Second},
		do, func() load.Recorder { return rec }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec.records
}

// evenly is an arrival process of operations that are due at equal intervals, from 0 on. Without an
// interval all are due at once.
type evenly struct {
	n, ops int
	every  time.Duration
}

// Next returns when the next operation is due.
func (a *evenly) Next() (due time.Duration, ok bool) {
	due = time.Duration(a.n) * a.every
	a.n++
	return due, a.n <= a.ops
}
