package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/check"
	"stampede/harness/sut"
)

// TestPoisonDiesAlone: of ten messages of which one cannot be worked off, the others are,
// and that one dies. M5C gives back the whole batch, which dies as a whole, with one that was
// there before.
func TestPoisonDiesAlone(t *testing.T) {
	inEach(t, 1, all, map[string][]string{
		"M5C batches are given back as a whole": {DeadLetters},
	}, func(t *testing.T, l orders, breaks []string) {
		ctx := t.Context()
		err := errors.Join(l.begin(ctx, 1, 0),
			l.publishes(ctx, 512, Recipe{Messages: 10, Poison: 4}, l.messages.Publish))
		for range l.params.MaxReceives {
			got, received := l.messages.Receive(ctx, labQueue, Demand{Most: 11})
			err = errors.Join(err, received, digest(ctx, l.messages, labQueue, got),
				l.messages.sweep(ctx))
		}
		must(t, err)
		verdicts, err := l.judge(ctx)
		must(t, err)
		effects, letters, status := 10, 1, check.Held
		if breaks != nil {
			effects, letters, status = 0, 11, check.Broken
		}
		a, v := l.audited, verdicts[DeadLetters]
		if len(a.Effects) != effects || len(a.Dead) != letters || v.Status != status {
			t.Errorf("%d effects and %d dead letters, want %d and %d; %s is %s: %s", len(a.Effects),
				len(a.Dead), effects, letters, v.Invariant, v.Status, v.Reason)
		}
		for _, d := range a.Dead {
			if d.Receives != l.params.MaxReceives || letters == 1 && (d.OpID != 512 || d.Index != 3) {
				t.Errorf("a dead letter: %+v", d)
			}
		}
	})
}

// TestGroupsKeepTheirOrderWhileTheRingTurns: the first message of a group was moved to a
// slot of which the server has not heard. It does not deliver the second one.
func TestGroupsKeepTheirOrderWhileTheRingTurns(t *testing.T) {
	for turns, want := range map[int]string{1: "256", 2: ""} {
		l, ctx := openLab(t, "partitioned", configOf(t, rush()), nil), t.Context()
		receive := func() (first string) {
			got, err := l.messages.Receive(ctx, labQueue, Demand{Most: 10})
			must(t, err)
			for _, d := range got {
				first += fmt.Sprint(d.OpID)
			}
			return first
		}
		must(t, steps(append([]step{l.ringIs("current"), l.slow(256, 7), l.advance, l.slow(512, 7),
			l.look}, append(slices.Repeat([]step{l.advance}, turns), l.closes)...)...)(ctx))
		if got := receive(); got != want {
			t.Errorf("after %d turns: received %q, want %q", turns, got, want)
		}
		must(t, l.look(ctx))
		if got := receive(); turns == 2 && got != "256" {
			t.Errorf("with what is known now: received %q, want the first", got)
		}
	}
}

// TestPlansGoByIndex: a claim and an acknowledgement read the rows that they are about,
// by the primary key, however many there are and whatever the planner has heard of it; a scrape
// reads no table as a whole.
func TestPlansGoByIndex(t *testing.T) {
	for _, name := range []string{"row_at_a_time", "batched", "partitioned", "river"} {
		l, ctx := openLab(t, name, configOf(t, rush()), nil), t.Context()
		_, metrics := l.messages.looks()
		plan := l.plan(t, metrics, `(10, 10)`)
		for _, table := range []string{"messages", "published", "river_job", "dead_letters"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s: a scrape reads %s as a whole\n%s", name, table, plan)
			}
		}
		if name == "river" {
			continue
		}
		if !strings.Contains(plan, "published_age") || !strings.Contains(plan, "messages_ready") &&
			!strings.Contains(plan, "queue_priority_id_idx") {
			t.Errorf("%s: a scrape goes not by the indexes\n%s", name, plan)
		}
		must(t, l.fill(ctx, 20_000))
		for _, kept := range []int{0, 10_000} { // acknowledged behind the planner's back
			must(t, l.run(ctx, []string{`UPDATE messages SET state = 'acked',
				acked_at = clock_timestamp()
				WHERE slot = 0 AND id < $1 + (SELECT min(id) FROM messages)`}, kept))
			for sql, args := range map[string]string{l.sql.claim: `('` + labQueue + `', 10)`,
				l.sql.ack: `('{0}', '{1}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '` +
					labQueue + `')`} {
				plan := l.plan(t, sql, args)
				if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Hash Join") ||
					strings.Contains(plan, "Merge Join") || kept > 0 &&
					(!strings.Contains(plan, "pkey") || strings.Contains(plan, "messages_acked")) {
					t.Errorf("%s: not by the primary key, with %d kept\n%s\n%s", name, kept, sql, plan)
				}
			}
		}
	}
}

// plan is how Postgres goes about a statement, on a connection of the design's.
func (l *lab) plan(t *testing.T, sql, args string) string {
	t.Helper()
	sql, err := l.narrow(t.Context(), sql)
	must(t, err)
	var lines []string
	must(t, l.DB.With(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `PREPARE step AS `+l.among(sql, receipts{slots: []int32{0}}))
		if err != nil {
			return err
		}
		rows, err := conn.Query(ctx, `EXPLAIN EXECUTE step `+args, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `DEALLOCATE step`)
		return err
	}))
	return strings.Join(lines, "\n")
}

// fillBatch is how many messages one statement of fill stores.
const fillBatch = 500_000

// fill adds messages to the queue, without their publications.
func (l *lab) fill(ctx context.Context, n int) error {
	for ; n > 0; n -= fillBatch {
		err := l.run(ctx, []string{`INSERT INTO messages (queue, op_id, idx, grp, priority, state,
				created_at, visible_at, body)
			SELECT $1, n, 0, 0, 0, 'ready', clock_timestamp(), clock_timestamp(), repeat('x', 100)
			FROM generate_series(1, $2::int) AS n`}, labQueue, min(n, fillBatch))
		if err != nil {
			return err
		}
	}
	return l.run(ctx, []string{`ANALYZE messages`, `CHECKPOINT`})
}

// TestNobodyWaitsForOtherPartitions: who has a partition for itself that is not in use, as
// long as it wants, keeps nobody from publishing, receiving and settling.
func TestNobodyWaitsForOtherPartitions(t *testing.T) {
	l, ctx := inOrders(t, "partitioned", 0), t.Context()
	must(t, l.begin(ctx, 3, 0))
	tx, err := l.watch.Begin(ctx)
	must(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for slot := 2; slot < ring; slot++ { // 0 is current, and 1 the next
		_, err := tx.Exec(ctx, fmt.Sprintf(`LOCK TABLE messages_%d IN ACCESS EXCLUSIVE MODE`, slot))
		must(t, err)
	}
	for _, kind := range []string{KindAck, KindExtend, KindRelease} {
		got, err := l.receives(ctx)
		if err != nil || len(got) != 1 {
			t.Fatalf("%d messages, %v", len(got), err)
		}
		must(t, l.settles(ctx, kind, time.Minute, got))
	}
	must(t, l.publishes(ctx, 512, Recipe{Messages: 1}, l.messages.Publish))
}

// TestRingKeepsNobodyWaiting: while somebody may be storing messages, for as long as it takes,
// an open slot is not closed, and nobody else waits for the ring.
func TestRingKeepsNobodyWaiting(t *testing.T) {
	l, ctx := inOrders(t, "partitioned", 0), t.Context()
	must(t, l.begin(ctx, 0, 0), l.ringIs("open", "current")(ctx))
	closes := func(want string) {
		t.Helper()
		must(t, l.closes(ctx))
		var state string
		err := l.watch.QueryRow(ctx, `SELECT state FROM slots WHERE slot = 0`).Scan(&state)
		if err != nil || state != want {
			t.Errorf("the slot is %s, want %s: %v", state, want, err)
		}
	}
	tx, err := l.watch.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, `LOCK TABLE messages IN ROW EXCLUSIVE MODE`)
	must(t, err)
	for range 2 {
		closes("open")
		must(t, l.slow(512, 0)(ctx))
	}
	must(t, tx.Rollback(ctx))
	closes("closed")
}

// deletions notes how many rows each statement has deleted.
type deletions struct {
	mu   sync.Mutex
	rows []int64
}

type deleting struct{}

// TraceQueryStart remembers whether a statement deletes.
func (*deletions) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	return context.WithValue(ctx, deleting{}, strings.Contains(data.SQL, "DELETE"))
}

// TraceQueryEnd notes what was deleted.
func (d *deletions) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if yes, _ := ctx.Value(deleting{}).(bool); yes && data.CommandTag.RowsAffected() > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.rows = append(d.rows, data.CommandTag.RowsAffected())
	}
}

// TestCollectedInBatches: what is acknowledged is kept for a while, then deleted in
// bounded batches; partitions are emptied as a whole.
func TestCollectedInBatches(t *testing.T) {
	for _, name := range rightNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ctx, seen := rush(), t.Context(), &deletions{}
			p.Keep, p.CollectBatch, p.Visibility = sut.Duration(time.Hour), 10, sut.Duration(time.Hour)
			p.RotateEvery = sut.Duration(time.Millisecond)
			l := openLab(t, name, configOf(t, p), seen)
			if l.ring != nil {
				l.ring.asked = time.Time{} // time passes
			}
			must(t, l.begin(ctx, 26, 0))
			got, err := l.messages.Receive(ctx, labQueue, Demand{Most: 25})
			must(t, err, l.settles(ctx, KindAck, 0, got))
			seen.rows = nil // what begin has deleted
			collects := func() int {
				must(t, l.messages.collect(ctx))
				a, err := l.reads(ctx)
				must(t, err)
				return len(a.Messages)
			}
			if left := collects(); left != 26 || len(seen.rows) > 0 {
				t.Fatalf("%d messages are left, %v were deleted an hour too early", left, seen.rows)
			}
			l.opened.Params.Keep = 0
			for until := time.Now().Add(20 * time.Second); collects() > 1; {
				if time.Now().After(until) {
					t.Fatal("messages are left")
				}
			}
			want := []int64{10, 10, 5}
			if l.ring != nil { // the one that waits is moved, one by one; the others are truncated
				want = slices.Repeat([]int64{1}, len(seen.rows))
			}
			if !slices.Equal(seen.rows, want) {
				t.Errorf("statements deleted %v rows, want %v", seen.rows, want)
			}
		})
	}
}
