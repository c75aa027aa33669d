package writeheavy

import (
	"context"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// batchAckedEarly acknowledges an add when it is in the queue. It is wrong if a process dies.
//
// The idea: queue_and_batch, without the wait for the commit: "it will be written anyway".
//
// The guarantee: what is written is written once.
//
// It gives up: what was in the queue of a process that dies, which clients were told is there. It
// does not declare that.
func batchAckedEarly() variant {
	return variant{Name: "batch_acked_early",
		Idea:       "queue_and_batch, which answers when an add is in the queue",
		Guarantees: "what is written is written once",
		GivesUp:    "what was acknowledged and is in the queue of a process that dies",
		Breaks:     []sut.Break{{Invariant: AckedKept, Under: sut.RoleCrash}},
		NotApplicable: map[string]string{
			ReadsExact: "what is acknowledged is in reads when its batch is written"},
		Places: []string{placeCollected, placeWritten},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			q, err := openQueue(st, committed)
			if err == nil {
				q.add = func(ctx context.Context, req AddRequest) error {
					_, err := q.put(ctx, req)
					return err
				}
			}
			return q, err
		},
		State: auditedQueue(),
		Model: modelled(func(m *countersModel) {
			m.serve = func() *modelService {
				b := m.queues()
				return b.service(func(_ *sim.Process, list []AddRequest) []error {
					_, errs := b.put(list)
					return errs
				})
			}
		}),
	}
}
