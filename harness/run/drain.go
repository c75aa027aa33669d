package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stampede/harness/deploy"
	"stampede/harness/events"
	"stampede/harness/sut"
)

// drain waits until the instance says that nothing is left to do. Missing the
// deadline is recorded and fails the repeat. Who has no roles need not say.
func (r *runner) drain(v sut.Variant, t *trial, inst sut.Instance, crew *deploy.Crew) error {
	own, ok := inst.(sut.Quiescer)
	if !ok {
		if len(v.Roles) > 0 {
			t.Unasked = "it has roles and cannot say whether they are done; see sut.Quiescer"
		}
		return nil
	}
	t.teller.phase(events.Settle)
	limit := r.Scenario.Load.Drain.D()
	shortened := r.stopped() && interruptedDrain < limit
	if shortened {
		limit = interruptedDrain
	}
	began := time.Now()
	counts, _ := own.(sut.Backlogger)
	left := backlogTrend{counts: counts, every: limit / trendSamples}
	for extra := range 1 + moreDrains {
		if err := r.settled(t, everywhere{own, crew}, limit, &left); err != nil {
			return err
		}
		t.DrainNS = time.Since(began).Nanoseconds()
		t.Falling = ""
		if t.Pending != "" {
			t.Falling = left.falling(time.Now())
		}
		if t.Falling == "" || r.stopped() {
			break
		}
		if extra == 0 {
			t.Overdue = fmt.Sprintf("%s after the load work was still pending (%s)",
				time.Duration(t.DrainNS).Round(time.Millisecond), t.Pending)
		}
	}
	if shortened && t.Pending != "" {
		t.Unasked = cmp.Or(t.Unasked, "the run was interrupted before the drain's deadline")
	}
	return nil
}

// everywhere asks the run's own instance and, when that has nothing left to do, the servers
// of the API, each of which may hold something back in its memory.
type everywhere struct {
	own  sut.Quiescer
	crew *deploy.Crew
}

func (e everywhere) Quiesced(ctx context.Context) (string, error) {
	pending, err := e.own.Quiesced(ctx)
	if err != nil || pending != "" {
		return pending, err
	}
	return e.crew.Quiesced(ctx)
}

// stopped says that the run is to end.
func (r *runner) stopped() bool { return r.soft.Err() != nil }

// moreDrains is how many times the drain's deadline is waited once more for work that is
// still being done: what is left undone then is evidence of nothing.
const moreDrains = 2

// settled waits until nothing is pending, at most for limit.
func (r *runner) settled(t *trial, q sut.Quiescer, limit time.Duration, left *backlogTrend) error {
	ctx, cancel := context.WithTimeout(r.hard, limit)
	defer cancel()
	t.Pending, t.Unasked = settle(ctx, q, left)
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("draining %s: %w", t.Variant, ctx.Err())
	}
	return nil
}

// settle polls until nothing is pending or ctx ends; it returns what was pending when that was
// last known, and why it is not known then.
func settle(ctx context.Context, q sut.Quiescer, left *backlogTrend) (pending, unasked string) {
	unasked = "it did not answer in time"
	for {
		now, err := q.Quiesced(ctx)
		switch {
		case err == nil && now == "":
			return "", ""
		case err == nil:
			pending, unasked = now, ""
			left.sample(ctx)
		case ctx.Err() == nil:
			unasked = err.Error()
		}
		if !sut.Pause(ctx, quiescePoll) {
			return pending, unasked
		}
	}
}

// backlogTrend follows how much is left to do.
type backlogTrend struct {
	// counts says how much that is; nil if nobody can.
	counts sut.Backlogger
	// every is how often to count at most, next when to do so again: it is work for the
	// stores, which have enough of it.
	every time.Duration
	next  time.Time

	began time.Time
	first int64
	// counted are the moments at which it was counted, lows those at which there was less than
	// ever before.
	counted []time.Time
	lows    []low
}

type low struct {
	at   time.Time
	left int64
}

// sample counts once, if somebody can. What cannot be counted now is later.
func (e *backlogTrend) sample(ctx context.Context) {
	began := time.Now()
	if e.counts == nil || began.Before(e.next) {
		return
	}
	n, err := e.counts.Backlog(ctx)
	now := time.Now()
	e.next = now.Add(max(e.every, trendPause*now.Sub(began)))
	if err == nil {
		e.note(now, n)
	}
}

// note takes a count. Something is pending, so that nothing is no count.
func (e *backlogTrend) note(now time.Time, left int64) {
	e.counted = append(e.counted, now)
	if left <= 0 {
		return
	}
	if e.began.IsZero() {
		e.began, e.first = now, left
	}
	if len(e.lows) == 0 || left < e.lows[len(e.lows)-1].left {
		e.lows = append(e.lows, low{now, left})
	}
}

// trendSamples is how often a backlog is counted in a drain at most, and trendPause how many times
// as long as a count took is waited at least before the next.
const (
	trendSamples = 100
	trendPause   = 10
)

// trendSteps is how often a backlog reaches a new low in the last quarter of the time at
// least, if it falls; trendPatience in how many such quarters, at that pace, it would be gone.
const trendSteps, trendPatience = 2, 12

// falling says how the backlog was still getting less in the last quarter of the time in
// which it was counted, and soon enough; "" if it was not. What goes up and down has been
// as low before, and what stands still is not gone soon, whatever is done beside it. A backlog
// that a busy machine had no time to count twice may have fallen.
func (e *backlogTrend) falling(now time.Time) string {
	since := now.Add(-now.Sub(e.began) / 4)
	if n := len(e.counted) - trendSteps; len(e.lows) > 0 &&
		(n < 0 || e.counted[n].Before(now.Add(-now.Sub(e.counted[0])/4))) {
		return fmt.Sprintf("it was counted too rarely to say whether it falls from %d", e.first)
	}
	i := slices.IndexFunc(e.lows, func(l low) bool { return l.at.After(since) })
	if i < 1 || len(e.lows)-i < trendSteps {
		return ""
	}
	least := e.lows[len(e.lows)-1].left
	if least > trendPatience*(e.lows[i-1].left-least) {
		return ""
	}
	return fmt.Sprintf("it fell from %d to %d", e.first, least)
}
