package writeheavy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// queueAndBatch batches on three tiers: clients send batches, the service collects adds into
// batches of its own, and the database commits each of those at once.
//
// The idea: a batch of the service is full with 500 adds, or after a while that is drawn anew each
// time. It is one transaction. One that fails is tried twice; if Postgres refuses what is in it,
// its halves are tried for themselves, until what is refused is alone. An add that failed alone
// three times is a dead letter, and its client gets ErrRejected. The others are not affected.
//
// The guarantee: what is acknowledged is committed, whatever else was in its batch, and reads are
// as of now.
//
// It gives up: the time in the queue, and the work of splitting for each add that is refused.
func queueAndBatch() variant {
	return variant{Name: "queue_and_batch",
		Idea:       "batches of 500 adds or some milliseconds; one that fails is split to dead letters",
		Guarantees: "what is acknowledged is committed, whatever else was in its batch",
		GivesUp:    "the time in the queue, and a split for each add that is refused",
		Places:     []string{placeCollected, placeWritten},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			return openQueue(st, committed)
		},
		State: auditedQueue(),
		Model: modelled(func(m *countersModel) {
			m.serve = func() *modelService {
				b := m.queues()
				return b.service(b.join)
			}
		}),
	}
}

// queues is queue: a batch that fails is tried again or split.
func (m *countersModel) queues() *batcherModel {
	var b *batcherModel
	b = newBatcherModel(m, func(p *sim.Process, batch []*modelWaiting) { b.deliver(p, batch) })
	m.more = func(a *Audit) {
		a.Contract.Attempts, a.Batches = int64(m.p.Attempts), []BatchRow{}
		for _, n := range m.batches.Keys() {
			row, _ := m.batches.Get(n)
			a.Batches = append(a.Batches, row)
		}
	}
	return b
}

// deliver is queue.deliver.
func (b *batcherModel) deliver(p *sim.Process, batch []*modelWaiting) {
	err := b.attempts(p, batch)
	switch {
	case err == nil || !errors.Is(err, ErrRejected):
		told(batch, err)
	case len(batch) > 1:
		half := len(batch) / 2
		b.deliver(p, batch[:half])
		b.deliver(p, batch[half:])
	default:
		lost := p.Within(b.limit, func() {
			b.db.Exec(p, costBury, func() { b.bury(p, batch[0].AddRequest, b.p.Attempts) })
		})
		told(batch, cmp.Or(lost, err))
	}
}

// attempts is queue.attempts.
func (b *batcherModel) attempts(p *sim.Process, batch []*modelWaiting) error {
	most, refused := b.p.Attempts, 0
	if len(batch) > 1 {
		most = togetherMost
	}
	for began := p.Now(); ; {
		p.Passed(placeCollected)
		var err error
		if failed := p.Within(b.limit, func() { err = b.commits(p, batch) }); failed != nil {
			err = failed
		}
		switch {
		case err == nil:
			p.Passed(placeWritten)
			return nil
		case errors.Is(err, ErrRejected):
			if refused++; refused >= most {
				return err
			}
		case p.Now()-began > b.limit/2:
			return err
		default:
			p.Do(b.Sim.Delay(time.Duration(b.draw.IntN(int(triesPause)))))
		}
	}
}

// commits is committed. What the tables refuse in it rolls it back.
func (b *batcherModel) commits(p *sim.Process, batch []*modelWaiting) error {
	return b.db.Transaction(p, func() (err error) {
		b.db.Query(p, costBatch, func() {
			b.written++
			b.batches.TryLock(b.written) // nobody else knows it
			b.batches.Set(b.written, BatchRow{int64(len(batch))})
		})
		list := placed(batch, func(AddRequest) int { return 0 })
		b.db.QueryTimes(p, costApply, float64(len(list)), func() {
			if slices.ContainsFunc(list, func(c counted) bool { return !sound(c.Delta) }) {
				err = ErrRejected
				return
			}
			b.apply(p, 1, list)
		})
		return err
	})
}

// auditedQueue has the batches, once those in memory are written.
func auditedQueue() design.State[Params] {
	return design.State[Params]{Audit: func(ctx context.Context, st *opened) (any, error) {
		q, err := openQueue(st, committed)
		if err != nil {
			return nil, err
		}
		for q.inside.Load() > 0 {
			if !sut.Pause(ctx, time.Millisecond) {
				return nil, fmt.Errorf("waiting for batches: %w", ctx.Err())
			}
		}
		contract := Contract{Attempts: int64(st.Params.Attempts)}
		return audited(contract, readBatches)(ctx, st)
	}}
}

func readBatches(ctx context.Context, _ *opened, tx pgx.Tx, a *Audit) (err error) {
	a.Batches, err = stores.CollectOn[BatchRow](ctx, tx, `SELECT records FROM batches ORDER BY id`)
	return err
}

// queue is an API that writes batches.
type queue struct {
	service
	*batcher
	st    *opened
	write func(ctx context.Context, st *opened, list []counted) error
}

// openQueue opens the one queue of an instance, which writes a batch in some way.
func openQueue(
	st *opened, write func(context.Context, *opened, []counted) error,
) (*queue, error) {
	return design.Keep(st, func() (*queue, error) {
		q := &queue{st: st, write: write}
		q.batcher = newBatcher(st.Params, q.deliver)
		q.service = service{now{st}, q.join, MostRecords}
		return q, nil
	})
}

const (
	// togetherMost is how often a batch of several adds is tried before it is split.
	togetherMost = 2
	// triesPause is the longest pause between two attempts.
	triesPause = 50 * time.Millisecond
)

// deliver writes a batch, or what can be written of it.
func (q *queue) deliver(ctx context.Context, batch []*waiting) {
	err := q.attempts(ctx, batch)
	switch {
	case err == nil:
		tell(batch, nil)
	case !rejects(err):
		// An attempt may have been committed whose answer was lost.
		tell(batch, stores.Unknown("writing a batch", err))
	case len(batch) > 1:
		half := len(batch) / 2
		q.deliver(ctx, batch[:half])
		q.deliver(ctx, batch[half:])
	default:
		w := batch[0]
		_, lost := q.st.DB.Exec(ctx, sqlBury, w.ID, w.Key, w.User, w.Delta, q.st.Params.Attempts)
		if lost != nil {
			tell(batch, stores.Unknown("writing a dead letter", lost))
			return
		}
		tell(batch, fmt.Errorf("%w: %w", ErrRejected, err))
	}
}

// attempts tries to write a batch: some times if Postgres refuses what is in it, and otherwise for
// half as long as a client waits. A pause between two is drawn then, so that processes whose store
// comes back do not all ask it at once.
func (q *queue) attempts(ctx context.Context, batch []*waiting) error {
	most, refused := q.st.Params.Attempts, 0
	if len(batch) > 1 {
		most = togetherMost
	}
	draw := newDraw()
	for began := time.Now(); ; {
		err := q.attempt(ctx, batch)
		switch {
		case err == nil:
			return nil
		case rejects(err):
			if refused++; refused >= most {
				return err
			}
		case time.Since(began) > stores.Timeout(q.st.Config)/2 ||
			!sut.Pause(ctx, time.Duration(draw.Int64N(int64(triesPause)))):
			return err
		}
	}
}

// attempt tries it once.
func (q *queue) attempt(ctx context.Context, batch []*waiting) error {
	list := make([]counted, len(batch))
	for i, w := range batch {
		list[i] = counted{AddRequest: w.AddRequest}
	}
	q.st.Config.Passed(placeCollected)
	err := q.write(ctx, q.st, list)
	if err == nil {
		q.st.Config.Passed(placeWritten)
	}
	return err
}

// committed writes a batch in one transaction.
func committed(ctx context.Context, st *opened, list []counted) error {
	return st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO batches (records) VALUES ($1)`, len(list)); err != nil {
			return err
		}
		return apply(ctx, tx, 1, list)
	})
}
