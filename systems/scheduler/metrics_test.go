package scheduler_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/harness/stores"
	"stampede/systems/scheduler"
)

// TestMetricsOutliveRuns: what was counted is summed over processes, and stays when
// retention deletes what it was counted from.
func TestMetricsOutliveRuns(t *testing.T) {
	b := newTable(t)
	for variant, picked := range map[string]string{"skip_locked": "3", "batch": "2"} {
		t.Run(variant, func(t *testing.T) {
			b.be(t, tableParams(), variant, "")
			for id := range uint64(2) {
				b.ask(t, 1+id, 0, scheduler.Spec{Task: "report"})
			}
			ok(t, b.Pick(t.Context()))
			list, err := b.Claim(t.Context(), 1)
			ok(t, err, b.works(t.Context(), list[0]), b.Note(t.Context()))
			first := b.Statements
			b.Statements = b.again()                       // another process
			b.ask(t, 3, 0, scheduler.Spec{Task: "for it"}) // of which batch starts none
			ok(t, b.Pick(t.Context()))
			list, err = b.Claim(t.Context(), 1)
			ok(t, err, b.Note(t.Context()), first.Note(t.Context()))
			want := []string{"scheduler_pulled_total " + picked, "scheduler_started_total 2",
				"scheduler_ended_total 1", "scheduler_misfires_total 2",
				`scheduler_pick_to_start_seconds_bucket{le="+Inf"} 2`,
				"scheduler_pick_to_start_seconds_count 2",
				`scheduler_due_to_start_seconds_bucket{le="300.0"} 0`,
				`scheduler_due_to_start_seconds_bucket{le="+Inf"} 2`}
			says := func() {
				t.Helper()
				text := b.Metrics()
				for _, line := range want {
					if !strings.Contains(text, line+"\n") {
						t.Errorf("%q is not in\n%s", line, text)
					}
				}
			}
			says()
			ok(t, b.works(t.Context(), list[0]))
			b.exec(t, `UPDATE tasks SET ended_at = now() - interval '2 days' WHERE ended_at IS NOT NULL`)
			ok(t, b.Purge(t.Context()), b.Note(t.Context()))
			b.is(t, `SELECT count(*)::text FROM runs`, "0")
			want[2] = "scheduler_ended_total 2"
			says()
		})
	}
}

// deaf is a connection that breaks over the answer to an insert, if it is to.
type deaf struct {
	net.Conn
	breaks *atomic.Bool
}

func (c deaf) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	if bytes.Contains(p[:n], []byte("INSERT 0 1")) && c.breaks.CompareAndSwap(true, false) {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestNoteUnanswered: a note whose answer is lost, noted again, is counted once; one that
// comes after a later one changes nothing.
func TestNoteUnanswered(t *testing.T) {
	b := newTable(t)
	b.be(t, tableParams(), "batch", "")
	b.ask(t, 1, 0, scheduler.Spec{Task: "report"})
	conf, err := pgxpool.ParseConfig(b.url)
	ok(t, err)
	var breaks atomic.Bool
	conf.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return deaf{conn, &breaks}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	ok(t, err)
	defer pool.Close()
	db := &stores.Postgres{Pool: pool, Timeout: 20 * time.Second}
	b.Statements = scheduler.StatementsOf(db, b.params, b.variant, "")
	list, err := b.Claim(t.Context(), 1)
	ok(t, err)
	breaks.Store(true)
	if err := b.Note(t.Context()); err == nil || breaks.Load() {
		t.Fatalf("the note was answered: %v", err)
	}
	b.is(t, `SELECT sum(started)::text FROM counts`, "1")
	ok(t, b.Note(t.Context()))
	b.is(t, `SELECT sum(started)::text FROM counts`, "1")

	b.exec(t, `UPDATE counts SET note = note + 1, started = 9`) // a later one
	ok(t, b.works(t.Context(), list[0]), b.Note(t.Context()))
	b.is(t, `SELECT started || ' ' || ended FROM counts`, "9 0")
}

// TestNobodyWaitsForNotes: while Postgres does not answer a note, runs end and are
// counted, for the next one.
func TestNobodyWaitsForNotes(t *testing.T) {
	b := newTable(t)
	for _, variant := range []string{"skip_locked", "batch"} {
		t.Run(variant, func(t *testing.T) {
			b.be(t, tableParams(), variant, "")
			b.picked(t, 1, scheduler.Spec{Task: "report"})
			list, err := b.Claim(t.Context(), 1)
			ok(t, err)
			tx, err := b.pool.Begin(t.Context())
			ok(t, err)
			_, err = tx.Exec(t.Context(), `LOCK TABLE counts`)
			ok(t, err)
			noted := make(chan error, 1)
			go func() { noted <- b.Note(context.WithoutCancel(t.Context())) }()
			b.awaits(t, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
				AND relation = 'counts'::regclass)`)
			ok(t, b.works(t.Context(), list[0]), tx.Rollback(t.Context()), <-noted)
			b.is(t, `SELECT started || ' ' || ended FROM counts`, "1 0")
			ok(t, b.Note(t.Context()))
			b.is(t, `SELECT started || ' ' || ended FROM counts`, "1 1")
		})
	}
}
