package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"stampede/harness/history"
)

// Loss declares a loss of acknowledged operations that a design accepts: what
// may be lost, why, and at most how much. It is subtracted from what a checker
// found missing and shown in every verdict, also when nothing was lost.
type Loss struct {
	what, why string
	bound     int64
	covers    func(acked time.Duration) bool
}

// maxLoss is more than any run acknowledges: a larger bound is no bound.
const maxLoss = 1 << 40

// NewLoss declares a loss of at most bound operations among those whose
// acknowledgement time covers accepts, for example the result of Around. It is
// an error if what or why is empty or the bound is not positive and finite.
func NewLoss(what, why string, bound int64, covers func(acked time.Duration) bool) (Loss, error) {
	switch {
	case what == "" || why == "":
		return Loss{}, fmt.Errorf("check: an accepted loss must say what is lost and why")
	case covers == nil:
		return Loss{}, fmt.Errorf("check: accepted loss %q must say which operations it covers", what)
	case bound <= 0 || bound > maxLoss:
		return Loss{}, fmt.Errorf("check: accepted loss %q: expected a bound of 1 to %d, got %d",
			what, int64(maxLoss), bound)
	}
	return Loss{what, why, bound, covers}, nil
}

// Around covers what was acknowledged from a time before a fault began until
// its target answered again.
func Around(faults []history.Window, before time.Duration) func(acked time.Duration) bool {
	return func(acked time.Duration) bool {
		for _, f := range faults {
			if f.Start-before <= acked && acked <= f.Over() {
				return true
			}
		}
		return false
	}
}

// LossesOfDeaths declares a loss for each fault that kills processes of a target: at most bound
// operations a process, acknowledged at most before(fault) ahead of the fault's start.
func LossesOfDeaths(
	what, why string, bound int64, faults []history.Window, target string,
	before func(death history.Window) time.Duration,
) (list []Loss, err error) {
	// An operation that two losses cover goes to the one that ends first: the other can still cover
	// later ones.
	faults = slices.SortedStableFunc(slices.Values(faults), func(a, b history.Window) int {
		return cmp.Compare(a.Over(), b.Over())
	})
	for _, w := range faults {
		if n := int64(Deaths(w, target)); n > 0 && bound > 0 && err == nil {
			var loss Loss
			loss, err = NewLoss(fmt.Sprintf("%s (%s)", what, cmp.Or(w.Name, w.Fault)), why, n*bound,
				Around([]history.Window{w}, before(w)))
			list = append(list, loss)
		}
	}
	return list, err
}

// LossesOver returns the losses that verdicts on several runs accepted, each
// once, with the most that any run lost.
func LossesOver(verdicts []Verdict) (most []AcceptedLoss) {
	for _, v := range verdicts {
		for _, l := range v.Accepted {
			i := slices.IndexFunc(most, func(m AcceptedLoss) bool {
				return m.What == l.What && m.Why == l.Why && m.Bound == l.Bound
			})
			if i < 0 {
				most = append(most, l)
			} else {
				most[i].Count = max(most[i].Count, l.Count)
			}
		}
	}
	return most
}

// accept takes the missing acknowledgements that a loss covers, shows it in
// the verdict and returns those that remain: all beyond the bound, too. A
// bound that every acknowledgement fits into can never be broken.
func (c *Collector) accept(l Loss, missing []missingAck, acked int64) []missingAck {
	c.Need(l.bound < acked, "the accepted loss %q allows %d of %d acknowledged operations: no loss "+
		"could exceed it", l.what, l.bound, acked)
	var rest []missingAck
	count := int64(0)
	for _, m := range missing {
		if count < l.bound && l.covers(m.at) {
			count++
		} else {
			rest = append(rest, m)
		}
	}
	c.out.Accepted = append(c.out.Accepted,
		AcceptedLoss{What: l.what, Why: l.why, Count: count, Bound: l.bound})
	return rest
}
