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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// Op.Body has the rest; see Request. Op.ID is the idempotency key and
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

// Request asks for a task. A repeated request has the same ID.
type Request struct {
	ID     uint64 `json:"id" op:"id" min:"1" max:"18446744073709551615" doc:"the name of the task, which the client chooses"`
	Queue  string `json:"queue" op:"key" min:"1" max:"256"`
	Client string `json:"client" op:"client" min:"1" max:"256"`
	Spec
	// At is business time. It is cut down to the minute (Params.Granularity).
	At time.Time `json:"at" op:"arg" doc:"business time: when the task is due or, with cron, the time after which it is due first"`
	// Tries is how often it has been sent before, which only the workload knows.
	Tries int `json:"-"`
}

// Spec is what a task is.
type Spec struct {
	Task   string `json:"task" min:"1" max:"256"`
	WorkMS int64  `json:"work_ms" min:"0" max:"1209600000" doc:"how long the task runs, in clock time"`
	Fails  bool   `json:"fails,omitempty" doc:"the task fails until a user runs it again"`
	Cron   string `json:"cron,omitempty" example:"0 9 * * 1-5" doc:"five fields of *, numbers, names such as MON, and ranges, lists and steps of them; left out if the task runs once. A range that runs backwards is refused. If both day of month and day of week are given (neither is *), either one is enough. The README has the other rules"`
	Zone   string `json:"zone,omitempty" example:"Europe/Berlin" doc:"its time zone, such as Europe/Berlin; UTC if left out"`
	Times  int64  `json:"times,omitempty" min:"0" doc:"number of occurrences of a task with cron; 0 means without end"`
}

// Check refuses times that can never be.
func (r *Request) Check() error {
	if r.At.IsZero() {
		return errors.New("at: expected a time")
	}
	if r.Cron == "" {
		return nil
	}
	if _, err := parseCron(r.Cron, r.Zone); err != nil {
		return fmt.Errorf("cron: %w", err)
	}
	return nil
}

// AppendBinary appends what a history keeps of a request in the body: the number of tries and
// the Spec as JSON.
func (r *Request) AppendBinary(body []byte) ([]byte, error) {
	spec, err := json.Marshal(r.Spec)
	return append(append(body, byte(r.Tries)), spec...), err
}

// UnmarshalBinary reads what AppendBinary writes.
func (r *Request) UnmarshalBinary(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("operation %d has no body", r.ID)
	}
	r.Tries = int(body[0])
	dec := json.NewDecoder(bytes.NewReader(body[1:]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r.Spec); err != nil {
		return fmt.Errorf("the body of operation %d is no task: %w", r.ID, err)
	}
	return nil
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
	ID     uint64 `json:"id" min:"1" max:"18446744073709551615"`
	Queue  string `json:"queue"`
	Client string `json:"client"`
	Spec
	Occurrence int64     `json:"occurrence" min:"1"`
	Due        time.Time `json:"due" doc:"business time"`
	State      State     `json:"state" op:"key" enum:"waiting,picked,running,done,failed,cancelled,stopping,paused" doc:"a paused task has the state in which it was paused"`
	Paused     bool      `json:"paused"`
	Runs       []Run     `json:"runs,omitempty" op:"value" doc:"its starts, the first one first; left out in lists"`
}

// Run is one start of an occurrence. Its times are of the database's clock.
type Run struct {
	Occurrence int64     `json:"occurrence"`
	Fence      int64     `json:"fence"`
	Due        time.Time `json:"due" doc:"business time"`
	Started    time.Time `json:"started" doc:"clock time"`
	Ended      time.Time `json:"ended,omitzero" doc:"clock time"`
	Outcome    State     `json:"outcome,omitempty" doc:"as in the audit"`
}

// Params are the workload's and the scheduler's parameters. Those that are said
// to be business time are divided by TimeScale on the clock.
type Params struct {
	Day       string  `json:"day" doc:"business time of the first request, RFC 3339"`
	TimeScale float64 `json:"time_scale" min:"1" max:"1e5" doc:"seconds of business time per second of real time"`
	Rate      float64 `json:"rate" min:"1e-3" max:"1e6" doc:"scheduled operations per second of real time, as in the load"`

	Queues       int          `json:"queues" min:"1" max:"1000" doc:"number of queues"`
	NineAfter    sut.Duration `json:"nine_after" min:"0s" max:"336h" doc:"business time from the start to the moment at which tasks are aligned"`
	Aligned      float64      `json:"aligned" min:"0" max:"1" doc:"share of the tasks scheduled before that moment that are due at it"`
	Ahead        sut.Duration `json:"ahead" min:"0s" max:"336h" doc:"longest business time from a request to its task's due time"`
	Recurring    float64      `json:"recurring" min:"0" max:"1" doc:"share of tasks that recur"`
	Crons        []string     `json:"crons" doc:"cron expressions of recurring tasks, used in turn"`
	Zones        []string     `json:"zones" doc:"time zones of recurring tasks, used in turn"`
	Times        int          `json:"times" min:"1" max:"1000000" doc:"occurrences of a recurring task"`
	Work         sut.Duration `json:"work" min:"0s" max:"336h" doc:"how long a task runs, in real time"`
	Long         float64      `json:"long" min:"0" max:"1" doc:"share of tasks that run for long_work"`
	LongWork     sut.Duration `json:"long_work" min:"0s" max:"336h" doc:"how long those run, in real time"`
	Cancel       float64      `json:"cancel" min:"0" max:"1" doc:"share of tasks that are cancelled"`
	Pause        float64      `json:"pause" min:"0" max:"1" doc:"share of tasks that are paused and resumed"`
	Poison       float64      `json:"poison" min:"0" max:"1" doc:"share of tasks that fail until they are run again"`
	Awaits       float64      `json:"awaits" min:"0" max:"1" doc:"share of tasks whose start a client waits for"`
	AwaitFor     sut.Duration `json:"await_for" min:"1ms" max:"336h" doc:"longest such wait, in real time"`
	Reads        float64      `json:"reads" min:"0" max:"1" doc:"share of tasks that are read and listed"`
	Resend       float64      `json:"resend" min:"0" max:"1" doc:"share of tasks and changes that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost  int          `json:"retry_on_lost" min:"0" max:"15" doc:"how often a request of unknown outcome is sent again"`
	Granularity  sut.Duration `json:"granularity" min:"1s" max:"336h" doc:"due times are rounded down to multiples of this business time"`
	SLA          sut.Duration `json:"sla" min:"1ms" max:"336h" doc:"business time within which a task starts after it was due"`
	LateAllowed  sut.Duration `json:"late_allowed" min:"0s" max:"336h" doc:"extra business time that a start may be late where only designs are compared"`
	LookAhead    sut.Duration `json:"look_ahead" min:"0s" max:"336h" doc:"business time by which pickers look ahead"`
	Recurrence   string       `json:"recurrence" enum:"reset,insert" doc:"how the next occurrence is made: reset (the end updates the row) or insert (the pick inserts a row)"`
	PollEvery    sut.Duration `json:"poll_every" min:"1ms" max:"336h" doc:"pause of a picker or executor that found nothing"`
	PickBatch    int          `json:"pick_batch" min:"1" max:"10000" doc:"most tasks of one pick"`
	Executors    int          `json:"executors" min:"1" max:"1000" doc:"tasks that an executor process runs at a time"`
	HandAgain    sut.Duration `json:"hand_again" min:"10ms" max:"336h" doc:"time after which a task passed on through Redis or Kafka but not started is sent again"`
	Lease        sut.Duration `json:"lease" min:"10ms" max:"336h" doc:"how long an executor keeps a started task without renewing its lease"`
	RescueEvery  sut.Duration `json:"rescue_every" min:"1ms" max:"336h" doc:"pause between two checks for expired leases"`
	RescueWithin sut.Duration `json:"rescue_within" min:"1ms" max:"336h" doc:"time within which a task is reclaimed after its lease expired"`
	MaxAttempts  int          `json:"max_attempts" min:"1" max:"2147483647" doc:"starts after which an occurrence fails if its executors keep dying"`
	StarveWithin sut.Duration `json:"starve_within" min:"1ms" max:"336h" doc:"longest allowed wait of a task in any queue to start, in real time"`
	ClockSkew    sut.Duration `json:"clock_skew" min:"0s" max:"336h" doc:"by how much the clocks of roles are ahead of the database's"`
	Retention    sut.Duration `json:"retention" min:"1s" max:"336h" doc:"how long finished tasks are kept, in real time"`

	Token     string       `json:"token" doc:"token that API requests must carry; empty for none" secret:"true"`
	Predict   sut.Duration `json:"predict" min:"1s" max:"336h" doc:"business time by which the orchestrator looks ahead"`
	Provision sut.Duration `json:"provision" min:"0s" max:"336h" doc:"business time to start another executor"`
	FleetStep int          `json:"fleet_step" min:"1" max:"1000" doc:"executors added in one step, where they are scaled"`
	MaxFleet  int          `json:"max_fleet" min:"1" max:"1000" doc:"most executors, where they are scaled; executors is the minimum"`
}
