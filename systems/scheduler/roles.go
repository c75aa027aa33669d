package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

const (
	// notifiedPolls is how many polls a picker or executor leaves out that is told
	// when there is something.
	notifiedPolls = 20
	// executorConns is how many connections an executor opens, at most.
	executorConns = 8
	// takers is how many claim for an executor at once.
	takers = 2
)

// The places at which a process may be ended.
const (
	// placeSelected: a picker has found and locked tasks and has not marked them.
	placeSelected = "selected"
	// placeMarked: a picker has noted in Postgres that it hands tasks over, and has
	// not sent them.
	placeMarked = "marked"
	// placeReceived: an executor has received tasks and has not started them.
	placeReceived = "received"
	// placeClaimed: an executor has started tasks and has not done anything.
	placeClaimed = "claimed"
	// placeEffected: a task has had its effect, and is not ended.
	placeEffected = "effected"
	// placeFound: a rescuer has found leases that have ended.
	placeFound = "found"
)

// steady works step by step until ctx is cancelled, and then ends what is under way. Its stores
// stay open whatever fails: an executor keeps what it has in hand.
func (t *tasks) steady(
	ctx context.Context, role string, worked func(), step func() (time.Duration, error), end func(),
) {
	for retry := (sut.Retry{}); ctx.Err() == nil; {
		wait, err := step()
		if err == nil {
			worked()
			err = t.noteSoon(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.warn(role, err)
			retry.Rest(ctx)
		default:
			retry = sut.Retry{}
			t.Config.Rest(ctx, wait)
		}
	}
	end()
	if err := t.note(context.WithoutCancel(ctx)); err != nil {
		t.warn(role, err)
	}
}

// stepping is what a role with such steps does.
func stepping(
	of opener, role string, step func(context.Context, *tasks) (time.Duration, error),
) func(context.Context, *opened) error {
	return func(ctx context.Context, st *opened) error {
		t, err := of(st)
		if err != nil {
			return err
		}
		t.steady(ctx, role, st.Config.Worked, func() (time.Duration, error) { return step(ctx, t) },
			func() {})
		return nil
	}
}

func (t *tasks) warn(role string, err error) {
	t.Config.Warn("scheduler "+t.name+" "+role+" goes on after an error", err)
}

// pickerRole is the role that looks ahead.
func pickerRole(of opener, o overrides) role {
	r := role{
		Name:    "picker",
		Summary: "marks the tasks due next, in batches, some time ahead",
		Places:  []string{placeSelected},
	}
	if o.carry != nil {
		r.Places = append(r.Places, placeMarked)
	}
	r.Do = func(ctx context.Context, st *opened) error {
		t, err := of(st)
		if err != nil {
			return err
		}
		var over carrier
		if o.carry != nil {
			if over, err = o.carry(st); err != nil {
				return err
			}
			defer over.close()
		}
		waiters, hush := t.listening(channelTasks)
		defer hush()
		rests := t.idle(waiters, 0)
		t.steady(ctx, "picker", st.Config.Worked, func() (time.Duration, error) {
			return 0, t.pickAll(ctx, rests, over)
		}, func() {})
		return nil
	}
	return r
}

// pickAll picks until nothing is left.
func (t *tasks) pickAll(ctx context.Context, rests *idle, over carrier) error {
	how := picking{selected: func() { t.Config.Passed(placeSelected) }}
	parts := max(1, t.parts)
	for n := range parts {
		how.part = (t.Config.Replica*parts/2 + n) % parts // so that replicas begin apart
		err := queue.Batches(ctx, t.Params.PickBatch, func(ctx context.Context) (int, error) {
			return t.pick(ctx, how)
		})
		if err != nil {
			return err
		}
	}
	if over != nil {
		if err := t.handOverAll(ctx, over); err != nil {
			return err
		}
	}
	return rests.rest(ctx, Waiting, t.Params.clock(t.Params.LookAhead))
}

// listening are those who are woken by notifications on a channel until hush is called, nil in
// designs that do not notify.
func (t *tasks) listening(channel string) (waiters *queue.Waiters, hush func()) {
	if t.tells == nil {
		return nil, func() {}
	}
	waiters = queue.NewWaiters()
	l := queue.Listen(t.Config, t.DB, channel, waiters.WakeAll,
		func(string) error { waiters.WakeAll(); return nil })
	return waiters, l.Close
}

// idle is how one loop of a role rests.
type idle struct {
	*tasks
	waiters *queue.Waiters
	uneven  *rand.Rand
}

func (t *tasks) idle(waiters *queue.Waiters, loop uint64) *idle {
	seed := uint64(os.Getpid())<<8 | loop
	return &idle{t, waiters, rand.New(rand.NewPCG(seed, uint64(t.Config.Replica)))}
}

// rest waits for the next poll, or until something is due, or somebody rings. Polls come
// at uneven intervals, from half to one and a half of Params.PollEvery: in step, of two
// executors the same one would always be the first, and take all there is.
func (i *idle) rest(ctx context.Context, state State, ahead time.Duration) error {
	t, wait := i.tasks, i.Params.PollEvery.D()
	wait = wait/2 + time.Duration(i.uneven.Int64N(int64(wait))) // it is more than 0
	if i.waiters == nil {
		t.Config.Rest(ctx, wait)
		return nil
	}
	one := i.waiters.Join("", 1) // before the look: what comes after it wakes
	defer one.Leave()
	in, some, err := t.overdue(ctx, state, ahead)
	if err != nil {
		return err
	}
	if wait *= notifiedPolls; some {
		wait = min(wait, in)
	}
	_ = one.Wait(ctx, wait) // who is told to stop looks itself
	return nil
}

// rescuerRole is the role that reclaims tasks whose lease expired.
func rescuerRole(of opener) role {
	return role{
		Name: "rescuer",
		Summary: "reclaims started tasks whose leases expired, and deletes tasks older than the " +
			"retention",
		Places: []string{placeFound},
		Needs:  []sut.Service{},
		Do: stepping(of, "rescuer", func(ctx context.Context, t *tasks) (time.Duration, error) {
			return t.Params.RescueEvery.D(), t.rescueAll(ctx)
		}),
	}
}

// rescueAll takes back until nothing is left, and deletes what is old.
func (t *tasks) rescueAll(ctx context.Context) error {
	err := queue.Batches(ctx, rescueBatch, func(ctx context.Context) (int, error) {
		return t.rescue(ctx, func() { t.Config.Passed(placeFound) })
	})
	if err != nil {
		return err
	}
	return t.purge(ctx)
}

// executorRole is the role that runs tasks.
func executorRole(of opener, o overrides) role {
	r := role{
		Name:    "executor",
		Summary: "starts due tasks under leases, a limited number at a time",
		Places:  []string{placeClaimed, placeEffected},
		ConnsOf: func(_ Params, instance int) int { return max(2*takers, min(instance, executorConns)) },
	}
	if o.ends != nil {
		r.Places = r.Places[:1] // effect and end are one statement
	}
	if o.carry != nil {
		r.Places = append([]string{placeReceived}, r.Places...)
	}
	r.Do = func(ctx context.Context, st *opened) error {
		t, err := of(st)
		if err != nil {
			return err
		}
		if o.execute != nil {
			return o.execute(ctx, t)
		}
		waiters, hush := t.listening(channelPicked)
		defer hush()
		group, ctx := errgroup.WithContext(ctx)
		for n := range takers {
			group.Go(func() error { return t.takeOn(ctx, n, waiters) })
		}
		return group.Wait()
	}
	return r
}

// takeOn claims and runs tasks as the n-th taker of an executor.
func (t *tasks) takeOn(ctx context.Context, n int, waiters *queue.Waiters) error {
	name := fmt.Sprintf("executor-%d.%d-%d", t.Config.Replica, n, os.Getpid())
	e := newExecutor(t, name, n, t.idle(waiters, uint64(n)))
	worked := t.Config.Worked
	if n > 0 {
		worked = func() {}
	}
	if t.carry != nil {
		var err error
		if e.carrier, err = t.carry(t.opened); err != nil {
			return err
		}
		defer e.carrier.close()
	}
	e.begin(ctx)
	t.steady(ctx, "executor", worked, func() (time.Duration, error) { return 0, e.step(ctx) },
		e.drain)
	return nil
}
