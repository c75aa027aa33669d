package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/harness/sut"
)

// TestLife: what a task goes through besides being started and ended, on one
// Postgres. Whatever happens, no invariant is broken at the end.
func TestLife(t *testing.T) {
	b := newTable(t)
	for name, live := range map[string]func(*testing.T, *table){
		"heartbeat": heartbeat, "lost lease": lostLease, "started again": startedAgain,
		"given back": givenBack, "inserted": inserted, "cancelled": cancelledBefore,
		"stopped": stopped, "paused": paused, "run again": runAgain,
	} {
		t.Run(name, func(t *testing.T) {
			b.be(t, tableParams(), "skip_locked", "")
			live(t, b)
			broken, err := b.broken(t.Context())
			if err != nil || len(broken) > 0 {
				t.Errorf("broken: %v (%v)", broken, err)
			}
		})
	}
}

// ok fails the test on an error.
func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// exec changes what only time would.
func (b *table) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql)
	ok(t, err)
}

// is compares one column of a query's rows, as text, with what there should be.
func (b *table) is(t *testing.T, query string, want ...string) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), query)
	ok(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var text string
		ok(t, rows.Scan(&text))
		got = append(got, text)
	}
	if ok(t, rows.Err()); !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", query, got, want)
	}
}

// awaits waits until a query says that something is so.
func (b *table) awaits(t *testing.T, query string) {
	t.Helper()
	for so := false; !so; {
		ok(t, b.pool.QueryRow(t.Context(), query).Scan(&so))
	}
}

const (
	states   = `SELECT state FROM tasks ORDER BY id`
	outcomes = `SELECT outcome FROM runs ORDER BY id`
	// waiting says whether somebody waits for a lock.
	waiting = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid IN
		(SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`
	// hour lets what was done take the hour that long works.
	hour = `WITH worked AS (UPDATE runs SET ended_at = ended_at + interval '1 hour',
			lease_until = lease_until + interval '1 hour' WHERE outcome = 'done')
		UPDATE effects SET at = at + interval '1 hour'`
	letGo = `SELECT (let_go_at > ended_at IS TRUE)::text FROM runs ORDER BY id`
)

// picked is a task that was picked.
func (b *table) picked(t *testing.T, id uint64, spec Spec) {
	t.Helper()
	b.ask(t, id, time.Minute, spec)
	ok(t, b.picksAll(t.Context()))
}

// long is a task that works for longer than any test.
func long() Spec {
	return Spec{Task: "report", WorkMS: time.Hour.Milliseconds()}
}

// heartbeat: a task under way keeps its lease, though it works for longer.
func heartbeat(t *testing.T, b *table) {
	b.picked(t, 1, long())
	e := b.executor(t)
	ok(t, e.step(t.Context()), b.expire(t.Context()))
	e.beat(t.Context())
	ok(t, b.rescues(t.Context()))
	b.is(t, states, "running")
	b.is(t, `SELECT (lease_until > now() + interval '50 minutes')::text FROM tasks`, "true")
	e.giveBack()
	ok(t, b.drain(t.Context()))
	b.exec(t, hour)
	b.is(t, outcomes, "lost", "done")
}

// lostLease: an executor that could not renew a lease, and finds its task taken back,
// lets go of it: it has no effect, and ends nothing; that it let go is told of.
func lostLease(t *testing.T, b *table) {
	b.picked(t, 1, long())
	e := b.executor(t)
	ok(t, e.step(t.Context()), b.expire(t.Context()), b.rescues(t.Context()))
	b.is(t, states, "waiting")
	e.beat(t.Context())
	e.work.Wait() // for a task that would work for an hour
	b.is(t, states, "waiting")
	b.is(t, outcomes, "lost")
	ok(t, b.drain(t.Context()))
	b.exec(t, hour)
	b.is(t, outcomes, "lost", "done")
	b.is(t, letGo, "true", "false")
}

// startedAgain: an executor that has a task in hand again, while it still works on the run
// that it has lost, lets go of that one only.
func startedAgain(t *testing.T, b *table) {
	b.picked(t, 1, long())
	e := b.executor(t)
	ok(t, e.step(t.Context()), b.expire(t.Context()), b.rescues(t.Context()), b.picksAll(t.Context()),
		e.step(t.Context()))
	b.is(t, outcomes, "lost", "")
	e.beat(t.Context())
	b.is(t, letGo, "true", "false")
	e.beat(t.Context())
	b.is(t, states, "running")
	e.giveBack()
	ok(t, b.drain(t.Context()))
	b.exec(t, hour)
	b.is(t, outcomes, "lost", "lost", "done")
}

// givenBack: a run that is given back was a start like any other, of which there are but so
// many.
func givenBack(t *testing.T, b *table) {
	b.params.MaxAttempts = 2
	b.fresh(t)
	b.picked(t, 1, Spec{Task: "report"})
	for _, state := range []string{"waiting", "failed"} {
		list, err := b.claims(t.Context(), 1)
		ok(t, err, b.release(t.Context(), list[0]))
		b.is(t, states, state)
		ok(t, b.picksAll(t.Context()))
	}
	ok(t, b.drain(t.Context()))
	b.is(t, outcomes, "lost", "lost")
	b.is(t, `SELECT (ended_at IS NOT NULL)::text FROM tasks`, "true")
}

// inserted: the pick of an occurrence inserts the next, once, however often it is
// picked; a failed one holds up none of them.
func inserted(t *testing.T, b *table) {
	b.params.Recurrence = Insert
	b.fresh(t)
	b.picked(t, 1, Spec{Task: "report", Cron: "*/10 * * * *", Zone: "UTC", Times: 3})
	list, err := b.claims(t.Context(), 1)
	ok(t, err, b.release(t.Context(), list[0]), b.picksAll(t.Context()), b.drain(t.Context()))
	b.is(t, `SELECT occurrence || state || born FROM tasks ORDER BY id`, "1done1", "2done2", "3done3")
	b.is(t, `SELECT outcome || occurrence FROM runs ORDER BY id`, "lost1", "done1", "done2", "done3")
	b.is(t, `SELECT count(DISTINCT scheduled_at) || ' ' || max(scheduled_at) - min(scheduled_at)
		FROM tasks`, "3 00:20:00")
}

// cancelledBefore: before it has started a task never does, once or recurring, and a
// cancel that comes twice is one.
func cancelledBefore(t *testing.T, b *table) {
	b.ask(t, 1, time.Minute, Spec{Task: "report"})
	b.picked(t, 2, Spec{Task: "report", Cron: "* * * * *", Zone: "UTC", Times: 3})
	for _, id := range []uint64{1, 2, 2} {
		ok(t, b.changes(t.Context(), id, KindCancel, 2))
	}
	ok(t, b.drain(t.Context()))
	b.is(t, states, "cancelled", "cancelled")
	b.is(t, outcomes)
	b.is(t, `SELECT count(*)::text FROM changes`, "2")
}

// stopped: a task that is cancelled while it runs is told so by the heartbeat, ends
// without its effect, and does not come again.
func stopped(t *testing.T, b *table) {
	spec := long()
	spec.Cron, spec.Zone, spec.Times = "* * * * *", "UTC", 3
	b.picked(t, 1, spec)
	e := b.executor(t)
	ok(t, e.step(t.Context()), b.changes(t.Context(), 1, KindCancel, 2))
	e.beat(t.Context())
	e.work.Wait()
	ok(t, b.drain(t.Context()))
	b.is(t, states, "cancelled")
	b.is(t, outcomes, "cancelled")
	b.is(t, `SELECT series::text FROM effects`)
}

// paused: neither what waits nor what is picked goes on before it is resumed.
func paused(t *testing.T, b *table) {
	b.picked(t, 1, Spec{Task: "report"})
	b.ask(t, 2, time.Minute, Spec{Task: "report"})
	for _, id := range []uint64{1, 2} {
		ok(t, b.changes(t.Context(), id, KindPause, 3))
	}
	ok(t, b.drain(t.Context()))
	b.is(t, states, "picked", "waiting")
	for _, id := range []uint64{1, 2} {
		ok(t, b.changes(t.Context(), id, KindResume, 4))
	}
	ok(t, b.drain(t.Context()))
	b.is(t, states, "done", "done")
}

// runAgain: what has failed runs again when somebody wants it to, and only then.
func runAgain(t *testing.T, b *table) {
	b.picked(t, 1, Spec{Task: "report", Fails: true})
	list, err := b.claims(t.Context(), 1)
	ok(t, err, b.ends(t.Context(), list[0], Failed), b.drain(t.Context()))
	b.is(t, states, "failed")
	ok(t, b.changes(t.Context(), 1, KindRerun, 5), b.drain(t.Context()))
	b.is(t, states, "done")
	b.is(t, outcomes, "failed", "done")
	ok(t, b.changes(t.Context(), 1, KindRerun, 6)) // refused: it is done
	b.is(t, `SELECT what || outcome FROM changes`, "rerunwaiting")
}

// TestRetention: what ended longer ago than the retention goes, with all that belongs to
// it; what ended since, what waits, and a recurring task that goes on stay.
func TestRetention(t *testing.T) {
	b, p := newTable(t), tableParams()
	p.Recurrence = Insert
	b.be(t, p, "skip_locked", "")
	for id := range uint64(3) {
		b.ask(t, 1+id, time.Minute, Spec{Task: "report"})
	}
	b.ask(t, 4, 4*time.Hour, Spec{Task: "later"})
	b.ask(t, 5, time.Minute, Spec{Task: "nightly", Cron: "0 0 * * *", Zone: "UTC"})
	ok(t, b.changes(t.Context(), 1, KindPause, 3),
		b.changes(t.Context(), 1, KindResume, 4), b.drain(t.Context()))
	b.exec(t, `UPDATE tasks SET ended_at = now() - interval '25 hours' WHERE series <= 512
		OR ended_at IS NOT NULL AND schedule <> ''`)
	ok(t, b.purge(t.Context()))
	b.is(t, `SELECT DISTINCT (series >> 8)::text FROM tasks ORDER BY 1`, "3", "4", "5")
	b.is(t, `SELECT (series >> 8)::text FROM runs UNION ALL SELECT (series >> 8)::text FROM effects
		UNION ALL SELECT 'change' FROM changes`, "3", "3")
}

// TestRetentionAndRerun: a task that somebody runs again after retention has found it stays
// as a whole.
func TestRetentionAndRerun(t *testing.T) {
	b, p := newTable(t), tableParams()
	p.Recurrence = Insert
	b.be(t, p, "skip_locked", "")
	b.ask(t, 1, time.Minute, Spec{Task: "report"})
	b.ask(t, 2, time.Minute, Spec{Task: "nightly", Cron: "*/10 * * * *", Zone: "UTC",
		Times: 2})
	ok(t, b.picksAll(t.Context()), b.drain(t.Context()))
	b.exec(t, `UPDATE tasks SET ended_at = now() - interval '25 hours',
		state = CASE occurrence WHEN 2 THEN 'failed' ELSE state END`)
	tx, err := b.pool.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM tasks WHERE series = 256 FOR UPDATE`)
	ok(t, err)
	purged := make(chan error, 1)
	go func() { purged <- b.purge(context.WithoutCancel(t.Context())) }()
	b.awaits(t, waiting)
	ok(t, b.changes(t.Context(), 2, KindRerun, 5), tx.Rollback(t.Context()), <-purged)
	b.is(t, `SELECT (series >> 8) || state FROM tasks ORDER BY id`, "2done", "2waiting")
	b.is(t, `SELECT (series >> 8)::text FROM runs UNION ALL SELECT (series >> 8)::text FROM effects
		UNION ALL SELECT what FROM changes`, "2", "2", "2", "2", "rerun")
}

// variantOf is the variant of a name.
func variantOf(name string) sut.Variant {
	all := System().Variants
	return all[slices.IndexFunc(all, func(v sut.Variant) bool { return v.Name == name })]
}

// runs runs roles until the test is over, or the function that it returns is called, which
// waits for them.
func runs(t *testing.T, roles []sut.Role, cfg sut.Config) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, role := range roles {
		all.Go(func() {
			if err := role.Run(ctx, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	end = func() {
		stop()
		all.Wait()
	}
	t.Cleanup(end)
	return end
}

// TestDrain: an executor that is told to stop ends what it can in two seconds, gives
// back what it cannot, and starts nothing more; nobody need wait for a lease.
func TestDrain(t *testing.T) {
	for _, variant := range []string{"poll_for_update", "skip_locked", "listen_notify", "batch"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			b := newTable(t)
			b.be(t, tableParams(), variant, "")
			b.picked(t, 1, long())
			b.picked(t, 2, Spec{Task: "report", WorkMS: 1000})
			v := variantOf(variant)
			executor := v.Roles[slices.IndexFunc(v.Roles, func(r sut.Role) bool {
				return r.Name == "executor"
			})]
			stop := runs(t, []sut.Role{executor}, sut.Config{PostgresURL: b.url, Params: b.params})
			b.awaits(t, `SELECT count(*) = 2 FROM runs`)
			ended := make(chan struct{})
			go func() {
				stop()
				close(ended)
			}()
			b.awaits(t, `SELECT count(*) = 1 FROM runs WHERE outcome = 'done'`)
			b.ask(t, 3, time.Minute, Spec{Task: "report"})
			if variant != "batch" {
				b.exec(t, `UPDATE tasks SET state = 'picked' WHERE series = 768`)
			}
			<-ended
			b.is(t, `SELECT (series >> 8) || outcome FROM runs ORDER BY 1`, "1lost", "2done")
			b.is(t, `SELECT (series >> 8)::text FROM tasks WHERE state = 'running'`)
			ok(t, b.drain(t.Context()))
			b.is(t, `SELECT (series >> 8) || outcome FROM runs ORDER BY 1`, "1done", "1lost", "2done",
				"3done")
		})
	}
}
