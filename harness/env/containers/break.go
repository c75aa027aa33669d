package containers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// pids lists the container's processes as this machine numbers them.
func (s *store) pids(ctx context.Context) ([]int, error) {
	top, err := s.engine.ContainerTop(ctx, s.container(), client.ContainerTopOptions{
		Arguments: []string{"-eo", "pid"}})
	if err != nil {
		return nil, fmt.Errorf("list the processes of %s: %w", s.service, err)
	}
	var list []int
	for _, row := range top.Processes {
		if pid, err := strconv.Atoi(strings.TrimSpace(strings.Join(row, ""))); err == nil {
			list = append(list, pid)
		}
	}
	return list, nil
}

// Kill implements env.Breakable. The end of its first process ends every
// process of a container.
func (s *store) Kill(ctx context.Context) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	pids, err := s.pids(ctx)
	if err != nil {
		return nil, err
	}
	back := s.leave()
	_, err = s.engine.ContainerKill(ctx, s.container(), client.ContainerKillOptions{Signal: "KILL"})
	if err != nil {
		back()
		return nil, fmt.Errorf("kill %s: %w", s.service, err)
	}
	return pids, s.awaitEnd(ctx)
}

// awaitEnd polls until the container has ended.
func (s *store) awaitEnd(ctx context.Context) error {
	for {
		state, err := s.inspect(ctx)
		if err != nil || !state.State.Running {
			return err
		}
		if !sut.Pause(ctx, readyEvery) {
			return fmt.Errorf("wait for the end of %s: %w", s.service, ctx.Err())
		}
	}
}

func (s *store) Start(ctx context.Context, wipe bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	state, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if state.State.Running {
		return fmt.Errorf("start %s: %w", s.service, env.ErrRunning)
	}
	if wipe {
		if err := s.remove(ctx); err != nil {
			return err
		}
		return s.create(ctx)
	}
	_, err = s.engine.ContainerStart(ctx, s.container(), client.ContainerStartOptions{})
	if err != nil {
		return fmt.Errorf("start %s again: %w", s.service, err)
	}
	return s.back(ctx)
}

// freezer is what freezes a container: an engine.
type freezer interface {
	ContainerPause(
		context.Context, string, client.ContainerPauseOptions,
	) (client.ContainerPauseResult, error)
}

const (
	// freezeTries is how often a container is frozen that could not be, freezeEvery how long
	// is waited in between.
	freezeTries = 10
	freezeEvery = 50 * time.Millisecond
)

// freeze freezes a container. With the first version of control groups an engine gives up,
// and thaws what it has frozen, if new threads come up in the container meanwhile ("unable to
// freeze"); then it is asked again.
func freeze(ctx context.Context, engine freezer, id string) error {
	for try := 1; ; try++ {
		_, err := engine.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		if err == nil || try == freezeTries || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
		if !sut.Pause(ctx, freezeEvery) {
			return err
		}
	}
}

// Pause implements env.Breakable by the engine's freezer.
func (s *store) Pause(ctx context.Context) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	pids, err := s.pids(ctx)
	if err != nil {
		return nil, err
	}
	if err := freeze(ctx, s.engine, s.container()); err != nil {
		return nil, fmt.Errorf("pause %s: %w", s.service, err)
	}
	state, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if !state.State.Paused {
		return nil, fmt.Errorf("pause %s: the engine says that it is %s", s.service, state.State.Status)
	}
	return pids, nil
}

// Resume implements env.Breakable. Resuming what runs changes nothing.
func (s *store) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	state, err := s.inspect(ctx)
	if err != nil || !state.State.Paused {
		return err
	}
	_, err = s.engine.ContainerUnpause(ctx, s.container(), client.ContainerUnpauseOptions{})
	if err != nil {
		return fmt.Errorf("resume %s: %w", s.service, err)
	}
	s.pair.Reunite(ctx)
	return nil
}

// Restart implements env.Breakable by the image's own stop signal.
func (s *store) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopBound+s.bound())
	defer cancel()
	seconds := int(stopBound / time.Second)
	options := client.ContainerRestartOptions{Timeout: &seconds}
	back := s.leave()
	_, err := s.engine.ContainerRestart(ctx, s.container(), options)
	if err != nil {
		back()
		return fmt.Errorf("restart %s: %w", s.service, err)
	}
	return s.back(ctx)
}
