package taskqueue

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The names of the invariants.
const (
	JobsKept       = "jobs-kept"
	EffectsOnce    = "effects-once"
	AttemptsUsed   = "attempts-used"
	NewestEnds     = "newest-claim-ends"
	BackoffKept    = "backoff-kept"
	CancelledStays = "cancelled-stays"
	UniqueKept     = "unique-kept"
	PriorityKept   = "priority-kept"
	TenantsFair    = "tenants-fair"
	PoisonFound    = "poison-found"
	RatesKept      = "rates-kept"
)

// invariants are what must be true of every design. Without a limit nothing can be said of limits.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], factsOf)}
	put := check.Effects{Table: jobFact, Kind: check.Named(KindEnqueue)}
	list := []check.Invariant{
		s.State(JobsKept, "every acknowledged job is there once, as it was enqueued, also if that was "+
			"sent twice, no other is, and at rest each is done, dead or cancelled",
			check.AckedDurable(put), check.NoPhantom(put), check.AtMostOnce(jobFact, check.ByOp),
			check.Quiescent(jobFact, ready, waiting, running),
			check.Agree(check.Pair{A: runFact, B: jobFact, Subset: true, By: check.ByOp | check.ByOwner}),
			check.AtMostOnce(runFact, check.ByOp|check.ByThing|check.ByVersion),
			noneUnknown,
			check.SameReply(check.Replies{Kind: put.Kind, What: "job", Same: check.ByName, Sent: true,
				Denied: func(rec *history.Record) bool { return sut.RefusedFor(rec, ErrDuplicate) }})),
		s.State(EffectsOnce, "a job that is done has had one effect, and no job has had two",
			check.AtMostOnce(effectFact, check.ByOp), check.NeedFact(jobFact, "no job is done", isDone),
			check.Agree(check.Pair{A: jobFact, B: effectFact, Subset: true, By: check.ByOp, OfA: isDone}),
			check.Agree(check.Pair{A: effectFact, B: runFact, Subset: true, By: check.ByOp | check.ByThing,
				OfB: func(run *check.Fact) bool { return run.State == succeeded }})),
		s.State(AttemptsUsed, "a job is tried no more often than it may be, and is dead if and only if "+
			"that is used up or its handler said that it is of no use", check.OnAudit(p.attemptsUsed)),
		s.State(NewestEnds, "of several attempts at a job the newest ends it, and none begins before "+
			"the lease of the one before it is over", check.OnAudit(p.newestEnds)),
		s.State(BackoffKept, "after a failure a job is not tried again before its pause is over, which "+
			"is within its bounds; a job is first claimed when its delay is over",
			check.OnAudit(p.backoffKept)),
		s.State(CancelledStays, "what was cancelled stays so, and what is over does not start any more",
			check.OnAudit(p.cancelledStays)),
		s.State(UniqueKept, "a unique key is of one live job at a time", check.OnAudit(uniqueKept)),
		s.State(PriorityKept, "while a job is ready only so many less urgent ones of its tenant are "+
			"claimed", check.OnAudit(p.priorityKept)),
		s.State(TenantsFair, "tenants that have enough ready jobs are served equally often",
			check.OnAudit(p.tenantsFair)),
		s.State(PoisonFound, "calls end as the payloads of their jobs say, and what is dead as poison "+
			"is exactly what is poison, found in as few calls as halves need", check.OnAudit(p.poisonFound)),
	}
	if p.TenantRate > 0 {
		list = append(list, s.State(RatesKept, "a tenant's jobs are claimed no more often than its "+
			"limit allows", check.OnAudit(p.ratesKept)))
	}
	return list
}

func isDone(job *check.Fact) bool { return job.State == done }

// noneUnknown is the clause that no job is called unknown after it was acknowledged.
func noneUnknown(r *check.Run) func() {
	acked, denied := map[string]time.Duration{}, []history.Record{}
	r.See(func(rec *history.Record) {
		at, known := acked[rec.Reply.Key]
		switch {
		case sut.RefusedFor(rec, ErrUnknownJob):
			denied = append(denied, *rec)
		case rec.Op.Kind == KindEnqueue && rec.Outcome == history.OK && (!known || rec.End < at):
			acked[rec.Reply.Key] = rec.End
		}
	}, KindEnqueue, KindCancel, KindReplay)
	return func() {
		for _, rec := range denied {
			if at, known := acked[rec.Op.Key]; known && at < rec.Start {
				r.Violate([]uint64{rec.Op.ID}, "%s was acknowledged at %v, and called unknown at %v",
					rec.Op.Key, at, rec.End)
			}
		}
	}
}

// asked are the operations of a kind that may have taken effect, by the name of their job, and
// those of them that were acknowledged.
func asked(r *check.Run, kind string) (may, acked map[string][]uint64) {
	may, acked = map[string][]uint64{}, map[string][]uint64{}
	r.See(func(rec *history.Record) {
		if rec.Start == history.Never || rec.Outcome == history.Refused {
			return
		}
		may[rec.Op.Key] = append(may[rec.Op.Key], rec.Op.ID)
		if rec.Outcome == history.OK {
			acked[rec.Op.Key] = append(acked[rec.Op.Key], rec.Op.ID)
		} else {
			r.AllowedUnknown(1)
		}
	}, kind)
	return may, acked
}

// attemptsUsed is the clause about how often jobs are tried, and what follows from that.
func (p Params) attemptsUsed(r *check.Run, a *Audit) func() {
	most := map[uint64]int64{}
	for _, run := range a.Runs {
		most[run.Job] = max(most[run.Job], run.Attempt)
		if run.Attempt < 1 {
			r.Violate([]uint64{run.Job}, "%s was tried for time %d", nameOf(run.Job), run.Attempt)
		}
	}
	may, acked := asked(r, KindReplay)
	refused := notDead(r)
	return func() {
		deadOnes, inVain := 0, false
		for _, j := range a.Jobs {
			r.Checked(1)
			limit := int64(p.MaxAttempts) * (1 + j.Replays)
			ops := append([]uint64{j.ID}, may[j.Job]...)
			switch {
			case j.Attempts > limit || most[j.ID] > limit:
				r.Violate(ops, "%s was tried %d times, attempt %d being the last; it may be %d times", j.Job,
					j.Attempts, most[j.ID], limit)
			case most[j.ID] > j.Attempts:
				r.Violate(ops, "attempt %d at %s was begun, which counts %d", most[j.ID], j.Job, j.Attempts)
			case j.State == dead && j.Reason == usedUp && j.Attempts < limit:
				r.Violate(ops, "%s is dead after %d of %d attempts", j.Job, j.Attempts, limit)
			case (j.State == dead) != (j.Reason != ""):
				r.Violate(ops, "%s is %s because of %q", j.Job, j.State, j.Reason)
			case j.Replays > int64(len(may[j.Job])):
				r.Violate(ops, "%s was replayed %d times; %d were asked for", j.Job, j.Replays, len(may[j.Job]))
			case j.Replays < int64(len(acked[j.Job])):
				r.Violate(ops, "%s was replayed %d times; %d were acknowledged", j.Job, j.Replays,
					len(acked[j.Job]))
			}
			if j.State == dead {
				deadOnes++
				inVain = refused(j) || inVain
			}
		}
		r.Need(deadOnes > 0, "no job is dead")
		r.Need(!inVain || len(acked) > 0, "no dead letter was replayed, which was asked for")
	}
}

// notDead returns the clause that no replay is refused because its job is no dead letter when it
// certainly was one: it died as long after its answer as it lasted, at the latest, and was seen to
// be dead a slack later. The clause says of a dead job whether a replay was refused after it died.
func notDead(r *check.Run) func(JobRow) bool {
	last, slowest := map[string]history.Record{}, r.Slowest()
	enqueued := r.Operations(check.Named(KindEnqueue), r.Table(jobFact))
	r.See(func(rec *history.Record) {
		if sut.RefusedFor(rec, ErrNotDead) && last[rec.Op.Key].Start <= rec.Start {
			last[rec.Op.Key] = *rec
		}
	}, KindReplay)
	return func(j JobRow) bool {
		rec, refused := last[j.Job]
		op, lasted := enqueued[j.ID], time.Duration(j.EndedNS-j.CreatedNS)
		if !refused || op.Outcome != history.OK || j.Replays > 0 || j.Unique != "" {
			return false
		}
		slack := *slowest + check.FaultTime(r.Faults(), op.Start+lasted, rec.Start)
		if rec.Start > op.End+lasted+slack {
			r.Violate([]uint64{j.ID, rec.Op.ID}, "%s was dead by %v, and at %v its replay was refused "+
				"because it was not", j.Job, op.End+lasted, rec.End)
		}
		return rec.Start > op.End+lasted
	}
}

// tries are the runs of each job, the first attempt first, one for each attempt: that of the
// last call, with the fewest jobs.
func tries(a *Audit) map[uint64][]*RunRow {
	by := map[uint64][]*RunRow{}
	for i := range a.Runs {
		by[a.Runs[i].Job] = append(by[a.Runs[i].Job], &a.Runs[i])
	}
	for job, list := range by {
		slices.SortStableFunc(list, func(x, y *RunRow) int {
			return cmp.Or(cmp.Compare(x.Attempt, y.Attempt), cmp.Compare(x.Size, y.Size))
		})
		by[job] = slices.CompactFunc(list, func(x, y *RunRow) bool { return x.Attempt == y.Attempt })
	}
	return by
}

// first is the run of the first attempt, nil if nobody knows it.
func first(runs []*RunRow) *RunRow {
	if len(runs) == 0 || runs[0].Attempt != 1 {
		return nil
	}
	return runs[0]
}

// givenBack says whether a job may have been given back before its lease was over: if it failed, or
// was poison and is replayed. All else is its worker's until then.
func (run *RunRow) givenBack(j JobRow) bool {
	return run.Result == failed || run.Result == down || run.Result == gaveUp && j.Replays > 0
}

// newestEnds is the clause about attempts that were taken over.
func (p Params) newestEnds(r *check.Run, a *Audit) func() {
	byJob, again, taken := tries(a), 0, 0
	for _, j := range a.Jobs {
		r.Checked(1)
		if j.State == done && j.EndedBy != j.Attempts {
			r.Violate([]uint64{j.ID}, "attempt %d ended %s, whose newest is %d", j.EndedBy, j.Job,
				j.Attempts)
		}
		if j.State == done && j.Attempts > 1 {
			again++
		}
		for i, run := range byJob[j.ID] {
			if i == 0 || byJob[j.ID][i-1].givenBack(j) {
				continue
			}
			before := byJob[j.ID][i-1]
			taken++
			if after := time.Duration(run.ClaimedNS - before.AskedNS); after < p.Lease.D() {
				r.Violate([]uint64{j.ID}, "%s was claimed for attempt %d %v after attempt %d, whose lease "+
					"is %v", j.Job, run.Attempt, after, before.Attempt, p.Lease)
			}
		}
	}
	r.Need(again > 0, "no job was done after a second attempt")
	r.Note("%d jobs were done by a later attempt than the first; %d attempts were taken over from "+
		"another worker", again, taken)
	return nil
}

// backoffKept is the clause about pauses and delays. What is stored is judged, as full jitter may
// be as short as its floor.
func (p Params) backoffKept(r *check.Run, a *Audit) func() {
	sent, created := payloads(r), map[uint64]int64{}
	for _, j := range a.Jobs {
		created[j.ID] = j.CreatedNS
	}
	return func() {
		failures, busiest, calls := 0, 0., map[int64]float64{}
		for job, list := range tries(a) {
			due := created[job] + sent[job].DelayMS*int64(time.Millisecond)
			if run := first(list); run != nil && run.ClaimedNS < due-int64(grain) {
				r.Violate([]uint64{job}, "%s was claimed %v before its delay of %d ms was over", nameOf(job),
					time.Duration(due-run.ClaimedNS), sent[job].DelayMS)
			}
			for i, run := range list {
				if run.Attempt > 1 && sent[job].Calls && (run.Result == succeeded || run.Result == down) {
					calls[run.ClaimedNS/int64(moment)]++
					busiest = max(busiest, calls[run.ClaimedNS/int64(moment)])
				}
				if run.NextNS != 0 {
					failures++
				}
				p.paused(r, run, list[i+1:])
			}
		}
		r.Checked(failures)
		r.Need(failures > 0, "no attempt failed that was to be followed by another one")
		r.Figure(fmt.Sprintf("attempts after a first one that call the dependency, in the busiest %v",
			moment), "", busiest)
	}
}

// moment is how long the busiest moment of the dependency is.
const moment = 100 * time.Millisecond

// paused judges the pause after an attempt, and the first attempt after that.
func (p Params) paused(r *check.Run, run *RunRow, later []*RunRow) {
	job := []uint64{run.Job}
	pause, floor := time.Duration(run.NextNS-run.FailedNS), p.BackoffFloor.D()
	most := p.ceiling(run.Attempt)
	if run.NextNS != 0 && (pause < floor-grain || pause > most+grain) {
		r.Violate(job, "after attempt %d at %s the pause was %v; it is %v to %v", run.Attempt,
			nameOf(run.Job), pause, floor, most)
	}
	if len(later) == 0 {
		return
	}
	switch next := later[0]; {
	case run.NextNS == 0 && p.tooSoon(run, next):
		r.Violate(job, "attempt %d at %s was claimed %v after attempt %d, of whose failure no pause is "+
			"known", next.Attempt, nameOf(run.Job), time.Duration(next.ClaimedNS-run.AskedNS), run.Attempt)
	case next.ClaimedNS < run.NextNS-int64(grain):
		r.Violate(job, "attempt %d at %s was claimed %v before its pause was over", next.Attempt,
			nameOf(run.Job), time.Duration(run.NextNS-next.ClaimedNS))
	}
}

// tooSoon says whether a failure without a known pause was followed by an attempt before any pause
// or its lease can have been over. After the last one there is a replay, which may come at once.
func (p Params) tooSoon(run, next *RunRow) bool {
	return (run.Result == failed || run.Result == down) && run.Attempt%int64(p.MaxAttempts) != 0 &&
		time.Duration(next.ClaimedNS-run.AskedNS) < min(p.BackoffFloor.D(), p.Lease.D())-grain
}

// grain is the coarsest resolution of a store's clock.
const grain = time.Millisecond

// payloads are what was enqueued, or may have been, by its number. They are known after the
// reading.
func payloads(r *check.Run) map[uint64]EnqueueRequest {
	table, sent := API(), map[uint64]EnqueueRequest{}
	r.See(func(rec *history.Record) {
		if req, err := api.RequestOf[EnqueueRequest](table, rec.Op); err == nil {
			sent[req.ID] = req
		}
	}, KindEnqueue)
	return sent
}

// cancelledStays is the clause about cancelled jobs. What is over, or a worker's until its lease is
// over, cannot be cancelled.
func (p Params) cancelledStays(r *check.Run, a *Audit) func() {
	byJob := tries(a)
	may, acked := asked(r, KindCancel)
	answered := answeredTruly(r, byJob)
	return func() {
		n := 0
		for _, j := range a.Jobs {
			r.Checked(1)
			answered(j)
			if len(acked[j.Job]) > 0 && j.State != cancelled {
				r.Violate(append([]uint64{j.ID}, acked[j.Job]...), "%s was cancelled, and is %s", j.Job,
					j.State)
			}
			for _, run := range byJob[j.ID] {
				if j.EndedNS != 0 && run.ClaimedNS > j.EndedNS {
					r.Violate([]uint64{j.ID}, "%s was claimed %v after it was %s", j.Job,
						time.Duration(run.ClaimedNS-j.EndedNS), j.State)
				}
			}
			if j.State != cancelled {
				continue
			}
			n++
			if len(may[j.Job]) == 0 {
				r.Violate([]uint64{j.ID}, "%s is cancelled, which nobody asked for", j.Job)
			}
			if j.EndedBy != 0 {
				r.Violate([]uint64{j.ID}, "%s was cancelled after attempt %d had ended it", j.Job, j.EndedBy)
			}
			if list := byJob[j.ID]; len(list) > 0 {
				newest := list[len(list)-1]
				after := time.Duration(j.EndedNS - newest.AskedNS)
				if !newest.givenBack(j) && after < p.Lease.D() {
					r.Violate([]uint64{j.ID}, "%s was cancelled %v after attempt %d, whose lease is %v", j.Job,
						after, newest.Attempt, p.Lease)
				}
			}
		}
		r.Need(n > 0, "no job was cancelled")
	}
}

// answeredTruly returns the clause about answers to cancellations, by the driver's clock: what was
// cancelled is not claimed after the answer, and what is called too late was claimed, or over,
// before it. A job was claimed no sooner after its enqueue was sent than after it was stored.
func answeredTruly(r *check.Run, byJob map[uint64][]*RunRow) func(JobRow) {
	answers, slowest := map[string][]history.Record{}, r.Slowest()
	enqueued := r.Operations(check.Named(KindEnqueue), r.Table(jobFact))
	r.See(func(rec *history.Record) {
		if rec.Outcome == history.OK || sut.RefusedFor(rec, ErrTooLate) {
			answers[rec.Op.Key] = append(answers[rec.Op.Key], *rec)
		}
	}, KindCancel)
	return func(j JobRow) {
		op, runs := enqueued[j.ID], byJob[j.ID]
		if !op.May() {
			return
		}
		over, last := j.EndedNS, int64(0) // over, or claimed first; 0 if nobody knows
		if j.Attempts > 0 {
			over = 0
		}
		if run := first(runs); run != nil {
			over = run.AskedNS
		}
		if n := len(runs); n > 0 {
			last = runs[n-1].AskedNS
		}
		since := func(ns int64) time.Duration {
			return op.Start + time.Duration(ns-j.CreatedNS) - *slowest - grain
		}
		for _, rec := range answers[j.Job] {
			switch ok := rec.Outcome == history.OK; {
			case ok && since(last) > rec.End:
				r.Violate([]uint64{j.ID, rec.Op.ID}, "%s was cancelled by %v, and claimed %v later at least",
					j.Job, rec.End, since(last)-rec.End)
			case !ok && since(over) > rec.End:
				r.Violate([]uint64{j.ID, rec.Op.ID}, "%s was too late to be cancelled by %v, and not claimed "+
					"or over for %v at least after that", j.Job, rec.End, since(over)-rec.End)
			}
		}
	}
}

// uniqueKept is the clause about unique keys. A job is certainly live from the answer to its
// enqueue, or to its last replay, until its end; without an answer, just before its end. Whoever is
// refused because of a key has a job in the way that may have had it then, which may be its own,
// stored by an attempt beside it: one that is not there may have had it from its enqueue on, and
// one that is over until as long after its answer as it lasted.
func uniqueKept(r *check.Run, a *Audit) func() {
	asked, slowest := r.Operations(check.Named(KindEnqueue), r.Table(jobFact)), r.Slowest()
	var denied []history.Record
	may, replays := map[string][]check.Operation{}, map[string]int64{}
	replayed := map[string]time.Duration{} // when the last replay was acknowledged
	r.See(func(rec *history.Record) {
		switch op := check.Attempt(rec); {
		case rec.Op.Kind == KindReplay && rec.Outcome == history.OK:
			replays[rec.Op.Key]++
			replayed[rec.Op.Key] = max(replayed[rec.Op.Key], rec.End)
		case rec.Op.Kind == KindEnqueue && op.May():
			may[rec.Op.Key] = append(may[rec.Op.Key], op)
		case sut.RefusedFor(rec, ErrDuplicate):
			denied = append(denied, *rec)
		}
	}, KindEnqueue, KindReplay)
	return func() {
		r.Need(len(denied) > 0, "no job was refused because of its unique key")
		all, jobs, last := []JobRow{}, map[uint64]JobRow{}, map[string]JobRow{}
		for _, j := range a.Jobs {
			r.Checked(1)
			jobs[j.ID] = j
			op, created := asked[j.ID], j.CreatedNS
			j.EndedNS = cmp.Or(j.EndedNS, math.MaxInt64)
			j.CreatedNS = min(j.EndedNS, math.MaxInt64-1)
			if op.Outcome == history.OK && replays[j.Job] == j.Replays {
				if j.Replays > 0 {
					op.End = max(op.End, replayed[j.Job]+*slowest+grain)
				}
				j.CreatedNS = min(created+int64(op.End-op.Start), j.CreatedNS)
			}
			if j.Unique != "" {
				all = append(all, j)
			}
		}
		slices.SortStableFunc(all, func(x, y JobRow) int { return cmp.Compare(x.CreatedNS, y.CreatedNS) })
		for _, j := range all {
			was := last[j.Unique]
			if j.CreatedNS < was.EndedNS && was.CreatedNS < j.EndedNS {
				r.Violate([]uint64{was.ID, j.ID}, "%s and %s both had the key %q", was.Job, j.Job, j.Unique)
			}
			if j.EndedNS > was.EndedNS {
				last[j.Unique] = j
			}
		}
		slack := *slowest + check.FaultTime(r.Faults(), 0, history.Never)
		for _, rec := range denied {
			if rec.Op.Key == "" || !slices.ContainsFunc(may[rec.Op.Key], func(op check.Operation) bool {
				j, there := jobs[op.ID]
				end := asked[op.ID].End // of any attempt
				return op.Start <= rec.End && (!there || j.EndedNS == 0 || j.Replays > 0 ||
					end == history.Never ||
					end+time.Duration(j.EndedNS-j.CreatedNS)+slack >= rec.Start)
			}) {
				r.Violate([]uint64{rec.Op.ID}, "operation %d was refused because of the key %q, which no "+
					"live job had", rec.Op.ID, rec.Op.Key)
			}
		}
	}
}

// wait is when a job was certainly ready for its first attempt: from when it was certainly visible
// until the claim that it is in reached the store.
type wait struct {
	job      uint64
	tenant   string
	priority int64
	from, to int64
}

// waits are those of the acknowledged jobs that had no delay. They are known after the reading.
func waits(r *check.Run, a *Audit) func() []wait {
	byJob, sent := tries(a), payloads(r)
	asked := r.Operations(check.Named(KindEnqueue), r.Table(jobFact))
	return func() (list []wait) {
		for _, j := range a.Jobs {
			op, run := asked[j.ID], first(byJob[j.ID])
			visible := j.CreatedNS + int64(op.End-op.Start) // at the latest, whatever the clocks say
			if run != nil && op.Outcome == history.OK && sent[j.ID].DelayMS == 0 && visible < run.AskedNS {
				list = append(list, wait{j.ID, j.Tenant, j.Priority, visible, run.AskedNS})
			}
		}
		return list
	}
}

// priorityKept is the clause about priorities. A claim that was asked for while a job was certainly
// ready, and before that was claimed, has passed it over. One of each worker may: another claim may
// have had the job in its hands and lost it.
func (p Params) priorityKept(r *check.Run, a *Audit) func() {
	type class struct {
		tenant   string
		priority int64
	}
	known := waits(r, a)
	return func() {
		list, came, went := known(), map[class][]int64{}, map[class][]int64{}
		for _, w := range list {
			c := class{w.tenant, w.priority}
			came[c], went[c] = append(came[c], w.from), append(went[c], w.to)
		}
		for c := range came {
			slices.Sort(came[c])
			slices.Sort(went[c])
		}
		before := func(times []int64, at int64) int { // how many
			n, _ := slices.BinarySearch(times, at)
			return n
		}
		chosen, most, crowd := 0, 0, 0
		for _, w := range list {
			r.Checked(1)
			passed, left := 0, 0
			for less := w.priority + 1; less <= 3; less++ {
				c := class{w.tenant, less}
				passed += before(went[c], w.to) - before(went[c], w.from+1)
				left += before(came[c], w.to) - before(went[c], w.to+1)
			}
			if left > 0 {
				chosen++
			}
			most, crowd = max(most, passed), max(crowd, passed+left)
			if passed > p.PriorityWithin {
				r.Violate([]uint64{w.job}, "%d less urgent jobs of %s were claimed while %s was ready; the "+
					"limit is %d", passed, w.tenant, nameOf(w.job), p.PriorityWithin)
			}
		}
		r.Need(chosen >= leastChosen, "%d jobs were claimed before a less urgent one of their tenant "+
			"that was ready; at least %d must be", chosen, leastChosen)
		r.Need(crowd > p.PriorityWithin, "%d less urgent jobs could have been claimed while one was "+
			"ready; more than %d would break a limit", crowd, p.PriorityWithin)
		r.Note("%d jobs were claimed before a less urgent one that was ready; %d less urgent ones "+
			"overtook one of them at most, of %d", chosen, most, crowd)
	}
}

// leastChosen is how many claims must have had a choice between priorities.
const leastChosen = 10

// tenantsFair is the clause about tenants: while two of them both have more ready jobs than their
// share of what all workers claim at once, the claims of both grow alike. Where tenants have limits
// one may have used up its claims at once before, and the other not.
func (p Params) tenantsFair(r *check.Run, a *Audit) func() {
	known := waits(r, a)
	return func() {
		most, others := waited(a)
		turns, tenants := turnsOf(a, known())
		together, apart := 0, 0
		for i, x := range tenants {
			for _, y := range tenants[i+1:] {
				claims, by := p.alike(r, turns, x, y)
				together, apart = max(together, claims), max(apart, by)
			}
		}
		r.Checked(len(turns))
		r.Need(together > p.apart(), "two tenants were served %d times while both had enough; more than "+
			"%d would show who is preferred", together, p.apart())
		r.Note("two tenants were served %d times while both had enough, one of them %d times more at "+
			"most; half of the first claims came within %v for the tenant that had most jobs, and within "+
			"%v for the others", together, apart, most, others)
	}
}

// waited is within how long half of the jobs of the tenant that has most were claimed, and half of
// all others.
func waited(a *Audit) (most, others time.Duration) {
	created, by, both := map[uint64]int64{}, map[string][]time.Duration{}, [2][]time.Duration{}
	for _, j := range a.Jobs {
		created[j.ID] = j.CreatedNS
	}
	for _, list := range tries(a) {
		if run := first(list); run != nil {
			by[run.Tenant] = append(by[run.Tenant], time.Duration(run.ClaimedNS-created[run.Job]))
		}
	}
	for i, tenant := range slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(by[y]), len(by[x])), cmp.Compare(x, y))
	}) {
		both[min(i, 1)] = append(both[min(i, 1)], by[tenant]...)
	}
	half := func(list []time.Duration) time.Duration {
		slices.Sort(list)
		if len(list) == 0 {
			return 0
		}
		return list[len(list)/2].Round(time.Millisecond)
	}
	return half(both[0]), half(both[1])
}

// event is a job that becomes ready, step 1, or the end of its wait, step -1, if it certainly
// waited; or the claim of any job for any attempt, step 0.
type event struct {
	at     int64
	tenant string
	step   int
	job    uint64
}

// turnsOf is what happened to tenants, in its order.
func turnsOf(a *Audit, list []wait) (turns []event, tenants []string) {
	for _, w := range list {
		turns = append(turns, event{w.from, w.tenant, 1, w.job}, event{w.to, w.tenant, -1, w.job})
		if !slices.Contains(tenants, w.tenant) {
			tenants = append(tenants, w.tenant)
		}
	}
	for _, list := range tries(a) {
		for _, run := range list {
			turns = append(turns, event{run.AskedNS, run.Tenant, 0, run.Job})
		}
	}
	slices.SortFunc(turns, func(x, y event) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.step, y.step), cmp.Compare(x.job, y.job))
	})
	slices.Sort(tenants)
	return turns, tenants
}

// alike compares two tenants. The highest of what one was ahead less the lowest is what it was
// served more in some time in which both had enough. It returns the most claims in such a time,
// and by how many they differed at most.
func (p Params) alike(r *check.Run, turns []event, x, y string) (together, apart int) {
	has, claims, ahead, low, high := map[string]int{}, 0, 0, 0, 0
	for _, e := range turns {
		if e.tenant != x && e.tenant != y {
			continue
		}
		has[e.tenant] += e.step
		if min(has[x], has[y]) <= p.enough() {
			claims, ahead, low, high = 0, 0, 0, 0
			continue
		}
		switch {
		case e.step != 0:
			continue
		case e.tenant == x:
			ahead++
		default:
			ahead--
		}
		claims++
		low, high = min(low, ahead), max(high, ahead)
		together, apart = max(together, claims), max(apart, high-low)
		if high-low > p.apart() {
			r.Violate([]uint64{e.job}, "%s and %s both had more than %d ready jobs, and one was served %d "+
				"times more; the limit is %d", x, y, p.enough(), high-low, p.apart())
			claims, ahead, low, high = 0, 0, 0, 0
		}
	}
	return together, apart
}

// ratesKept is the clause about limits, by the clock of the store that has them: in no span of time
// a tenant has more claims than at once and what its rate gives in that span.
func (p Params) ratesKept(r *check.Run, a *Audit) func() {
	claims, highest := map[string][]check.Pass{}, 0.0
	for _, list := range tries(a) {
		for _, run := range list {
			claims[run.Tenant] = append(claims[run.Tenant],
				check.Pass{Op: run.Job, From: run.AskedNS - int64(grain), To: run.ClaimedNS})
		}
	}
	for tenant, list := range claims {
		r.Checked(len(list))
		b := check.BurstOf(list, p.TenantRate)
		if highest = max(highest, b.Above); b.Above > float64(p.TenantBurst)+0.01 {
			r.Violate(b.Ops, "%s has %d claims in %v, %.2f more than %g a second; the limit is %d", tenant,
				b.Passes, b.Span, b.Above, p.TenantRate, p.TenantBurst)
		}
	}
	r.Need(highest > float64(p.TenantBurst)-1, "no tenant has used up its limit: %.1f of %d claims "+
		"at once", highest, p.TenantBurst)
	return nil
}

// poisonFound is the clause about poison, and about what else payloads say. How many calls a batch
// took says something if its worker came to the end of it.
func (p Params) poisonFound(r *check.Run, a *Audit) func() {
	sent := payloads(r)
	return func() {
		batches, halved := map[string]*batch{}, 0
		for i := range a.Runs {
			run := &a.Runs[i]
			b := batches[run.Batch]
			if b == nil {
				b = &batch{last: map[uint64]*RunRow{}}
				batches[run.Batch] = b
			}
			b.add(run)
			if run.Result == gaveUp && run.NextNS != 0 {
				r.Violate([]uint64{run.Job}, "%s pauses after it was found to be poison", nameOf(run.Job))
			}
			if req, known := sent[run.Job]; known && !p.scripted(run, req) {
				r.Violate([]uint64{run.Job}, "attempt %d at %s in a call with %d jobs is %q, and its payload "+
					"says: fails %d, poison %v, calls %v", run.Attempt, nameOf(run.Job), run.Size, run.Result,
					req.Fails, req.Poison, req.Calls)
			}
		}
		for name, b := range batches {
			r.Checked(1)
			alone, over := b.ended()
			if !over {
				continue
			}
			if b.size > 1 && alone > 0 {
				halved++
			}
			if most := 1 + 2*alone*bits.Len(uint(b.size-1)); b.calls > float64(most)+0.01 {
				r.Violate([]uint64{b.job}, "%s of %d jobs, of which %d failed, took %.0f calls; halves need "+
					"%d at most", name, b.size, alone, b.calls, most)
			}
		}
		found, inVain, succeeds := 0, 0, 0
		for _, j := range a.Jobs {
			req := sent[j.ID]
			switch is := j.State == dead && j.Reason == poisoned; {
			case is && !req.Poison:
				r.Violate([]uint64{j.ID}, "%s is dead as poison, and is none", j.Job)
			case j.State == done && req.Poison:
				r.Violate([]uint64{j.ID}, "%s is poison, and is done", j.Job)
			case is:
				found++
			case j.State == done:
				succeeds++
			case j.State == dead && !req.Poison && req.Fails < int64(p.MaxAttempts):
				inVain++
			}
		}
		r.Need(found > 0, "no poison was found")
		r.Need(inVain <= succeeds, "%d jobs are dead that could be done, and %d are done", inVain,
			succeeds)
		r.Note("%d jobs were found to be poison, and %d batches were halved", found, halved)
	}
}

// scripted says whether a call may have ended so for a job, as its payload says. What failed with
// others is not to blame: it is split, or the dependency is down, which any of them may call.
func (p Params) scripted(run *RunRow, req EnqueueRequest) bool {
	switch run.Result {
	case succeeded:
		return run.Attempt > req.Fails && !req.Poison
	case failed:
		return run.Attempt <= req.Fails && run.Size == 1
	case gaveUp:
		return req.Poison && run.Size == 1
	case down:
		return p.Outage > 0 && (req.Calls || run.Size > 1)
	}
	return true
}

// batch is the calls with the jobs of one claim.
type batch struct {
	size  int
	calls float64
	job   uint64
	last  map[uint64]*RunRow // of each job, the call with the fewest others
}

// add adds a job in a call: a part of a call of so many.
func (b *batch) add(run *RunRow) {
	b.size, b.calls, b.job = max(b.size, int(run.Size)), b.calls+1/float64(run.Size), run.Job
	if was := b.last[run.Job]; was == nil || run.Size < was.Size {
		b.last[run.Job] = run
	}
}

// ended says how many failed alone, and whether the batch was worked on to its end.
func (b *batch) ended() (alone int, over bool) {
	for _, run := range b.last {
		if run.Result == "" || run.Result == split {
			return 0, false
		}
		if run.Size == 1 && run.Result != succeeded {
			alone++
		}
	}
	return alone, true
}
