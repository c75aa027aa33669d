package knee

import (
	"fmt"
	"time"

	"stampede/harness/rundir"
)

// The limits of steadiness.
const (
	// shortfallMost is how much of what is offered may go unserved, as a share.
	shortfallMost = 0.02
	// noise is the growth, in operations, that is never told from chance.
	noise = 10
)

// Pace is how a window went in its second half, when what came before has
// settled.
type Pace struct {
	// OfferedPerS and AchievedPerS are the operations that were due and that
	// ended, per second.
	OfferedPerS, AchievedPerS float64
	// GrowthPerS is the slope of the backlog, which is what was due and has not
	// ended: in flight, waiting or dropped.
	GrowthPerS float64
	// Over is how long that was.
	Over time.Duration
}

// PaceOf measures the pace between two times on the run's clock. It is not
// known, and ok is false, if the buckets of the timeline are too coarse.
//
// The backlog's slope is that of the least-squares line through its values at
// the ends of the buckets. It says what the response times of a short window
// cannot: a queue that takes everything answers everything, later and later.
func PaceOf(t rundir.Timeline, from, to time.Duration) (p Pace, ok bool) {
	width := time.Duration(t.BucketNS)
	middle := from + (to-from)/2
	if width <= 0 || to-middle < 4*width {
		return Pace{}, false
	}
	first := int((middle + width - 1) / width)
	last := int(to / width) // the first bucket that is not whole
	p.Over = time.Duration(last-first) * width
	var at, backlog []float64
	left, due, ended := int64(0), int64(0), int64(0)
	for i := range last {
		for _, k := range t.Kinds {
			if i >= len(k.Buckets) {
				continue
			}
			b := k.Buckets[i]
			left += b.Load.Scheduled - b.Ended
			if i >= first {
				due, ended = due+b.Load.Scheduled, ended+b.Ended
			}
		}
		if i >= first {
			at = append(at, (time.Duration(i+1) * width).Seconds())
			backlog = append(backlog, float64(left))
		}
	}
	p.OfferedPerS = float64(due) / p.Over.Seconds()
	p.AchievedPerS = float64(ended) / p.Over.Seconds()
	p.GrowthPerS = slope(at, backlog)
	return p, true
}

// slope is that of the least-squares line through points.
func slope(x, y []float64) float64 {
	n := float64(len(x))
	meanX, meanY := 0.0, 0.0
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	over, under := 0.0, 0.0
	for i := range x {
		over += (x[i] - meanX) * (y[i] - meanY)
		under += (x[i] - meanX) * (x[i] - meanX)
	}
	return over / under
}

// Unsteady says in what way work piled up, "" if it did not: the backlog grew
// by more than 2 % of what was offered, and by more than ten operations.
func (p Pace) Unsteady() string {
	grown := p.GrowthPerS * p.Over.Seconds()
	if grown <= noise || p.GrowthPerS <= shortfallMost*p.OfferedPerS {
		return ""
	}
	return fmt.Sprintf("work piled up: of %.0f operations due per second, %.0f more stayed undone "+
		"each second (at most %.0f %%)", p.OfferedPerS, p.GrowthPerS,
		100*shortfallMost)
}
