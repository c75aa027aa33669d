package measure

import (
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

// Span is a part of a run's clock: From inclusive, To exclusive.
type Span struct{ From, To time.Duration }

// taken are the spans in which the machine interfered, each until the backlog that grew
// in it was gone. It is filled in two passes over the history: add counts, extend ends
// the first one.
type taken struct {
	spans []Span
	// change[i] is how many operations became due in step i less those that ended.
	change []int64
}

// backlogStep is the resolution at which a backlog is known.
const backlogStep = 20 * time.Millisecond

// add counts an operation. One that was dropped or never ended is in no backlog: it would
// never be gone.
func (t *taken) add(rec *history.Record) {
	if len(t.spans) == 0 || rec.Outcome == history.Dropped || rec.End == history.Never {
		return
	}
	t.at(rec.Intended, 1)
	t.at(rec.End, -1)
}

func (t *taken) at(when time.Duration, n int64) {
	i := int(max(0, when) / backlogStep)
	for len(t.change) <= i {
		t.change = append(t.change, 0)
	}
	t.change[i] += n
}

// extend lets each span last until no more is due than there was before it, and joins
// those that overlap.
func (t *taken) extend() {
	backlog, left := make([]int64, len(t.change)), int64(0)
	for i, n := range t.change {
		left += n
		backlog[i] = left
	}
	slices.SortFunc(t.spans, func(a, b Span) int { return int(a.From - b.From) })
	var out []Span
	level := int64(0)
	for _, s := range t.spans {
		joined := len(out) > 0 && s.From <= out[len(out)-1].To
		if !joined {
			level = 0
			if before := int(s.From/backlogStep) - 1; before >= 0 && before < len(backlog) {
				level = backlog[before]
			}
		}
		end := s.To
		for int(end/backlogStep) < len(backlog) && backlog[end/backlogStep] > level {
			end += backlogStep
		}
		if joined {
			out[len(out)-1].To = max(out[len(out)-1].To, end)
			continue
		}
		out = append(out, Span{s.From, end})
	}
	t.spans = out
}

// has says whether a moment is in a span.
func (t *taken) has(when time.Duration) bool {
	i, found := slices.BinarySearchFunc(t.spans, when, func(s Span, at time.Duration) int {
		return int(s.From - at)
	})
	return found || i > 0 && when < t.spans[i-1].To
}

// quiet is what the operations of a part came to that were due outside of the spans, nil
// if no span touches the part.
func (t *taken) quiet(response *Histogram, from, to time.Duration) *rundir.QuietTimes {
	if len(t.spans) == 0 {
		return nil
	}
	q := &rundir.QuietTimes{SpanNS: int64(to - from), Response: response.Percentiles()}
	for _, s := range t.spans {
		q.TakenNS += int64(max(0, min(s.To, to)-max(s.From, from)))
	}
	if q.TakenNS == 0 {
		return nil
	}
	return q
}
