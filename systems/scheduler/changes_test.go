package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"stampede/harness/history"
	"stampede/harness/interleave"
)

// told is what became of a change.
type told struct {
	state string
	err   error
}

func (w told) String() string { return fmt.Sprintf("%q (%v)", w.state, w.err) }

// changing runs two changes in every order of their statements, on two tasks of which
// the first has failed, and returns what they were told in each.
func (b *table) changing(t *testing.T, changes [2]history.Op) (orders [][2]told) {
	t.Helper()
	_, err := interleave.Explore(t.Context(), b.watch,
		func(ctx context.Context) (interleave.World, error) {
			b.fresh(t)
			b.picked(t, 1, Spec{Task: "report", Fails: true})
			list, err := b.claims(ctx, 1)
			if err != nil || len(list) != 1 {
				return interleave.World{}, fmt.Errorf("claimed %d tasks: %w", len(list), err)
			}
			b.picked(t, 2, Spec{Task: "report"})
			var said [2]told
			world := interleave.World{Judge: func(context.Context, []error) error {
				orders = append(orders, said)
				return nil
			}}
			for i, op := range changes {
				world.Sessions = append(world.Sessions, interleave.Session{Name: fmt.Sprint(i),
					Do: func(ctx context.Context) error {
						reply, err := API().Do(ctx, &instance{tasks: b.tasks}, op)
						said[i] = told{reply.Key, err}
						return nil
					}})
			}
			return world, b.ends(ctx, list[0], Failed)
		})
	ok(t, err)
	if len(orders) < 2 {
		t.Errorf("there were %d orders", len(orders))
	}
	return orders
}

// TestChangeTwice: whoever asks twice for a change, at once or not, is told twice that
// it was made, and it is made once.
func TestChangeTwice(t *testing.T) {
	b := newTable(t)
	b.be(t, tableParams(), "skip_locked", "")
	for _, c := range []struct {
		what, task, want string
	}{
		{KindCancel, "512", "cancelled"}, {KindPause, "512", "paused"},
		{KindRerun, "256", "waiting"},
	} {
		t.Run(c.what, func(t *testing.T) {
			op := history.Op{ID: 700, Kind: c.what, Key: c.task}
			for _, said := range b.changing(t, [2]history.Op{op, op}) {
				if said[0] != (told{c.want, nil}) || said[1] != said[0] {
					t.Errorf("told %v", said[:])
				}
			}
			b.is(t, `SELECT what || outcome FROM changes`, c.what+c.want)
		})
	}
}

// TestOpTaken: a change whose number was used for another one, of another task or of
// another kind, is refused and changes nothing; that it was made is told of the one
// that was.
func TestOpTaken(t *testing.T) {
	b := newTable(t)
	b.be(t, tableParams(), "skip_locked", "")
	for name, other := range map[string]history.Op{
		"another task": {ID: 700, Kind: KindRerun, Key: "256"},
		"another kind": {ID: 700, Kind: KindPause, Key: "512"},
	} {
		t.Run(name, func(t *testing.T) {
			cancel := history.Op{ID: 700, Kind: KindCancel, Key: "512"}
			for _, said := range b.changing(t, [2]history.Op{cancel, other}) {
				made := slices.IndexFunc(said[:], func(s told) bool { return s.err == nil })
				if made < 0 || !errors.Is(said[1-made].err, ErrOpTaken) {
					t.Errorf("told %v", said[:])
				}
			}
			b.is(t, `SELECT count(*)::text FROM changes`, "1")
			b.is(t, `SELECT count(*)::text FROM tasks t WHERE paused AND NOT EXISTS
				(SELECT FROM changes c WHERE c.series = t.series AND c.what = 'pause')`, "0")
		})
	}
}

// TestScheduledAgain: who asks again for a task has it, whatever has become of it.
func TestScheduledAgain(t *testing.T) {
	b := newTable(t)
	b.be(t, tableParams(), "skip_locked", "")
	spec := Spec{Task: "report", Fails: true}
	b.picked(t, 1, spec)
	list, err := b.claims(t.Context(), 1)
	ok(t, err, b.ends(t.Context(), list[0], Failed))
	b.picked(t, 1, spec)
	ok(t, b.changes(t.Context(), 1, KindRerun, 5))
	b.picked(t, 1, spec)
	ok(t, b.drain(t.Context()))
	b.picked(t, 1, spec)
	b.is(t, states, "done")
}

// TestHeartbeatLocksInOrder: where a heartbeat waits for a task it has locked none of a
// higher number, as the end of a batch has not: so neither waits for the other.
func TestHeartbeatLocksInOrder(t *testing.T) {
	b := newTable(t)
	b.be(t, tableParams(), "batch", "")
	for id := range uint64(2) {
		b.ask(t, 1+id, 0, Spec{Task: "report"})
	}
	list, err := b.claims(t.Context(), 2)
	ok(t, err)
	slices.SortFunc(list, func(a, b claim) int { return int(b.id - a.id) })
	tx, err := b.pool.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM tasks WHERE id = $1 FOR UPDATE`, list[1].id)
	ok(t, err)
	beaten := make(chan error, 1)
	go func() { beaten <- b.renews(context.WithoutCancel(t.Context()), list) }()
	b.awaits(t, waiting)
	b.is(t, fmt.Sprintf(`SELECT id::text FROM tasks WHERE id = %d FOR UPDATE SKIP LOCKED`,
		list[0].id), fmt.Sprint(list[0].id))
	ok(t, tx.Rollback(t.Context()), <-beaten)
}

// TestTurnedAway: an end that comes after its task was taken back ends nothing, and is
// told of; it is not counted among the ends.
func TestTurnedAway(t *testing.T) {
	b := newTable(t)
	for _, variant := range []string{"skip_locked", "batch"} {
		t.Run(variant, func(t *testing.T) {
			b.be(t, tableParams(), variant, "")
			b.picked(t, 1, Spec{Task: "report"})
			list, err := b.claims(t.Context(), 1)
			ok(t, err, b.expire(t.Context()), b.rescues(t.Context()))
			b.is(t, `SELECT outcome || (turned_at IS NULL) FROM runs`, "losttrue")
			ok(t, b.works(t.Context(), list[0]), b.note(t.Context()))
			b.is(t, startedEnded, "1 0")
			ok(t, b.drain(t.Context()), b.note(t.Context()))
			b.is(t, startedEnded, "2 1")
			b.is(t, `SELECT outcome || (turned_at IS NULL) FROM runs ORDER BY id`, "lostfalse", "donetrue")
			b.is(t, `SELECT (turned_at > ended_at)::text FROM runs WHERE outcome = 'lost'`, "true")
			b.is(t, `SELECT fence::text FROM effects`, "2")
		})
	}
}
