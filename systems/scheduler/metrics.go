package scheduler

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
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
	for _, m := range []struct {
		name, kind string
		value      any
	}{
		{"scheduler_pulled", "counter", all.picked},
		{"scheduler_started", "counter", all.starts},
		{"scheduler_misfires", "counter", all.misfires},
		{"scheduler_ended", "counter", all.ends},
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
	writeHistogram(w, "scheduler_due_to_start_seconds", all.waits, all.wait)
	writeHistogram(w, "scheduler_pick_to_start_seconds", all.picks, all.picking)
}

// writeHistogram appends a histogram of times to start, in the buckets of startBounds.
func writeHistogram(w io.Writer, name string, buckets []int64, sum float64) {
	// As above.
	_, _ = fmt.Fprintf(w, "# TYPE %[1]s histogram\n# UNIT %[1]s seconds\n", name)
	below, bounds := int64(0), startBounds()
	for i, n := range buckets {
		below += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'f', -1, 64)
			if !strings.Contains(le, ".") {
				le += ".0" // OpenMetrics writes bounds as floats
			}
		}
		_, _ = fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", name, le, below)
	}
	_, _ = fmt.Fprintf(w, "%s_sum %v\n%s_count %d\n", name, sum, name, below)
}
