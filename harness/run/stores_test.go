package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// errDown is what a store that is down answers.
var errDown = errors.New("connection refused")

// store is a component in memory: named sets of numbers that survive a restart.
type store struct {
	mu   sync.Mutex
	down bool
	// life is its identity; deaf keeps it when the store is started anew, which
	// a fault then cannot prove.
	life int
	deaf bool
	sets map[string]map[uint64]bool
	// stuck fails every attempt to start it.
	stuck error
}

func newStore() *store { return &store{sets: map[string]map[uint64]bool{}} }

// update works on one of the sets unless the store is down.
func (s *store) update(name string, work func(set map[uint64]bool)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	if s.sets[name] == nil {
		s.sets[name] = map[uint64]bool{}
	}
	work(s.sets[name])
	return nil
}

// die is what no fault did; rise ends it, as another store.
func (s *store) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
}

func (s *store) rise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(false)
}

// start needs the lock.
func (s *store) start(wipe bool) {
	s.down = false
	if !s.deaf {
		s.life++
	}
	if wipe {
		clear(s.sets)
	}
}

func (s *store) Service() sut.Service { return sut.Redis }

func (s *store) Addr() string { return "127.0.0.1:1" }

func (s *store) Info(context.Context) (env.Info, error) {
	return env.Info{Kind: "memory", Version: "1"}, nil
}

func (s *store) Ready(context.Context) error { return s.update("", func(map[uint64]bool) {}) }

func (s *store) Identity(ctx context.Context) (string, error) {
	if err := s.Ready(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("life %d", s.life), nil
}

func (s *store) LogTail(int) string { return "" }

func (s *store) Kill(context.Context) ([]int, error) {
	s.die()
	return []int{4711}, nil
}

func (s *store) Start(_ context.Context, wipe bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck != nil {
		return s.stuck
	}
	if !s.down {
		return env.ErrRunning
	}
	s.start(wipe)
	return nil
}

func (s *store) Pause(context.Context) ([]int, error) {
	return nil, errors.New("nothing in memory can be frozen")
}

func (s *store) Resume(context.Context) error { return nil }

func (s *store) Restart(context.Context) error {
	s.rise()
	return nil
}

var _ env.Breakable = (*store)(nil)

// provider starts clusters of one store, and counts what became of them.
type provider struct {
	store *store
	// startErr, placeErr, releaseErr and closeErr are what goes wrong.
	startErr, placeErr, releaseErr, closeErr error
	// kept clusters are to stay as they are, and so are the places of those
	// that are unreleased.
	kept, unreleased bool

	mu       sync.Mutex
	clusters []*cluster
}

func (p *provider) Name() string { return "memory" }

func (p *provider) Available(context.Context, env.Spec) (bool, string) { return true, "always" }

func (p *provider) Start(ctx context.Context, _ env.Spec) (env.Cluster, error) {
	if err := errors.Join(ctx.Err(), p.startErr); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &cluster{provider: p, places: map[string]int{}}
	p.clusters = append(p.clusters, c)
	return c, nil
}

// cluster counts how often it and each of its places were given back.
type cluster struct {
	provider *provider

	mu     sync.Mutex
	closed int
	places map[string]int
}

func (c *cluster) Component(service sut.Service) env.Component {
	if service != sut.Redis {
		return nil
	}
	return c.provider.store
}

func (c *cluster) Namespace(_ context.Context, name string) (env.Namespace, error) {
	if err := c.provider.placeErr; err != nil {
		return env.Namespace{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[name] = 0
	return env.Namespace{RedisURL: "redis://127.0.0.1:1/0", Prefix: name, Release: func(
		ctx context.Context,
	) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.places[name]++
		return errors.Join(ctx.Err(), c.provider.releaseErr)
	}}, nil
}

func (c *cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return errors.Join(ctx.Err(), c.provider.closeErr)
}

// verify checks that all that was started or made was given back, once.
func (p *provider) verify(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	want := map[bool]int{true: 0, false: 1}
	for _, c := range p.clusters {
		if c.closed != want[p.kept] {
			t.Errorf("the cluster was closed %d times", c.closed)
		}
		for name, times := range c.places {
			if times != want[p.kept || p.unreleased] {
				t.Errorf("the place of %s was given back %d times", name, times)
			}
		}
	}
}
