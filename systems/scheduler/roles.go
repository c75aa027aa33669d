package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

const (
	// pickerConns is how many connections a picker, a rescuer or an orchestrator
	// opens.
	pickerConns = 2
	// roleTimeout bounds one operation of a role on Postgres.
	roleTimeout = 2 * time.Second
	// notifiedPolls is how many polls a picker or executor leaves out that is told
	// when there is something.
	notifiedPolls = 20
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

// step is one step of a role's work, and how long it rests after it.
type step func(context.Context, *backend) (wait time.Duration, err error)

// run opens a role's own connections and works step by step until ctx is
// cancelled; then it ends what is under way. Errors are logged and survived.
func (d design) run(
	ctx context.Context, cfg sut.Config, role string, step step, end func(),
) error {
	cfg.Timeout = min(stores.Timeout(cfg), roleTimeout)
	var b *backend
	defer func() {
		if b != nil {
			end()
			if err := b.note(context.WithoutCancel(ctx)); err != nil {
				d.warn(cfg, role, err)
			}
			if err := b.close(); err != nil {
				d.warn(cfg, role, err)
			}
		}
	}()
	for ctx.Err() == nil {
		var err error
		var wait time.Duration
		if b == nil {
			b, err = d.backend(ctx, cfg)
		}
		if err == nil && b.uneven == nil {
			b.uneven = rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(cfg.Replica)))
		}
		if err == nil {
			if wait, err = step(ctx, b); err == nil {
				cfg.Worked()
				err = b.noteSoon(ctx)
			}
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			d.warn(cfg, role, err)
			sut.Pause(ctx, sut.AfterError)
		default:
			cfg.Rest(ctx, wait)
		}
	}
	return nil
}

func (d design) warn(cfg sut.Config, role string, err error) {
	cfg.Warn("scheduler "+d.name+" "+role+" goes on after an error", err)
}

// pickerRole is the role that looks ahead.
func (d design) pickerRole() sut.Role {
	places := []string{placeSelected}
	if d.carried != nil {
		places = append(places, placeMarked)
	}
	return sut.Role{
		Name:    "picker",
		Summary: "marks the tasks due next, in batches, some time ahead",
		Places:  places,
		Run: func(ctx context.Context, cfg sut.Config) error {
			cfg.MaxConns = pickerConns
			bell := d.bell(cfg, channelTasks)
			defer bell.close()
			return d.run(ctx, cfg, "picker", func(ctx context.Context, b *backend) (time.Duration, error) {
				return b.pickAll(ctx, bell)
			}, func() {})
		},
	}
}

// pickAll picks until nothing is left.
func (b *backend) pickAll(ctx context.Context, bell *bell) (wait time.Duration, err error) {
	how := picking{selected: func() { b.cfg.Passed(placeSelected) }}
	parts := 1
	if b.design.partitions {
		parts = partitions
	}
	for n := range parts {
		how.part = (b.cfg.Replica*partitions/2 + n) % parts // so that replicas begin apart
		for taken := b.params.PickBatch; taken == b.params.PickBatch; {
			if taken, err = b.pick(ctx, how); err != nil {
				return 0, err
			}
		}
	}
	if b.carrier != nil {
		if err := b.handOverAll(ctx); err != nil {
			return 0, err
		}
	}
	return 0, b.rest(ctx, bell, Waiting, b.params.clock(b.params.LookAhead))
}

// rest waits for the next poll, or until something is due, or somebody rings. Polls come
// at uneven intervals, from half to one and a half of Params.PollEvery: in step, of two
// executors the same one would always be the first, and take all there is.
func (b *backend) rest(
	ctx context.Context, bell *bell, state State, ahead time.Duration,
) error {
	wait := b.params.PollEvery.D()
	if b.uneven != nil {
		wait = wait/2 + time.Duration(b.uneven.Int64N(int64(wait))) // it is more than 0
	}
	if !b.design.notify {
		b.cfg.Rest(ctx, wait)
		return nil
	}
	ring := bell.next() // before the look: what comes after it rings
	in, some, err := b.overdue(ctx, state, ahead)
	if err != nil {
		return err
	}
	if wait *= notifiedPolls; some {
		wait = min(wait, in)
	}
	untilRung(ctx, ring, wait)
	return nil
}

// rescuerRole is the role that takes back what is nobody's any more.
func (d design) rescuerRole() sut.Role {
	return sut.Role{
		Name: "rescuer",
		Summary: "reclaims started tasks whose leases expired, and deletes tasks older than the " +
			"retention",
		Places: []string{placeFound},
		Run: func(ctx context.Context, cfg sut.Config) error {
			cfg.MaxConns = pickerConns
			return d.run(ctx, cfg, "rescuer", func(ctx context.Context, b *backend) (time.Duration, error) {
				return b.params.RescueEvery.D(), b.rescueAll(ctx)
			}, func() {})
		},
	}
}

// rescueAll takes back until nothing is left, and deletes what is old.
func (b *backend) rescueAll(ctx context.Context) error {
	for n := rescueBatch; n == rescueBatch && !b.design.river; {
		var err error
		if n, err = b.rescue(ctx, func() { b.cfg.Passed(placeFound) }); err != nil {
			return err
		}
	}
	return b.purge(ctx)
}

// executorConns is how many connections an executor opens, at most.
const executorConns = 8

// takers is how many claim for an executor at once.
const takers = 2

// executorRole is the role that runs tasks.
func (d design) executorRole() sut.Role {
	role := sut.Role{
		Name:    "executor",
		Summary: "starts due tasks under leases, a limited number at a time",
		Places:  []string{placeClaimed, placeEffected},
	}
	if d.direct {
		role.Places = role.Places[:1] // effect and end are one statement
	}
	if d.carried != nil {
		role.Places = append([]string{placeReceived}, role.Places...)
	}
	role.Run = func(ctx context.Context, cfg sut.Config) error {
		if cfg.MaxConns = min(stores.MaxConns(cfg), executorConns); d.river {
			return d.runRiver(ctx, cfg)
		}
		cfg.MaxConns = max(2, cfg.MaxConns/takers)
		bell := d.bell(cfg, channelPicked)
		defer bell.close()
		var all sync.WaitGroup
		var done [takers]error
		for n := range takers {
			cfg := cfg
			if n > 0 {
				cfg.OnWorked = nil
			}
			all.Go(func() {
				e := newExecutor(fmt.Sprintf("executor-%d.%d-%d", cfg.Replica, n, os.Getpid()), n, bell)
				done[n] = d.run(ctx, cfg, "executor", e.step, e.drain)
			})
		}
		all.Wait()
		return done[0]
	}
	return role
}
