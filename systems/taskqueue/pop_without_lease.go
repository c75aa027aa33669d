package taskqueue

import (
	"context"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// popWithoutLease deletes a job when a worker takes it. It is wrong where workers die.
//
// The idea: DELETE RETURNING. What succeeds or fails is written when that is known.
//
// The guarantee: none for what a worker has in its hands.
//
// It gives up: every job whose worker dies. Nobody knows that it ever was. Without any crash a
// cancellation is told so while a worker has the job, and if its unique key is given away meanwhile
// it cannot be written again.
func popWithoutLease() variant {
	return inPostgres(variant{
		Name:       "pop_without_lease",
		Idea:       "a worker deletes the job that it takes, and writes it again when it has failed",
		Guarantees: "none for what a worker has in its hands",
		GivesUp:    "correctness: what a worker had when it died is gone",
		Breaks: []sut.Break{{Invariant: JobsKept, Under: sut.RoleCrash},
			{Invariant: JobsKept, Under: sut.Load, Shows: sut.AtTimes}},
	}, func(st *opened) keeper {
		return popping{&table{opened: st, batch: 1, backoff: fullJitter}}
	})
}

// popping takes jobs out of the table. Between a claim and its end the row is in memory alone.
type popping struct{ *table }

// Take deletes jobs after they were claimed as others are, so that the order is the same.
func (p popping) Take(ctx context.Context, last *turn) ([]claim, error) {
	list, err := p.table.Take(ctx, last)
	for i := range list {
		if err == nil {
			err = p.DB.Row(ctx, `DELETE FROM jobs WHERE id = $1 RETURNING to_jsonb(jobs)::text`,
				[]any{int64(list[i].job.ID)}, &list[i].entry)
		}
	}
	return list, stores.Failed("popping a job", err)
}

// Beat renews nothing.
func (p popping) Beat(_ context.Context, claims []claim) (int, error) { return len(claims), nil }

// Done writes that jobs are done.
func (p popping) Done(ctx context.Context, claims []claim) error {
	if err := p.write(ctx, claims...); err != nil {
		return err
	}
	return p.table.Done(ctx, claims)
}

// Fail writes that a job has failed.
func (p popping) Fail(ctx context.Context, c claim, permanent bool) (*failure, error) {
	if err := p.write(ctx, c); err != nil {
		return nil, err
	}
	return p.table.Fail(ctx, c, permanent)
}

func (p popping) write(ctx context.Context, claims ...claim) error {
	for _, c := range claims {
		_, err := p.DB.Exec(ctx, `INSERT INTO jobs
			SELECT * FROM jsonb_populate_record(NULL::jobs, $1::text::jsonb)`, c.entry)
		if err != nil {
			return stores.Failed("writing a popped job", err)
		}
	}
	return nil
}
