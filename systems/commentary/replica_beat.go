package commentary

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// replicaBeat reads from a replica of Postgres while that is not too old.
//
// The idea: changes go to the primary, and looks to a streaming replica. What a replica has is as
// old as it likes, and it cannot tell: its clock is another one, and without changes there is
// nothing to be late with. So each API increments a number in the primary some times a second,
// and notes by its own clock when it began to. A look reads the number in the same snapshot as the
// comments: if the replica shows a number, it has all that was committed before that was begun. An
// answer that may be older than was promised is not given; the primary is asked in its place.
//
// The guarantee: what is acknowledged is kept, and seen within the promised time, however far the
// replica is behind.
//
// It gives up: a promise of at once; that the primary needs to do little while the replica is
// behind or gone; a commit for each API and beat.
func replicaBeat() variant {
	d := replicaPlan()
	d.within = func(p Params) int64 { return p.CopyFor.D().Milliseconds() }
	v := onReplica(variant{Name: "replica_beat",
		Idea: "looks go to a replica that shows by a number, which each API increments in the primary, " +
			"how old its data is; if too old, to the primary",
		Guarantees: "what is acknowledged is kept, and seen within the promised time however far the " +
			"replica is behind",
		GivesUp: "that every change is seen at once; that looks cost the primary nothing while the " +
			"replica is behind",
	}, d)
	v.Open = func(_ context.Context, st *opened) (Commentary, error) {
		ctx, stop := context.WithCancel(context.Background())
		b := &beating{stop: stop, over: make(chan struct{})}
		b.start = sync.OnceFunc(func() { go b.beat(ctx, st) })
		d := d
		d.look = b.look
		b.server = newServer(st, d)
		return b, nil
	}
	return v
}

// onReplica completes a design whose looks are of the replica.
func onReplica(v variant, d plan) variant {
	v.Needs = []sut.Service{sut.Replica}
	v = inPostgres(v, d)
	v.State.Schema = `CREATE TABLE beats (n bigint NOT NULL); INSERT INTO beats VALUES (0);`
	v.State.Ready, v.State.Pending = replicaReady, replicaPending
	return v
}

// replicaPlan reads what the replica has.
func replicaPlan() plan {
	return plan{tagged: true, cache: mustAsk, within: atOnce,
		look: func(s server, ctx context.Context, match uint64, known int64) (view, error) {
			v, _, err := replicated(ctx, s.opened, match)
			if err == nil && v.version < known {
				return kept(ctx, s.opened, match)
			}
			return v, err
		}}
}

// replicated reads a match in the replica, and the number of the last beat that it has.
func replicated(ctx context.Context, st *opened, match uint64) (v view, beat int64, err error) {
	v, beat, err = rowsBeside(ctx, st.Replica, "beats",
		PastRequest{Match: match, Before: maxID, Most: newest})
	return v, beat, stores.Failed("reading a match in the replica", err)
}

// replicaReady waits until the replica has the tables.
func replicaReady(ctx context.Context, st *opened) error {
	for {
		there := false
		err := st.Replica.Row(ctx, `SELECT to_regclass('beats') IS NOT NULL`, nil, &there)
		if err == nil && !there && !sut.Pause(ctx, 10*time.Millisecond) {
			err = ctx.Err()
		}
		if err != nil || there {
			return stores.Failed("waiting for the replica", err)
		}
	}
}

// replicaPending counts the changes that the replica lacks.
func replicaPending(ctx context.Context, st *opened) (int64, string, error) {
	const all = `SELECT coalesce(sum(version), 0)::bigint FROM matches`
	var primary, replica int64
	err := st.Replica.Row(ctx, all, nil, &replica) // first, so that it has no more
	if err == nil {
		err = st.DB.Row(ctx, all, nil, &primary)
	}
	return primary - replica, "the replica lacks changes", stores.Failed("comparing the replica", err)
}

// beatEvery is how often an API increments the number.
const beatEvery = 100 * time.Millisecond

// beating is an API that knows how old the replica's data is.
type beating struct {
	server
	start func()
	stop  context.CancelFunc
	over  chan struct{}

	mu    sync.Mutex
	beats []beat // the newest last
}

// beat is a number, and when this API began to write it.
type beat struct {
	n     int64
	began time.Time
}

// beat writes numbers from the first look on. It begins with a connection: to wait for one makes
// no data older.
func (b *beating) beat(ctx context.Context, st *opened) {
	defer close(b.over)
	for ok := true; ok; ok = sut.Pause(ctx, beatEvery) {
		var one beat
		err := st.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			one.began = time.Now()
			return conn.QueryRow(ctx, `UPDATE beats SET n = n + 1 RETURNING n`).Scan(&one.n)
		})
		if err != nil {
			if ctx.Err() == nil {
				st.Config.Warn("nobody can tell how old the replica is", err)
			}
			continue
		}
		b.mu.Lock()
		for len(b.beats) > 0 && time.Since(b.beats[0].began) > 2*st.Params.CopyFor.D() {
			b.beats = b.beats[1:]
		}
		b.beats = append(b.beats, one)
		b.mu.Unlock()
	}
}

// since is the time before which everything is in a replica that shows a number.
func (b *beating) since(n int64) (t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.beats {
		if one.n <= n {
			t = one.began
		}
	}
	return t
}

// look reads the replica, and the primary if that is too old or takes too long.
func (b *beating) look(s server, ctx context.Context, match uint64, known int64) (view, error) {
	b.start()
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, s.Params.CopyFor.D()/4)
	defer cancel()
	v, n, err := replicated(limited, s.opened, match)
	if err == nil && v.version >= known && began.Sub(b.since(n)) <= s.Params.CopyFor.D() {
		return v, nil
	}
	if ctx.Err() != nil {
		return view{}, ctx.Err()
	}
	return kept(ctx, s.opened, match)
}

// Close ends the beats.
func (b *beating) Close() error {
	b.stop()
	b.start() // which ends at once if it had not begun
	<-b.over
	return nil
}
