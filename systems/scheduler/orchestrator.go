package scheduler

import (
	"context"
	"fmt"
	"math"
	"time"

	"stampede/harness/sut"
)

const (
	// headroom is how many times as many executors are wanted as the work needs.
	headroom = 1.25
	// calmAfter is the business time without need after which executors go.
	calmAfter = 5 * time.Minute
	// orchestratorLooks is how often the orchestrator looks, in business time.
	orchestratorLooks = 15 * time.Second
	// rushWithin is the share of the SLA within which a rush is to have started.
	rushWithin = 0.5
)

// orchestratorRole is the role that scales executors. They are the slots of an
// executor's process: one that is wanted comes up Params.Provision later, one that
// is not wanted any more ends at once.
func orchestratorRole(of opener) role {
	return role{
		Name: "orchestrator", Single: true,
		Summary: "scales executors by the due tasks and, if it predicts, by those due soon",
		Do: func(ctx context.Context, st *opened) error {
			o := orchestrator{}
			return stepping(of, "orchestrator", func(
				ctx context.Context, t *tasks,
			) (time.Duration, error) {
				return t.Params.clock(sut.Duration(orchestratorLooks)), o.step(ctx, t)
			})(ctx, st)
		},
	}
}

// latestIndex is for designs that look at how long the latest runs took.
const latestIndex = `
CREATE INDEX runs_latest ON runs (id);`

// orchestrator remembers since when so many executors were not needed.
type orchestrator struct{ calm time.Time }

// step looks once and says how many executors are wanted if that has changed.
func (o *orchestrator) step(ctx context.Context, t *tasks) error {
	now, err := t.fleetWanted(ctx)
	if err != nil {
		return err
	}
	rush, work, err := t.demand(ctx)
	if err != nil {
		return err
	}
	wanted := o.decide(time.Now(), t.Params, now, t.Params.needed(rush, work))
	if wanted == now {
		return nil
	}
	_, err = t.DB.Exec(ctx, `INSERT INTO fleet (executors, reason, at)
		VALUES ($1, $2, clock_timestamp())`, wanted,
		fmt.Sprintf("%d tasks at once, of %.0f ms each", rush, 1000*work))
	return err
}

// decide is how many executors there should be at a moment where there are so many and
// so many are needed: at once as many as suffice, and half as many once fewer have
// sufficed for a while, 30, 15, 10, but never fewer than suffice.
func (o *orchestrator) decide(at time.Time, p Params, now, need int) (wanted int) {
	enough := p.fleetFor(need)
	if enough >= now || o.calm.IsZero() {
		o.calm = at
	}
	switch {
	case need > now:
		wanted = enough
	case at.Sub(o.calm) >= p.clock(sut.Duration(calmAfter)):
		wanted = min(now, max(enough, now/2))
	default:
		return now
	}
	if wanted != now {
		o.calm = at // the next step down comes as much later
	}
	return wanted
}

// fleetFor is the size that suffices for what is needed: the least, and as many steps
// as it takes, but not more than the most.
func (p Params) fleetFor(need int) int {
	steps := (max(0, need-p.Executors) + p.FleetStep - 1) / p.FleetStep
	return min(p.Executors+steps*p.FleetStep, p.MaxFleet)
}

// needed is how many executors so many tasks need that are due at once and work for so
// many seconds each, to have all started within half the SLA.
func (p Params) needed(rush int64, work float64) int {
	within := rushWithin * p.clock(p.SLA).Seconds()
	return int(math.Ceil(headroom * float64(rush) * work / within))
}

// demandSQL counts the tasks of the worst minute of business time, of $2 microseconds,
// among those that are due within $1 microseconds or were and have not started, and
// averages how long the latest runs took, or else $3.
const demandSQL = `WITH due AS (
    SELECT greatest(scheduled_at, statement_timestamp()) AS at FROM tasks
    WHERE state IN ('waiting', 'picked') AND NOT paused
        AND scheduled_at <= statement_timestamp() + $1 * interval '1 microsecond'
), minute AS (
    SELECT count(*) AS n FROM due, calendar
    GROUP BY date_bin($2 * interval '1 microsecond', at, begins_at)
), done AS (
    SELECT extract(epoch FROM ended_at - started_at) AS seconds FROM runs
    WHERE outcome = 'done' ORDER BY id DESC LIMIT 200
)
SELECT coalesce((SELECT max(n) FROM minute), 0), coalesce((SELECT avg(seconds) FROM done), $3)`

// demand reads how many tasks are due in the worst minute that is looked at, and for
// how many seconds each works.
func (t *tasks) demand(ctx context.Context) (rush int64, work float64, err error) {
	minute := max(1, t.Params.clock(sut.Duration(time.Minute)).Microseconds())
	err = t.DB.Row(ctx, demandSQL, []any{t.ahead(t.Params).Microseconds(), minute,
		t.Params.Work.D().Seconds()}, &rush, &work)
	if err != nil {
		return 0, 0, fmt.Errorf("counting what is due: %w", err)
	}
	return rush, work, nil
}

// fleetWanted reads how many executors are wanted.
func (t *tasks) fleetWanted(ctx context.Context) (n int, err error) {
	err = t.DB.Row(ctx, `SELECT coalesce((SELECT executors FROM fleet ORDER BY id DESC LIMIT 1), $1)`,
		[]any{t.Params.Executors}, &n)
	if err != nil {
		return 0, fmt.Errorf("reading how many executors are wanted: %w", err)
	}
	return n, nil
}

// slots is how many executors are up.
func (t *tasks) slots(ctx context.Context) (n int, err error) {
	if t.fleet == nil {
		return t.Params.Executors, nil
	}
	return t.fleet(t, ctx)
}

// fleetUp is as many as have been wanted all the time that one takes to come up.
func (t *tasks) fleetUp(ctx context.Context) (n int, err error) {
	err = t.DB.Row(ctx, `SELECT least(
			(SELECT min(executors) FROM fleet WHERE at > statement_timestamp() - $2 * interval '1 us'),
			coalesce((SELECT executors FROM fleet
				WHERE at <= statement_timestamp() - $2 * interval '1 us' ORDER BY id DESC LIMIT 1), $1))`,
		[]any{t.Params.Executors, t.Params.clock(t.Params.Provision).Microseconds()}, &n)
	if err != nil {
		return 0, fmt.Errorf("reading how many executors are up: %w", err)
	}
	return n, nil
}
