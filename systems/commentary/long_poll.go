package commentary

import (
	"context"
	"math"
	"strconv"
	"time"

	"stampede/systems/internal/queue"
)

// longPoll keeps viewers waiting until there is something new.
//
// The idea: who has the newest version is not answered until a change is committed: each API
// listens for notifications from Postgres (NOTIFY in the transaction of the change) and wakes
// those who wait for that match. One read is for all of them. Whoever has waited long enough is
// answered without anything new, so that a notification that was lost costs time and nothing
// else. Of the three ways to push (long polls, server-sent events, WebSockets) this one is
// requests and answers as before: it passes any proxy, and is judged as the others are.
//
// The guarantee: what is acknowledged is kept, and seen by everyone who looks from then on, and by
// those who wait within moments.
//
// It gives up: stateless servers. Each viewer holds a connection all the time. Commits of changes
// wait for one another, because NOTIFY takes a lock.
func longPoll() variant {
	v := inPostgres(variant{Name: "long_poll",
		Idea: "who has the newest version waits until Postgres notifies the API of a change; one " +
			"read is for all who wait",
		Guarantees: "what is acknowledged is kept, seen at once by who looks, and within moments by " +
			"who waits",
		GivesUp: "connections that are free between looks; NOTIFY takes one lock for all commits",
	}, rowsPlan())
	v.Open = func(_ context.Context, st *opened) (Commentary, error) {
		d := rowsPlan()
		d.beside = []string{`SELECT pg_notify('` + channel + `', $1::text)`}
		w := &waiting{server: newServer(st, d), waiters: queue.NewWaiters()}
		w.listener = queue.Listen(st.Config, st.DB, channel, w.waiters.WakeAll, w.heard)
		return w, nil
	}
	return v
}

// channel is where changes are told of, by their match.
const channel = "commentary"

// waiting is an API whose viewers wait, each for a match.
type waiting struct {
	server
	listener *queue.Listener
	waiters  *queue.Waiters
}

// Latest reads what is new, or waits for it.
func (w *waiting) Latest(ctx context.Context, req LatestRequest) (Latest, error) {
	match := strconv.FormatUint(req.Match, 10)
	one := w.waiters.Join(match, 1) // before the read, so that no change is missed
	defer one.Leave()
	l, err := w.server.Latest(ctx, req)
	wait := min(time.Duration(req.Wait)*time.Millisecond, w.DB.Timeout/2)
	if err != nil || l.Version > req.Since || wait == 0 {
		return l, err
	}
	if err := one.Wait(ctx, wait); err != nil || !one.Leave() {
		return l, err
	}
	read, err, _ := w.flights.Do(match, func() (any, error) {
		return kept(context.WithoutCancel(ctx), w.opened, req.Match)
	})
	v, _ := read.(view)
	if err != nil {
		return Latest{}, err
	}
	if v.version <= l.Version { // somebody's read that began before the change
		return w.server.Latest(ctx, req)
	}
	return w.answer(req, v, ""), nil
}

// heard wakes those who wait for a match.
func (w *waiting) heard(match string) error {
	w.waiters.Wake(match, math.MaxInt)
	return nil
}

// Close ends the listening.
func (w *waiting) Close() error {
	w.listener.Close()
	return nil
}
