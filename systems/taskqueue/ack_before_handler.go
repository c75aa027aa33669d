package taskqueue

import (
	"context"

	"stampede/harness/sut"
)

// ackBeforeHandler says that a job is done before the handler has it. It is wrong where workers
// die.
//
// The idea: a claim ends the job, so that no lease is to be renewed and nothing is done twice.
// What fails is made to wait again.
//
// The guarantee: at most one attempt at a time, and no effect of what a worker had when it died.
//
// It gives up: those effects. The jobs are done, says the queue. Their unique keys are free from
// the claim on: if one is given away its job cannot wait again, and stays done without a crash.
func ackBeforeHandler() variant {
	return inPostgres(variant{
		Name:       "ack_before_handler",
		Idea:       "a claim ends the job, and what fails is made to wait again",
		Guarantees: "at most once",
		GivesUp:    "correctness: what a worker had when it died is done, says the queue, and is not",
		Breaks:     []sut.Break{{Invariant: EffectsOnce, Under: sut.RoleCrash}},
	}, func(st *opened) keeper {
		return acking{&table{opened: st, batch: 1, backoff: fullJitter}}
	})
}

// acking ends jobs when they are claimed.
type acking struct{ *table }

// Take claims jobs and ends them.
func (a acking) Take(ctx context.Context, last *turn) ([]claim, error) {
	list, err := a.table.Take(ctx, last)
	if err == nil && len(list) > 0 {
		err = a.table.Done(ctx, list)
	}
	return list, err
}

// Beat renews nothing.
func (a acking) Beat(_ context.Context, claims []claim) (int, error) { return len(claims), nil }

// Done has nothing to do.
func (a acking) Done(context.Context, []claim) error { return nil }

// Fail takes back what was said.
func (a acking) Fail(ctx context.Context, c claim, permanent bool) (*failure, error) {
	return a.table.fail(ctx, c, permanent, done)
}
