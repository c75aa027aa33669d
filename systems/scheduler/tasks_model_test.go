package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// awaits asks the model's API for the start of a task at a time.
func awaits(s *sim.Sim, api Scheduler, at time.Duration, id uint64) *error {
	ended := errors.New("it still waits")
	s.At(at, func() {
		s.Go(func(p *sim.Process) { _, ended = api.Await(p.Context(context.Background()), id) })
	})
	return &ended
}

// TestModelAwaitAfterKill: a kill of Postgres fails those who wait for a start, and nobody who
// waits after the restart.
func TestModelAwaitAfterKill(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c, err := sim.NewCluster(s, sim.DefaultMachine(), assumedCosts())
	ok(t, err)
	m := simulated(overrides{}, nil)(c, DefaultParams(), sut.Config{MaxConns: 16,
		Timeout: 2 * time.Second})
	api, works := m.Open(nil)
	s.Go(works[0])
	var scheduled error
	s.Go(func(p *sim.Process) {
		_, scheduled = api.Schedule(p.Context(t.Context()), Request{ID: 1, Queue: QueueKey(1),
			At: DefaultParams().day().Add(2 * time.Minute), Spec: Spec{Task: "once"}})
	})
	during := awaits(s, api, time.Second, 1)
	s.At(1500*ms, c.Postgres.Kill)
	s.At(1600*ms, c.Postgres.Restart)
	after := awaits(s, api, 3*time.Second, 1)
	ok(t, s.Run(t.Context(), 20*time.Second))
	ok(t, scheduled, *after)
	if !errors.Is(*during, sim.ErrUnreachable) && !errors.Is(*during, sim.ErrLost) {
		t.Errorf("a wait during the kill ended with %v", *during)
	}
}
