package flashsale

import (
	"errors"
	"fmt"
	"math"
	"time"

	"stampede/harness/sut"
)

// The values of Params.ItemSkew.
const (
	SkewUniform = "uniform" // every item is equally wanted
	SkewZipf    = "zipf"    // item k is wanted in proportion to 1/k
	SkewHot     = "hot"     // four of five buyers want the first item
	SkewMoving  = "moving"  // four of five want one item, which changes every 1,000 buys
)

// The bounds of Params. They keep operation identities unique (see NewWorkload)
// and the initial state within what a store holds in seconds.
const (
	maxItems       = 10_000
	maxTotalUnits  = 10_000_000
	maxRetries     = 15
	maxStockReads  = 16
	maxPriceCents  = 1_000_000_000
	maxJourneyTime = time.Hour
)

// DefaultParams is a sale of 1,000 units of one item, on a clock on which a
// cart lives for 3 s instead of 12 minutes.
func DefaultParams() Params {
	return Params{
		Items: 1, Units: 1000, PriceCents: 59_900, ItemSkew: SkewUniform,
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

// Validate returns every bad field at once, each named as in a scenario, or
// nil.
func (p Params) Validate() error {
	v := &validation{}
	p.validateSale(v)
	p.validateJourney(v)
	return errors.Join(v.errs...)
}

func (p Params) validateSale(v *validation) {
	v.count("items", int64(p.Items), 1, maxItems)
	v.count("units", int64(p.Units), 1, maxTotalUnits)
	if p.Items > 0 && p.Units > maxTotalUnits/p.Items {
		v.add("units", "%d items of %d units are more than %d in all",
			p.Items, p.Units, maxTotalUnits)
	}
	v.count("price_cents", p.PriceCents, 1, maxPriceCents)
	v.count("buyers", int64(p.Buyers), 0, math.MaxInt64)
	switch p.ItemSkew {
	case SkewUniform, SkewZipf, SkewHot, SkewMoving:
	default:
		v.add("item_skew", "expected uniform, zipf, hot or moving, got %q", p.ItemSkew)
	}
	v.duration("cart_ttl", p.CartTTL, time.Millisecond)
	v.duration("reclaim_every", p.ReclaimEvery, time.Millisecond)
}

func (p Params) validateJourney(v *validation) {
	v.share("pay_success", p.PaySuccess, 1)
	v.share("pay_failure", p.PayFailure, 1)
	if p.PaySuccess+p.PayFailure > 1 {
		v.add("pay_failure", "pay_success and pay_failure add up to %g, more than 1",
			p.PaySuccess+p.PayFailure)
	}
	v.duration("pay_delay", p.PayDelay, 0)
	v.duration("pay_spread", p.PaySpread, 0)
	v.share("pay_twice", p.PayTwice, 1)
	v.share("pay_late", p.PayLate, 1)
	v.duration("late_spread", p.LateSpread, 0)
	if p.LateSpread > p.CartTTL {
		v.add("late_spread", "expected at most cart_ttl (%s), got %s", p.CartTTL, p.LateSpread)
	}
	v.share("click_twice", p.ClickTwice, 1)
	v.share("buy_again", p.BuyAgain, 1)
	if p.ClickTwice+p.BuyAgain > 1 {
		v.add("buy_again", "click_twice and buy_again add up to %g, more than 1",
			p.ClickTwice+p.BuyAgain)
	}
	v.share("stock_reads", p.StockReads, maxStockReads)
	v.count("retry_on_lost", int64(p.RetryOnLost), 0, maxRetries)
}

// validation gathers errors that name their field.
type validation struct{ errs []error }

func (v *validation) add(field, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

func (v *validation) count(field string, got, low, high int64) {
	switch {
	case got < low:
		v.add(field, "expected %d or more, got %d", low, got)
	case got > high:
		v.add(field, "expected at most %d, got %d", high, got)
	}
}

// share also refuses NaN, which compares false with everything.
func (v *validation) share(field string, got, high float64) {
	if !(got >= 0 && got <= high) {
		v.add(field, "expected a number from 0 to %g, got %g", high, got)
	}
}

func (v *validation) duration(field string, got sut.Duration, low time.Duration) {
	if got.D() < low || got.D() > maxJourneyTime {
		v.add(field, "expected a duration from %s to %s, got %s", low, maxJourneyTime, got)
	}
}
