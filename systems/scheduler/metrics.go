package scheduler

import (
	"context"
	"fmt"
	"io"
	"time"
)

// metricsTimeout bounds what a scrape asks of Postgres.
const metricsTimeout = 2 * time.Second

// totals are counts and sums over all runs; times are seconds.
type totals struct {
	picked, ended, misfires int64
	wait, completion        float64
}

// writeMetrics appends what operations of a scheduler watch, in the OpenMetrics
// text format; nothing if Postgres does not answer.
func (t *tasks) writeMetrics(w io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	look, err := t.watch(ctx)
	if err != nil {
		return
	}
	var all totals
	err = t.db.Row(ctx, `SELECT count(*), count(ended_at),
			count(*) FILTER (WHERE started_at - due > $1 * interval '1 us'),
			coalesce(sum(extract(epoch FROM started_at - due)), 0)::float8,
			coalesce(sum(extract(epoch FROM ended_at - started_at)), 0)::float8 FROM runs`,
		[]any{t.params.clock(t.params.SLA).Microseconds()},
		&all.picked, &all.ended, &all.misfires, &all.wait, &all.completion)
	if err != nil {
		return
	}
	for _, m := range []struct {
		name, kind string
		value      any
	}{
		{"scheduler_pulled", "counter", all.picked},
		{"scheduler_misfires", "counter", all.misfires},
		{"scheduler_ended", "counter", all.ended},
		{"scheduler_wait_seconds", "counter", all.wait},
		{"scheduler_completion_seconds", "counter", all.completion},
		{"scheduler_queue_depth", "gauge", look.Due},
		{"scheduler_running", "gauge", look.Running},
		{"scheduler_picker_lag_seconds", "gauge", float64(look.PickerLagUS) / 1e6},
		{"scheduler_executors", "gauge", look.Executors},
	} {
		suffix := ""
		if m.kind == "counter" {
			suffix = "_total"
		}
		// Whoever scrapes and goes away misses the rest.
		_, _ = fmt.Fprintf(w, "# TYPE %s %s\n%s%s %v\n", m.name, m.kind, m.name, suffix, m.value)
	}
}
