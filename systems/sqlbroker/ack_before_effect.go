package sqlbroker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ackBeforeEffect: the message is gone before its work is done. Wrong.
//
// Idea: acknowledge first, so that nobody else gets the message, then work.
//
// Guarantee: no message is processed twice.
//
// Gives up: the effects of whatever a consumer had acknowledged when it died.
func ackBeforeEffect() design {
	d := batched()
	d.name = "ack_before_effect"
	d.idea = "batched with consumers that acknowledge before they store their effects"
	d.guarantees = "no message is processed twice"
	d.givesUp = "the effects of messages that a consumer had acknowledged when it crashed"
	d.breaks = breaksUnder(crash, EffectsOnce)
	d.work = func(ctx context.Context, b *backend, queue string, batch []Delivery) error {
		if slices.ContainsFunc(batch, indigestible) {
			return errIndigestible // as far as one can see before the work is done
		}
		done, err := b.table.Settle(ctx, queue, KindAck, Settlement{Receipts: receiptsOf(batch)})
		if errors.Is(err, ErrStaleReceipt) {
			return nil
		}
		if err != nil {
			return err
		}
		b.cfg.Passed(PlaceBetween)
		return workError(b.storeDone(ctx, queue, batch, done.Done))
	}
	return d
}

// indigestible is what the table of effects will say of a message.
func indigestible(d Delivery) bool { return poisonous(d.Body) }

func poisonous(body string) bool { return strings.HasPrefix(body, "poison") }

// storeDone stores the effects of those deliveries whose receipts are listed.
func (b *backend) storeDone(
	ctx context.Context, queue string, batch []Delivery, done []string,
) error {
	good := slices.DeleteFunc(slices.Clone(batch), func(d Delivery) bool {
		return !slices.Contains(done, d.Receipt)
	})
	err := b.db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return storeEffects(ctx, conn, queue, good)
	})
	if err == nil {
		b.tally.consume(len(good))
	}
	return err
}
