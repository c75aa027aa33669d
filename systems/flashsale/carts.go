package flashsale

import (
	"context"
	"errors"
	"fmt"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// unitsInCarts says what is left to do at a server that does not say it itself: it is at rest
// when no unit is in a cart, by its stock or else by its audit. These are no operations: they
// do not wait for connections that operations without an answer hold.
func unitsInCarts(
	ctx context.Context, c *api.Client, params any,
) (left int64, what string, err error) {
	p, err := sut.ParamsOf[Params](params)
	if err != nil {
		return 0, "", err
	}
	for n := range p.Items {
		item := ItemKey(n + 1)
		body, err := c.Ask(ctx, "/v1/items/"+item+"/stock")
		if errors.Is(err, ErrNoStock) {
			return api.LeftIn((*Audit).inCarts)(ctx, c, params)
		}
		if err != nil {
			return 0, "", fmt.Errorf("reading the stock at %s: %w", c.Base(), err)
		}
		stock, err := api.Decode[Stock](body)
		if err != nil {
			return 0, "", fmt.Errorf("reading the stock at %s: %w", c.Base(), err)
		}
		if stock.Held > 0 {
			left += stock.Held
			what = fmt.Sprintf("units in carts: %d", left)
		}
	}
	return left, what, nil
}

func (a *Audit) inCarts() (held int64, what string) {
	for _, o := range a.Orders {
		if o.State == OrderHeld {
			held++
		}
	}
	return held, fmt.Sprintf("orders in carts: %d", held)
}
