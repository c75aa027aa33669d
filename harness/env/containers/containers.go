// Package containers runs the stores in containers: pinned images, durable
// configuration, data on volumes, everything labelled with its run.
//
// It is the only package that talks to a container engine.
package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/uuid"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// Provider is the containers backend.
type Provider struct {
	// BrokerFlags are added to the flags of the Java that each Kafka broker runs
	// on.
	BrokerFlags []string

	settling sync.Mutex
	settled  bool
}

var _ env.Sweeper = (*Provider)(nil)

// New returns the backend. A process needs one: testcontainers, below it, has
// its settings from the process's environment and reads them once.
func New() *Provider { return &Provider{} }

// Name implements env.Provider.
func (*Provider) Name() string { return env.Containers }

// EngineVersion is the version of the container engine that answers; an error
// says that none does.
func EngineVersion(ctx context.Context) (string, error) {
	e, err := connect(ctx)
	if err != nil {
		return "", err
	}
	return e.version, e.Close()
}

// Available implements env.Provider: an engine answers, and each image is
// there or can be pulled. Asking takes a few seconds at most.
func (*Provider) Available(ctx context.Context, spec env.Spec) (bool, string) {
	e, err := connect(ctx)
	if err != nil {
		return false, err.Error()
	}
	defer e.Close()
	choices, err := e.chooseAll(ctx, spec)
	if err != nil {
		return false, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	var names []string
	for _, c := range choices {
		names = append(names, c.String())
	}
	return true, fmt.Sprintf("engine %s, %s", e.version, strings.Join(names, ", "))
}

// chooseAll picks the images side by side, because a registry may be slow.
func (e *engine) chooseAll(ctx context.Context, spec env.Spec) ([]choice, error) {
	choices := make([]choice, len(spec.Services))
	return choices, env.Each(spec.Services, func(i int, service sut.Service) (err error) {
		choices[i], err = e.choose(ctx, service)
		return err
	})
}

// Start implements env.Provider.
func (p *Provider) Start(ctx context.Context, spec env.Spec) (env.Cluster, error) {
	recipes := map[sut.Service][]recipe{}
	for _, service := range spec.Services {
		made, err := recipesOf(service, spec, p.BrokerFlags)
		if err != nil {
			return nil, fmt.Errorf("containers: %w", err)
		}
		recipes[service] = made
	}
	e, err := connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	c := &cluster{engine: e, id: uuid.NewString(), logs: spec.Dir,
		Stores: admin.Stores{Namespaces: admin.Namespaces{RunID: spec.RunID}}}
	err = p.settle(ctx, e, spec.Keep)
	if err == nil {
		err = c.start(ctx, recipes, spec)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("containers: %w", env.Stopped(ctx, err)),
			c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// settle prepares testcontainers before the first cluster starts and not again, while the
// stores of another one may be reading what it sets.
func (p *Provider) settle(ctx context.Context, e *engine, keep bool) error {
	p.settling.Lock()
	defer p.settling.Unlock()
	if p.settled {
		return nil
	}
	err := e.settle(ctx, keep)
	p.settled = err == nil
	return err
}

// Sweep implements env.Sweeper: containers, volumes, and services and secrets of a swarm, whose
// owner was a process of this machine and is dead.
func (*Provider) Sweep(ctx context.Context, dry bool) ([]string, error) {
	e, err := connect(ctx)
	if err != nil {
		return nil, nil // nothing can be left in an engine that is not there
	}
	defer e.Close()
	dead := func(labels map[string]string) bool { return env.OwnerIn(labels).Dead() }
	if dry {
		found, err := e.labelled(ctx, env.RunLabel, dead)
		names := []string{}
		for _, one := range found {
			names = append(names, one.name)
		}
		return names, err
	}
	return e.removeLabelled(ctx, env.RunLabel, dead)
}

// cluster is a set of started containers.
type cluster struct {
	admin.Stores

	engine *engine
	id     string
	logs   string
	stores []*store
}

// start pulls what is missing and starts the stores side by side.
func (c *cluster) start(
	ctx context.Context, recipes map[sut.Service][]recipe, spec env.Spec,
) error {
	logf := spec.Log
	if logf == nil {
		logf = func(string, ...any) {}
	}
	choices, err := c.engine.chooseAll(ctx, spec)
	if err != nil {
		return err
	}
	labels, err := labelsOf(spec.RunID, c.id)
	if err != nil {
		return err
	}
	started := make([][]*store, len(choices))
	err = env.Each(choices, func(i int, image choice) (err error) {
		if image.service == sut.Postgres {
			defer func() { announce(recipes[sut.Replica], started[i], err) }()
		}
		if err := c.engine.pull(ctx, image, logf); err != nil {
			return err
		}
		made := recipes[image.service]
		started[i] = make([]*store, len(made))
		return env.Each(made, func(j int, r recipe) (err error) {
			started[i][j], err = newStore(ctx, c.engine, image, r, labels)
			return err
		})
	})
	for _, stores := range started {
		c.add(stores)
	}
	c.pair()
	if err != nil {
		return err
	}
	return c.CheckKafka(ctx, spec.Kafka)
}

// add takes the started containers of one service.
func (c *cluster) add(stores []*store) {
	var brokers []env.Breakable
	for _, s := range stores {
		c.stores = append(c.stores, s)
		if s.kafka != nil {
			brokers = append(brokers, s)
			continue
		}
		c.Add(s, s.Store)
	}
	if len(brokers) > 0 {
		c.AddBrokers(brokers)
	}
}

// pair lets the primary and its replica find each other after a fault.
func (c *cluster) pair() {
	postgres, one := c.Component(sut.Postgres).(*store)
	replica, two := c.Component(sut.Replica).(*store)
	if one && two {
		postgres.pair = &admin.Pair{Primary: postgres.inside, Replica: *c.Replica}
		replica.pair = postgres.pair
	}
}

// announce tells a replica that its primary is up, or that it did not start.
func announce(recipes []recipe, postgres []*store, err error) {
	var addr func(context.Context) (string, error)
	if err == nil {
		addr = postgres[0].inside
	}
	for _, r := range recipes {
		r.primary.Up(addr)
	}
}

// Close implements env.Cluster. It goes by label, not by what it believes to
// have started: a start that was interrupted may have made more.
func (c *cluster) Close(ctx context.Context) error {
	err := c.CloseOnce(func() error {
		err := c.saveLogs(ctx)
		_, removed := c.engine.removeLabelled(ctx, env.ClusterLabel+"="+c.id,
			func(map[string]string) bool { return true })
		if err := errors.Join(err, removed); err != nil {
			return err
		}
		return c.engine.Close()
	})
	if err != nil {
		return fmt.Errorf("containers: close: %w", err)
	}
	return nil
}

// saveLogs copies the stores' logs to where the run keeps its files, before
// the containers take them away.
func (c *cluster) saveLogs(ctx context.Context) error {
	if c.logs == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	var errs []error
	for _, s := range c.stores {
		log, err := s.log(ctx, "all")
		if err == nil {
			err = os.WriteFile(filepath.Join(c.logs, string(s.service)+".log"), log, 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
