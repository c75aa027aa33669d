package deploy

import (
	"context"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// group is all replicas of a role as one component.
type group struct{ env.Group[unit] }

// several is a group whose replicas are processes.
type several struct {
	group
	env.Breakables
}

var (
	_ env.Clustered = group{}
	_ env.Stoppable = group{}
	_ env.Laborer   = group{}
	_ env.Crashable = several{}
)

// groupOf makes one component of several.
func groupOf(name sut.Service, units []unit) env.Component {
	g := group{env.Group[unit]{Name: name, Of: units}}
	var processes env.Breakables
	for _, u := range units {
		if p, is := u.(env.Breakable); is {
			processes = append(processes, p)
		}
	}
	if len(processes) == len(units) {
		return several{g, processes}
	}
	return g
}

// AtWork implements env.Laborer: every replica is.
func (g group) AtWork(ctx context.Context) error {
	return each(g.Of, func(u unit) error { return u.AtWork(ctx) })
}

func (g group) Stop(ctx context.Context) error {
	return each(g.Of, func(u unit) error { return u.(env.Stoppable).Stop(ctx) })
}

// Arm implements env.Crashable: each replica ends itself at its own passage.
func (s several) Arm(ctx context.Context, place string, passage int) error {
	return each(s.Of, func(u unit) error { return u.(env.Crashable).Arm(ctx, place, passage) })
}

func (s several) Disarm(ctx context.Context) ([]env.Crash, error) {
	return env.Gather(s.Of, func(u unit) ([]env.Crash, error) { return u.(env.Crashable).Disarm(ctx) })
}
