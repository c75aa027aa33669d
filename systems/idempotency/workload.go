package idempotency

import (
	"fmt"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Key i owns the 8 identities from (i+1)<<3, one for each request that it
// is used for.
const (
	idBits   = 3
	stepMask = 1<<idBits - 1

	stepCharge = 0
	stepOther  = 1 // another amount, while the answer is kept
	stepReuse  = 2 // another amount, after that
)

// retryPause is the pause before the first retry; it doubles each time, up to longestPause.
const (
	retryPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// newWorkload makes the operations as a pure function of the seed. Scheduled operations charge
// under a new key, or repeat the request before them. A request of unknown outcome, or that is
// turned away, is sent again; Op.Arg counts the attempts. Some keys are used for another amount as
// well, too early or after their time, and some are asked for once more when most of their time is
// over. Another amount is sent only after the first is known to have an answer: what becomes of two
// at once is not promised while neither has one.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API()}
	w.customers = s.Uniform(p.Customers)
	w.repeat, w.other, w.reuse, w.amount, w.when = s.Coin(), s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: w.Kinds()}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p         Params
	table     *api.Table[Till]
	customers keys.Source

	repeat, other, reuse, amount, when keys.Coin
}

// Kinds lists the operation kinds.
func (w *workload) Kinds() []string { return []string{KindCharge} }

// Op returns scheduled operation i.
func (w *workload) Op(i uint64) history.Op {
	for i > 0 && w.repeat.At(i) < w.p.Repeat {
		i--
	}
	return w.request(i, stepCharge)
}

// request is one that key i is used for. Each has an amount of its own.
func (w *workload) request(i, step uint64) history.Op {
	return w.table.Op(KindCharge, ChargeRequest{ID: (i+1)<<idBits | step, Key: fmt.Sprint("key-", i+1),
		Customer: fmt.Sprint("customer-", w.customers.At(i)+1),
		Amount:   int64(w.amount.At(i)*100_000)*3 + 3 + int64(step)})
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	i, step := op.ID>>idBits-1, op.ID&stepMask
	turnedAway := outcome == history.Refused && step == stepCharge
	switch {
	case (outcome == history.Unknown || turnedAway) && op.Arg < int64(w.p.Retry):
		retry := op
		retry.Arg++
		pause := min(retryPause<<min(op.Arg, 10), longestPause)
		return []sut.FollowUp{{After: pause, Op: retry}}
	case outcome == history.OK && step == stepCharge && op.Arg <= int64(w.p.Retry):
		return w.misused(i)
	}
	return nil
}

// misused is what else a key is used for.
func (w *workload) misused(i uint64) (next []sut.FollowUp) {
	if w.other.At(i) < w.p.OtherBody {
		soon := time.Duration(w.when.At(i) * float64(100*time.Millisecond))
		next = append(next, sut.FollowUp{After: soon, Op: w.request(i, stepOther)})
	}
	if w.reuse.At(i) < w.p.Reuse {
		next = append(next, sut.FollowUp{After: w.p.TTL.D() + w.p.ReapLag.D()/2,
			Op: w.request(i, stepReuse)})
	}
	if 1-w.reuse.At(i) < w.p.Reuse {
		same, other := w.request(i, stepCharge), w.request(i, stepOther)
		same.Arg, other.Arg = int64(w.p.Retry)+1, int64(w.p.Retry)+1 // nothing follows from them
		after := w.p.TTL.D() * 4 / 5
		next = append(next, sut.FollowUp{After: after, Op: same}, sut.FollowUp{After: after, Op: other})
	}
	return next
}
