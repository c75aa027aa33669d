package scheduler

import (
	"context"
	"strings"
	"testing"
)

// startedEnded is what a process has counted.
const startedEnded = `SELECT concat(totals->'started', ' ', coalesce(totals->'ended', '0')) FROM counts`

// TestMetricsOutliveRuns: what was counted is summed over processes, and stays when
// retention deletes what it was counted from.
func TestMetricsOutliveRuns(t *testing.T) {
	b := newTable(t)
	for variant, picked := range map[string]string{"skip_locked": "3", "batch": "2"} {
		t.Run(variant, func(t *testing.T) {
			b.be(t, tableParams(), variant, "")
			for id := range uint64(2) {
				b.ask(t, 1+id, 0, Spec{Task: "report"})
			}
			ok(t, b.picksAll(t.Context()))
			list, err := b.claims(t.Context(), 1)
			ok(t, err, b.works(t.Context(), list[0]), b.note(t.Context()))
			first := b.tasks
			b.tasks = b.again()                  // another process
			b.ask(t, 3, 0, Spec{Task: "for it"}) // of which batch starts none
			ok(t, b.picksAll(t.Context()))
			list, err = b.claims(t.Context(), 1)
			ok(t, err, b.note(t.Context()), first.note(t.Context()))
			want := []string{"scheduler_pulled_total " + picked, "scheduler_started_total 2",
				"scheduler_ended_total 1", "scheduler_misfires_total 2",
				`scheduler_pick_to_start_seconds_bucket{le="+Inf"} 2`,
				"scheduler_pick_to_start_seconds_count 2",
				`scheduler_due_to_start_seconds_bucket{le="300.0"} 0`,
				`scheduler_due_to_start_seconds_bucket{le="+Inf"} 2`}
			says := func() {
				t.Helper()
				var out strings.Builder
				b.writeMetrics(&out)
				text := out.String()
				for _, line := range want {
					if !strings.Contains(text, line+"\n") {
						t.Errorf("%q is not in\n%s", line, text)
					}
				}
			}
			says()
			ok(t, b.works(t.Context(), list[0]))
			b.exec(t, `UPDATE tasks SET ended_at = now() - interval '2 days' WHERE ended_at IS NOT NULL`)
			ok(t, b.purge(t.Context()), b.note(t.Context()))
			b.is(t, `SELECT count(*)::text FROM runs`, "0")
			want[2] = "scheduler_ended_total 2"
			says()
		})
	}
}

// TestNoteUnanswered: a note whose answer is lost, noted again, is counted once; one that
// comes after a later one changes nothing.
func TestNoteUnanswered(t *testing.T) {
	b := newTable(t)
	b.be(t, tableParams(), "batch", "")
	b.ask(t, 1, 0, Spec{Task: "report"})
	list, err := b.claims(t.Context(), 1)
	ok(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.note(gone); err == nil {
		t.Error("the first note was answered")
	}
	ok(t, b.note(t.Context()))
	b.is(t, `SELECT sum((totals->'started')::int)::text FROM counts`, "1")
	b.counts.fresh = true // as note leaves it where it may have been stored, and no answer came
	ok(t, b.note(t.Context()))
	b.is(t, `SELECT sum((totals->'started')::int)::text FROM counts`, "1")

	b.exec(t, `UPDATE counts SET note = note + 1, totals = '{"started": 9}'`) // a later one
	ok(t, b.works(t.Context(), list[0]), b.note(t.Context()))
	b.is(t, startedEnded, "9 0")
}

// TestNobodyWaitsForNotes: while Postgres does not answer a note, runs end and are
// counted, for the next one.
func TestNobodyWaitsForNotes(t *testing.T) {
	b := newTable(t)
	for _, variant := range []string{"skip_locked", "batch"} {
		t.Run(variant, func(t *testing.T) {
			b.be(t, tableParams(), variant, "")
			b.picked(t, 1, Spec{Task: "report"})
			list, err := b.claims(t.Context(), 1)
			ok(t, err)
			tx, err := b.pool.Begin(t.Context())
			ok(t, err)
			_, err = tx.Exec(t.Context(), `LOCK TABLE counts`)
			ok(t, err)
			noted := make(chan error, 1)
			go func() { noted <- b.note(context.WithoutCancel(t.Context())) }()
			b.awaits(t, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
				AND relation = 'counts'::regclass)`)
			ok(t, b.works(t.Context(), list[0]), tx.Rollback(t.Context()), <-noted)
			b.is(t, startedEnded, "1 0")
			ok(t, b.note(t.Context()))
			b.is(t, startedEnded, "1 1")
		})
	}
}
