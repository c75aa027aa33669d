package flashsale

import (
	"strconv"
	"time"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 256 identities from (i+1)<<8, from which
// all that follows takes its own, so that Follow needs no memory.
const (
	idBits = 8
	idMask = 1<<idBits - 1

	slotBuy   = 0x00 // the buyer's purchase
	slotAgain = 0x01 // the same buyer's second purchase, which must be refused
	slotStock = 0x10 // … 0x1f: reads of the stock
	slotPay   = 0x40 // … 0x7f: see paymentID

	// Of the deliveries of one purchase, slotTwin is the first identity of
	// the duplicate; attempts count up from each.
	slotPerBuy = 0x20
	slotTwin   = 0x10
	attemptMax = slotTwin - 1
)

// Op.Arg of a buy says which sending this is: the low byte counts the retries
// after a lost reply, and secondClick marks the impatient buyer's other click.
// All of them share Op.ID, which is the idempotency key.
const secondClick = 1 << 8

// The pauses of the journeys that no parameter sets.
const (
	// clickGap is the longest pause between a reply and the second click.
	clickGap = 200 * time.Millisecond
	// retryPause is the pause before the first retry; it doubles each time.
	retryPause = 50 * time.Millisecond
)

// atOnce is the share of second clicks and second purchases that are sent
// together with the first, so that they race; the others follow its reply.
const atOnce = 0.25

// hotShare is what wants the hot item, if there is one, and hotTurn how many buys see the
// same one if it moves.
const (
	hotShare = 0.8
	hotTurn  = 1000
)

// ItemKey names the n-th item, from 1: "item-1".
func ItemKey(n int) string { return "item-" + strconv.Itoa(n) }

// newWorkload makes the sale's operations as a pure function of the seed.
//
// Scheduled operations are buys. Operations 2k and 2k+1 sometimes belong to one buyer: the second
// is then either the same click once more (same Op.ID) or an attempt to buy a second unit, and
// the two race. All else follows from replies: payments, some of them late or delivered twice;
// what is sent again because its outcome is unknown, a webhook with an Op.ID of its own and the
// same payment (Op.Client); other second clicks and purchases; and reads of the stock.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p}
	w.pair, w.later, w.laterAt = s.Coin(), s.Coin(), s.Coin()
	w.pay, w.payAt, w.late = s.Coin(), s.Coin(), s.Coin()
	w.twice, w.twiceAt = s.Coin(), s.Coin()
	w.reads, w.readAt = s.Coin(), s.Coin()
	w.items = s.Skewed(p.Items, p.ItemSkew, hotShare, hotTurn)
	for n := range p.Items {
		w.itemKeys = append(w.itemKeys, ItemKey(n+1))
	}
	if p.Buyers > 0 {
		w.buyers = s.Unrepeated(p.Buyers)
	}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	p      Params
	buyers keys.Source // nil: buyer i for operation i
	items  keys.Source
	// itemKeys are the names of the items, made once.
	itemKeys []string

	pair, later, laterAt keys.Coin
	pay, payAt, late     keys.Coin
	twice, twiceAt       keys.Coin
	reads, readAt        keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindBuy, KindPayment, KindStock} }

// Op returns scheduled operation i, a buy.
func (w *workload) Op(i uint64) history.Op {
	if i%2 == 0 {
		return w.buy(i)
	}
	first := w.buy(i - 1)
	switch w.partner(i / 2) {
	case sameClick:
		first.Arg = secondClick
		return first
	case secondUnit:
		return again(first)
	default:
		return w.buy(i)
	}
}

func (w *workload) buy(i uint64) history.Op {
	buyer := i
	if w.buyers != nil {
		buyer = w.buyers.At(i)
	}
	return history.Op{
		ID: (i + 1) << idBits, Kind: KindBuy,
		Key:    w.itemKeys[w.items.At(i)],
		Client: "buyer-" + strconv.FormatUint(buyer+1, 10),
	}
}

// again is the same buyer's purchase of a second unit.
func again(first history.Op) history.Op {
	first.ID |= slotAgain
	first.Arg = 0
	return first
}

// habit is what a buyer does beyond buying one unit with one click.
type habit uint8

const (
	patient habit = iota
	sameClick
	secondUnit
)

// partner says what operation 2k+1 is to operation 2k. With x pairs of one habit among 1 - x of
// the others, a pair has 2 - x buyers; x = 2s/(1+s) makes the share of buyers in such pairs s.
func (w *workload) partner(k uint64) habit {
	click, again := atOnce*w.p.ClickTwice, atOnce*w.p.BuyAgain
	scale := 2 / (1 + click + again)
	return pick(w.pair.At(k), click*scale, again*scale)
}

// habitLater is what the buyer of a scheduled operation does after its first
// reply; those whose second request was sent at once do no more.
func (w *workload) habitLater(id uint64) habit {
	i := id>>idBits - 1
	if w.partner(i/2) != patient {
		return patient
	}
	rest := 1 - atOnce*(w.p.ClickTwice+w.p.BuyAgain)
	scale := (1 - atOnce) / rest
	return pick(w.later.At(i), w.p.ClickTwice*scale, w.p.BuyAgain*scale)
}

func pick(u, click, again float64) habit {
	switch {
	case u < click:
		return sameClick
	case u < click+again:
		return secondUnit
	default:
		return patient
	}
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	switch {
	case outcome == history.Dropped:
		return nil
	case op.Kind == KindBuy:
		return w.afterBuy(op, outcome, reply)
	case op.Kind == KindPayment && outcome != history.OK:
		return w.redeliver(op)
	default:
		return nil
	}
}

func (w *workload) afterBuy(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	if op.Arg >= secondClick {
		return nil // its order is paid for by the first click's journey
	}
	var next []sut.FollowUp
	scheduled := op.ID&idMask == slotBuy
	if scheduled && op.Arg == 0 {
		next = w.stockReads(next, op)
		if w.habitLater(op.ID) == sameClick {
			next = append(next, w.clickAgain(op))
		}
	}
	switch outcome {
	case history.OK:
		next = w.payments(next, op, reply.Key)
		if scheduled && w.habitLater(op.ID) == secondUnit {
			next = append(next, sut.FollowUp{
				After: scale(w.laterAt.At(op.ID), w.p.PayDelay.D()), Op: again(op),
			})
		}
	case history.Unknown:
		if op.Arg < int64(w.p.RetryOnLost) {
			next = append(next, w.retry(op))
		}
	}
	return next
}

func (w *workload) clickAgain(op history.Op) sut.FollowUp {
	op.Arg = secondClick
	return sut.FollowUp{After: scale(w.laterAt.At(op.ID), clickGap), Op: op}
}

func (w *workload) retry(op history.Op) sut.FollowUp {
	after := retryPause << op.Arg
	op.Arg++
	return sut.FollowUp{After: after, Op: op}
}

// stockReads spreads the reads over the time in which the order is paid for,
// so that they see units held as well as sold.
func (w *workload) stockReads(next []sut.FollowUp, op history.Op) []sut.FollowUp {
	n := int(w.p.StockReads)
	if w.reads.At(op.ID) < w.p.StockReads-float64(n) {
		n++
	}
	for k := range uint64(n) {
		id := op.ID | (slotStock + k)
		next = append(next, sut.FollowUp{
			After: scale(w.readAt.At(id), (w.p.PayDelay + w.p.PaySpread).D()),
			Op:    history.Op{ID: id, Kind: KindStock, Key: op.Key, Client: op.Client},
		})
	}
	return next
}

// payments schedules the deliveries of the order's payment, if it has one.
func (w *workload) payments(next []sut.FollowUp, op history.Op, order string) []sut.FollowUp {
	outcome := w.pay.At(op.ID)
	if outcome >= w.p.PaySuccess+w.p.PayFailure {
		return next // abandoned
	}
	delivery := history.Op{
		ID: paymentID(op.ID), Kind: KindPayment,
		Key:    order,
		Client: "pay-" + strconv.FormatUint(op.ID, 16),
		Arg:    w.p.PriceCents,
	}
	after := w.p.PayDelay.D() + scale(w.payAt.At(op.ID), w.p.PaySpread.D())
	switch {
	case outcome >= w.p.PaySuccess:
		delivery.Arg = -w.p.PriceCents
	case w.late.At(op.ID) < w.p.PayLate:
		after = w.lateAfter(op.ID)
	}
	next = append(next, sut.FollowUp{After: after, Op: delivery})
	if w.twice.At(op.ID) < w.p.PayTwice {
		delivery.ID |= slotTwin
		next = append(next, sut.FollowUp{After: after + w.twinGap(op.ID), Op: delivery})
	}
	return next
}

// lateAfter is uniform in CartTTL ± LateSpread.
func (w *workload) lateAfter(id uint64) time.Duration {
	return w.p.CartTTL.D() - w.p.LateSpread.D() + scale(w.payAt.At(id), 2*w.p.LateSpread.D())
}

// twinGap is how long after the first delivery the duplicate is due: at once
// for half of them, so that the two race, and up to a CartTTL for the others,
// so that some arrive at a cart that is long closed.
func (w *workload) twinGap(id uint64) time.Duration {
	u := w.twiceAt.At(id)
	if u < 0.5 {
		return 0
	}
	return scale(2*u-1, w.p.CartTTL.D())
}

// redeliver is the payment provider's retry: another delivery, same payment.
func (w *workload) redeliver(op history.Op) []sut.FollowUp {
	attempt := op.ID & attemptMax
	if attempt >= uint64(w.p.RetryOnLost) {
		return nil
	}
	op.ID++
	return []sut.FollowUp{{After: retryPause << attempt, Op: op}}
}

// paymentID is the identity of the first delivery for a purchase.
func paymentID(buy uint64) uint64 {
	return buy&^idMask | (slotPay + buy&idMask*slotPerBuy)
}

func scale(u float64, d time.Duration) time.Duration { return time.Duration(u * float64(d)) }
