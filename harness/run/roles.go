package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"stampede/harness/sut"
)

// Crew is a variant's roles at work in this process.
type Crew struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// StartRoles starts a variant's background work. A role that fails is logged
// to cfg.Logger at once, and told again by Stop.
func StartRoles(ctx context.Context, v sut.Variant, cfg sut.Config) *Crew {
	ctx, cancel := context.WithCancel(ctx)
	c := &Crew{cancel: cancel}
	for _, role := range v.Roles {
		c.done.Go(func() { c.work(ctx, role, cfg) })
	}
	return c
}

func (c *Crew) work(ctx context.Context, role sut.Role, cfg sut.Config) {
	err := RunRole(ctx, role, cfg)
	if err == nil {
		return
	}
	if cfg.Logger != nil {
		cfg.Logger.Error("a role ended", "role", role.Name, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
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

// Stop ends the roles and returns what went wrong with them. It is
// idempotent.
func (c *Crew) Stop() error {
	c.cancel()
	c.done.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}
