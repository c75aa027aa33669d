package scheduler

import (
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 256 identities from
// (i+1)<<8: the task has the first, what becomes of it the others.
const (
	idBits     = 8
	idMask     = 1<<idBits - 1
	slotAwait  = 1
	slotCancel = 2
	slotPause  = 3
	slotResume = 4
	slotRerun  = 5
	slotTask   = 6
	slotTasks  = 7
)

const (
	// retryPause is the pause before a request is sent again; it doubles.
	retryPause = 50 * time.Millisecond
	// rerunPause is the pause before a task that has not failed yet is asked again
	// to run again, maxReruns how often that is done.
	rerunPause = 300 * time.Millisecond
	maxReruns  = 30
	// cancelUntil is until when a task is cancelled, from its request, as a
	// multiple of the time until it is due: some cancels come too late.
	cancelUntil = 1.2
)

// newWorkload makes users schedule tasks as a pure function of the seed.
//
// Every scheduled operation schedules a task: operation i at business time i /
// Rate, times TimeScale, after the beginning. Some are due together at nine
// (NineAfter), some recur, the others are due at any time within Ahead. Of some,
// the start is waited for; some are cancelled, before or just after they are due,
// some are paused and resumed, some fail and are run again, some are read.
//
// A request of unknown outcome is sent again with the same identity, up to
// RetryOnLost times; some are sent twice in any case (Resend).
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, day: p.day(), api: API(), kind: s.Coin(), when: s.Coin(),
		queue: s.Coin(), long: s.Coin(), fate: s.Coin(), moment: s.Coin(), awaits: s.Coin(),
		reads: s.Coin()}
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At,
		Kinds: []string{KindSchedule, KindCancel, KindPause, KindResume, KindRerun}}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p   Params
	day time.Time
	api *api.Table[Scheduler]

	kind, when, queue, long, fate, moment, awaits, reads keys.Coin
}

// Kinds lists the operation kinds, the one that is measured first.
func (w *workload) Kinds() []string { return w.api.Names() }

// Op returns scheduled operation i.
func (w *workload) Op(i uint64) history.Op { return w.api.Op(KindSchedule, w.request(i)) }

// request is task i.
func (w *workload) request(i uint64) Request {
	now := w.day.Add(time.Duration(float64(i) / w.p.Rate * w.p.TimeScale * float64(time.Second)))
	req := Request{
		ID: (i + 1) << idBits, Client: "client-" + strconv.FormatUint(i%97, 10),
		Queue: QueueKey(int(w.queue.At(i)*float64(w.p.Queues)) + 1),
		Spec: Spec{Task: "report-" + strconv.FormatUint(i+1, 36), WorkMS: w.p.Work.D().Milliseconds(),
			Fails: w.is(poisoned, i)},
		At: now,
	}
	if w.long.At(i) < w.p.Long {
		req.WorkMS = w.p.LongWork.D().Milliseconds()
	}
	nine := w.day.Add(w.p.NineAfter.D())
	switch kind := w.kind.At(i); {
	case kind < w.p.Recurring:
		req.Cron, req.Zone = w.p.Crons[i%uint64(len(w.p.Crons))], w.p.Zones[i%uint64(len(w.p.Zones))]
		req.Times, req.Fails = int64(w.p.Times), false
	case now.Before(nine) && kind < w.p.Recurring+(1-w.p.Recurring)*w.p.Aligned:
		req.At = nine
	default:
		req.At = now.Add(time.Duration(w.when.At(i) * float64(w.p.Ahead)))
	}
	req.At = req.At.Truncate(time.Millisecond)
	return req
}

// fate is what becomes of a task.
type fate uint8

const (
	ordinary fate = iota
	cancelled
	held
	poisoned
)

func (w *workload) fateOf(i uint64) fate {
	switch u := w.fate.At(i); {
	case u < w.p.Cancel:
		return cancelled
	case u < w.p.Cancel+w.p.Pause:
		return held
	case u < w.p.Cancel+w.p.Pause+w.p.Poison:
		return poisoned
	}
	return ordinary
}

func (w *workload) is(f fate, i uint64) bool { return w.fateOf(i) == f }

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	switch {
	case outcome == history.Dropped, op.Kind == KindTask, op.Kind == KindTasks, op.Kind == KindAwait:
		return nil
	case outcome == history.Unknown:
		return w.again(op)
	case op.Kind == KindSchedule && outcome == history.OK:
		return w.life(op.ID>>idBits-1, reply)
	case op.Kind == KindRerun && outcome == history.Refused && op.Arg < maxReruns:
		op.Arg++
		return []sut.FollowUp{{After: rerunPause, Op: op}}
	}
	return nil
}

// again sends a request of unknown outcome once more.
func (w *workload) again(op history.Op) []sut.FollowUp {
	tries := int(op.Arg)
	if op.Kind == KindSchedule {
		req, err := api.RequestOf[Request](w.api, op)
		if err != nil {
			return nil
		}
		tries = req.Tries
		req.Tries++
		op = w.api.Op(KindSchedule, req)
	} else {
		op.Arg++
	}
	if tries >= w.p.RetryOnLost {
		return nil
	}
	return []sut.FollowUp{{After: retryPause << tries, Op: op}}
}

// life is what users do about task i, which is due in reply.Value.
func (w *workload) life(i uint64, reply history.Reply) (next []sut.FollowUp) {
	due := time.Duration(reply.Value)
	add := func(after time.Duration, kind string, slot uint64) {
		next = append(next, sut.FollowUp{After: after,
			Op: history.Op{ID: (i+1)<<idBits | slot, Kind: kind, Key: reply.Key}})
	}
	u := w.moment.At(i)
	fate := w.fateOf(i)
	switch {
	case fate == cancelled:
		add(time.Duration(u*cancelUntil*float64(due)), KindCancel, slotCancel)
	case fate == held:
		add(time.Duration(u/2*float64(due)), KindPause, slotPause)
		add(due+time.Duration(u*float64(w.p.clock(w.p.Granularity))), KindResume, slotResume)
	case w.request(i).Fails:
		add(due+rerunPause, KindRerun, slotRerun)
	case w.awaits.At(i) < w.p.Awaits:
		add(due, KindAwait, slotAwait)
	}
	if w.reads.At(i) < w.p.Reads {
		add(time.Duration(u*float64(due)), KindTask, slotTask)
		add(due, KindTasks, slotTasks)
		next[len(next)-1].Op.Key = w.request(i).Queue
	}
	return next
}
