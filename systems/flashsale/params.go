package flashsale

import (
	"errors"
	"fmt"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// DefaultParams is a sale of 1,000 units of one item, on a clock on which a
// cart lives for 3 s instead of 12 minutes.
func DefaultParams() Params {
	return Params{
		Items: 1, Units: 1000, PriceCents: 59_900, ItemSkew: keys.SkewUniform,
		CartTTL:      sut.Duration(3 * time.Second),
		ReclaimEvery: sut.Duration(250 * time.Millisecond),
		PaySuccess:   0.7, PayFailure: 0.1,
		PayDelay:  sut.Duration(300 * time.Millisecond),
		PaySpread: sut.Duration(700 * time.Millisecond),
		PayTwice:  0.2, PayLate: 0.2,
		LateSpread: sut.Duration(300 * time.Millisecond),
		ClickTwice: 0.15, BuyAgain: 0.15, StockReads: 0.02, RetryOnLost: 3,
	}
}

// maxTotalUnits keeps the initial state within what a store holds in seconds.
const maxTotalUnits = 10_000_000

// Validate returns every bad field at once, each named as in a scenario, or
// nil.
func (p Params) Validate() error {
	errs := []error{bounds.Check(p)}
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Items > 0 && p.Units > maxTotalUnits/p.Items,
		"units: %d items of %d units are more than %d in all", p.Items, p.Units, maxTotalUnits)
	refuse(p.PaySuccess+p.PayFailure > 1, "pay_failure: pay_success and pay_failure add up to %g, "+
		"more than 1", p.PaySuccess+p.PayFailure)
	refuse(p.LateSpread > p.CartTTL, "late_spread: expected at most cart_ttl (%s), got %s",
		p.CartTTL, p.LateSpread)
	refuse(p.ClickTwice+p.BuyAgain > 1, "buy_again: click_twice and buy_again add up to %g, more "+
		"than 1", p.ClickTwice+p.BuyAgain)
	return errors.Join(errs...)
}
