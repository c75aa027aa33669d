package containers

import (
	"context"
	"errors"
	"net"

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
	if state.NetworkSettings != nil {
		for _, n := range state.NetworkSettings.Networks {
			if n.IPAddress.IsValid() {
				return net.JoinHostPort(n.IPAddress.String(), s.port), nil
			}
		}
	}
	return "", errors.New("the container has no address of its own")
}

// announce tells the replica among some recipes that its primary is up, or that it will not be.
func announce(recipes []recipe, postgres []*store) {
	for _, r := range recipes {
		switch {
		case r.primary == nil:
		case len(postgres) == 0 || postgres[0] == nil || postgres[0].Addr() == "":
			r.primary.Up(nil)
		default:
			r.primary.Up(postgres[0].inside)
		}
	}
}

// back waits for a store that was started again.
func (s *store) back(ctx context.Context) error {
	err := s.awaitReady(ctx)
	if err == nil {
		s.pair.Reunite(ctx)
	}
	return err
}

// Hold implements env.Replicating.
func (s *store) Hold(ctx context.Context) error {
	r, err := admin.ReplicaOf(s.Store)
	if err != nil {
		return err
	}
	return r.Hold(ctx)
}

// GoOn implements env.Replicating.
func (s *store) GoOn(ctx context.Context) (behind int64, err error) {
	r, err := admin.ReplicaOf(s.Store)
	if err != nil {
		return 0, err
	}
	return r.GoOn(ctx)
}
