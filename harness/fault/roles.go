package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/plain"
	"stampede/harness/sut"
)

// The ways in which a churn takes a replica away.
const (
	// Mixed: one or the other, at random.
	Mixed = "mixed"
	// Orderly: as before a new version is put to work.
	Orderly = "stop"
	// Abrupt: by SIGKILL.
	Abrupt = "kill"
)

// DefaultEvery is the mean time between two steps of a churn where a fault does
// not say.
const DefaultEvery = time.Second

// crash arms the processes of a role to end themselves at a passage. The proof
// is that one said it had got there, was then ended by SIGKILL, and that
// another process took its place.
func (in *Injection) crash(ctx context.Context) (err error) {
	role := in.target.Component.(env.Crashable)
	if in.effects.IdentityBefore, err = role.Identity(ctx); err != nil {
		return err
	}
	in.undo = func(ctx context.Context) error {
		if in.effects.Crashes == nil {
			crashes, err := role.Disarm(ctx)
			if err != nil {
				return err
			}
			in.effects.Crashes = crashes
		}
		return startAgain(ctx, role, false)
	}
	in.observe = func(ctx context.Context) error {
		after, err := role.Identity(ctx)
		if err != nil {
			return err
		}
		in.effects.IdentityAfter = after
		for _, c := range in.effects.Crashes {
			if after != in.effects.IdentityBefore {
				in.found("%s, process %d, reached %q for the %s time and was killed there with SIGKILL",
					c.Name, c.PID, c.Place, plain.Ordinal(c.Passage))
			}
		}
		return nil
	}
	return role.Arm(ctx, in.fault.Place, in.fault.Passage)
}

// churning is a churn under way.
type churning struct {
	fault   Fault
	members []env.Stoppable
	rng     *rand.Rand

	// What was seen to happen; read it only after the churn.
	stops, kills int
	err          error
}

// churn takes replicas away and brings them back until it is healed. The proof
// is that other ones came back.
func (in *Injection) churn(ctx context.Context, seed uint64) {
	c := &churning{fault: in.fault, members: members(in.target.Component),
		rng: rand.New(rand.NewPCG(seed, 0x636875726e))}
	storm, calm := context.WithCancel(context.WithoutCancel(ctx))
	var over sync.WaitGroup
	over.Go(func() { c.run(storm) })
	in.undo = func(ctx context.Context) error {
		calm()
		over.Wait()
		err := c.err
		c.err = nil // once told, what is left is to bring all of them back
		for _, m := range c.members {
			err = errors.Join(err, startAgain(ctx, m, false))
		}
		return err
	}
	in.observe = func(context.Context) error {
		in.effects.Stops, in.effects.Kills = c.stops, c.kills
		if c.stops+c.kills > 0 {
			in.found("replicas of %s were stopped %d times and killed %d times, and new ones came back",
				in.fault.Target, c.stops, c.kills)
		}
		return nil
	}
}

// members are the replicas of a role, which may be one.
func members(c env.Component) []env.Stoppable {
	several, ok := c.(env.Clustered)
	if !ok {
		return []env.Stoppable{c.(env.Stoppable)}
	}
	var list []env.Stoppable
	for _, m := range several.Members() {
		list = append(list, m.(env.Stoppable))
	}
	return list
}

// run takes one replica after the other away, the first one at once, until ctx
// is over. Whom, how, when and for how long follows from the seed.
func (c *churning) run(ctx context.Context) {
	for ctx.Err() == nil && c.err == nil {
		member := c.members[c.rng.IntN(len(c.members))]
		_, breakable := member.(env.Breakable)
		kill := breakable && (c.fault.How == Abrupt || c.fault.How == Mixed && c.rng.IntN(2) == 0)
		away, rest := c.half(), c.half()
		// What was begun is finished: half a step is harder to heal.
		c.err = c.step(context.WithoutCancel(ctx), member, kill, func() { sut.Pause(ctx, away) })
		sut.Pause(ctx, rest)
	}
}

// half is a quarter to three quarters of the mean time between two steps.
func (c *churning) half() time.Duration {
	return c.fault.Every/4 + time.Duration(c.rng.Int64N(int64(c.fault.Every/2)+1))
}

// step takes a replica away and brings it back.
func (c *churning) step(ctx context.Context, member env.Stoppable, kill bool, wait func()) error {
	ctx, cancel := context.WithTimeout(ctx, injectBound)
	defer cancel()
	before, err := member.Identity(ctx)
	if err != nil {
		return err
	}
	if kill {
		_, err = member.(env.Breakable).Kill(ctx)
	} else {
		err = member.Stop(ctx)
	}
	if err != nil {
		return err
	}
	wait()
	if err := member.Start(ctx, false); err != nil {
		return err
	}
	after, err := member.Identity(ctx)
	if err != nil || after == before {
		return err
	}
	if kill {
		c.kills++
	} else {
		c.stops++
	}
	return nil
}
