package checkout

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// kafkaQueue serialises the checkouts of each product in a queue.
//
// The idea: a join writes an attempt, and no more. An admitter sends attempts to the partition of
// their product, in the order in which they came; a worker decides them in that order, many in one
// transaction, and commits its offset after that.
//
// The guarantee: no more orders than units, first come first served, and no attempt is lost: what
// a crash leaves is sent or read again, and decided once.
//
// It gives up: an answer at once. Who joins knows no more than that there will be one.
func kafkaQueue() variant {
	return queued(variant{
		Name:       "kafka_queue",
		Idea:       "joins are written down, sent to their product's partition and decided in order",
		Guarantees: "no more orders than units, first come first served, and no attempt is lost",
		GivesUp:    "an answer at once: who joins knows only that there will be one",
		Roles: []role{payer(), admitter(everybody, selectNext, nothingMore),
			worker(decideThenCommit, decideInOrder, placeOrdered)},
		Model: modelled(func(m *shopModel) { m.decidesLater(thenCommits) }),
	})
}

// everybody is admitted, a thousand at once.
func everybody(Params) (batch, room int) { return 1000, 1 << 40 }

func nothingMore(context.Context, *opened) error { return nil }

// queued completes a design whose joins are decided later, without a waiting room.
func queued(v variant) variant {
	v.Needs = []sut.Service{sut.Kafka}
	v.NotApplicable = atOnce()
	delete(v.NotApplicable, FairAdmission)
	v.State.Ready = makeTopic
	v.Open = func(_ context.Context, st *opened) (Shop, error) {
		return queuedShop{&counter{st}}, nil
	}
	return v
}

type queuedShop struct{ *counter }

// Join writes an attempt.
func (s queuedShop) Join(ctx context.Context, req JoinRequest) (Ticket, error) {
	t, err := s.wait(ctx, req, 0)
	t.Position = 0 // nobody is told one
	return t, err
}

// wait begins an attempt that waits; its position is its place.
func (c *counter) wait(ctx context.Context, req JoinRequest, passedNS int64) (t Ticket, err error) {
	if !c.Params.has(req.Product) {
		return t, ErrUnknownProduct
	}
	err = c.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		t, _, _, err = c.begin(ctx, tx, req, waiting, passedNS)
		return err
	})
	return t, stores.Failed("joining", err)
}
