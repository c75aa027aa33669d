package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"stampede/harness/sut"
)

// Each calls do with every element at once and returns all that went wrong.
func Each[T any](list []T, do func(i int, one T) error) error {
	errs := make([]error, len(list))
	var group sync.WaitGroup
	for i, one := range list {
		group.Go(func() { errs[i] = do(i, one) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// Gather is Each that adds up what do returns, in the order of the elements.
func Gather[T, R any](list []T, do func(one T) ([]R, error)) ([]R, error) {
	found := make([][]R, len(list))
	err := Each(list, func(i int, one T) (err error) {
		found[i], err = do(one)
		return err
	})
	return slices.Concat(found...), err
}

// IdentitySeparator stands between the identities of a component's members.
const IdentitySeparator = "; "

// Group is several components as one, such as the replicas of a role.
type Group[C Component] struct {
	Name sut.Service
	Of   []C
}

// Service implements Component.
func (g Group[C]) Service() sut.Service { return g.Name }

// Addr implements Component: a group has no address of its own.
func (g Group[C]) Addr() string { return "" }

// Info implements Component: what the first member is.
func (g Group[C]) Info(ctx context.Context) (Info, error) { return g.Of[0].Info(ctx) }

// Members implements Clustered.
func (g Group[C]) Members() (list []Component) {
	for _, m := range g.Of {
		list = append(list, m)
	}
	return list
}

// Ready implements Component: every member is.
func (g Group[C]) Ready(ctx context.Context) error {
	return Each(g.Of, func(_ int, m C) error { return m.Ready(ctx) })
}

// Identity implements Component by those of the members.
func (g Group[C]) Identity(ctx context.Context) (string, error) {
	ids, err := Gather(g.Of, func(m C) ([]string, error) {
		id, err := m.Identity(ctx)
		if !m.Service().Store() {
			id = string(m.Service()) + " " + id
		}
		return []string{id}, err
	})
	return strings.Join(ids, IdentitySeparator), err
}

// LogTail implements Component: the last lines of the members together.
func (g Group[C]) LogTail(lines int) string {
	var tails []string
	for _, m := range g.Of[:min(lines, len(g.Of))] {
		tails = append(tails, m.LogTail(max(1, lines/len(g.Of))))
	}
	return strings.Join(tails, "\n")
}

// Start starts every member: ErrRunning says that all of them run.
func (g Group[C]) Start(ctx context.Context, wipe bool) error {
	var running atomic.Int64
	err := Each(g.Of, func(_ int, m C) error {
		err := any(m).(interface {
			Start(ctx context.Context, wipe bool) error
		}).Start(ctx, wipe)
		if errors.Is(err, ErrRunning) {
			running.Add(1)
			return nil
		}
		return named("start", m, err)
	})
	if err == nil && running.Load() == int64(len(g.Of)) {
		return fmt.Errorf("start %s: %w", g.Name, ErrRunning)
	}
	return err
}

func named(what string, c Component, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, c.Service(), err)
	}
	return nil
}

// Breakables are the members of a group that can be broken.
type Breakables []Breakable

// Kill kills every member.
func (b Breakables) Kill(ctx context.Context) ([]int, error) {
	return Gather(b, func(m Breakable) ([]int, error) {
		pids, err := m.Kill(ctx)
		return pids, named("kill", m, err)
	})
}

// Pause freezes every member.
func (b Breakables) Pause(ctx context.Context) ([]int, error) {
	return Gather(b, func(m Breakable) ([]int, error) {
		pids, err := m.Pause(ctx)
		return pids, named("pause", m, err)
	})
}

// Resume thaws every member.
func (b Breakables) Resume(ctx context.Context) error {
	return Each(b, func(_ int, m Breakable) error { return named("resume", m, m.Resume(ctx)) })
}

// Restart restarts one member after the other, as is done in practice, and as three brokers
// can be without an interruption.
func (b Breakables) Restart(ctx context.Context) error {
	for _, m := range b {
		if err := m.Restart(ctx); err != nil {
			return named("restart", m, err)
		}
	}
	return nil
}
