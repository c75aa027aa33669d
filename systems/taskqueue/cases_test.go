package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/taskqueue"
)

// The jobs of the small run that something happens to.
const (
	anns, bobs                                   = 8, 16 // the first of a hundred ordinary ones
	flaky, hopeless, again, poison, gone, orphan = 1000, 1008, 1016, 1024, 1032, 1040
	unique, refused, later, beside, delayed      = 1048, 1056, 1064, 1072, 1080
)

const (
	zero    = int64(1e18) // the store's clock at the beginning
	ordered = 100 * ms    // when ordinary jobs begin to be claimed, one each 10 ms
)

// smallRun is a run that every invariant accepts: two tenants, whose forty jobs wait before the
// worker comes, and one job each of every other sort. A tenant may have 10 claims a second and
// 18 at once, and a job two attempts.
func smallRun() *evidence {
	p := busy()
	p.Tenants, p.MaxAttempts, p.Lease = 2, 2, sut.Duration(time.Second)
	p.PriorityWithin, p.FairWithin, p.TenantRate, p.TenantBurst = 2, 4, 10, 17
	e := &evidence{suttest.NewEvidence[taskqueue.Audit](taskqueue.System(), p)}
	for i := range uint64(40) {
		e.put(8*(i+1), 1+2*int64(i/20), time.Duration(i)*ms, func(r *taskqueue.EnqueueRequest) {
			r.Tenant = []string{"ann", "bob"}[i%2]
		})
		e.run(8*(i+1), 1, ordered+time.Duration(i)*10*ms, "ok")
	}
	e.add(e.Records[0]) // Ann's first job was sent twice
	fails := map[uint64]int64{flaky: 1, hopeless: 2, again: 2}
	for i, id := range []uint64{flaky, hopeless, again, poison, beside, gone, orphan} {
		e.put(id, 3, 5*time.Second+time.Duration(i)*ms, func(r *taskqueue.EnqueueRequest) {
			r.Tenant, r.Poison = "cid", id == poison
			r.Fails, r.Calls = fails[id], fails[id] > 0
		})
	}
	e.fail(flaky, 1, 6*time.Second, 20*ms)
	e.run(flaky, 2, 7*time.Second, "ok")
	for _, id := range []uint64{hopeless, again} {
		e.fail(id, 1, 6*time.Second, 20*ms)
		e.fail(id, 2, 7*time.Second, 0)
		e.over(id, "dead", "attempts", 7*time.Second+ms)
	}
	e.ask(taskqueue.KindReplay, again, 8*time.Second)
	e.run(again, 3, 9*time.Second, "ok")
	e.job(again).Replays, e.job(again).Reason = 1, ""
	e.batch(6*time.Second, "split", poison, beside)
	e.batch(6*time.Second, "poison", poison)
	e.batch(6*time.Second, "ok", beside)
	e.over(poison, "dead", "poison", 6*time.Second+ms)
	e.done(beside, 1, 6*time.Second+ms)
	e.ask(taskqueue.KindCancel, gone, 6*time.Second)
	e.over(gone, "cancelled", "", 6*time.Second)
	e.run(orphan, 1, 6*time.Second, "")
	e.run(orphan, 2, 8*time.Second, "ok")
	same := func(r *taskqueue.EnqueueRequest) { r.Unique, r.Tenant = "same", "dora" }
	e.put(unique, 2, 10*time.Second, same)
	e.run(unique, 1, 10100*ms, "ok")
	e.put(refused, 2, 10050*ms, same)
	suttest.Deny(e.last(), taskqueue.ErrDuplicate)
	e.Audit.Jobs = e.Audit.Jobs[:len(e.Audit.Jobs)-1]
	e.put(later, 2, 10200*ms, same)
	e.run(later, 1, 10300*ms, "ok")
	e.put(delayed, 2, 11*time.Second, func(r *taskqueue.EnqueueRequest) { r.DelayMS = 100 })
	e.run(delayed, 1, 11100*ms, "ok")
	return e
}

// put enqueues a job, which is stored at some time and acknowledged 2 ms later.
func (e *evidence) put(
	id uint64, priority int64, at time.Duration, change func(*taskqueue.EnqueueRequest),
) {
	req := taskqueue.EnqueueRequest{ID: id, Tenant: "eve", Priority: priority}
	change(&req)
	e.add(history.Record{Op: taskqueue.API().Op(taskqueue.KindEnqueue, req), Start: at,
		End: at + 2*ms, Reply: history.Reply{Key: fmt.Sprint("job-", id), Value: priority}})
	e.Audit.Jobs = append(e.Audit.Jobs, taskqueue.JobRow{ID: id, Job: fmt.Sprint("job-", id),
		Tenant: req.Tenant, Unique: req.Unique, Priority: priority, State: "ready",
		CreatedNS: zero + int64(at)})
}

// ask cancels or replays a job, which is answered 1 ms later.
func (e *evidence) ask(kind string, job uint64, at time.Duration) {
	op := taskqueue.API().Op(kind, taskqueue.JobRequest{ID: job + 1, Job: job})
	e.add(history.Record{Op: op, Start: at, End: at + ms})
}

func (e *evidence) add(r history.Record) {
	r.Seq, r.Intended, r.Outcome = uint64(len(e.Records)), r.Start, history.OK
	e.Records = append(e.Records, r)
}

func (e *evidence) last() *history.Record { return &e.Records[len(e.Records)-1] }

// op is the first attempt of an operation.
func (e *evidence) op(id uint64) *history.Record {
	return suttest.PickFrom(e.Records, func(int) int { return 0 },
		func(r *history.Record) bool { return r.Op.ID == id })
}

func (e *evidence) job(id uint64) *taskqueue.JobRow {
	return suttest.PickFrom(e.Audit.Jobs, func(int) int { return 0 },
		func(j *taskqueue.JobRow) bool { return j.ID == id })
}

// tried is the last run of an attempt.
func (e *evidence) tried(id uint64, attempt int64) *taskqueue.RunRow {
	return suttest.PickFrom(e.Audit.Runs, func(n int) int { return n - 1 },
		func(r *taskqueue.RunRow) bool { return r.Job == id && r.Attempt == attempt })
}

// run claims a job for an attempt, which ends 1 ms later, or never.
func (e *evidence) run(
	id uint64, attempt int64, at time.Duration, result string,
) *taskqueue.RunRow {
	j := e.job(id)
	j.Attempts = attempt
	e.Audit.Runs = append(e.Audit.Runs, taskqueue.RunRow{Job: id, Tenant: j.Tenant, Attempt: attempt,
		Batch: fmt.Sprint("batch-", id, "-", attempt), Size: 1, Result: result,
		AskedNS: zero + int64(at), ClaimedNS: zero + int64(at)})
	if result == "ok" {
		e.done(id, attempt, at+ms)
	}
	return &e.Audit.Runs[len(e.Audit.Runs)-1]
}

func (e *evidence) done(id uint64, attempt int64, at time.Duration) {
	e.over(id, "done", "", at)
	e.job(id).EndedBy = attempt
	e.Audit.Effects = append(e.Audit.Effects, taskqueue.EffectRow{Job: id, Attempt: attempt})
}

// fail is an attempt that fails, and pauses.
func (e *evidence) fail(id uint64, attempt int64, at, pause time.Duration) {
	r := e.run(id, attempt, at, "failed")
	r.FailedNS = r.ClaimedNS + int64(ms)
	if pause > 0 {
		r.NextNS = r.FailedNS + int64(pause)
	}
}

func (e *evidence) over(id uint64, state, reason string, at time.Duration) {
	j := e.job(id)
	j.State, j.Reason, j.EndedNS = state, reason, zero+int64(at)
}

// batch is a call with some jobs of one claim.
func (e *evidence) batch(at time.Duration, result string, jobs ...uint64) {
	for _, id := range jobs {
		j := e.job(id)
		j.Attempts = 1
		e.Audit.Runs = append(e.Audit.Runs, taskqueue.RunRow{Job: id, Tenant: j.Tenant, Attempt: 1,
			Batch: "batch-2", Size: int64(len(jobs)), Result: result, AskedNS: zero + int64(at),
			ClaimedNS: zero + int64(at)})
	}
}

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), smallRun, slices.Concat(jobCases(), attemptCases(), orderCases()))
}

type verdictCase suttest.Case[*evidence]

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

func noAudit(e *evidence) { e.Audit = taskqueue.Audit{} }

func unknown(r *history.Record) { r.Outcome, r.Reply = history.Unknown, history.Reply{} }

// drop removes a job from the audit, and all that was done for it.
func (e *evidence) drop(id uint64) {
	e.Audit.Jobs = slices.DeleteFunc(e.Audit.Jobs, func(j taskqueue.JobRow) bool { return j.ID == id })
	e.Audit.Runs = slices.DeleteFunc(e.Audit.Runs,
		func(r taskqueue.RunRow) bool { return r.Job == id })
	e.Audit.Effects = slices.DeleteFunc(e.Audit.Effects,
		func(f taskqueue.EffectRow) bool { return f.Job == id })
}

// jobCases are about what is there and what was done.
func jobCases() []verdictCase {
	const kept, once = taskqueue.JobsKept, taskqueue.EffectsOnce
	const stays, key = taskqueue.CancelledStays, taskqueue.UniqueKept
	denied := func(at time.Duration) func(*evidence) {
		return func(e *evidence) { e.op(refused).Start, e.op(refused).End = at, at+ms }
	}
	alive := func(replayed, ended time.Duration) func(*evidence) { // another job with this key
		return func(e *evidence) {
			e.op(again+1).Start, e.op(again+1).End = replayed-ms, replayed
			e.job(again).Unique = "same"
			e.over(again, "done", "", ended)
		}
	}
	return []verdictCase{
		{kept, "a job of unknown outcome is not there", pass, func(e *evidence) {
			unknown(e.op(bobs))
			e.drop(bobs)
		}, ""},
		{kept, "an acknowledged one is not there", fail, func(e *evidence) { e.drop(bobs) },
			"operation 16"},
		{kept, "one is there twice", fail, func(e *evidence) {
			e.Audit.Jobs = append(e.Audit.Jobs, *e.job(bobs))
		}, "job-16"},
		{kept, "one of another tenant", fail, func(e *evidence) { e.job(bobs).Tenant = "ann" }, "ann"},
		{kept, "one that nobody asked for", fail, func(e *evidence) { e.job(bobs).ID = 4096 }, "4096"},
		{kept, "one that was refused is there", fail, func(e *evidence) {
			suttest.Deny(e.op(bobs), taskqueue.ErrDuplicate)
		}, "refused"},
		{kept, "one waits at rest", fail, func(e *evidence) { e.job(bobs).State = "waiting" }, "waiting"},
		{kept, "one that was acknowledged is called a duplicate when it is sent again", fail,
			func(e *evidence) {
				r := *e.op(bobs)
				r.Start, r.End = r.End+ms, r.End+2*ms
				e.add(r)
				suttest.Deny(e.last(), taskqueue.ErrDuplicate)
			}, "operation 16 was acknowledged at 3ms, but denied"},
		{kept, "one that was acknowledged is unknown", fail, func(e *evidence) {
			suttest.Deny(e.op(gone+1), taskqueue.ErrUnknownJob)
		}, "job-1032 was acknowledged at 5.007s, and called unknown at 6.001s"},
		{kept, "one that may not be there yet is unknown", pass, func(e *evidence) {
			suttest.Deny(e.op(gone+1), taskqueue.ErrUnknownJob)
			e.op(gone + 1).Start = 5 * time.Second
		}, ""},
		{kept, "a run of no job", fail, func(e *evidence) { e.tried(bobs, 1).Job = 4096 },
			"no such job"},
		{kept, "an attempt that two workers have", fail, func(e *evidence) {
			e.run(bobs, 1, 3*time.Second, "").Batch = "batch-of-another"
		}, "there are"},
		{kept, "nothing was sent twice", maybe, func(e *evidence) {
			e.Records = slices.Delete(e.Records, 40, 41)
		}, ""},
		{kept, "no audit", maybe, noAudit, "audit"},

		{once, "two effects", fail, func(e *evidence) {
			e.Audit.Effects = append(e.Audit.Effects, e.Audit.Effects[1])
		}, "there are"},
		{once, "done without one", fail, func(e *evidence) {
			e.Audit.Effects = slices.Delete(e.Audit.Effects, 1, 2)
		}, "no such effect"},
		{once, "a dead job has had one", pass, func(e *evidence) {
			e.tried(hopeless, 2).Result = "ok"
			e.Audit.Effects = append(e.Audit.Effects, taskqueue.EffectRow{Job: hopeless, Attempt: 2})
		}, ""},
		{once, "an effect of an attempt that failed", fail, func(e *evidence) {
			e.Audit.Effects = append(e.Audit.Effects, taskqueue.EffectRow{Job: hopeless, Attempt: 2})
		}, "no such run"},
		{once, "nothing is done", maybe, func(e *evidence) {
			e.Audit.Effects = e.Audit.Effects[:0]
			for i := range e.Audit.Jobs {
				e.Audit.Jobs[i].State = "cancelled"
			}
		}, "no job is done"},

		{stays, "cancelled, and done", fail, func(e *evidence) { e.done(gone, 1, 7*time.Second) },
			"job-1032 was cancelled, and is done"},
		{stays, "claimed when it was cancelled", fail, func(e *evidence) {
			e.run(gone, 1, 6*time.Second+ms, "")
		}, "job-1032 was claimed 1ms after it was cancelled"},
		{stays, "claimed before that, and given back", pass, func(e *evidence) {
			e.fail(gone, 1, 5500*ms, 10*ms)
		}, ""},
		{stays, "cancelled when its worker's lease was over", pass, func(e *evidence) {
			e.run(gone, 1, 5*time.Second, "")
		}, ""},
		{stays, "cancelled before that", fail, func(e *evidence) {
			e.run(gone, 1, 5*time.Second+1, "")
		}, "job-1032 was cancelled 1s after attempt 1, whose lease is 1s"},
		{stays, "done, and then cancelled", fail, func(e *evidence) {
			e.run(gone, 1, 4*time.Second, "ok")
			e.over(gone, "cancelled", "", 6*time.Second)
		}, "job-1032 was cancelled after attempt 1 had ended it"},
		{stays, "nobody asked for it", fail, func(e *evidence) {
			e.over(bobs, "cancelled", "", time.Minute)
		}, "job-16 is cancelled, which nobody asked for"},
		{stays, "it may have been cancelled", pass, func(e *evidence) { unknown(e.op(gone + 1)) }, ""},
		{stays, "too late for one that was claimed", pass, tooLate(bobs, 107*ms), ""},
		{stays, "too late before it was claimed", fail, tooLate(bobs, 106*ms),
			"job-16 was too late to be cancelled by 106ms, and not claimed or over for 1ms at least"},
		{stays, "too late for one of whose first claim nobody knows", pass, func(e *evidence) {
			tooLate(orphan, 5500*ms)(e)
			e.tried(orphan, 1).Attempt = 2
		}, ""},
		{stays, "too late for one whose worker died before its handler", pass, func(e *evidence) {
			tooLate(gone, 5500*ms)(e)
			e.job(gone).Attempts = 1
		}, ""},
		{stays, "too late before it was cancelled", fail, tooLate(gone, 5500*ms),
			"job-1032 was too late to be cancelled by 5.5s"},
		{stays, "too late when it was cancelled", pass, tooLate(gone, 6010*ms), ""},
		{stays, "claimed when the cancellation was answered", pass, func(e *evidence) {
			e.fail(gone, 1, 6004*ms, 10*ms)
			e.over(gone, "cancelled", "", 6100*ms)
		}, ""},
		{stays, "claimed after the answer, and cancelled at the end", fail, func(e *evidence) {
			e.fail(gone, 1, 6005*ms, 10*ms)
			e.over(gone, "cancelled", "", 6100*ms)
		}, "job-1032 was cancelled by 6.001s, and claimed 1ms later at least"},
		{stays, "nothing was cancelled", maybe, func(e *evidence) {
			suttest.Deny(e.op(gone+1), taskqueue.ErrTooLate)
			e.run(gone, 1, 6*time.Second, "ok")
		}, "no job was cancelled"},

		{key, "two at once", fail, func(e *evidence) {
			e.over(unique, "done", "", 10202*ms+1)
		}, `both had the key "same"`},
		{key, "the second may have waited for the first", pass, func(e *evidence) {
			e.over(unique, "done", "", 10202*ms)
		}, ""},
		{key, "the second is of unknown outcome", pass, func(e *evidence) {
			e.over(unique, "done", "", 10300*ms)
			unknown(e.op(later))
		}, ""},
		{key, "two at once, and another operation was slow", fail, func(e *evidence) {
			e.over(unique, "done", "", 10202*ms+1)
			e.op(orphan).End = 20 * time.Second
		}, `both had the key "same"`},
		{key, "two at the end, the second of unknown outcome", fail, func(e *evidence) {
			e.job(unique).EndedNS, e.job(later).EndedNS = 0, 0
			unknown(e.op(later))
		}, `both had the key "same"`},
		{key, "one is admitted while a replayed one is live", fail, alive(9*time.Second, 10002*ms+1),
			`job-1016 and job-1048 both had the key "same"`},
		{key, "it may have waited for that", pass, alive(9*time.Second, 10002*ms), ""},
		{key, "one is replayed while another is live", fail, alive(10098*ms-1, 10150*ms),
			`job-1048 and job-1016 both had the key "same"`},
		{key, "its replay may have waited for that", pass, alive(10098*ms, 10150*ms), ""},
		{key, "refused as long after the first as an operation takes", pass, denied(10105 * ms), ""},
		{key, "refused when nobody had the key", fail, denied(10105*ms + 1),
			`operation 1056 was refused because of the key "same", which no live job had`},
		{key, "somebody may have had it who is not there", pass, func(e *evidence) {
			denied(10150 * ms)(e)
			e.drop(unique)
		}, ""},
		{key, "refused because of itself, sent twice at once", pass, func(e *evidence) {
			e.add(*e.op(unique))
			suttest.Deny(e.last(), taskqueue.ErrDuplicate)
		}, ""},
		{key, "refused without a key", fail, func(e *evidence) { e.op(refused).Op.Key = "" },
			`operation 1056 was refused because of the key ""`},
		{key, "nobody was refused", maybe, func(e *evidence) {
			suttest.Deny(e.op(refused), sut.ErrRefused)
		}, "no job was refused"},
	}
}

// tooLate says by some time that a job cannot be cancelled any more.
func tooLate(job uint64, by time.Duration) func(*evidence) {
	return func(e *evidence) {
		e.ask(taskqueue.KindCancel, job, by-ms)
		suttest.Deny(e.last(), taskqueue.ErrTooLate)
	}
}

// refuse says at some time that the hopeless job is not dead.
func refuse(at time.Duration) func(*evidence) {
	return func(e *evidence) {
		e.ask(taskqueue.KindReplay, hopeless, at)
		suttest.Deny(e.last(), taskqueue.ErrNotDead)
	}
}

// attemptCases are about how often and when jobs are tried.
func attemptCases() []verdictCase {
	const used, newest = taskqueue.AttemptsUsed, taskqueue.NewestEnds
	const backoff, found = taskqueue.BackoffKept, taskqueue.PoisonFound
	ends := func(id uint64, result string) func(*evidence) {
		return func(e *evidence) { e.tried(id, 1).Result = result }
	}
	both := func(result string) func(*evidence) {
		return func(e *evidence) {
			for _, id := range []uint64{anns, bobs} {
				e.Audit.Runs = append(e.Audit.Runs, taskqueue.RunRow{Job: id, Tenant: e.job(id).Tenant,
					Attempt: 1, Batch: "batch-3", Size: 2, Result: result})
			}
		}
	}
	return []verdictCase{
		{used, "a third attempt", fail, func(e *evidence) { e.run(flaky, 3, 8*time.Second, "ok") },
			"job-1000 was tried 3 times"},
		{used, "dead too early", fail, func(e *evidence) { e.job(hopeless).Attempts = 1 },
			"attempt 2 at job-1008 was begun, which counts 1"},
		{used, "dead after one attempt", fail, func(e *evidence) {
			e.over(bobs, "dead", "attempts", time.Second)
		}, "job-16 is dead after 1 of 2 attempts"},
		{used, "alive for a reason", fail, func(e *evidence) { e.job(bobs).Reason = "poison" },
			`job-16 is done because of "poison"`},
		{used, "a replay that nobody asked for", fail, func(e *evidence) { e.job(bobs).Replays = 1 },
			"job-16 was replayed 1 times; 0 were asked for"},
		{used, "a replay that did nothing", fail, func(e *evidence) {
			j := e.job(again)
			j.Replays, j.Attempts = 0, 2
			e.Audit.Runs = slices.DeleteFunc(e.Audit.Runs, func(r taskqueue.RunRow) bool {
				return r.Job == again && r.Attempt == 3
			})
		}, "job-1016 was replayed 0 times; 1 were acknowledged"},
		{used, "its replay was refused", fail, refuse(7014 * ms),
			"job-1008 was dead by 7.003s, and at 7.015s its replay was refused"},
		{used, "when it may not have been seen to be dead", pass, refuse(7005 * ms), ""},
		{used, "and no other was replayed", maybe, func(e *evidence) {
			refuse(7005 * ms)(e)
			e.drop(again)
			unknown(e.op(again + 1))
		}, "no dead letter was replayed"},
		{used, "one that may have been", pass, func(e *evidence) { unknown(e.op(again + 1)) }, ""},
		{used, "nobody is dead", maybe, func(e *evidence) {
			e.over(hopeless, "done", "", 8*time.Second)
			e.over(poison, "done", "", 8*time.Second)
		}, "no job is dead"},

		{newest, "an older attempt ends the job", fail, func(e *evidence) { e.job(orphan).EndedBy = 1 },
			"attempt 1 ended job-1040, whose newest is 2"},
		{newest, "claimed when the lease is over", pass, func(e *evidence) {
			e.tried(orphan, 2).ClaimedNS = zero + int64(7*time.Second)
		}, ""},
		{newest, "claimed before that", fail, func(e *evidence) {
			e.tried(orphan, 2).ClaimedNS = zero + int64(7*time.Second) - 1
		}, "job-1040 was claimed for attempt 2"},
		{newest, "claimed soon after a success that was not told", fail, func(e *evidence) {
			e.tried(orphan, 1).Result = "ok"
			e.tried(orphan, 2).ClaimedNS = zero + int64(6100*ms)
		}, "100ms after attempt 1"},
		{newest, "claimed soon after a failure", pass, func(e *evidence) {
			e.tried(orphan, 1).Result = "failed"
			e.tried(orphan, 2).ClaimedNS = zero + int64(6100*ms)
		}, ""},
		{newest, "claimed soon after it was poison", fail, func(e *evidence) {
			e.run(poison, 2, 7*time.Second-1, "poison")
		}, "job-1024 was claimed for attempt 2 1s after attempt 1, whose lease is 1s"},
		{newest, "claimed when the lease of who found the poison is over", pass, func(e *evidence) {
			e.run(poison, 2, 7*time.Second, "poison")
		}, ""},
		{newest, "no job needed two attempts", maybe, func(e *evidence) {
			for i := range e.Audit.Jobs {
				j := &e.Audit.Jobs[i]
				j.Attempts, j.EndedBy = min(j.Attempts, 1), min(j.EndedBy, 1)
			}
		}, "no job was done after a second attempt"},

		{backoff, "the longest pause", pass, func(e *evidence) {}, ""},
		{backoff, "a longer one", fail, func(e *evidence) {
			e.tried(flaky, 1).NextNS += int64(2 * ms)
		}, "after attempt 1 at job-1000 the pause was 22ms; it is 5ms to 20ms"},
		{backoff, "no pause", fail, func(e *evidence) {
			e.tried(flaky, 1).NextNS = e.tried(flaky, 1).FailedNS
		}, "the pause was 0s"},
		{backoff, "claimed in it", fail, func(e *evidence) {
			e.tried(flaky, 2).ClaimedNS = e.tried(flaky, 1).NextNS - int64(3*ms)
		}, "attempt 2 at job-1000 was claimed 3ms before its pause was over"},
		{backoff, "failed, and soon tried again", fail, func(e *evidence) {
			e.tried(flaky, 1).NextNS = 0
			e.tried(flaky, 2).ClaimedNS = e.tried(flaky, 1).AskedNS + int64(3*ms)
		}, "attempt 2 at job-1000 was claimed 3ms after attempt 1, of whose failure no pause"},
		{backoff, "claimed before its delay was over", fail, func(e *evidence) {
			e.tried(delayed, 1).ClaimedNS -= int64(2 * ms)
		}, "job-1080 was claimed 2ms before its delay"},
		{backoff, "nothing failed", maybe, func(e *evidence) {
			for i := range e.Audit.Runs {
				e.Audit.Runs[i].NextNS = 0
			}
		}, "no attempt failed"},

		{found, "a good job is called poison", fail, func(e *evidence) {
			e.over(bobs, "dead", "poison", time.Second)
		}, "job-16 is dead as poison, and is none"},
		{found, "poison is done", fail, func(e *evidence) {
			e.over(poison, "done", "", 7*time.Second)
		}, "job-1024 is poison, and is done"},
		{found, "poison pauses", fail, func(e *evidence) {
			e.tried(poison, 1).NextNS = zero + int64(7*time.Second)
		}, "job-1024 pauses after it was found to be poison"},
		{found, "a batch is to blame", fail, func(e *evidence) {
			for i := range e.Audit.Runs {
				if r := &e.Audit.Runs[i]; r.Size == 2 {
					r.Result = "poison"
				}
			}
		}, `attempt 1 at job-1024 in a call with 2 jobs is "poison"`},
		{found, "two failed together because the dependency was down", pass, func(e *evidence) {
			e.P.Outage = sut.Duration(time.Second)
			both("down")(e)
		}, ""},
		{found, "and it never was", fail, both("down"), `in a call with 2 jobs is "down"`},
		{found, "one failed alone for it", pass, func(e *evidence) {
			e.P.Outage = sut.Duration(time.Second)
			ends(flaky, "down")(e)
		}, ""},
		{found, "and does not call it", fail, func(e *evidence) {
			e.P.Outage = sut.Duration(time.Second)
			ends(bobs, "down")(e)
		}, `attempt 1 at job-16 in a call with 1 jobs is "down"`},
		{found, "an attempt succeeds that fails", fail, ends(flaky, "ok"),
			`is "ok", and its payload says: fails 1, poison false, calls true`},
		{found, "one succeeds with another that fails", fail, func(e *evidence) {
			both("ok")(e)
			e.tried(anns, 1).Job = hopeless
		}, `attempt 1 at job-1008 in a call with 2 jobs is "ok"`},
		{found, "an attempt fails that succeeds", fail, ends(bobs, "failed"), `is "failed"`},
		{found, "poison succeeds", fail, ends(poison, "ok"), `attempt 1 at job-1024`},
		{found, "an attempt is called poison", fail, ends(flaky, "poison"), `is "poison"`},
		{found, "most that can be done are dead", maybe, func(e *evidence) {
			for i := range e.Audit.Jobs {
				if j := &e.Audit.Jobs[i]; j.State == "done" && i%3 > 0 {
					j.State, j.Reason = "dead", "attempts"
				}
			}
		}, "jobs are dead that could be done, and"},
		{found, "a call too many", fail, func(e *evidence) {
			e.batch(6*time.Second, "ok", beside)
			e.batch(6*time.Second, "ok", beside)
		}, "took 5 calls; halves need 3"},
		{found, "calls of a worker that did not come to the end", pass, func(e *evidence) {
			e.batch(6*time.Second, "ok", beside)
			e.batch(6*time.Second, "ok", beside)
			e.tried(poison, 1).Result = ""
		}, ""},
		{found, "none was found", maybe, func(e *evidence) {
			e.over(poison, "cancelled", "", 7*time.Second)
		}, "no poison was found"},
	}
}

// orderCases are about who comes first. Ordinary jobs are claimed from 100 ms on, those of Ann and
// of Bob in turns, twenty urgent ones and then twenty of the lowest priority.
func orderCases() []verdictCase {
	const urgent, fair, rates = taskqueue.PriorityKept, taskqueue.TenantsFair, taskqueue.RatesKept
	move := func(id uint64, at time.Duration) func(*evidence) {
		return func(e *evidence) {
			r := e.tried(id, 1)
			r.AskedNS, r.ClaimedNS = zero+int64(at), zero+int64(at)
		}
	}
	wait := func(e *evidence) {
		for i := range uint64(6) {
			move(anns+16*i, 600*ms+time.Duration(i)*ms)(e)
		}
	}
	// Ann's last two urgent jobs are those of 280 and 260 ms, her others begin at 300 ms.
	return []verdictCase{
		{urgent, "two less urgent ones first", pass, move(anns, 325*ms), ""},
		{urgent, "three", fail, move(anns, 345*ms),
			"3 less urgent jobs of ann were claimed while job-8 was ready; the limit is 2"},
		{urgent, "three of Bob's", pass, func(e *evidence) {
			move(anns, 345*ms)(e)
			for _, id := range []uint64{168, 184, 200} {
				e.job(id).Tenant = "bob"
			}
		}, ""},
		{urgent, "a job that nobody acknowledged", pass, func(e *evidence) {
			move(anns, 345*ms)(e)
			unknown(&e.Records[0])
			unknown(&e.Records[40])
		}, ""},
		{urgent, "one that came after them", pass, func(e *evidence) {
			move(anns, 345*ms)(e)
			e.job(anns).CreatedNS = zero + int64(320*ms)
		}, ""},
		{urgent, "nobody could break the limit", maybe, func(e *evidence) { e.P.PriorityWithin = 10 },
			"10 less urgent jobs could have been claimed"},
		{urgent, "nothing urgent", maybe, func(e *evidence) {
			for i := range e.Audit.Jobs {
				e.Audit.Jobs[i].Priority = 3
			}
		}, "0 jobs were claimed before a less urgent one"},

		{fair, "Bob three times more", pass, func(e *evidence) {
			e.P.TenantRate = 0
			move(anns, 145*ms)(e)
		}, ""},
		{fair, "Ann has used up her limit before", pass, wait, ""},
		{fair, "Ann's wait", fail, func(e *evidence) {
			e.P.TenantRate = 0
			wait(e)
		}, "ann and bob both had more than 1 ready jobs"},
		{fair, "Ann has one only", maybe, func(e *evidence) {
			for i := range uint64(19) {
				e.job(anns + 16*(i+1)).Tenant = "zoe"
				e.tried(anns+16*(i+1), 1).Tenant = "zoe"
			}
			for i := range uint64(19) {
				e.job(bobs + 16*(i+1)).Tenant = fmt.Sprint("yves", i)
			}
		}, "two tenants were served"},

		{rates, "as many as there may be", pass, func(*evidence) {}, ""},
		{rates, "all of Ann's at once", fail, func(e *evidence) {
			for i := range uint64(20) {
				move(anns+16*i, 100*ms)(e)
			}
		}, "19.99 more than 10 a second; the limit is 17"},
		{rates, "the same, if the limiter may have let them pass before", pass, func(e *evidence) {
			for i := range uint64(20) {
				e.tried(anns+16*i, 1).ClaimedNS = zero + int64(500*ms)
			}
		}, ""},
		{rates, "nobody comes near it", maybe, func(e *evidence) {
			for i := range uint64(20) {
				move(anns+16*i, time.Duration(i)*time.Second)(e)
				move(bobs+16*i, time.Duration(i)*time.Second)(e)
			}
		}, "no tenant has used up its limit"},
	}
}
