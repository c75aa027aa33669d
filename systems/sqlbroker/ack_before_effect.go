package sqlbroker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// ackBeforeEffect: the message is gone before its work is done. Wrong.
//
// Idea: acknowledge first, so that nobody else gets the message, then work.
//
// Guarantee: no message is processed twice.
//
// Gives up: the effects of whatever a consumer had acknowledged when it died.
func ackBeforeEffect() variant {
	return inTable(variant{
		Name:       "ack_before_effect",
		Idea:       "batched with consumers that acknowledge before they store their effects",
		Guarantees: "no message is processed twice",
		GivesUp:    "the effects of messages that a consumer had acknowledged when it crashed",
		Breaks:     breaksUnder(sut.RoleCrash, EffectsOnce),
		Model:      modelled(func(m *model) { m.works = (*modelServer).ackThenEffect }),
	}, func(t *table) messages { return ackFirst{t} })
}

type ackFirst struct{ *table }

func (t ackFirst) work(ctx context.Context, queue string, batch []Delivery) error {
	if slices.ContainsFunc(batch, indigestible) {
		return errIndigestible // as far as one can see before the work is done
	}
	done, err := t.Settle(ctx, queue, KindAck, Settlement{Receipts: receiptsOf(batch)})
	if errors.Is(err, ErrStaleReceipt) {
		return nil
	}
	if err != nil {
		return err
	}
	t.Config.Passed(PlaceBetween)
	return workError(t.storeDone(ctx, queue, batch, done.Done))
}

// ackThenEffect is ackFirst.work.
func (s *modelServer) ackThenEffect(p *sim.Process, queue string, batch []Delivery) error {
	if slices.ContainsFunc(batch, indigestible) {
		return errIndigestible
	}
	var good []Delivery
	s.conns.Exec(p, costAck, func() {
		for _, done := range s.settle(p, queue, KindAck, readReceipts(receiptsOf(batch)), 0) {
			good = append(good, batch[done.at])
		}
	})
	p.Passed(PlaceBetween)
	return s.conns.Transaction(p, func() error { return s.storeEffects(p, queue, good) })
}

// indigestible is what the table of effects will say of a message.
func indigestible(d Delivery) bool { return poisonous(d.Body) }

func poisonous(body string) bool { return strings.HasPrefix(body, "poison") }

// storeDone stores the effects of those deliveries whose receipts are listed.
func (t ackFirst) storeDone(
	ctx context.Context, queue string, batch []Delivery, done []string,
) error {
	good := slices.DeleteFunc(slices.Clone(batch), func(d Delivery) bool {
		return !slices.Contains(done, d.Receipt)
	})
	err := t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return storeEffects(ctx, tx, queue, good)
	})
	if err == nil {
		t.tally.consumed.Add(int64(len(good)))
	}
	return err
}
