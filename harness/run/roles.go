package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"stampede/harness/sut"
)

// crew is a variant's roles at work in this process.
type crew struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// startRoles starts a variant's background work.
func startRoles(ctx context.Context, v sut.Variant, cfg sut.Config) *crew {
	ctx, cancel := context.WithCancel(ctx)
	c := &crew{cancel: cancel}
	for _, role := range v.Roles {
		c.done.Go(func() { c.work(ctx, role, cfg) })
	}
	return c
}

// work runs a role. One that ends before it was told to has failed: what it
// was there for is no longer done.
func (c *crew) work(ctx context.Context, role sut.Role, cfg sut.Config) {
	err := runRole(ctx, role, cfg)
	if err == nil && ctx.Err() == nil {
		err = errors.New("ended by itself")
	}
	if err != nil {
		c.mu.Lock()
		c.errs = append(c.errs, fmt.Errorf("role %s: %w", role.Name, err))
		c.mu.Unlock()
	}
}

func runRole(ctx context.Context, role sut.Role, cfg sut.Config) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return role.Run(ctx, cfg)
}

// stop ends the roles and returns what went wrong with them. It is
// idempotent.
func (c *crew) stop() error {
	c.cancel()
	c.done.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}
