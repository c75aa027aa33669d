package containers

import (
	"context"
	"errors"

	"stampede/harness/env/admin"
)

// findPrimary tells the container of a replica where its primary is.
func (s *store) findPrimary(ctx context.Context) error {
	if s.primary == nil {
		return nil
	}
	addr, err := s.primary.Addr(ctx)
	if err == nil {
		s.environ[primaryVariable] = admin.ConnInfo(addr)
	}
	return err
}

// inside is the address of the store for other containers.
func (s *store) inside(ctx context.Context) (string, error) {
	state, err := s.inspect(ctx)
	if err != nil {
		return "", err
	}
	addr := s.networkAddr(state)
	if addr == "" {
		return "", errors.New("the container has no address of its own")
	}
	return addr, nil
}

// back waits for a store that was started again.
func (s *store) back(ctx context.Context) error {
	err := s.awaitReady(ctx)
	if err == nil {
		s.pair.Reunite(ctx)
	}
	return err
}
