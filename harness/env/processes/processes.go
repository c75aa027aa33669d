// Package processes runs the stores as child processes from the programs that
// the machine has: their own data, ports that the kernel chose, their own
// process group, and dead when stampede is, in whatever way it died.
package processes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// Provider is the processes backend.
type Provider struct {
	// BrokerFlags are added to the flags of the Java that each Kafka broker runs
	// in. Tests spare its compiler; nothing that measures sets them.
	BrokerFlags []string
}

var _ env.Provider = Provider{}

// New returns the backend.
func New() Provider { return Provider{} }

// Name implements env.Provider.
func (Provider) Name() string { return env.Processes }

// Available implements env.Provider: every program is there.
func (Provider) Available(ctx context.Context, spec env.Spec) (bool, string) {
	var found, missing []string
	for _, service := range spec.Services {
		program, err := find(ctx, service, spec)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		found = append(found, program.String())
	}
	if len(missing) > 0 {
		return false, strings.Join(missing, "; ")
	}
	return true, strings.Join(found, ", ")
}

// Start implements env.Provider.
func (p Provider) Start(ctx context.Context, spec env.Spec) (env.Cluster, error) {
	recipes := make([]recipe, 0, len(spec.Services))
	for _, service := range spec.Services {
		made, err := p.recipesOf(ctx, service, spec)
		if err != nil {
			return nil, fmt.Errorf("processes: %w", err)
		}
		recipes = append(recipes, made...)
	}
	home, err := newHome(spec.RunID)
	if err != nil {
		return nil, fmt.Errorf("processes: %w", err)
	}
	c := &cluster{home: home, Stores: admin.Stores{Namespaces: admin.Namespaces{RunID: spec.RunID}}}
	if err := c.start(ctx, recipes, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("processes: %w", env.Stopped(ctx, err)),
			c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// cluster is a set of started processes.
type cluster struct {
	admin.Stores

	home    *home
	servers []*server
}

// start starts the stores side by side.
func (c *cluster) start(ctx context.Context, recipes []recipe, spec env.Spec) error {
	logs := c.home.dir
	if spec.Dir != "" {
		logs = spec.Dir
	}
	servers := make([]*server, len(recipes))
	err := env.Each(recipes, func(i int, r recipe) (err error) {
		servers[i], err = newServer(ctx, r, c.home.dir, filepath.Join(logs, string(r.service)+".log"))
		if r.service == sut.Postgres {
			var addr func(context.Context) (string, error)
			if err == nil {
				addr = servers[i].address
			}
			for _, other := range recipes {
				other.primary.Up(addr)
			}
		}
		return err
	})
	var brokers []env.Breakable
	for _, s := range servers {
		switch {
		case s == nil:
		case s.broker():
			c.servers = append(c.servers, s)
			brokers = append(brokers, s)
		default:
			c.servers = append(c.servers, s)
			c.Add(s, s.Store)
		}
	}
	if err != nil {
		return err
	}
	if len(brokers) > 0 {
		c.AddBrokers(brokers)
	}
	c.pair()
	return c.CheckKafka(ctx, spec.Kafka)
}

// pair lets the primary and its replica find each other after a fault.
func (c *cluster) pair() {
	postgres, one := c.Component(sut.Postgres).(*server)
	replica, two := c.Component(sut.Replica).(*server)
	if one && two {
		postgres.pair = &admin.Pair{Primary: postgres.address, Replica: *c.Replica}
		replica.pair = postgres.pair
	}
}

// address is Addr as admin.Primary and admin.Pair ask for it.
func (s *server) address(context.Context) (string, error) { return s.Addr(), nil }

func (c *cluster) Close(ctx context.Context) error {
	return c.CloseOnce(func() error {
		var errs []error
		for _, s := range c.servers {
			errs = append(errs, s.close(ctx))
		}
		errs = append(errs, c.home.close())
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("processes: close: %w", err)
		}
		return nil
	})
}
