package taskqueue

import (
	"fmt"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Job i owns the 8 identities from (i+1)<<3, one for each step.
const (
	idBits   = 3
	stepMask = 1<<idBits - 1

	stepEnqueue = 0
	stepCancel  = 1
	stepReplay  = 2
	stepLast    = 7 // of the replays of a job
)

// cancelWithin is when a job is cancelled at the latest.
const cancelWithin = 100 * time.Millisecond

// newWorkload makes the operations as a pure function of the seed. Scheduled operations enqueue;
// some jobs are cancelled soon after, and dead letters are replayed.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API(), tenants: s.Uniform(p.Tenants)}
	w.noisy, w.urgent, w.delayed, w.unique = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.sort, w.calls, w.cancel, w.replay = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.work, w.when, w.which = s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindEnqueue}}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p       Params
	table   *api.Table[Jobs]
	tenants keys.Source

	noisy, urgent, delayed, unique, sort, calls, cancel, replay, work, when, which keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindEnqueue, KindCancel, KindReplay} }

// Op returns scheduled operation i, which enqueues job i.
func (w *workload) Op(i uint64) history.Op { return w.table.Op(KindEnqueue, w.job(i)) }

func (w *workload) job(i uint64) EnqueueRequest {
	tenant := w.tenants.At(i)
	if w.noisy.At(i) < w.p.Noisy {
		tenant = 0
	}
	j := EnqueueRequest{ID: (i + 1) << idBits, Tenant: fmt.Sprint("tenant-", tenant+1), Priority: 3,
		Calls:  w.calls.At(i) < w.p.Calls,
		WorkMS: int64(w.work.At(i) * float64(w.p.Work.D().Milliseconds()+1))}
	switch urgent := w.urgent.At(i); {
	case urgent < w.p.Urgent:
		j.Priority = 1
	case urgent < 2*w.p.Urgent:
		j.Priority = 2
	}
	if w.delayed.At(i) < w.p.Delayed {
		j.DelayMS = 1 + int64(w.when.At(i)*1000)
	}
	if w.unique.At(i) < w.p.Unique {
		j.Unique = fmt.Sprintf("%s/%d", j.Tenant, int(w.which.At(i)*20))
	}
	switch sort := w.sort.At(i); {
	case sort < w.p.Poison:
		j.Poison = true
	case sort < w.p.Poison+w.p.Hopeless:
		j.Fails = int64(w.p.MaxAttempts)
	case sort < w.p.Poison+w.p.Hopeless+w.p.Flaky:
		j.Fails = 1 + int64(w.which.At(i)*2)
	}
	return j
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	i, step := op.ID>>idBits-1, op.ID&stepMask
	about := func(kind string, step uint64, after time.Duration) []sut.FollowUp {
		return []sut.FollowUp{{After: after, Op: w.table.Op(kind,
			JobRequest{ID: (i+1)<<idBits | step, Job: (i + 1) << idBits})}}
	}
	j := w.job(i)
	switch {
	case step == stepEnqueue && outcome != history.OK:
	case step == stepEnqueue && w.cancel.At(i) < w.p.Cancel:
		return about(KindCancel, stepCancel, time.Duration(w.when.At(i)*float64(cancelWithin)))
	case step == stepEnqueue && j.Fails >= int64(w.p.MaxAttempts) && w.replay.At(i) < w.p.Replay:
		return about(KindReplay, stepReplay, w.deadAfter())
	case step >= stepReplay && step < stepLast && outcome == history.Refused:
		return about(KindReplay, step+1, w.deadAfter()/2)
	}
	return nil
}

// deadAfter is about when a job that always fails is dead.
func (w *workload) deadAfter() (sum time.Duration) {
	for attempt := range int64(w.p.MaxAttempts) {
		sum += w.p.ceiling(attempt+1) + w.p.UpkeepEvery.D()
	}
	return sum
}
