package scheduler

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// Audit is the final truth. All times are Unix microseconds of the database's
// clock, 0 for those that there are not.
type Audit struct {
	// Tasks are all rows, Runs all starts, in the order in which they began.
	Tasks         []TaskAudit   `json:"tasks" doc:"a row for each task, which stands for its current occurrence, or one for each occurrence"`
	Runs          []RunAudit    `json:"runs" doc:"every start of an occurrence, in the order of the starts"`
	Effects       []EffectAudit `json:"effects" doc:"what runs did to the world outside: one for each complete occurrence, and at most one for any other"`
	Changes       []ChangeAudit `json:"changes" doc:"the changes that were made, each once, however often it was sent; none that was refused"`
	Fleet         []FleetAudit  `json:"fleet,omitempty"`
	Scales        bool          `json:"scales,omitempty" doc:"whether an orchestrator scales the executors; fleet has the numbers that it wanted"`
	Now           int64         `json:"now_us" doc:"when a run last started or ended; 0 if none has"`
	Begins        int64         `json:"begins_us" doc:"when business time began; 0 if it has not"`
	StartSlackUS  int64         `json:"start_slack_us" min:"0" doc:"how much later than the SLA the server may start a task, 20 s at most"`
	RescueSlackUS int64         `json:"rescue_slack_us" min:"0" doc:"how much later than rescue_within the server may notice an expired lease, a minute at most"`
}

// TaskAudit is one row of the table tasks.
type TaskAudit struct {
	Task       uint64 `json:"task" min:"1"`
	Occurrence int64  `json:"occurrence" min:"1"`
	Origin     bool   `json:"origin" doc:"whether the request made the row; false for one of a later occurrence"`
	Queue      string `json:"queue"`
	Client     string `json:"client"`
	Name       string `json:"name" doc:"the request's task"`
	WorkMS     int64  `json:"work_ms"`
	Fails      bool   `json:"fails,omitempty" doc:"whether its runs fail: as requested, until a user runs it again"`
	Cron       string `json:"cron,omitempty"`
	Zone       string `json:"zone,omitempty"`
	Times      int64  `json:"times,omitempty"`
	FirstUS    int64  `json:"first_us" doc:"when occurrence 1 is due"`
	CreatedUS  int64  `json:"created_us" doc:"when the row was made"`
	DueUS      int64  `json:"due_us" doc:"when the occurrence is due that the row stands for"`
	State      State  `json:"state" enum:"waiting,picked,running,done,failed,cancelled"`
	Paused     bool   `json:"paused,omitempty"`
	Stops      bool   `json:"stops,omitempty" doc:"whether it was cancelled while it ran"`
	Fence      int64  `json:"fence" doc:"the highest token that a run of the row has had"`
	LeaseUS    int64  `json:"lease_us,omitempty" doc:"when the lease of a running task ends"`
}

// RunAudit is one row of the table runs.
type RunAudit struct {
	Task       uint64 `json:"task" min:"1"`
	Occurrence int64  `json:"occurrence" min:"1"`
	Fence      int64  `json:"fence"`
	Queue      string `json:"queue"`
	DueUS      int64  `json:"due_us" min:"1" doc:"when the occurrence was due"`
	PickedUS   int64  `json:"picked_us" doc:"after the row was created and no later than the start; 0 if nobody picks"`
	StartedUS  int64  `json:"started_us" min:"1"`
	EndedUS    int64  `json:"ended_us,omitempty" doc:"when it got its outcome"`
	LeaseUS    int64  `json:"lease_us,omitempty" doc:"of a lost run: when its lease ended"`
	TurnedUS   int64  `json:"turned_us,omitempty" doc:"of a run whose task was reclaimed: when it tried to end it, and was rejected"`
	LetGoUS    int64  `json:"let_go_us,omitempty" doc:"of a run whose task was reclaimed: when its executor was refused another lease, and dropped it"`
	Outcome    State  `json:"outcome,omitempty" enum:"done,failed,cancelled,lost,fenced" doc:"done, failed and cancelled if it ended its task; lost if the task was reclaimed from it or given back; fenced if it came to its end without the task, before it was noted as lost. Left out, like ended_us, while it runs"`
	Executor   string `json:"executor,omitempty" doc:"the name of the executor that claimed the task. All tasks of one claim have the same name, and executors that claim independently have different names. Without names nothing shows that executors competed, and one-effect and fenced-runs are not exercised"`
}

// EffectAudit is one row of the table effects.
type EffectAudit struct {
	Task       uint64 `json:"task"`
	Occurrence int64  `json:"occurrence"`
	Fence      int64  `json:"fence"`
	AtUS       int64  `json:"at_us"`
}

// ChangeAudit is one row of the table changes.
type ChangeAudit struct {
	Op      uint64 `json:"op" doc:"its op_id"`
	Task    uint64 `json:"task"`
	What    string `json:"what" doc:"cancel, pause, resume or rerun"`
	Outcome State  `json:"outcome" doc:"the state in the answer"`
	AtUS    int64  `json:"at_us"`
}

// FleetAudit is one row of the table fleet.
type FleetAudit struct {
	Executors int64 `json:"executors" doc:"how many an orchestrator wants from at_us on"`
	AtUS      int64 `json:"at_us"`
}

// left counts the tasks that have still to run, as instance.left does: all that wait but
// those that are paused, and but those without an end whose next occurrence was not due when
// something last ran.
func (a *Audit) left() (waiting, running int64) {
	for i := range a.Tasks {
		switch t := &a.Tasks[i]; t.State {
		case Running:
			running++
		case Waiting, Picked:
			if !t.Paused && (t.Cron == "" || t.Times > 0 || t.DueUS <= a.Now) {
				waiting++
			}
		}
	}
	return waiting, running
}

// us reads a column of times as Unix microseconds, 0 for none.
func us(column string) string {
	return `coalesce((extract(epoch FROM ` + column + `) * 1000000)::bigint, 0)`
}

func (t *tasks) audit(ctx context.Context) (a Audit, err error) {
	a = Audit{Scales: t.fleet != nil, StartSlackUS: t.startSlack.Microseconds(),
		RescueSlackUS: t.rescueSlack.Microseconds()}
	err = t.DB.Snapshot(ctx, a.read)
	return a, err
}

func (a *Audit) read(ctx context.Context, tx pgx.Tx) (err error) {
	err = tx.QueryRow(ctx, `SELECT `+us("greatest(max(ended_at), max(started_at))")+`,
		(SELECT coalesce(max(`+us("begins_at")+`), 0) FROM calendar) FROM runs`).Scan(&a.Now, &a.Begins)
	if err != nil {
		return err
	}
	return errors.Join(
		stores.CollectInto(ctx, tx, &a.Tasks, `SELECT series, occurrence, born = 1, queue, client, task, work_ms,
			fails AND reruns = 0, schedule, zone, times, `+us("first_at")+`, `+us("created_at")+`, `+
			us("scheduled_at")+`, state, paused, stops, fence, `+us("lease_until")+`
			FROM tasks ORDER BY series, occurrence, id`),
		stores.CollectInto(ctx, tx, &a.Runs, `SELECT series, occurrence, fence, queue, `+us("due")+`, `+
			us("picked_at")+`, `+us("started_at")+`, `+us("ended_at")+`, `+us("lease_until")+`, `+
			us("turned_at")+`, `+us("let_go_at")+`, outcome, executor FROM runs ORDER BY id`),
		stores.CollectInto(ctx, tx, &a.Effects, `SELECT series, occurrence, fence, `+us("at")+`
			FROM effects ORDER BY at, series, occurrence`),
		stores.CollectInto(ctx, tx, &a.Changes, `SELECT op_id, series, what, outcome, `+us("at")+`
			FROM changes ORDER BY at, op_id`),
		stores.CollectInto(ctx, tx, &a.Fleet, `SELECT executors, `+us("at")+` FROM fleet ORDER BY id`))
}
