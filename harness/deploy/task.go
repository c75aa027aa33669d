package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// RunRole runs a role until ctx is cancelled. One that ends before that has
// failed, because what it was there for is no longer done; a panic is an
// error as well.
func RunRole(ctx context.Context, role sut.Role, cfg sut.Config) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("role %s: panic: %v", role.Name, p)
		}
	}()
	defer watchTheEnd(ctx, role.Name, cfg.Logger)()
	err = role.Run(ctx, cfg)
	if err == nil && ctx.Err() == nil {
		err = errors.New("ended by itself")
	}
	if err != nil {
		return fmt.Errorf("role %s: %w", role.Name, err)
	}
	return nil
}

// watchTheEnd writes down where all goroutines are if a role goes on after ctx for
// nearly as long as it may. The returned function says that it has ended.
func watchTheEnd(ctx context.Context, role string, log *slog.Logger) (ended func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(stopBound * 5 / 6):
			if log != nil {
				stacks := make([]byte, 1<<20)
				log.Error("a role does not end", "role", role,
					"goroutines", string(stacks[:runtime.Stack(stacks, true)]))
			}
		}
	})
	return func() { stop(); close(over) }
}

// task is a replica of a role as a goroutine. It can be stopped and started
// again; nothing can kill it.
type task struct {
	role      sut.Role
	name      string
	cfg       sut.Config
	heartbeat *heartbeat

	// mu is held while it is being started or stopped.
	mu     sync.Mutex
	cancel context.CancelFunc // nil before the first start
	done   chan struct{}      // closed when this life has ended
	err    error              // how it ended; read it only after done
	// lives counts the starts, told those whose end was told.
	lives int
	told  bool
}

var (
	_ env.Stoppable = (*task)(nil)
	_ env.Laborer   = (*task)(nil)
)

func newTask(role sut.Role, name string, cfg sut.Config) *task {
	t := &task{role: role, name: name, cfg: cfg, heartbeat: newHeartbeat()}
	t.cfg.OnWorked = t.heartbeat.tick
	return t
}

func (t *task) launch(context.Context) error { return t.Start(context.Background(), false) }

// Start implements env.Stoppable. The role outlives ctx.
func (t *task) Start(ctx context.Context, _ bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil && !env.Ended(t.done) {
		return fmt.Errorf("start %s: %w", t.name, env.ErrRunning)
	}
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	t.done, t.told = done, false
	t.lives++
	go func() {
		defer close(done)
		t.err = RunRole(ctx, t.role, t.cfg)
		complain(t.cfg.Logger, t.name, t.err)
	}()
	return nil
}

// Stop implements env.Stoppable. One that goes on for half a minute is left
// behind, which is an error.
func (t *task) Stop(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil || t.told {
		return nil
	}
	t.cancel()
	select {
	case <-t.done:
	case <-time.After(stopBound):
		return fmt.Errorf("role %s: %w: it did not end within %s of the request to stop", t.name,
			ErrCutShort, stopBound)
	}
	t.told = true
	return t.err
}

func (t *task) end() error { return t.Stop(context.Background()) }

func (t *task) Service() sut.Service { return sut.Service(t.name) }

// Addr implements env.Component: nobody connects to it.
func (t *task) Addr() string { return "" }

func (t *task) Info(context.Context) (env.Info, error) { return env.Info{Kind: InProcess}, nil }

// LogTail implements env.Component: it logs where its variant does.
func (t *task) LogTail(int) string { return "" }

func (t *task) Ready(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil || env.Ended(t.done) {
		return fmt.Errorf("role %s is not at work", t.name)
	}
	return nil
}

func (t *task) AtWork(ctx context.Context) error {
	worked := t.heartbeat.after()
	t.mu.Lock()
	done := t.done
	t.mu.Unlock()
	if err := t.Ready(ctx); err != nil {
		return err
	}
	select {
	case <-worked:
		return nil
	case <-done:
		return fmt.Errorf("role %s is not at work", t.name)
	case <-ctx.Done():
		return fmt.Errorf("role %s has not worked since: %w", t.name, ctx.Err())
	}
}

func (t *task) Identity(ctx context.Context) (string, error) {
	if err := t.Ready(ctx); err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("start %d", t.lives), nil
}
