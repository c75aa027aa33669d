package sqlbroker

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// unfencedDelete: messages are acknowledged by their identity, without a receipt, as
// pgmq's delete does. Wrong.
//
// Idea: who has a message knows its identity, which is all it takes to delete it.
//
// Guarantee: a message has one consumer at a time, as long as all are in time.
//
// Gives up: what keeps a consumer from a message that is somebody else's by now. Who
// wakes up late acknowledges it under the hands of the other, and both leave effects.
func unfencedDelete() variant {
	return inTable(variant{
		Name: "unfenced_delete",
		Idea: "batched, but settlements name the message instead of a receipt",
		Guarantees: "a message has one consumer at a time, as long as consumers keep to the " +
			"visibility timeout",
		GivesUp: "fencing: a consumer whose timeout has passed can still settle the message",
		Breaks: append(breaksUnder(sut.Load, ReceiptFenced),
			breaksUnder(sut.RolePause, EffectsOnce)...),
		Model: modelled(func(m *model) {
			m.unfenced, m.works = true, (*modelServer).effectThenAck
		}),
	}, func(t *table) messages {
		t.sql = unfencedStatements()
		return unfenced{t}
	})
}

type unfenced struct{ *table }

// unfencedStatements settle whatever has the identity and is not acknowledged.
func unfencedStatements() statements {
	sql, without := plainStatements(), strings.NewReplacer(current, identified,
		" AND m.receipt = a.receipt", "")
	sql.ack, sql.extend = without.Replace(ackSQL), without.Replace(extendSQL)
	sql.release = without.Replace(releaseSQL)
	return sql
}

// identified is current without the receipt and its time.
const identified = `m.slot = a.slot AND m.id = a.id AND m.queue = $4 AND m.state <> 'acked' {asked slots}`

// work stores the effects of a whole batch and acknowledges it, in one transaction, without a
// look at whose it is by then.
func (t unfenced) work(ctx context.Context, queue string, batch []Delivery) error {
	err := t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := storeEffects(ctx, tx, queue, batch); err != nil {
			return err
		}
		t.Config.Passed(PlaceBetween)
		_, err := t.ack(ctx, tx, queue, parseReceipts(receiptsOf(batch)))
		return err
	})
	if err == nil {
		t.tally.consumed.Add(int64(len(batch)))
	}
	return workError(err)
}

// effectThenAck is unfenced.work.
func (s *modelServer) effectThenAck(p *sim.Process, queue string, batch []Delivery) error {
	return s.conns.Transaction(p, func() error {
		if err := s.storeEffects(p, queue, batch); err != nil {
			return err
		}
		p.Passed(PlaceBetween)
		s.conns.Query(p, costAck, func() {
			s.settle(p, queue, KindAck, readReceipts(receiptsOf(batch)), 0)
		})
		return nil
	})
}
