package scheduler

import (
	"context"
	"fmt"
	"io"
	"time"
)

// metricsTimeout bounds what a scrape asks of Postgres.
const metricsTimeout = 2 * time.Second

// writeMetrics appends what operations of a scheduler watch, in the OpenMetrics
// text format; nothing if Postgres does not answer.
func (t *tasks) writeMetrics(w io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	look, err := t.watch(ctx)
	if err != nil {
		return
	}
	all, err := t.counted(ctx)
	if err != nil {
		return
	}
	// Whoever scrapes and goes away misses the rest.
	for _, name := range []string{"pulled", "started", "misfires", "ended", "completion_seconds"} {
		_, _ = fmt.Fprintf(w, "# TYPE scheduler_%[1]s counter\nscheduler_%[1]s_total %[2]v\n", name,
			all[name])
	}
	for _, m := range []struct {
		name  string
		value any
	}{
		{"queue_depth", look.Due}, {"running", look.Running},
		{"picker_lag_seconds", float64(look.PickerLagUS) / 1e6}, {"executors", look.Executors},
	} {
		_, _ = fmt.Fprintf(w, "# TYPE scheduler_%[1]s gauge\nscheduler_%[1]s %[2]v\n", m.name, m.value)
	}
	for _, name := range []string{"due_to_start", "pick_to_start"} {
		metric, below := "scheduler_"+name+"_seconds", 0.0
		_, _ = fmt.Fprintf(w, "# TYPE %[1]s histogram\n# UNIT %[1]s seconds\n", metric)
		for _, bound := range startBounds() {
			below += all[name+" "+le(bound)]
			_, _ = fmt.Fprintf(w, "%s_bucket{le=%q} %v\n", metric, le(bound), below)
		}
		_, _ = fmt.Fprintf(w, "%[1]s_sum %[2]v\n%[1]s_count %[3]v\n", metric, all[name], below)
	}
}
