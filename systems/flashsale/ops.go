package flashsale

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// perform turns an operation into a call of the shop, and the result into a
// reply: the one place that knows both. An unknown kind is refused.
func perform(ctx context.Context, shop Shop, op history.Op) (history.Reply, error) {
	switch op.Kind {
	case KindBuy:
		order, err := shop.Buy(ctx, BuyRequest{OpID: op.ID, Item: op.Key, Buyer: op.Client})
		if err != nil {
			return history.Reply{}, err
		}
		return history.Reply{Key: order.ID, Value: order.Unit}, nil
	case KindPayment:
		state, err := shop.PaymentResult(ctx, paymentOf(op))
		if err != nil {
			return history.Reply{}, err
		}
		return history.Reply{Key: string(state)}, nil
	case KindStock:
		stock, err := shop.Stock(ctx, op.Key)
		if err != nil {
			return history.Reply{}, err
		}
		body, err := json.Marshal(stock)
		if err != nil {
			return history.Reply{}, fmt.Errorf("encoding a stock snapshot: %w", err)
		}
		return history.Reply{Body: body}, nil
	}
	return history.Reply{}, fmt.Errorf("operation kind %q is not one of %s, %s, %s: %w",
		op.Kind, KindBuy, KindPayment, KindStock, sut.ErrRefused)
}

// paymentOf reads a webhook's delivery: a negative amount is a failed payment.
func paymentOf(op history.Op) Payment {
	p := Payment{
		OpID: op.ID, PaymentID: op.Client, OrderID: op.Key,
		Succeeded: op.Arg >= 0, AmountCents: op.Arg,
	}
	if op.Arg < 0 {
		p.AmountCents = -op.Arg
	}
	return p
}
