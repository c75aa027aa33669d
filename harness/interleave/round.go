package interleave

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// round is one order being run.
type round struct {
	world  World
	watch  *pgx.Conn
	lines  []*line
	events chan event
	// pids are the servers' processes in which the sessions' statements have run.
	pids []int32
	// script is how the order begins, made what was chosen, order what was sent.
	script, made []choice
	order        []string
}

// line is a session of a round.
type line struct {
	name  string
	index int
	grant chan struct{}
	// events is the round's.
	events chan<- event

	// The following belong to the round's own goroutine.
	state state
	pid   uint32
	sql   string
	err   error
}

// state is what a session is about.
type state int

const (
	running state = iota // it is asked for an event
	stopped              // before a statement
	blocked              // it waits for a lock
	ended
)

// event is a session that has come before a statement, or to its end.
type event struct {
	line *line
	end  bool
	err  error
	pid  uint32
	sql  string
}

func newRound(world World, watch *pgx.Conn, script []choice) *round {
	r := &round{world: world, watch: watch, script: script, events: make(chan event),
		pids: []int32{}}
	for i, s := range world.Sessions {
		r.lines = append(r.lines, &line{name: s.Name, index: i, grant: make(chan struct{}),
			events: r.events})
	}
	return r
}

// lineKey is where a context has its session.
type lineKey struct{}

// run runs all sessions to their ends and returns their errors. When it fails, they
// are cancelled and waited for.
func (r *round) run(ctx context.Context) ([]error, error) {
	working, cancel := context.WithCancel(ctx)
	var sessions sync.WaitGroup
	defer func() {
		cancel()
		sessions.Wait()
	}()
	for i, l := range r.lines {
		sessions.Go(func() {
			err := r.world.Sessions[i].Do(context.WithValue(working, lineKey{}, l))
			l.tell(working, event{line: l, end: true, err: err})
		})
		if err := r.follow(ctx, l); err != nil {
			return nil, err
		}
	}
	for {
		of := r.stopped()
		if len(of) == 0 {
			break
		}
		if err := r.step(ctx, of); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(r.lines))
	for i, l := range r.lines {
		errs[i] = l.err
	}
	return errs, nil
}

// stopped are the sessions that could go on, by index.
func (r *round) stopped() (of []int) {
	for _, l := range r.lines {
		if l.state == stopped {
			of = append(of, l.index)
		}
	}
	return of
}

// step lets one of the sessions go on, by the script as long as there is one, and
// waits until nobody runs any more.
func (r *round) step(ctx context.Context, of []int) error {
	c := choice{of: of}
	if n := len(r.made); n < len(r.script) {
		if c = r.script[n]; !slices.Equal(c.of, of) {
			return errDiverged
		}
	}
	r.made = append(r.made, c)
	l := r.lines[c.of[c.took]]
	r.order = append(r.order, l.name+": "+shown(l.sql))
	l.state = running
	l.grant <- struct{}{}
	if err := r.follow(ctx, l); err != nil {
		return err
	}
	return r.release(ctx)
}

// release follows the sessions that waited for a lock which the last step may have
// given back. Where nobody else can go on, one of them must.
func (r *round) release(ctx context.Context) error {
	for _, l := range r.lines {
		if l.state == blocked {
			l.state = running
		}
	}
	for {
		for _, l := range r.lines {
			if l.state != running {
				continue
			}
			if err := r.follow(ctx, l); err != nil {
				return err
			}
		}
		waiting := slices.ContainsFunc(r.lines, func(l *line) bool { return l.state == blocked })
		if !waiting || len(r.stopped()) > 0 {
			return nil
		}
		// A deadlock, which the server ends, or a lock that was given on.
		if err := r.await(ctx); err != nil {
			return err
		}
		for _, l := range r.lines {
			if l.state == blocked {
				l.state = running
			}
		}
	}
}

// follow waits until a session that runs has stopped, ended, or waits for a lock.
func (r *round) follow(ctx context.Context, l *line) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for l.state == running {
		select {
		case e := <-r.events:
			r.take(e)
			continue
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		waits, err := r.waits(ctx, l)
		if err != nil {
			return err
		}
		if waits {
			l.state = blocked
		} else if time.Now().After(deadline) {
			return fmt.Errorf("%s did not come to an end within %v: %s", l.name, patience, shown(l.sql))
		}
	}
	return nil
}

// await waits for any event.
func (r *round) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case e := <-r.events:
		r.take(e)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("all sessions wait for locks: %w", ctx.Err())
	}
}

// take notes an event.
func (r *round) take(e event) {
	if e.end {
		e.line.state, e.line.err = ended, e.err
		return
	}
	e.line.state, e.line.pid, e.line.sql = stopped, e.pid, e.sql
	if pid := int32(e.pid); !slices.Contains(r.pids, pid) {
		r.pids = append(r.pids, pid)
	}
}

// waits says whether a session waits for a lock of another one. The server says so of
// its lock table, without delay. Who waits for anybody else, such as an autovacuum that
// cuts off a table's end, gets the lock without the sessions and is not to be seen.
func (r *round) waits(ctx context.Context, l *line) (waits bool, err error) {
	err = r.watch.QueryRow(ctx, `SELECT pg_blocking_pids($1) && $2`, int32(l.pid), r.pids).
		Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("finding the sessions that wait: %w", err)
	}
	return waits, nil
}

// tell sends an event unless the round is over.
func (l *line) tell(ctx context.Context, e event) {
	select {
	case l.events <- e:
	case <-ctx.Done():
	}
}

// shown is a statement in one short line.
func shown(sql string) string {
	text := strings.Join(strings.Fields(sql), " ")
	if len(text) > shownSQL {
		text = text[:shownSQL] + "…"
	}
	return text
}
