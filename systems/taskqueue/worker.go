package taskqueue

import (
	"context"
	"crypto/rand"
	_ "embed" // the schema
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sut"
)

//go:embed schema.sql
var schema string

// keeper is where a design keeps its jobs. Every change of a claimed job is made under its
// attempt, which is the fence: who was taken for dead changes nothing any more.
type keeper interface {
	// Put stores a job. One that is there already is stored.
	Put(ctx context.Context, req EnqueueRequest) error
	// Cancel ends a job that is not claimed.
	Cancel(ctx context.Context, job uint64) error
	// Replay makes a dead letter ready again.
	Replay(ctx context.Context, job uint64) error
	// Take claims some jobs for a lease: as many of each tenant as of any other, beginning with
	// the tenant after the last one of t, and of a tenant the most urgent first.
	Take(ctx context.Context, t *turn) ([]claim, error)
	// Beat renews leases, and returns how many of the claims are still their worker's.
	Beat(ctx context.Context, claims []claim) (int, error)
	// Done ends jobs.
	Done(ctx context.Context, claims []claim) error
	// Fail has a job tried again after a pause, or makes it a dead letter. It returns nil if the
	// claim is lost.
	Fail(ctx context.Context, c claim, permanent bool) (*failure, error)
	// Upkeep makes ready what has waited for its time, and what a worker has claimed and not
	// renewed. It does at most upkeepMost of each, and returns the higher of both.
	Upkeep(ctx context.Context) (int, error)
}

// upkeepMost is how many jobs are made ready at once.
const upkeepMost = 500

// turn is what one of the workers remembers of its claims.
type turn struct {
	worker, tenant string
}

// claim is a job in a worker's hands.
type claim struct {
	job     EnqueueRequest
	attempt int64
	askedNS int64
	atNS    int64
	// entry is what a store calls the claim, if it has a name for it.
	entry string
}

// failure is what was stored of a failed attempt.
type failure struct{ atNS, nextNS int64 }

// reason is why a job is dead after an attempt failed, "" if it is tried again.
func (p Params) reason(c claim, permanent bool) string {
	switch {
	case permanent:
		return poisoned
	case c.attempt%int64(p.MaxAttempts) == 0:
		return usedUp
	}
	return ""
}

// between draws a number of some, both included.
func between(least, most int64) int64 {
	n, _ := rand.Int(rand.Reader, big.NewInt(most-least+1)) // this Reader never fails
	return least + n.Int64()
}

// desk is what clients call.
type desk struct{ keeper }

// Enqueue stores a job.
func (d desk) Enqueue(ctx context.Context, req EnqueueRequest) (Enqueued, error) {
	return Enqueued{nameOf(req.ID), req.Priority}, d.Put(ctx, req)
}

// Cancel ends a job.
func (d desk) Cancel(ctx context.Context, req JobRequest) (none api.Nothing, err error) {
	return none, d.keeper.Cancel(ctx, req.Job)
}

// Replay tries a dead letter again.
func (d desk) Replay(ctx context.Context, req JobRequest) (none api.Nothing, err error) {
	return none, d.keeper.Replay(ctx, req.Job)
}

// The fail points of a worker.
const (
	placeClaimed = "claimed" // jobs are claimed, and nothing is done
	placeHandled = "handled" // the handler has succeeded, and the queue does not know
)

// around completes a design with what all have around their jobs: clients, workers, upkeep and
// the handler's tables.
func around(v variant, build func(*opened) (keeper, error)) variant {
	keep := func(st *opened) (keeper, error) {
		return design.Keep(st, func() (keeper, error) { return build(st) })
	}
	v.Open = func(_ context.Context, st *opened) (Jobs, error) {
		k, err := keep(st)
		return desk{k}, err
	}
	v.State.Schema = schema + v.State.Schema
	v.State.Empty = append(v.State.Empty, "runs", "effects", "calls")
	v.Roles = []role{
		{Name: "worker", Summary: "claims jobs and hands them to the handler",
			Places: []string{placeClaimed, placeHandled},
			// One each for the claims, the handler, and heartbeats of some.
			ConnsOf: func(p Params, most int) int { return min(p.Workers+2, max(2, most)) },
			Do: func(ctx context.Context, st *opened) error {
				k, err := keep(st)
				if err != nil {
					return err
				}
				return work(ctx, st, k)
			}},
		{Name: "upkeep", Summary: "makes ready what waited, and what a dead worker had",
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				k, err := keep(st)
				if err != nil {
					return 0, err
				}
				n, err := k.Upkeep(ctx)
				if n == upkeepMost {
					return 0, err
				}
				return st.Params.UpkeepEvery.D(), err
			}},
	}
	return v
}

// work runs the workers of a process until ctx is cancelled. What they have claimed by then they
// bring to its end.
func work(ctx context.Context, st *opened, keep keeper) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range st.Params.Workers {
		w := &worker{opened: st, keeper: keep, handler: handler{st},
			turn: turn{worker: fmt.Sprintf("worker-%d-%d-%s", st.Config.Replica, i+1, rand.Text()[:6])}}
		group.Go(func() error {
			return st.Config.Steps(ctx, func() (time.Duration, error) { return w.step(ctx) })
		})
	}
	return group.Wait()
}

// worker works on one claim at a time.
type worker struct {
	*opened
	keeper  keeper
	handler handler
	turn    turn
}

// step claims jobs and brings them to an end. A claim is not given up when the worker is told to
// stop.
func (w *worker) step(ctx context.Context) (time.Duration, error) {
	ctx = context.WithoutCancel(ctx)
	claims, err := w.keeper.Take(ctx, &w.turn)
	if err != nil || len(claims) == 0 {
		return w.Params.PollEvery.D(), err
	}
	w.Config.Passed(placeClaimed)
	ctx, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { w.beat(ctx, stop, claims) })
	err = w.halve(ctx, "batch-"+rand.Text(), claims)
	if ctx.Err() != nil {
		err = nil // others have these jobs
	}
	stop()
	beats.Wait()
	return 0, err
}

// beatsIn is how often a lease is renewed in its time.
const beatsIn = 4

// beat renews the leases until ctx is cancelled, and cancels it if all claims are lost. Those
// that are over by then are lost, too, which harms nobody.
func (w *worker) beat(ctx context.Context, stop context.CancelFunc, claims []claim) {
	for sut.Pause(ctx, w.Params.Lease.D()/beatsIn) {
		switch left, err := w.keeper.Beat(ctx, claims); {
		case ctx.Err() != nil:
		case err != nil:
			w.Config.Warn("renewing leases", err)
		case left == 0:
			stop()
		}
	}
}

// halve hands claims to the handler. If that fails nobody knows which of them is to blame: each
// half is tried for itself, and what fails alone has failed. Where the dependency is down all have.
func (w *worker) halve(ctx context.Context, batch string, claims []claim) error {
	if err := w.handler.begin(ctx, batch, claims); err != nil {
		return err
	}
	err := w.handler.do(ctx, batch, claims)
	var bad *failedCall
	if err == nil {
		w.Config.Passed(placeHandled)
		return w.keeper.Done(ctx, claims)
	}
	if !errors.As(err, &bad) {
		return err // the leases will end
	}
	if err := w.handler.end(ctx, batch, claims, bad); err != nil {
		return err
	}
	if len(claims) == 1 || bad.down {
		return w.fail(ctx, batch, claims, bad.permanent)
	}
	half := len(claims) / 2
	if err := w.halve(ctx, batch, claims[:half]); err != nil {
		return err
	}
	return w.halve(ctx, batch, claims[half:])
}

// fail tells the queue that a call has failed.
func (w *worker) fail(ctx context.Context, batch string, claims []claim, permanent bool) error {
	for _, c := range claims {
		how, err := w.keeper.Fail(ctx, c, permanent)
		if err == nil && how != nil {
			err = w.handler.paused(ctx, batch, c, len(claims), *how)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
