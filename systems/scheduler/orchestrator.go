package scheduler

import (
	"context"
	"fmt"
	"math"
	"time"

	"stampede/harness/sut"
)

// The values of design.scaling.
const (
	// reactive: by the tasks that are due and have not started.
	reactive = "reactive"
	// predictive: by those that will be due within Params.Predict as well.
	predictive = "predictive"
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
func (d design) orchestratorRole() sut.Role {
	return sut.Role{
		Name: "orchestrator", Single: true,
		Summary: "scales executors by what is due, and if it predicts, by what will be",
		Run: func(ctx context.Context, cfg sut.Config) error {
			cfg.MaxConns = pickerConns
			o := orchestrator{}
			return d.run(ctx, cfg, "orchestrator",
				func(ctx context.Context, b *backend) (time.Duration, error) {
					return b.params.clock(sut.Duration(orchestratorLooks)), o.step(ctx, b)
				}, func() {})
		},
	}
}

// latestIndex is for designs that look at how long the latest runs took.
const latestIndex = `
CREATE INDEX runs_latest ON runs (id);`

// orchestrator remembers since when there was no need.
type orchestrator struct{ calm time.Time }

// step looks once and says how many executors are wanted if that has changed.
func (o *orchestrator) step(ctx context.Context, b *backend) error {
	now, err := b.fleet(ctx)
	if err != nil {
		return err
	}
	need, why, err := b.need(ctx)
	if err != nil {
		return err
	}
	if need >= now || o.calm.IsZero() {
		o.calm = time.Now()
	}
	calm := time.Since(o.calm) >= b.params.clock(sut.Duration(calmAfter))
	wanted := wantedExecutors(now, need, b.params.Executors, b.params.MaxFleet, calm)
	if wanted == now {
		return nil
	}
	o.calm = time.Now() // the next step down comes as much later
	_, err = b.db.Exec(ctx, `INSERT INTO fleet (executors, reason, at)
		VALUES ($1, $2, clock_timestamp())`, wanted, why)
	return err
}

// wantedExecutors is how many executors there should be: as many as are needed at
// once, and half as many once it has been calm, 30, 15, 10, but never fewer than
// the least and more than the most.
func wantedExecutors(now, need, least, most int, calm bool) int {
	wanted := now
	switch {
	case need > now:
		wanted = need
	case calm:
		wanted = max(need, now/2)
	}
	return min(max(wanted, least), most)
}

// need is how many executors the work needs: those tasks that are due and have not
// started, and those of the worst minute of the look-ahead, are to start within
// half the SLA.
func (b *backend) need(ctx context.Context) (n int, why string, err error) {
	ahead := time.Duration(0)
	if b.design.scaling == predictive {
		ahead = b.params.clock(b.params.Predict)
	}
	var rush int64
	var work float64
	err = b.db.Row(ctx, `WITH due AS (
			SELECT greatest(scheduled_at, statement_timestamp()) AS at FROM tasks
			WHERE state IN ('waiting', 'picked') AND NOT paused
				AND scheduled_at <= statement_timestamp() + $1 * interval '1 microsecond'
		), done AS (
			SELECT extract(epoch FROM ended_at - started_at) AS seconds FROM runs
			WHERE outcome = 'done' ORDER BY id DESC LIMIT 200
		)
		SELECT coalesce((SELECT max(n) FROM (SELECT count(*) AS n FROM due GROUP BY at) AS m), 0),
			coalesce((SELECT avg(seconds) FROM done), $2)`,
		[]any{ahead.Microseconds(), b.params.Work.D().Seconds()}, &rush, &work)
	if err != nil {
		return 0, "", fmt.Errorf("counting what is due: %w", err)
	}
	within := rushWithin * b.params.clock(b.params.SLA).Seconds()
	n = int(math.Ceil(headroom * float64(rush) * work / within))
	return n, fmt.Sprintf("%d tasks at once, of %.0f ms each", rush, 1000*work), nil
}

// fleet reads how many executors are wanted.
func (t *tasks) fleet(ctx context.Context) (n int, err error) {
	err = t.db.Row(ctx, `SELECT coalesce((SELECT executors FROM fleet ORDER BY id DESC LIMIT 1), $1)`,
		[]any{t.params.Executors}, &n)
	if err != nil {
		return 0, fmt.Errorf("reading how many executors are wanted: %w", err)
	}
	return n, nil
}

// slots is how many executors are up: as many as have been wanted all the time that
// one takes to come up.
func (t *tasks) slots(ctx context.Context) (n int, err error) {
	if t.design.scaling == "" {
		return t.params.Executors, nil
	}
	err = t.db.Row(ctx, `SELECT least(
			(SELECT min(executors) FROM fleet WHERE at > statement_timestamp() - $2 * interval '1 us'),
			coalesce((SELECT executors FROM fleet
				WHERE at <= statement_timestamp() - $2 * interval '1 us' ORDER BY id DESC LIMIT 1), $1))`,
		[]any{t.params.Executors, t.params.clock(t.params.Provision).Microseconds()}, &n)
	if err != nil {
		return 0, fmt.Errorf("reading how many executors are up: %w", err)
	}
	return n, nil
}
