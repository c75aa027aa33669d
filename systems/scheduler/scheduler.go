// Package scheduler is a distributed task scheduler on Postgres: tasks that run
// once at a time, or again and again by a cron expression in a time zone. Its
// question: do 10,000 tasks that are due at 09:00 start within 30 s?
//
// Pickers look a while ahead and mark what is due next; executors take what is
// marked and due, under a lease with a fencing token, and a rescuer takes back
// what executors that died have left. Whether something is due is decided by the
// database's clock.
//
// Business time, in which users think, runs TimeScale times as fast as the clock.
// It begins at Params.Day with the first request. Whole minutes of it are all
// that can be asked for.
package scheduler

import (
	"context"
	"time"

	"stampede/harness/sut"
)

// The operation kinds.
const (
	// KindAwait waits until the first occurrence of task Op.Key has started. Its
	// time is from when the task was due. Reply.Value is how late the start was
	// by the database's clock, in nanoseconds.
	KindAwait = "await"
	// KindSchedule schedules a task in queue Op.Key for Op.Client at business
	// time Op.Arg (Unix milliseconds), or by a cron expression from then on.
	// Op.Body has the rest, as opOf writes it. Op.ID is the idempotency key and
	// names the task. Reply.Key is the task, Reply.Value how many nanoseconds
	// there are until its first occurrence is due.
	KindSchedule = "schedule"
	// KindCancel, KindPause, KindResume and KindRerun change task Op.Key.
	// Reply.Key is the state that the task has by that.
	KindCancel = "cancel"
	KindPause  = "pause"
	KindResume = "resume"
	KindRerun  = "rerun"
	// KindTask reads task Op.Key with its runs, KindTasks lists the tasks of
	// queue Op.Key. Reply.Value is how many runs or tasks there are.
	KindTask  = "task"
	KindTasks = "tasks"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnknownTask: there is no such task.
	ErrUnknownTask = sut.Refusal("unknown_task", "unknown task")
	// ErrConflict: the name belongs to another task.
	ErrConflict = sut.Refusal("name_taken", "another task has the name")
	// ErrState: the task is in no state for that.
	ErrState = sut.Refusal("wrong_state", "not in this state")
	// ErrOpTaken: op_id was used for another change.
	ErrOpTaken = sut.Refusal("op_taken", "op_id was used for another change")
	// ErrNotStarted: the task did not start while it was waited for.
	ErrNotStarted = sut.Refusal("not_started", "not started")
)

// Scheduler is the domain interface: what every variant, the HTTP client and the
// HTTP handler have in common.
type Scheduler interface {
	// Schedule returns when the task is stored.
	Schedule(ctx context.Context, req Request) (Scheduled, error)
	// Change returns the state that the task has by it.
	Change(ctx context.Context, c Change) (State, error)
	// Task reads a task with its runs.
	Task(ctx context.Context, id uint64) (Task, error)
	// Tasks lists the tasks of a queue, the newest first.
	Tasks(ctx context.Context, queue string, limit int) ([]Task, error)
	// Await returns when the first occurrence has started, and how late it did.
	Await(ctx context.Context, id uint64) (late time.Duration, err error)
}

// Request asks for a task.
type Request struct {
	// ID names the task; a repeated request has the same.
	ID            uint64
	Queue, Client string
	Spec
	// At is the business time at which it is due, or from which on the cron
	// expression counts. It is cut down to the minute (Params.Granularity).
	At time.Time
}

// Spec is what a task is.
type Spec struct {
	Task string `json:"task"`
	// WorkMS is how long it works, in milliseconds of the clock. Fails says that
	// it fails until somebody runs it again.
	WorkMS int64 `json:"work_ms"`
	Fails  bool  `json:"fails,omitempty"`
	// Cron is five fields, empty if it runs once; Zone its time zone; Times how
	// many occurrences there are, 0 for no end.
	Cron  string `json:"cron,omitempty"`
	Zone  string `json:"zone,omitempty"`
	Times int64  `json:"times,omitempty"`
}

// Scheduled is the answer to a Request.
type Scheduled struct {
	// DueIn is how long it is, on the clock, until the first occurrence is due;
	// 0 if it is.
	DueIn time.Duration
}

// Change is what a user does to a task.
type Change struct {
	// ID is the change's identity: a repeated request has the same and changes
	// nothing more.
	ID   uint64
	Task uint64
	// What is KindCancel, KindPause, KindResume or KindRerun.
	What string
}

// State is the state of a task.
type State string

// The states. A task that is cancelled while it runs is stopping: it may still
// end as done.
const (
	Waiting   State = "waiting"
	Picked    State = "picked"
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Stopping  State = "stopping"
	Paused    State = "paused"
)

// The outcomes of a run, besides Done, Failed and Cancelled. One that is under way
// has none.
const (
	// Lost: its lease ended and the task was taken back.
	Lost State = "lost"
	// Fenced: it came to its end after the task had been taken back.
	Fenced State = "fenced"
)

// Task is a task as it is now.
type Task struct {
	ID     uint64 `json:"id"`
	Queue  string `json:"queue"`
	Client string `json:"client"`
	Spec
	Occurrence int64     `json:"occurrence"`
	Due        time.Time `json:"due"` // business time
	State      State     `json:"state"`
	Paused     bool      `json:"paused"`
	// Runs are its starts, the first one first; absent in lists.
	Runs []Run `json:"runs,omitempty"`
}

// Run is one start of an occurrence. Its times are of the database's clock.
type Run struct {
	Occurrence int64     `json:"occurrence"`
	Fence      int64     `json:"fence"`
	Due        time.Time `json:"due"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
	Outcome    State     `json:"outcome,omitempty"`
}

// Params are the workload's and the scheduler's parameters. Those that are said
// to be business time are divided by TimeScale on the clock.
type Params struct {
	Day       string  `json:"day" doc:"business time of the first request, RFC 3339"`
	TimeScale float64 `json:"time_scale" doc:"seconds of business time per second of real time"`
	Rate      float64 `json:"rate" doc:"scheduled operations per second of real time, as in the load"`

	Queues       int          `json:"queues" doc:"number of queues"`
	NineAfter    sut.Duration `json:"nine_after" doc:"business time from the start to the moment at which tasks are aligned"`
	Aligned      float64      `json:"aligned" doc:"share of the tasks scheduled before that moment that are due at it"`
	Ahead        sut.Duration `json:"ahead" doc:"longest business time from a request to its task's due time"`
	Recurring    float64      `json:"recurring" doc:"share of tasks that recur"`
	Crons        []string     `json:"crons" doc:"cron expressions of recurring tasks, used in turn"`
	Zones        []string     `json:"zones" doc:"time zones of recurring tasks, used in turn"`
	Times        int          `json:"times" doc:"occurrences of a recurring task"`
	Work         sut.Duration `json:"work" doc:"how long a task runs, in real time"`
	Long         float64      `json:"long" doc:"share of tasks that run for long_work"`
	LongWork     sut.Duration `json:"long_work" doc:"how long those run, in real time"`
	Cancel       float64      `json:"cancel" doc:"share of tasks that are cancelled"`
	Pause        float64      `json:"pause" doc:"share of tasks that are paused and resumed"`
	Poison       float64      `json:"poison" doc:"share of tasks that fail until they are run again"`
	Awaits       float64      `json:"awaits" doc:"share of tasks whose start a client waits for"`
	AwaitFor     sut.Duration `json:"await_for" doc:"longest such wait, in real time"`
	Reads        float64      `json:"reads" doc:"share of tasks that are read and listed"`
	Resend       float64      `json:"resend" doc:"share of tasks and changes that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost  int          `json:"retry_on_lost" doc:"how often a request of unknown outcome is sent again"`
	Granularity  sut.Duration `json:"granularity" doc:"due times are rounded down to multiples of this business time"`
	SLA          sut.Duration `json:"sla" doc:"business time within which a task starts after it was due"`
	LateAllowed  sut.Duration `json:"late_allowed" doc:"extra business time that a start may be late where only designs are compared"`
	LookAhead    sut.Duration `json:"look_ahead" doc:"business time by which pickers look ahead"`
	Recurrence   string       `json:"recurrence" doc:"how the next occurrence is made: reset (the end updates the row) or insert (the pick inserts a row)"`
	PollEvery    sut.Duration `json:"poll_every" doc:"pause of a picker or executor that found nothing"`
	PickBatch    int          `json:"pick_batch" doc:"most tasks of one pick"`
	Executors    int          `json:"executors" doc:"tasks that an executor process runs at a time"`
	HandAgain    sut.Duration `json:"hand_again" doc:"time after which a task passed on through Redis or Kafka but not started is sent again"`
	Lease        sut.Duration `json:"lease" doc:"how long an executor keeps a started task without renewing its lease"`
	RescueEvery  sut.Duration `json:"rescue_every" doc:"pause between two checks for expired leases"`
	RescueWithin sut.Duration `json:"rescue_within" doc:"time within which a task is reclaimed after its lease expired"`
	MaxAttempts  int          `json:"max_attempts" doc:"starts after which an occurrence fails if its executors keep dying"`
	StarveWithin sut.Duration `json:"starve_within" doc:"longest allowed wait of a task in any queue to start, in real time"`
	ClockSkew    sut.Duration `json:"clock_skew" doc:"by how much the clocks of roles are ahead of the database's"`
	Retention    sut.Duration `json:"retention" doc:"how long finished tasks are kept, in real time"`

	Token     string       `json:"token" doc:"token that API requests must carry; empty for none" secret:"true"`
	Predict   sut.Duration `json:"predict" doc:"business time by which the orchestrator looks ahead"`
	Provision sut.Duration `json:"provision" doc:"business time to start another executor"`
	FleetStep int          `json:"fleet_step" doc:"executors added in one step, where they are scaled"`
	MaxFleet  int          `json:"max_fleet" doc:"most executors, where they are scaled; executors is the minimum"`
}
