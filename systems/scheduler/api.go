package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sut"
)

// listLimit is how many tasks a list has at most.
const listLimit = 20

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Scheduler] {
	return &api.Table[Scheduler]{
		System: "scheduler", Title: "Scheduler",
		About: "The API of a task scheduler. stampede serves its own designs over it, and judges any " +
			"server\nthat implements it.\n\nTimes of tasks are business time. It begins at the " +
			"reset's day with the run's first POST\n/v1/tasks, and runs time_scale times as fast as " +
			"the clock. The at of a task is rounded down to\ngranularity_ms.\n\nA server with a token " +
			"requires it in every request except those for health and metrics, as\n" +
			"\"Authorization: Bearer <token>\".\n\n" +
			"Times of the audit (_us) are Unix microseconds of one clock: what happened later has no " +
			"earlier time.",
		Kinds: []api.Kind[Scheduler]{
			api.Op(KindAwait, "GET /v1/tasks/{id}/start", await, api.About{ID: "awaitStart",
				Summary: "Wait until the first occurrence of a task has started.",
				Reply:   "The first occurrence has started."}),
			api.Op(KindSchedule, "POST /v1/tasks", schedule, api.About{Summary: "Schedule a task.",
				Detail: "The client chooses the id. A repeated request with the same id gets the task that " +
					"the first\none made.",
				Reply: "The task is stored.", Status: http.StatusCreated}),
			change(KindCancel, "Cancel a task. A running one becomes stopping."),
			change(KindPause, "Keep a task from starting."),
			change(KindResume, "Let a paused task start again."),
			change(KindRerun, "Run a failed task again."),
			api.Op(KindTask, "GET /v1/tasks/{id}", task, api.About{
				Summary: "Read a task with its runs.", Reply: "The task."}),
			api.Op(KindTasks, "GET /v1/tasks", tasksOf, api.About{ID: "list",
				Summary: "List the newest tasks of a queue.",
				Reply:   "At most 20 tasks, the newest first, without their runs."}),
		},
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrUnknownTask},
			{Status: http.StatusConflict, Is: ErrConflict}, {Status: http.StatusConflict, Is: ErrState},
			{Status: http.StatusConflict, Is: ErrOpTaken},
			{Status: http.StatusGatewayTimeout, Is: ErrNotStarted}},
		MaxBody: 1 << 16,
		Reset:   ResetRequest{}, ResetMeans: "Begin without tasks.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			if err != nil {
				return nil, err
			}
			day, err := time.Parse(time.RFC3339, p.Day)
			return ResetRequest{Day: day.UTC(), TimeScale: p.TimeScale,
				GranularityMS: p.Granularity.D().Milliseconds()}, err
		},
		PendingMeans: "Optional. It counts running tasks, and waiting or picked ones that are not " +
			"paused; of those\nthat recur without end only due ones. Without it the audit says.",
		Left: api.LeftIn(func(a *Audit) (int64, string) {
			waiting, running := a.left()
			return waiting + running, stillToRun(waiting, running)
		}),
		Audit: Audit{},
		Types: map[reflect.Type]map[string]any{
			reflect.TypeFor[Micros](): {"type": "integer", "minimum": 0}},
		Token: func(params any) string {
			p, _ := sut.ParamsOf[Params](params) // Begin has read them
			return p.Token
		},
		Metrics: func(inst sut.Instance) func(io.Writer) {
			if own, is := design.Opened[Scheduler](inst); is {
				return own.(*instance).writeMetrics
			}
			return nil
		},
	}
}

// ResetRequest asks for a scheduler without tasks, whose day begins with the first request.
type ResetRequest struct {
	Day           time.Time `json:"day" doc:"the business time at which it begins"`
	TimeScale     float64   `json:"time_scale" min:"1" doc:"seconds of business time per second of the clock"`
	GranularityMS int64     `json:"granularity_ms" min:"1" doc:"of business time; the at of a task is rounded down to multiples of it since 1970"`
}

// Micros is a duration that JSON has in microseconds.
type Micros time.Duration

// MarshalJSON writes microseconds.
func (m Micros) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Microseconds(), 10), nil
}

// UnmarshalJSON reads microseconds.
func (m *Micros) UnmarshalJSON(text []byte) error {
	var n int64
	err := json.Unmarshal(text, &n)
	*m = Micros(time.Duration(n) * time.Microsecond)
	return err
}

// The requests and replies that are not those of Scheduler.

type (
	// ScheduledReply says until when a task's first occurrence waits.
	ScheduledReply struct {
		ID    uint64 `json:"id" op:"key" echo:"id" min:"1" max:"18446744073709551615"`
		DueIn Micros `json:"due_in_us" op:"value" doc:"how long it is, on the clock, until the first occurrence is due; 0 if it is"`
	}
	// ChangeRequest changes a task.
	ChangeRequest struct {
		ID   uint64 `json:"op_id" op:"id" min:"1" max:"18446744073709551615" doc:"the change's identity, the same in every attempt"`
		Task string `json:"-" path:"id" op:"key"`
	}
	// StateReply is the state that a task has afterwards.
	StateReply struct {
		State State `json:"state" op:"key" enum:"waiting,picked,running,done,failed,cancelled,stopping,paused"`
	}
	// TaskRequest is about a task.
	TaskRequest struct {
		Task string `json:"-" path:"id" op:"key"`
	}
	// QueueRequest is about a queue.
	QueueRequest struct {
		Queue string `json:"-" query:"queue" op:"key"`
	}
	// StartReply says how late a task has started.
	StartReply struct {
		Late Micros `json:"late_us" op:"value" doc:"from when it was due to its start, as in the audit"`
	}
)

func schedule(s Scheduler, ctx context.Context, req Request) (ScheduledReply, error) {
	scheduled, err := s.Schedule(ctx, req)
	return ScheduledReply{req.ID, Micros(scheduled.DueIn)}, err
}

// change makes the kind of a change.
func change(what, summary string) api.Kind[Scheduler] {
	do := func(s Scheduler, ctx context.Context, req ChangeRequest) (StateReply, error) {
		id, err := taskOf(req.Task)
		if err != nil {
			return StateReply{}, err
		}
		state, err := s.Change(ctx, Change{ID: req.ID, Task: id, What: what})
		return StateReply{state}, err
	}
	return api.Op(what, "POST /v1/tasks/{id}/"+what, do, api.About{Summary: summary,
		Reply: "The state that the task has afterwards."})
}

func task(s Scheduler, ctx context.Context, req TaskRequest) (Task, error) {
	id, err := taskOf(req.Task)
	if err != nil {
		return Task{}, err
	}
	return s.Task(ctx, id)
}

func tasksOf(s Scheduler, ctx context.Context, req QueueRequest) ([]Task, error) {
	return s.Tasks(ctx, req.Queue, listLimit)
}

func await(s Scheduler, ctx context.Context, req TaskRequest) (StartReply, error) {
	id, err := taskOf(req.Task)
	if err != nil {
		return StartReply{}, err
	}
	late, err := s.Await(ctx, id)
	return StartReply{Micros(late)}, err
}

// taskName is a task's number as operations have it.
func taskName(id uint64) string { return strconv.FormatUint(id, 10) }

func taskOf(name string) (uint64, error) {
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q: %w", name, ErrUnknownTask)
	}
	return id, nil
}
