package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// group is all replicas of a role as one component. What is done to it is done
// to all of them at once.
type group struct {
	name  sut.Service
	units []unit
}

// several is a group whose replicas are processes.
type several struct{ group }

var (
	_ env.Clustered = group{}
	_ env.Stoppable = group{}
	_ env.Crashable = several{}
)

// groupOf makes one component of several.
func groupOf(name sut.Service, units []unit) env.Component {
	g := group{name, units}
	if _, ok := units[0].(env.Crashable); ok {
		return several{g}
	}
	return g
}

// Service implements env.Component.
var _ env.Laborer = group{}

func (g group) Service() sut.Service { return g.name }

// Addr implements env.Component: it has no address of its own.
func (g group) Addr() string { return "" }

// Info implements env.Component: what the first replica is.
func (g group) Info(ctx context.Context) (env.Info, error) { return g.units[0].Info(ctx) }

// Members implements env.Clustered.
func (g group) Members() []env.Component {
	var list []env.Component
	for _, u := range g.units {
		list = append(list, u)
	}
	return list
}

// Ready implements env.Component: every replica is.
func (g group) Ready(ctx context.Context) error {
	return each(g.units, func(u unit) error { return u.Ready(ctx) })
}

// AtWork implements env.Laborer: every replica is.
func (g group) AtWork(ctx context.Context) error {
	return each(g.units, func(u unit) error { return u.AtWork(ctx) })
}

// Identity implements env.Component by those of the replicas.
func (g group) Identity(ctx context.Context) (string, error) {
	ids := make([]string, len(g.units))
	for i, u := range g.units {
		id, err := u.Identity(ctx)
		if err != nil {
			return "", err
		}
		ids[i] = string(u.Service()) + " " + id
	}
	return strings.Join(ids, env.IdentitySeparator), nil
}

// LogTail implements env.Component: the last lines of each replica.
func (g group) LogTail(lines int) string {
	var tails []string
	for _, u := range g.units {
		tails = append(tails, u.LogTail(lines))
	}
	return strings.Join(tails, "\n")
}

// Stop implements env.Stoppable.
func (g group) Stop(ctx context.Context) error {
	return each(g.units, func(u unit) error { return u.(env.Stoppable).Stop(ctx) })
}

// Start implements env.Stoppable: ErrRunning says that all of them run.
func (g group) Start(ctx context.Context, wipe bool) error {
	var mu sync.Mutex
	running := 0
	err := each(g.units, func(u unit) error {
		err := u.(env.Stoppable).Start(ctx, wipe)
		if errors.Is(err, env.ErrRunning) {
			mu.Lock()
			defer mu.Unlock()
			running++
			return nil
		}
		return err
	})
	if err == nil && running == len(g.units) {
		return fmt.Errorf("start %s: %w", g.name, env.ErrRunning)
	}
	return err
}

// gather does something to every replica at once and adds up what comes of it.
func gather[T any](units []unit, do func(env.Crashable) ([]T, error)) ([]T, error) {
	found := make([][]T, len(units))
	next := make(map[unit]int, len(units))
	for i, u := range units {
		next[u] = i
	}
	err := each(units, func(u unit) (err error) {
		found[next[u]], err = do(u.(env.Crashable))
		return err
	})
	var all []T
	for _, list := range found {
		all = append(all, list...)
	}
	return all, err
}

// Kill implements env.Breakable.
func (s several) Kill(ctx context.Context) ([]int, error) {
	return gather(s.units, func(u env.Crashable) ([]int, error) { return u.Kill(ctx) })
}

// Pause implements env.Breakable.
func (s several) Pause(ctx context.Context) ([]int, error) {
	return gather(s.units, func(u env.Crashable) ([]int, error) { return u.Pause(ctx) })
}

// Resume implements env.Breakable.
func (s several) Resume(ctx context.Context) error {
	return each(s.units, func(u unit) error { return u.(env.Crashable).Resume(ctx) })
}

// Restart implements env.Breakable: one replica after the other, as they are
// restarted in practice.
func (s several) Restart(ctx context.Context) error {
	for _, u := range s.units {
		if err := u.(env.Crashable).Restart(ctx); err != nil {
			return fmt.Errorf("restart %s: %w", u.Service(), err)
		}
	}
	return nil
}

// Arm implements env.Crashable: each replica ends itself at its own passage.
func (s several) Arm(ctx context.Context, place string, passage int) error {
	return each(s.units, func(u unit) error { return u.(env.Crashable).Arm(ctx, place, passage) })
}

// Disarm implements env.Crashable.
func (s several) Disarm(ctx context.Context) ([]env.Crash, error) {
	return gather(s.units, func(u env.Crashable) ([]env.Crash, error) { return u.Disarm(ctx) })
}
