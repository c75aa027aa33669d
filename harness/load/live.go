package load

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

// Phase is what a load is doing.
type Phase string

// The phases.
const (
	// Waiting: the load has not begun.
	Waiting Phase = "waiting"
	// Loading: the schedule is being offered.
	Loading Phase = "load"
	// Draining: the schedule is over; follow-ups and operations are not.
	Draining Phase = "drain"
	// Over: nothing is left.
	Over Phase = "over"
)

// Live is what a load is doing now, for a progress display: cheap to update,
// safe to read at any time, and no source of results. The zero value is
// ready; use one for each Run.
type Live struct {
	phase                                 atomic.Pointer[Phase]
	begun                                 atomic.Pointer[moment]
	scheduled, started, dropped, followed atomic.Int64
	ok, refused, unknown                  atomic.Int64
	responses                             [liveBuckets]atomic.Int64

	mu           sync.Mutex // guards the marks
	older, newer mark
}

// moment is the run's clock at the start of the load.
type moment struct {
	base  time.Time
	start time.Duration
}

// mark is the counts at a moment, for numbers about the last second or two.
type mark struct {
	at               time.Duration
	scheduled, ended int64
	responses        [liveBuckets]int64
}

// Snapshot is a load at one moment.
type Snapshot struct {
	Phase Phase
	// Elapsed is the time since due time 0, negative before it.
	Elapsed time.Duration
	// Load counts what has happened so far. Operations that wait or are being
	// executed are missing from its sums.
	Load rundir.Load
	// FollowUps is how many of Load.Scheduled were follow-ups.
	FollowUps int64
	// InFlight is being executed; Waiting is due and has no worker yet.
	InFlight, Waiting int64
	// Offered and Achieved are operations per second, due and finished, over
	// the last one to two seconds. P99 is the response time of all that have
	// finished, P99Recent of those that did in these seconds, to within 7 %.
	Offered, Achieved float64
	P99, P99Recent    time.Duration
}

// finished counts an operation that has ended.
func (l *Live) finished(outcome history.Outcome, response time.Duration) {
	switch outcome {
	case history.OK:
		l.ok.Add(1)
	case history.Refused:
		l.refused.Add(1)
	default:
		l.unknown.Add(1)
	}
	l.responses[liveBucket(response)].Add(1)
}

// load reads the counts, later events first, so that no sum exceeds what it
// is a part of.
func (l *Live) load() rundir.Load {
	n := rundir.Load{OK: l.ok.Load(), Refused: l.refused.Load(), Unknown: l.unknown.Load()}
	n.Started, n.Dropped = l.started.Load(), l.dropped.Load()
	n.Scheduled = l.scheduled.Load()
	return n
}

// Snapshot reads the state of the load. Rates and P99 need a call about every
// second, or more often.
func (l *Live) Snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.load()
	ended := n.OK + n.Refused + n.Unknown
	s := Snapshot{
		Phase: l.currentPhase(), Load: n, FollowUps: l.followed.Load(),
		InFlight: n.Started - ended,
		Waiting:  max(0, n.Scheduled-n.Dropped-n.Started),
	}
	begun := l.begun.Load()
	if begun == nil {
		return s
	}
	s.Elapsed = time.Since(begun.base) - begun.start
	l.recent(&s, ended)
	return s
}

// recent fills in the numbers about the last one to two seconds.
func (l *Live) recent(s *Snapshot, ended int64) {
	now := mark{at: s.Elapsed, scheduled: s.Load.Scheduled, ended: ended}
	for i := range now.responses {
		now.responses[i] = l.responses[i].Load()
	}
	if span := (now.at - l.older.at).Seconds(); span > 0 {
		s.Offered = float64(now.scheduled-l.older.scheduled) / span
		s.Achieved = float64(now.ended-l.older.ended) / span
	}
	s.P99 = p99(&now.responses, &[liveBuckets]int64{})
	s.P99Recent = p99(&now.responses, &l.older.responses)
	if now.at-l.newer.at >= time.Second {
		l.older, l.newer = l.newer, now
	}
}

func (l *Live) currentPhase() Phase {
	if p := l.phase.Load(); p != nil {
		return *p
	}
	return Waiting
}

func (l *Live) enter(p Phase) { l.phase.Store(&p) }

// Response times fall into 16 buckets for every power of two.
const (
	liveBits    = 4
	liveBuckets = (64 - liveBits + 1) << liveBits
)

func liveBucket(d time.Duration) int {
	v := uint64(max(0, d))
	shift := max(0, bits.Len64(v)-liveBits-1)
	return shift<<liveBits + int(v>>shift)
}

// liveValue is the largest duration of a bucket.
func liveValue(bucket int) time.Duration {
	if bucket < 2<<liveBits {
		return time.Duration(bucket)
	}
	shift := bucket>>liveBits - 1
	return time.Duration((uint64(bucket-shift<<liveBits)+1)<<shift - 1)
}

// p99 is the 99th percentile of what came after the older counts, or 0.
func p99(now, older *[liveBuckets]int64) time.Duration {
	total := int64(0)
	for i := range now {
		total += now[i] - older[i]
	}
	rank := (total*99 + 99) / 100
	for i := range now {
		rank -= now[i] - older[i]
		if rank <= 0 && total > 0 {
			return liveValue(i)
		}
	}
	return 0
}
