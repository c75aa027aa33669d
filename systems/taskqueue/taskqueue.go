// Package taskqueue is a job queue: clients enqueue jobs, workers do them at least once, and
// handlers are idempotent. Its question: which designs lose no job, do none twice and starve
// nobody when workers die?
//
// A job has a tenant, a priority, perhaps a delay and perhaps a key that only one live job may
// have. A worker claims jobs under a lease and hands them to a handler, several at once if it
// may. What fails is tried again after a backoff with jitter, so often; then it is a dead letter,
// which can be replayed.
package taskqueue

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/bounds"
	"stampede/harness/sut"
)

// The kinds of operations. An enqueue has Op.Client for its tenant and Op.Key for its unique
// key, if any; Reply.Key names the job. The others have the job's name as Op.Key.
const (
	KindEnqueue = "enqueue"
	KindCancel  = "cancel"
	KindReplay  = "replay"
)

// The refusals.
var (
	// ErrDuplicate: a live job has the unique key.
	ErrDuplicate = sut.Refusal("duplicate", "a live job has this unique key")
	// ErrUnknownJob: there is no such job.
	ErrUnknownJob = sut.Refusal("unknown_job", "there is no such job")
	// ErrTooLate: the job runs or is over.
	ErrTooLate = sut.Refusal("too_late", "the job runs, or is over")
	// ErrNotDead: the job is no dead letter, or a live job has its unique key.
	ErrNotDead = sut.Refusal("not_dead", "the job is no dead letter")
)

// Jobs is the domain interface: what clients ask for.
type Jobs interface {
	Enqueue(ctx context.Context, req EnqueueRequest) (Enqueued, error)
	Cancel(ctx context.Context, req JobRequest) (api.Nothing, error)
	Replay(ctx context.Context, req JobRequest) (api.Nothing, error)
}

// EnqueueRequest asks for a job. The last four fields are its payload, a script for the handler.
type EnqueueRequest struct {
	ID       uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the job's number, the same in every attempt"`
	Tenant   string `json:"tenant" op:"client" min:"1" max:"40"`
	Priority int64  `json:"priority" op:"arg" min:"1" max:"3" doc:"1 is the most urgent"`
	Unique   string `json:"unique_key" op:"key" max:"40" doc:"of all jobs that are ready, waiting or running, whatever their tenants, one at most has it; empty: no key"`
	DelayMS  int64  `json:"delay_ms" min:"0" max:"3600000" doc:"it is not claimed before created_ns and this; backoff-kept judges that"`

	Fails  int64 `json:"fails" min:"0" max:"1000" doc:"attempts with a number up to this one fail, later ones succeed; a replay does not begin the numbers anew"`
	Poison bool  `json:"poison" doc:"no attempt can succeed, whatever fails says: a call with it and others fails for all of them, one with it alone makes it dead at once"`
	Calls  bool  `json:"calls" doc:"the handler of a design calls the dependency; other servers have none, and ignore this"`
	WorkMS int64 `json:"work_ms" min:"0" max:"60000"`
}

// Enqueued is the answer.
type Enqueued struct {
	Job      string `json:"job" op:"key" min:"5" max:"30" example:"job-8" doc:"job- and its op_id, such as job-8"`
	Priority int64  `json:"priority" op:"value" echo:"arg"`
}

// JobRequest is about a job.
type JobRequest struct {
	ID  uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"this operation's, not the job's"`
	Job uint64 `json:"-" path:"job" op:"key,job-" min:"1" max:"9223372036854775807" doc:"the op_id of its enqueue"`
}

// nameOf is the name of a job.
func nameOf(job uint64) string { return fmt.Sprint("job-", job) }

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Jobs] {
	return &api.Table[Jobs]{
		System: "taskqueue", Title: "Task queue",
		About: "The API of a job queue with priorities, delays, retries and dead letters. stampede " +
			"serves its\nown designs over it, and judges any server that implements it.\n" +
			"Of a tenant's ready jobs the most urgent is claimed first, and tenants take turns; how far " +
			"a\nserver may stray from both is in the request of a reset.",
		Kinds: []api.Kind[Jobs]{
			api.Op(KindEnqueue, "POST /v1/jobs", Jobs.Enqueue, api.About{
				Summary: "Enqueue a job.", Status: http.StatusCreated,
				Detail: "The server does the jobs itself, as their payloads say: it reports what it did in " +
					"the audit.",
				Reply: "The job is stored for good.", Refuses: []error{ErrDuplicate}}),
			api.Op(KindCancel, "DELETE /v1/jobs/{job}", Jobs.Cancel, api.About{
				Summary: "Cancel a job that does not run.",
				Detail:  "It waits for its first attempt, or for another one. One that is cancelled is over.",
				Reply:   "It does not start any more.",
				Refuses: []error{ErrUnknownJob, ErrTooLate}}),
			api.Op(KindReplay, "POST /v1/jobs/{job}/replay", Jobs.Replay, api.About{
				Summary: "Try a dead letter again.", Reply: "It is tried as often as before, at most.",
				Detail:  "A job whose unique key a live job has meanwhile is refused as not_dead.",
				Refuses: []error{ErrUnknownJob, ErrNotDead}}),
		},
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrUnknownJob},
			{Status: http.StatusConflict, Is: ErrDuplicate}, {Status: http.StatusConflict, Is: ErrTooLate},
			{Status: http.StatusConflict, Is: ErrNotDead}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin without jobs.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.MaxAttempts, p.Lease.D().Milliseconds(), p.BackoffFloor.D().Milliseconds(),
				p.Backoff.D().Milliseconds(), p.BackoffCap.D().Milliseconds(), p.TenantRate, p.TenantBurst,
				p.PriorityWithin, p.FairWithin}, err
		},
		PendingMeans: "How many jobs are neither done nor dead nor cancelled.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	MaxAttempts    int   `json:"max_attempts" min:"1" doc:"after so many a job is dead; a replay allows as many again"`
	LeaseMS        int64 `json:"lease_ms" min:"1" doc:"for how long a claim is a worker's unless it renews it"`
	BackoffFloorMS int64 `json:"backoff_floor_ms" min:"0" doc:"the shortest pause before another attempt"`
	BackoffMS      int64 `json:"backoff_ms" min:"1" doc:"the longest pause after the first attempt, and the first after a replay; it doubles with each"`
	BackoffCapMS   int64 `json:"backoff_cap_ms" min:"1" doc:"the longest pause of all"`

	TenantRate  float64 `json:"tenant_rate" min:"0" doc:"claims of a tenant in a second, without a limit if 0"`
	TenantBurst int     `json:"tenant_burst" min:"1" doc:"claims of a tenant at once"`

	ClaimsAtOnce int `json:"claims_at_once" min:"0" doc:"what is allowed, and no limit to obey: so many less urgent jobs of its tenant may be claimed while a job is ready, none if 0; all workers of a design claim so many at once"`
	FairWithin   int `json:"fair_within" min:"1" doc:"by how many claims tenants may differ that both have their share of claims_at_once ready; tenant_burst more where they have rates"`
}

// The states of a job. Ready, waiting (for its time) and running ones are live.
const (
	ready     = "ready"
	waiting   = "waiting"
	running   = "running"
	done      = "done"
	dead      = "dead"
	cancelled = "cancelled"
)

// Why a job is dead.
const (
	usedUp   = "attempts" // all failed, or their workers died
	poisoned = "poison"   // the handler said that it will never succeed
)

// What became of a call of the handler.
const (
	succeeded = "ok"
	failed    = "failed"
	gaveUp    = "poison"
	split     = "split" // it failed with others, and each half was tried for itself
	down      = "down"  // the dependency was
)

// Audit is the final truth of the stores, or of a foreign server's audit endpoint. Times are
// nanoseconds of the clock of the store that keeps the jobs.
type Audit struct {
	Jobs    []JobRow    `json:"jobs"`
	Runs    []RunRow    `json:"runs" doc:"what the handler was called with, a row for each job of each call"`
	Effects []EffectRow `json:"effects" doc:"what the handler did"`
}

// JobRow is a job at the end.
type JobRow struct {
	ID        uint64 `json:"op_id" fact:"op" redis:"id" min:"1"`
	Job       string `json:"job" fact:"name" doc:"job- and op_id"`
	Tenant    string `json:"tenant" fact:"owner" redis:"tenant"`
	Unique    string `json:"unique_key" fact:"key" redis:"unique"`
	Priority  int64  `json:"priority" fact:"thing" redis:"priority"`
	State     string `json:"state" fact:"state" redis:"state" enum:"ready,waiting,running,done,dead,cancelled"`
	Attempts  int64  `json:"attempts" redis:"attempts" doc:"claims; a replay raises it to what was allowed until then, and the next claim is one more"`
	Replays   int64  `json:"replays" fact:"version" redis:"replays"`
	Reason    string `json:"reason" redis:"reason" enum:",attempts,poison" doc:"why it is dead"`
	EndedBy   int64  `json:"ended_by" redis:"ended_by" doc:"the attempt that said that it is done, 0 if none did"`
	CreatedNS int64  `json:"created_ns" fact:"from" redis:"created"`
	EndedNS   int64  `json:"ended_ns" fact:"to" redis:"ended" doc:"when it was done, dead or cancelled; 0 if it is live"`
}

// RunRow is a job in one call of the handler.
type RunRow struct {
	Job       uint64 `json:"op_id" min:"1" fact:"op"`
	Tenant    string `json:"tenant" fact:"owner"`
	Attempt   int64  `json:"attempt" fact:"thing"`
	Batch     string `json:"batch" doc:"names the claim, of all jobs that were claimed together"`
	Size      int64  `json:"size" fact:"version" doc:"how many jobs the call had"`
	Result    string `json:"result" fact:"state" enum:",ok,failed,poison,split,down" doc:"what the payload says; split if it failed because of some of its jobs, and parts of them are tried for themselves; down in designs only, whose dependency can be; empty if its worker did not come to an end"`
	AskedNS   int64  `json:"asked_ns" doc:"when the claim reached the store"`
	ClaimedNS int64  `json:"claimed_ns" doc:"when the job was claimed; what limits a tenant's claims let it pass between asked_ns and this"`
	FailedNS  int64  `json:"failed_ns" doc:"when the failure was stored, also one that made the job dead; 0 if none was"`
	NextNS    int64  `json:"next_ns" doc:"before which it may not be tried again; 0 if the failure made it dead, or there was none"`
}

// EffectRow is an effect of a handler.
type EffectRow struct {
	Job     uint64 `json:"op_id" min:"1" fact:"op"`
	Attempt int64  `json:"attempt" fact:"thing"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Tenants  int     `json:"tenants" min:"1" max:"100" doc:"how many tenants there are"`
	Noisy    float64 `json:"noisy" min:"0" max:"1" doc:"share of jobs that are of the first tenant, beside its own"`
	Urgent   float64 `json:"urgent" min:"0" max:"1" doc:"share of jobs of the highest priority; as many again are of the middle one"`
	Delayed  float64 `json:"delayed" min:"0" max:"1" doc:"share of jobs with a delay of up to a second"`
	Unique   float64 `json:"unique" min:"0" max:"1" doc:"share of jobs with a unique key, one of twenty for each tenant"`
	Flaky    float64 `json:"flaky" min:"0" max:"1" doc:"share of jobs whose first attempt or two fail"`
	Hopeless float64 `json:"hopeless" min:"0" max:"1" doc:"share of jobs that fail until they are dead, and succeed after a replay"`
	Poison   float64 `json:"poison" min:"0" max:"1" doc:"share of jobs that no handler can do"`
	Calls    float64 `json:"calls" min:"0" max:"1" doc:"share of jobs that call the dependency"`
	Cancel   float64 `json:"cancel" min:"0" max:"1" doc:"share of jobs that are cancelled soon after"`
	Replay   float64 `json:"replay" min:"0" max:"1" doc:"share of hopeless jobs that are replayed when they should be dead"`
	Resend   float64 `json:"resend" min:"0" max:"1" doc:"share of enqueues that are sent twice, half of them together"`

	Work        sut.Duration `json:"work" min:"0" max:"1m" doc:"the longest time that a handler takes"`
	OutageAfter sut.Duration `json:"outage_after" min:"0" max:"1h" doc:"how long after its first call the dependency is down"`
	Outage      sut.Duration `json:"outage" min:"0" max:"1h" doc:"for how long"`

	Workers      int          `json:"workers" min:"1" max:"200" doc:"jobs, or batches of them, that a process works on at once"`
	Batch        int          `json:"batch" min:"1" max:"1000" doc:"jobs that a design claims at once which takes several"`
	PollEvery    sut.Duration `json:"poll_every" min:"1ms" max:"1m" doc:"how often a worker that has nothing looks again"`
	UpkeepEvery  sut.Duration `json:"upkeep_every" min:"1ms" max:"1m" doc:"how often it is looked for jobs whose time or whose lease is over"`
	Lease        sut.Duration `json:"lease" min:"10ms" max:"1h" doc:"for how long a claim is a worker's unless it renews it"`
	MaxAttempts  int          `json:"max_attempts" min:"1" max:"100" doc:"attempts before a job is dead; a replay allows as many again"`
	BackoffFloor sut.Duration `json:"backoff_floor" min:"0" max:"1h" doc:"the shortest pause before another attempt"`
	Backoff      sut.Duration `json:"backoff" min:"1ms" max:"1h" doc:"the longest pause after the first attempt; it doubles with each"`
	BackoffCap   sut.Duration `json:"backoff_cap" min:"1ms" max:"24h" doc:"the longest pause of all"`

	TenantRate  float64 `json:"tenant_rate" min:"0" max:"100000" doc:"claims of a tenant in a second; 0: as many as there are"`
	TenantBurst int     `json:"tenant_burst" min:"1" max:"100000" doc:"claims of a tenant at once, where it has a rate"`

	PriorityWithin int `json:"priority_within" min:"0" max:"100000" doc:"less urgent jobs of its tenant that may be claimed while an urgent one is ready: what all workers claim at once"`
	FairWithin     int `json:"fair_within" min:"1" max:"100000" doc:"by how many claims two tenants may differ that both have their share of what all workers claim at once; tenant_burst more where they have rates"`
}

// DefaultParams are four tenants with jobs of all sorts.
func DefaultParams() Params {
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	return Params{Tenants: 4, Resend: 0.05, Urgent: 0.1, Delayed: 0.1, Unique: 0.1, Flaky: 0.1,
		Hopeless: 0.03,
		Poison:   0.02, Calls: 0.2, Cancel: 0.1, Replay: 0.5, Work: ms(5),
		Workers: 8, Batch: 16, PollEvery: ms(20), UpkeepEvery: ms(50), Lease: ms(2000), MaxAttempts: 4,
		BackoffFloor: ms(20), Backoff: ms(100), BackoffCap: ms(1000),
		TenantRate: 200, TenantBurst: 50, PriorityWithin: 512, FairWithin: 256}
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if err == nil && (p.BackoffFloor > p.Backoff || p.Backoff > p.BackoffCap) {
		err = fmt.Errorf("backoff: expected at least backoff_floor (%v) and at most backoff_cap (%v), "+
			"got %v", p.BackoffFloor, p.BackoffCap, p.Backoff)
	}
	return err
}

// every is the time in microseconds in which a tenant may have one more claim, 0 without a limit.
func (p Params) every() int64 {
	if p.TenantRate == 0 {
		return 0
	}
	return int64(math.Ceil(1e6 / p.TenantRate))
}

// enough is how many ready jobs a tenant needs so that no claim takes its last one: its share of
// what all workers claim at once.
func (p Params) enough() int { return p.PriorityWithin / p.Tenants }

// apart is by how many claims two tenants that both have enough may differ.
func (p Params) apart() int {
	if p.TenantRate == 0 {
		return p.FairWithin
	}
	return p.FairWithin + p.TenantBurst
}

// ceiling is the longest pause after an attempt, of those since the last replay.
func (p Params) ceiling(attempt int64) time.Duration {
	nth := (attempt - 1) % int64(p.MaxAttempts)
	return min(p.BackoffCap.D(), p.Backoff.D()<<min(nth, 20))
}
