package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/harness/sut"
)

// Crew is a variant's roles at work in this process.
type Crew struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when every role has ended
	stop   sync.Once

	mu      sync.Mutex
	working map[string]bool
	errs    []error
}

// StartRoles starts a variant's background work. A role that fails is logged
// to cfg.Logger at once, and told again by Stop.
func StartRoles(ctx context.Context, v sut.Variant, cfg sut.Config) *Crew {
	ctx, cancel := context.WithCancel(ctx)
	c := &Crew{cancel: cancel, done: make(chan struct{}), working: map[string]bool{}}
	for _, role := range v.Roles {
		c.working[role.Name] = true
	}
	var all sync.WaitGroup
	for _, role := range v.Roles {
		all.Go(func() { c.work(ctx, role, cfg) })
	}
	go func() { all.Wait(); close(c.done) }()
	return c
}

func (c *Crew) work(ctx context.Context, role sut.Role, cfg sut.Config) {
	err := RunRole(ctx, role, cfg)
	if err != nil && cfg.Logger != nil {
		cfg.Logger.Error("a role ended", "role", role.Name, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.working, role.Name)
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// RunRole runs a role until ctx is cancelled. One that ends before that has
// failed, because what it was there for is no longer done; a panic is an
// error as well.
func RunRole(ctx context.Context, role sut.Role, cfg sut.Config) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("role %s: panic: %v", role.Name, p)
		}
	}()
	err = role.Run(ctx, cfg)
	if err == nil && ctx.Err() == nil {
		err = errors.New("ended by itself")
	}
	if err != nil {
		return fmt.Errorf("role %s: %w", role.Name, err)
	}
	return nil
}

// Stop ends the roles and returns what went wrong with them. One that goes on
// for half a minute is left behind, which is an error too. Stop may be called
// again; it then does nothing and returns nil, because all was told.
func (c *Crew) Stop() (err error) {
	c.stop.Do(func() { err = c.end() })
	return err
}

func (c *Crew) end() error {
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(closeTimeout):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range sortedKeys(c.working) {
		c.errs = append(c.errs, fmt.Errorf("role %s: it did not end within %s of being told to",
			name, closeTimeout))
	}
	return errors.Join(c.errs...)
}
