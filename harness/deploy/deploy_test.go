package deploy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/env"
	"stampede/harness/history"
	"stampede/harness/sut"
)

var errBroken = errors.New("it is broken")

// start deploys a plan whose API is an instance that does nothing.
func start(t *testing.T, p Plan) *Crew {
	t.Helper()
	crew, err := Start(t.Context(), p, idle{})
	if err != nil {
		t.Fatal(err)
	}
	return crew
}

// wait is a role's work: it waits and says that it works.
func wait(ctx context.Context, cfg sut.Config) error {
	for sut.Pause(ctx, time.Millisecond) {
		cfg.Worked()
	}
	return nil
}

// idle is an instance that does nothing.
type idle struct{ sut.Instance }

func (idle) Do(context.Context, history.Op) (history.Reply, error) { return history.Reply{}, nil }

func TestACrewTellsOnce(t *testing.T) {
	fails := make(chan struct{})
	crew := start(t, Plan{Variant: sut.Variant{Roles: []sut.Role{
		{Name: "good", Run: wait},
		{Name: "bad", Run: func(_ context.Context, cfg sut.Config) error {
			for !env.Ended(fails) {
				cfg.Worked()
			}
			return errBroken
		}},
	}}})
	close(fails)
	<-crew.roles["bad"][0].(*task).done
	if err := crew.Stop(); err == nil || err.Error() != "role bad: it is broken" {
		t.Errorf("stopped: %v", err)
	}
	if err := crew.Stop(); err != nil {
		t.Errorf("stopped again: %v", err)
	}
}

// TestACrewIsAtWork: a role that ends, or does nothing, keeps it from starting.
func TestACrewIsAtWork(t *testing.T) {
	for want, run := range map[string]func(context.Context, sut.Config) error{
		"role bad: it is broken": func(context.Context, sut.Config) error { return errBroken },
		"role bad has not worked since": func(ctx context.Context, _ sut.Config) error {
			<-ctx.Done()
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := Start(t.Context(), Plan{Variant: sut.Variant{Roles: []sut.Role{
				{Name: "good", Run: wait}, {Name: "bad", Run: run}}}}, idle{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("started: %v, want %s", err, want)
			}
		})
	}
}

// lines is a log, line by line.
type lines chan string

// Write adds a line.
func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestARoleThatDoesNotEndIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		log := make(lines, 16)
		cfg := sut.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}
		crew := start(t, Plan{Config: cfg, Variant: sut.Variant{Roles: []sut.Role{
			{Name: "deaf", Run: func(_ context.Context, cfg sut.Config) error {
				for !env.Ended(release) {
					cfg.Worked()
					time.Sleep(time.Second)
				}
				return nil
			}},
		}}})
		err := crew.Stop()
		if !errors.Is(err, ErrCutShort) || !strings.Contains(err.Error(), "did not end within 30s") {
			t.Errorf("stopped: %v", err)
		}
		close(release)
		<-crew.roles["deaf"][0].(*task).done
		if text := <-log; !strings.Contains(text, "TestARoleThatDoesNotEndIsLeftBehind") {
			t.Errorf("nobody can see where it was: %s", text)
		}
	})
}

// TestReplicasInProcess: each has its number, one alone has none, and each is
// a component that can be stopped and started.
func TestReplicasInProcess(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	counter := sut.Role{Name: "counter", Run: func(ctx context.Context, cfg sut.Config) error {
		mu.Lock()
		seen[cfg.Replica]++
		mu.Unlock()
		return wait(ctx, cfg)
	}}
	single := sut.Role{Name: "single", Run: counter.Run}
	synctest.Test(t, func(t *testing.T) {
		crew := start(t, Plan{Variant: sut.Variant{Roles: []sut.Role{counter, single}},
			Replicas: map[string]int{"counter": 3}})
		names := []string{}
		for _, c := range crew.Components() {
			names = append(names, string(c.Service()))
			before, err := c.Identity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s := c.(env.Stoppable)
			if err := s.Start(t.Context(), false); !errors.Is(err, env.ErrRunning) {
				t.Errorf("%s: started twice: %v", c.Service(), err)
			}
			if err := errors.Join(s.Stop(t.Context()), s.Stop(t.Context())); err != nil {
				t.Errorf("%s: stopped: %v", c.Service(), err)
			}
			if c.Ready(t.Context()) == nil {
				t.Errorf("%s is at work after its end", c.Service())
			}
			if err := errors.Join(s.Start(t.Context(), false), c.Ready(t.Context())); err != nil {
				t.Errorf("%s: %v", c.Service(), err)
			}
			if after, _ := c.Identity(t.Context()); after == before {
				t.Errorf("%s is %s as before", c.Service(), after)
			}
		}
		if got := strings.Join(names, " "); got != "counter-1 counter-2 counter-3 counter single" {
			t.Errorf("the components are %s", got)
		}
		synctest.Wait()
		if err := crew.Stop(); err != nil {
			t.Error(err)
		}
	})
	if want := map[int]int{0: 2, 1: 3, 2: 3, 3: 3}; !maps.Equal(seen, want) {
		t.Errorf("the replicas ran %v, want %v", seen, want)
	}
}

// TestServersInProcess: several instances of the API take turns.
func TestServersInProcess(t *testing.T) {
	var opened, closed int
	done := map[int]int{}
	crew := start(t, Plan{Replicas: map[string]int{API: 2}, Variant: sut.Variant{
		Open: func(_ context.Context, cfg sut.Config) (sut.Instance, error) {
			opened++
			return counting{did: func() { done[cfg.Replica]++ }, closed: func() { closed++ }}, nil
		}}})
	for range 10 {
		if _, err := crew.Do(t.Context(), history.Op{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := crew.Stop(); err != nil || opened != 2 || closed != 2 {
		t.Errorf("%d opened, %d closed, %v", opened, closed, err)
	}
	if want := map[int]int{1: 5, 2: 5}; !maps.Equal(done, want) {
		t.Errorf("they did %v, want %v", done, want)
	}
}

// counting is an instance that counts.
type counting struct {
	sut.Instance

	did, closed func()
}

func (c counting) Do(context.Context, history.Op) (history.Reply, error) {
	c.did()
	return history.Reply{}, nil
}

func (c counting) Close() error {
	c.closed()
	return nil
}
