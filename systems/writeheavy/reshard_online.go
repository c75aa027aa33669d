package writeheavy

import (
	"cmp"
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed reshard_online.sql
var reshardSchema string

// The two maps of shards.
const (
	oldMap = 1
	newMap = 2
)

// The fail points. The first two are of a process of the API, the others of the resharder.
const (
	placeCounted = "counted" // an add is counted, and its twin lacks it
	placeTwinned = "twinned" // the twin has it, too, and it is still due
	placePrepare = "prepared"
	placeDoubled = "doubled"
	placeCopied  = "copied"
	placeFrozen  = "frozen"
	placeDemoted = "demoted" // the range has no owner
	placeHanded  = "handed"  // it has another one, and the resharder does not know
	placeRolled  = "rolled-back"
)

// reshardOnline moves counters to another map of shards while they are written.
//
// The idea: the keys fall into ranges, and each is moved for itself. Its new place is prepared;
// from then on what the owner counts is written there too, and noted beside the count as due until
// it is; what was there before is copied. Both are kept by the number of each add, so it does not
// matter which comes first. To hand a range over, its owner is frozen, what is due is written, both
// sides are compared, the owner steps down, and the other one begins a new epoch with the old one
// as its twin: so it can be rolled back, which every fourth range is once. A process of the API
// that has the old map is turned away by the place itself, whose row it must hold to add.
//
// The guarantee: what is acknowledged is committed at the owner, and stays through every hand-over.
// Reads are as of now. A resharder may die or sleep anywhere, and there may be several.
//
// It gives up: two more writes for each add while ranges have twins, and some milliseconds in which
// a range that is handed over takes no adds. If the resharder dies in these, it takes none until
// there is one again, and perhaps cannot be read.
func reshardOnline() variant { return reshardedBy(twoSides()) }

// resharding is how adds are counted and ranges moved.
type resharding struct {
	count, twin, copy string
	// Before a range is handed over what is due is written, and both sides are compared. Its old
	// owner is its twin after that: back.
	settles, compares, back bool
}

func twoSides() resharding {
	return resharding{count: sqlCount, twin: sqlTwin, copy: sqlTwin, settles: true, compares: true,
		back: true}
}

func reshardedBy(how resharding) variant {
	return variant{Name: "reshard_online",
		Idea: "a transaction for each add, and ranges move to other shards: written twice, copied, " +
			"compared, handed over, rolled back",
		Guarantees: "what is acknowledged is committed, wherever it moves, and reads are as of now",
		GivesUp:    "two more writes for an add to a range that moves, and a pause at its hand-over",
		Places:     []string{placeCounted, placeTwinned},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			r := &resharded{opened: st, how: how, maps: make([]atomic.Int64, st.Params.Shards)}
			return service{r, r.sound, MostRecords}, nil
		},
		Roles: []role{{Name: "resharder", Summary: "moves the counters to another map of shards",
			Places: []string{placePrepare, placeDoubled, placeCopied, placeFrozen, placeDemoted,
				placeHanded, placeRolled},
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				return st.Params.MoveEvery.D(), stores.Failed("moving a range", moveStep(ctx, st, how))
			}}},
		State: design.State[Params]{
			Schema: reshardSchema,
			Seed: func(ctx context.Context, tx pgx.Tx, p Params) error {
				_, err := tx.Exec(ctx, `INSERT INTO places (map, range, epoch, state)
					SELECT $1, range, 1, 'owner' FROM generate_series(0, $2 - 1) AS range`, oldMap, p.Shards)
				return err
			},
			Pending: func(ctx context.Context, st *opened) (left int64, what string, err error) {
				err = st.DB.Row(ctx, `SELECT (SELECT count(*) FROM moves WHERE phase < $1) +
					CASE WHEN `+sqlBegins+` THEN 1 ELSE 0 END`, []any{phaseDone, st.Params.MapAfter}, &left)
				return left, fmt.Sprintf("%d ranges are on the move", left), err
			},
			Audit: audited(Contract{Moves: true}, readMoves),
		},
	}
}

// resharded is an API whose counters move.
type resharded struct {
	*opened
	how resharding
	// maps are those in which the owners of the ranges were last seen; 0 is the old one.
	maps []atomic.Int64
}

// sqlBegins says whether moves begin: there are none, and as many adds as $2 says.
const sqlBegins = `NOT EXISTS (SELECT FROM moves) AND
	(SELECT count(*) FROM (SELECT FROM placed WHERE map = 1 LIMIT $2) AS first) >= $2`

// sqlCount counts an add at a place, if that is the owner: it returns the epoch and the map of the
// twin. The place stays as it is until the add is committed.
const sqlCount = `WITH turn AS MATERIALIZED (SELECT FROM pg_advisory_xact_lock_shared($1, $2)),
	here AS MATERIALIZED (
		SELECT epoch, twin FROM turn, places
		WHERE map = $1 AND range = $2 AND state = 'owner' FOR SHARE OF places),
	fresh AS (
		INSERT INTO placed (map, range, op_id, key, usr, delta, epoch, in_epoch, came)
		SELECT $1, $2, $3, $4, $5, $6, epoch, epoch, 'owner' FROM here
		ON CONFLICT DO NOTHING RETURNING op_id, key, delta),
	noted AS (
		INSERT INTO due (map, range, op_id) SELECT $1, $2, op_id FROM fresh, here WHERE twin IS NOT NULL),
	counted AS (
		INSERT INTO counters (key, map, shard, value) SELECT key, $1, $2, delta FROM fresh
		ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value)
	SELECT epoch, coalesce(twin, 0) FROM here`

// sqlTwin writes adds at a place which is not where they were counted. Those that it has have no
// effect.
const sqlTwin = `WITH fresh AS (
		INSERT INTO placed (map, range, op_id, key, usr, delta, epoch, in_epoch, came)
		SELECT $1, $2, op_id, key, usr, delta, epoch,
			(SELECT p.epoch FROM places p WHERE p.map = $1 AND p.range = $2), $8
		FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::int[])
			AS list (op_id, key, usr, delta, epoch) ORDER BY op_id
		ON CONFLICT DO NOTHING RETURNING key, delta)
	INSERT INTO counters (key, map, shard, value)
	SELECT key, $1, $2, sum(delta)::bigint FROM fresh GROUP BY key ORDER BY key
	ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value`

// sound counts what can be added, wherever its range is.
func (r *resharded) sound(ctx context.Context, req AddRequest) error {
	if !sound(req.Delta) {
		return ErrRejected
	}
	in := shardOf(req.Key, r.Params.Shards)
	var epoch, twin int
	at, err := r.atOwner(ctx, in, func(at int) (is bool, err error) {
		err = r.DB.Row(ctx, r.how.count, []any{at, in, req.ID, req.Key, req.User, req.Delta},
			&epoch, &twin)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return true, stores.Failed("counting an add", err)
	})
	if err != nil || twin == 0 {
		return err
	}
	r.Config.Passed(placeCounted)
	list := []side{{req.ID, req.Key, req.User, req.Delta, epoch}}
	if writeSides(ctx, r.DB, r.how.twin, twin, in, list, "twin") == nil {
		r.Config.Passed(placeTwinned)
		_ = paid(ctx, r.DB, at, in, list)
	}
	return nil // what is not at its twin is due, and the resharder writes it
}

// Read reads a counter from the owner of its range. One that is frozen has what there is.
func (r *resharded) Read(ctx context.Context, req ReadRequest) (Value, error) {
	v, in := Value{Key: req.Key}, shardOf(req.Key, r.Params.Shards)
	_, err := r.atOwner(ctx, in, func(at int) (is bool, err error) {
		err = r.DB.Row(ctx, `SELECT coalesce((SELECT value FROM counters
				WHERE key = $3 AND map = $1 AND shard = $2), 0)
			FROM places WHERE map = $1 AND range = $2 AND state <> 'copy'`, []any{at, in, req.Key}, &v.Value)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return true, stores.Failed("reading a counter", err)
	})
	return v, err
}

// A request that did not reach the owner is tried again after shortPause; the pause doubles each
// time, up to longPause.
const (
	shortPause = 3 * time.Millisecond
	longPause  = 50 * time.Millisecond
)

// atOwner does something at the owner of a range, and returns in which map that was. What comes to
// another place, or while the range has no owner, has no effect, and is tried again for as long as
// a client waits.
func (r *resharded) atOwner(
	ctx context.Context, in int, do func(at int) (is bool, err error),
) (at int, err error) {
	began := time.Now()
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		at = cmp.Or(int(r.maps[in].Load()), oldMap)
		if is, err := do(at); is || err != nil {
			return at, err
		}
		if time.Since(began) > stores.Timeout(r.Config) || !sut.Pause(ctx, pause) {
			return at, fmt.Errorf("range %d is handed over: %w", in, sut.ErrRefused)
		}
		owner, err := r.lookUp(ctx, in)
		if err != nil {
			return at, stores.Failed("looking for an owner", err)
		}
		if owner != at {
			// Nothing rests on this: it shows that there was such a request.
			_, _ = r.DB.Exec(ctx, `INSERT INTO turned_away VALUES ($1)`, in)
		}
		r.maps[in].Store(int64(owner))
	}
}

// lookUp asks the places of a range which is the owner.
func (r *resharded) lookUp(ctx context.Context, in int) (at int, err error) {
	err = r.DB.Row(ctx, `SELECT coalesce(max(map), $2) FROM places
		WHERE range = $1 AND map IN ($2, $3) AND state = 'owner'`, []any{in, oldMap, newMap}, &at)
	return at, err
}

// side is an add as a place has it.
type side struct {
	ID, Key, User uint64
	Delta         int64
	Epoch         int
}

// writeSides writes adds at a place.
func writeSides(
	ctx context.Context, db *stores.Postgres, sql string, at, in int, list []side, came string,
) error {
	var ids, on, users []uint64
	var deltas []int64
	var epochs []int
	for _, s := range list {
		ids, on, users = append(ids, s.ID), append(on, s.Key), append(users, s.User)
		deltas, epochs = append(deltas, s.Delta), append(epochs, s.Epoch)
	}
	_, err := db.Exec(ctx, sql, at, in, ids, on, users, deltas, epochs, came)
	return err
}

// paid notes that adds are at their twin.
func paid(ctx context.Context, db *stores.Postgres, at, in int, list []side) error {
	ids := make([]uint64, len(list))
	for i, s := range list {
		ids[i] = s.ID
	}
	_, err := db.Exec(ctx, `DELETE FROM due WHERE map = $1 AND range = $2 AND op_id = ANY($3::bigint[])`,
		at, in, ids)
	return err
}

// The phases of a range, in order.
const (
	phasePrepare = iota
	phaseTwin
	phaseCopy
	phaseHandOver
	phaseSoak     // in which nothing happens
	phaseRollBack // of every fourth range
	phaseAgain
	phaseFinish
	phaseDone
)

// rolledBack says whether a range goes back to its old owner once.
func rolledBack(in int) bool { return in%4 == 0 }

// copyMost is how many adds are copied at once.
const copyMost = 100

// moveStep takes the range that is furthest behind one step further. Each step states what it
// expects: one that was made before, by this or another resharder, has no effect.
func moveStep(ctx context.Context, st *opened, how resharding) error {
	// The moves begin when there is something to move.
	_, err := st.DB.Exec(ctx, `INSERT INTO moves (range, phase, copied)
		SELECT range, 0, 0 FROM generate_series(0, $1 - 1) AS range
		WHERE `+sqlBegins+` ON CONFLICT DO NOTHING`, st.Params.Shards, st.Params.MapAfter)
	if err != nil {
		return err
	}
	var in, phase int
	var copied int64
	err = st.DB.Row(ctx, `SELECT range, phase, copied FROM moves WHERE phase < $1
		ORDER BY phase, range LIMIT 1`, []any{phaseDone}, &in, &phase, &copied)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	} else if err != nil {
		return err
	}
	m := mover{st, how, in}
	over := true
	switch phase {
	case phasePrepare:
		err = m.exec(ctx, placePrepare, `INSERT INTO places (map, range, epoch, state)
			VALUES ($1, $2, 0, 'copy') ON CONFLICT DO NOTHING`, newMap)
	case phaseTwin:
		err = m.exec(ctx, placeDoubled, sqlTurn+`UPDATE places SET twin = $3 FROM turn
			WHERE map = $1 AND range = $2 AND state = 'owner' AND epoch = 1`, oldMap, newMap)
	case phaseCopy:
		over, err = m.copy(ctx, copied)
	case phaseHandOver:
		err = m.handOver(ctx, oldMap, newMap, 2)
	case phaseRollBack:
		if rolledBack(in) {
			if err = m.handOver(ctx, newMap, oldMap, 3); err == nil {
				m.Config.Passed(placeRolled)
			}
		}
	case phaseAgain:
		if rolledBack(in) {
			err = m.handOver(ctx, oldMap, newMap, 4)
		}
	case phaseFinish:
		// The old place is as it is now, and could be given away.
		err = m.exec(ctx, "", sqlTurn+`UPDATE places SET twin = NULL FROM turn
			WHERE map = $1 AND range = $2`, newMap)
		if err == nil {
			err = m.settle(ctx, newMap, oldMap)
		}
	}
	if err != nil || !over {
		return err
	}
	_, err = st.DB.Exec(ctx, `UPDATE moves SET phase = phase + 1 WHERE range = $1 AND phase = $2`, in,
		phase)
	return err
}

// mover moves a range.
type mover struct {
	*opened
	how resharding
	in  int
}

// sqlTurn lets a change of a place have its turn among the adds: a row is not fair to one who waits
// while others share it.
const sqlTurn = `WITH turn AS MATERIALIZED (SELECT FROM pg_advisory_xact_lock($1, $2)) `

// exec changes what a place knows of its range, and passes a fail point.
func (m mover) exec(ctx context.Context, passed, sql string, at int, args ...any) error {
	_, err := m.DB.Exec(ctx, sql, append([]any{at, m.in}, args...)...)
	if err == nil && passed != "" {
		m.Config.Passed(passed)
	}
	return err
}

// copy copies the next adds of the old place, and says whether those were the last. Adds that come
// behind it have a twin.
func (m mover) copy(ctx context.Context, after int64) (over bool, err error) {
	list, err := stores.Collect[side](ctx, m.DB, `SELECT op_id, key, usr, delta, epoch FROM placed
		WHERE map = $1 AND range = $2 AND op_id > $3 ORDER BY op_id LIMIT $4`, oldMap, m.in, after, copyMost)
	if err != nil || len(list) == 0 {
		return true, err
	}
	if err = writeSides(ctx, m.DB, m.how.copy, newMap, m.in, list, "copy"); err != nil {
		return false, err
	}
	m.Config.Passed(placeCopied)
	_, err = m.DB.Exec(ctx, `UPDATE moves SET copied = $2 WHERE range = $1 AND copied < $2`, m.in,
		list[len(list)-1].ID)
	return len(list) < copyMost, err
}

// settle writes what is due at a place to its twin.
func (m mover) settle(ctx context.Context, at, twin int) error {
	for {
		list, err := stores.Collect[side](ctx, m.DB, `SELECT op_id, key, usr, delta, epoch
			FROM due JOIN placed USING (map, range, op_id)
			WHERE map = $1 AND range = $2 ORDER BY op_id LIMIT $3`, at, m.in, copyMost)
		if err != nil || len(list) == 0 {
			return err
		}
		if err = writeSides(ctx, m.DB, m.how.twin, twin, m.in, list, "twin"); err != nil {
			return err
		}
		if err = paid(ctx, m.DB, at, m.in, list); err != nil {
			return err
		}
	}
}

// handOver makes another place the owner, for the epoch-th time of the range.
func (m mover) handOver(ctx context.Context, from, to, epoch int) error {
	handed, err := m.is(ctx, to, "epoch >= $3", epoch)
	if err == nil && !handed {
		err = m.change(ctx, from, to, epoch)
	}
	if err == nil {
		_, err = m.DB.Exec(ctx, `INSERT INTO handovers (range, epoch, source, target, paused)
			SELECT $2, $3, $1, $4, 1000 * extract(epoch FROM greatest(t.since - s.since, '0'))
			FROM places s, places t
			WHERE s.map = $1 AND s.range = $2 AND t.map = $4 AND t.range = $2 ON CONFLICT DO NOTHING`,
			from, m.in, epoch, to)
	}
	return err
}

// change takes a range from one place and gives it to another one.
func (m mover) change(ctx context.Context, from, to, epoch int) error {
	err := m.exec(ctx, placeFrozen, sqlTurn+`UPDATE places
		SET state = 'frozen', since = clock_timestamp() FROM turn
		WHERE map = $1 AND range = $2 AND state = 'owner' AND epoch < $3`, from, epoch)
	if err == nil && m.how.settles {
		err = m.settle(ctx, from, to)
	}
	if err == nil && m.how.compares {
		err = m.compared(ctx, from, to, epoch)
	}
	if err == nil {
		err = m.exec(ctx, placeDemoted, `UPDATE places SET state = 'copy', twin = NULL
			WHERE map = $1 AND range = $2 AND state = 'frozen' AND epoch < $3`, from, epoch)
	}
	if err != nil {
		return err
	}
	// Another resharder may have found a difference and left the range where it was.
	if owned, err := m.is(ctx, from, "epoch < $3 AND state <> 'copy'", epoch); err != nil || owned {
		return errors.Join(err, fmt.Errorf("range %d is not handed over yet", m.in))
	}
	twin := &from
	if !m.how.back {
		twin = nil
	}
	return m.exec(ctx, placeHanded, `UPDATE places
		SET state = 'owner', epoch = $3, twin = $4, since = clock_timestamp()
		WHERE map = $1 AND range = $2 AND state = 'copy' AND epoch < $3`, to, epoch, twin)
}

// is says whether something holds of a place.
func (m mover) is(ctx context.Context, at int, what string, epoch int) (is bool, err error) {
	err = m.DB.Row(ctx, `SELECT EXISTS (SELECT FROM places WHERE map = $1 AND range = $2 AND `+what+`)`,
		[]any{at, m.in, epoch}, &is)
	return is, err
}

// compared compares a frozen place with its twin. If they differ the range stays where it is, and
// adds go on.
func (m mover) compared(ctx context.Context, from, to, epoch int) error {
	var sums [2][]Side
	for i, at := range []int{from, to} {
		var err error
		sums[i], err = stores.Collect[Side](ctx, m.DB, `SELECT map, shard, key, value FROM counters
			WHERE map = $1 AND shard = $2 ORDER BY key`, at, m.in)
		if err != nil {
			return err
		}
	}
	if slices.EqualFunc(sums[0], sums[1], func(a, b Side) bool {
		return a.Key == b.Key && a.Value == b.Value
	}) {
		return nil
	}
	err := m.exec(ctx, "", `UPDATE places SET state = 'owner'
		WHERE map = $1 AND range = $2 AND state = 'frozen' AND epoch < $3`, from, epoch)
	return errors.Join(err, fmt.Errorf("range %d differs from its copy", m.in))
}

// readMoves reads the ranges at their owners, and the evidence of how they got there.
func readMoves(ctx context.Context, _ *opened, tx pgx.Tx, a *Audit) error {
	for _, read := range []func() error{
		into(ctx, tx, &a.Ops, `SELECT op_id, key, usr, delta, 0::bigint
			FROM placed JOIN places USING (map, range) WHERE state = 'owner' ORDER BY op_id`),
		into(ctx, tx, &a.Counters, `SELECT key, shard, value
			FROM counters c JOIN places p ON p.map = c.map AND p.range = c.shard
			WHERE state = 'owner' ORDER BY key`),
		into(ctx, tx, &a.Handovers, `SELECT range, epoch, source, target, paused
			FROM handovers ORDER BY range, epoch`),
		into(ctx, tx, &a.Placed, `SELECT map, range, op_id, key, delta, epoch, in_epoch, came
			FROM placed ORDER BY map, op_id`),
		into(ctx, tx, &a.Sides, `SELECT map, shard, key, value FROM counters
			ORDER BY map, shard, key`),
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return tx.QueryRow(ctx, `SELECT count(*) FROM turned_away`).Scan(&a.Turned)
}

// into reads the rows of a statement into a list.
func into[T any](ctx context.Context, tx pgx.Tx, list *[]T, sql string) func() error {
	return func() (err error) {
		*list, err = stores.CollectOn[T](ctx, tx, sql)
		return err
	}
}
