package taskqueue_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/taskqueue"
)

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	// Whether a job is cancelled, or has a unique key to itself, depends on how fast others are.
	alike := busy()
	alike.Cancel, alike.Unique = 0, 0
	return suttest.Suite{System: taskqueue.System(), Params: busy(), Space: stores.Namespace,
		Seed: 1, Ops: 300, Summary: suttest.Lines(summary), AlikeParams: alike,
		Undecided: map[string]string{
			taskqueue.PriorityKept: "workers may keep up with those who enqueue, so that nothing waits",
			taskqueue.TenantsFair:  "workers may keep up with those who enqueue, so that nothing waits",
			taskqueue.RatesKept:    "workers may be slower than the limit",
		}}
}

// busy is a queue with jobs of all sorts and short pauses.
func busy() *taskqueue.Params {
	p := taskqueue.DefaultParams()
	p.Work, p.Lease = sut.Duration(2*time.Millisecond), sut.Duration(time.Second)
	p.UpkeepEvery, p.PollEvery = sut.Duration(10*time.Millisecond), sut.Duration(5*time.Millisecond)
	p.BackoffFloor, p.Backoff = sut.Duration(5*time.Millisecond), sut.Duration(20*time.Millisecond)
	p.BackoffCap, p.Batch, p.Workers = sut.Duration(80*time.Millisecond), 8, 4
	p.Replay, p.Hopeless, p.Poison, p.Unique, p.Resend = 1, 0.05, 0.05, 0.3, 0.2
	p.TenantRate, p.TenantBurst = 100, 20
	return &p
}

// summary lists what became of the jobs.
func summary(audit taskqueue.Audit) (lines []string) {
	for _, j := range audit.Jobs {
		lines = append(lines, fmt.Sprintf("%s of %s is %s %s", j.Job, j.Tenant, j.State, j.Reason))
	}
	return lines
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := taskqueue.Audit{
		Jobs: []taskqueue.JobRow{{ID: 8, Job: "job-8", Tenant: "tenant-1", State: "done",
			Priority: 1}},
		Runs:    []taskqueue.RunRow{{Job: 8, Tenant: "tenant-1", Attempt: 1, Size: 1, Result: "ok"}},
		Effects: []taskqueue.EffectRow{{Job: 8, Attempt: 1}}}
	apitest.Conform(t, taskqueue.API(), taskqueue.DefaultParams(), audit)
}

// TestSentTwice: a job that is sent several times at once is stored once, and whoever sent it hears
// that.
func TestSentTwice(t *testing.T) {
	for _, name := range []string{"postgres_table", "redis_lists"} { // others store jobs as these do
		t.Run(name, func(t *testing.T) {
			inst, table := openBench(t, name, 1), taskqueue.API()
			for job := range uint64(20) {
				op := table.Op(taskqueue.KindEnqueue, taskqueue.EnqueueRequest{ID: (job + 1) * 8,
					Tenant: "ann", Priority: 1, Unique: fmt.Sprint(job)})
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						if _, err := inst.Do(t.Context(), op); err != nil {
							t.Errorf("sending job %d again: %v", op.ID, err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, taskqueue.API(), taskqueue.DefaultParams())
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "postgres_batch", apitest.Reworded)
}
