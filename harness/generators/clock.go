package generators

import (
	"context"
	"time"
)

// Reading is one comparison of two clocks: Ahead is how far the coordinator's is ahead of ours,
// right to Within either way.
type Reading struct {
	Ahead, Within time.Duration
}

// compare reads both clocks in so many round trips and keeps the quickest: the other clock was
// read at some moment of the trip, so that half of it bounds the error, however the two ways
// differ (Cristian, "Probabilistic clock synchronization", 1989).
func compare(
	ctx context.Context, trips int, ours func() time.Duration,
	theirs func(context.Context) (time.Duration, error),
) (best Reading, err error) {
	for i := range trips {
		before := ours()
		other, err := theirs(ctx)
		after := ours()
		if err != nil {
			return best, err
		}
		r := Reading{Ahead: other - before - (after-before)/2, Within: (after - before + 1) / 2}
		if i == 0 || r.Within < best.Within {
			best = r
		}
	}
	return best, nil
}

// clockError is how far a generator's times may be from the coordinator's clock. Its times are
// ours plus an offset, so that the readings, from before, during and after the load, say what is
// left. Those of before and after, on a machine that has time, bound it. One of during, when trips
// are slow, counts only if the others do not explain it.
func clockError(offset time.Duration, before, after Reading, during []Reading) time.Duration {
	bound := max(off(before, offset)+before.Within, off(after, offset)+after.Within)
	for _, r := range during {
		if off(r, offset)-r.Within > bound {
			bound = max(bound, off(r, offset)+r.Within)
		}
	}
	return bound
}

// off is how far a reading is from an offset.
func off(r Reading, offset time.Duration) time.Duration { return (r.Ahead - offset).Abs() }
