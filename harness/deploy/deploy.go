// Package deploy puts a variant to work: its roles and its API as goroutines of
// this process, as processes of their own or in containers.
//
// Each replica of a role, and each server of the API where it is a process, is
// a component like a store: a fault can kill, freeze or restart it. One that
// ends by itself makes the trial an error.
package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// The ways of deployment.
const (
	// InProcess: goroutines of this process; the load calls the variant.
	InProcess = "in-process"
	// Processes: this program executed again, once for each replica; the load
	// comes over HTTP.
	Processes = "processes"
	// Containers: the same, each in a container of its own.
	Containers = "containers"
)

// API is the name that stands for the servers of a variant's API where roles
// are named. No role may have it.
const API = sut.APIRole

// Replica names one of several replicas of a role, from 1: "counter-2". It is a
// target of faults, as the role's own name is, which means all of them.
func Replica(role string, number int) sut.Service {
	return sut.Service(fmt.Sprintf("%s-%d", role, number))
}

// Bounds of starting and stopping one replica.
const (
	startBound = time.Minute
	stopBound  = 30 * time.Second
	killBound  = 15 * time.Second
)

// Plan says what is deployed and how.
type Plan struct {
	System  sut.System
	Variant sut.Variant
	// Way is InProcess, Processes or Containers.
	Way string
	// Replicas says how many replicas a role, or the API, has; 1 if it is not
	// among them.
	Replicas map[string]int
	// Config is the place that all share; Reach, if set, is how a replica of a
	// role gets to the stores where it has a way of its own.
	Config sut.Config
	Reach  func(role string, replica int) (Reach, bool)
	// Clients bounds the connections to each server of the API, and Host is the address of this
	// machine at which those that are processes listen; "" is loopback.
	Clients int
	Host    string
	// Launcher starts processes; Log names the file that one of them logs to.
	// Both are unused in process.
	Launcher env.Launcher
	Log      func(name string) string
	RunID    string
}

// Reach is a way to the stores.
type Reach struct {
	PostgresURL, ReplicaURL, RedisURL string
	// Via maps addresses to those that are dialled in their place.
	Via map[string]string
}

// count is how many replicas a role has.
func (p Plan) count(role string) int { return max(1, p.Replicas[role]) }

// names are what the replicas of a role are called, and their numbers: one is
// called as the role and has number 0.
func (p Plan) names(role string) (names []string, numbers []int) {
	n := p.count(role)
	if n == 1 {
		return []string{role}, []int{0}
	}
	for i := range n {
		names = append(names, string(Replica(role, i+1)))
		numbers = append(numbers, i+1)
	}
	return names, numbers
}

// config is the configuration of one replica.
func (p Plan) config(role string, replica int) (sut.Config, map[string]string) {
	cfg := p.Config
	cfg.Replica = replica
	if p.Reach == nil {
		return cfg, nil
	}
	reach, ok := p.Reach(role, replica)
	if !ok {
		return cfg, nil
	}
	cfg.PostgresURL, cfg.ReplicaURL = reach.PostgresURL, reach.ReplicaURL
	cfg.RedisURL = reach.RedisURL
	if len(reach.Via) > 0 {
		cfg.Dial = dialVia(reach.Via)
	}
	return cfg, reach.Via
}

// unit is one replica at work.
type unit interface {
	env.Laborer
	// launch starts it and returns when it answers.
	launch(ctx context.Context) error
	// end stops it in an orderly way, within stopBound, and tells what went
	// wrong with it since it was started, once.
	end() error
}

// Crew is a variant at work.
type Crew struct {
	plan  Plan
	units []unit
	roles map[string][]unit
	api   []doer
	turn  atomic.Uint64
	// servers are those of the API that are processes.
	servers []*server
	// stop makes Stop idempotent.
	stop sync.Once
}

// workBound is how long a role may take from its start to its first work. A
// member of a group waits there for others and for the sessions of the dead.
const workBound = time.Minute

// Start puts a variant to work and returns when each replica is. On error
// nothing is left at work. What fails later is logged to Config.Logger at once
// and told by Stop.
//
// The instance, which stays the caller's, performs operations where there is
// one API and it is in this process.
func Start(ctx context.Context, p Plan, inst sut.Instance) (*Crew, error) {
	c := &Crew{plan: p, roles: map[string][]unit{}}
	launching := context.WithoutCancel(ctx) // what is at work outlives ctx
	err := c.startAPI(launching, inst)
	for _, role := range p.Variant.Roles {
		if err == nil {
			err = c.add(launching, role.Name, func(name string, replica int) unit {
				return c.unit(role, name, replica)
			})
		}
	}
	if err == nil {
		err = c.atWork(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// atWork waits until every replica does its work.
func (c *Crew) atWork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workBound)
	defer cancel()
	return each(c.units, func(u unit) error {
		err := u.AtWork(ctx)
		if err != nil {
			cancel() // nobody need wait for the others
		}
		return err
	})
}

// unit makes a replica of a role.
func (c *Crew) unit(role sut.Role, name string, replica int) unit {
	cfg, via := c.plan.config(role.Name, replica)
	if c.plan.Way == InProcess || c.plan.Way == "" {
		return newTask(role, name, cfg)
	}
	return newWorker(c.plan, role.Name, name, cfg, via)
}

// add starts the replicas of a role side by side.
func (c *Crew) add(
	ctx context.Context, role string, replica func(name string, number int) unit,
) error {
	names, numbers := c.plan.names(role)
	units := []unit{}
	for i, name := range names {
		units = append(units, replica(name, numbers[i]))
	}
	c.units = append(c.units, units...)
	c.roles[role] = units
	return each(units, func(u unit) error {
		if err := u.launch(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", u.Service(), err)
		}
		return nil
	})
}

// each does something to every unit at once.
func each(units []unit, do func(unit) error) error {
	return env.Each(units, func(_ int, u unit) error { return do(u) })
}

// Components are what faults can be aimed at: each role, and each replica of
// those that have several. Of the API only servers that are processes.
func (c *Crew) Components() []env.Component {
	list := []env.Component{}
	for _, role := range slices.Sorted(maps.Keys(c.roles)) {
		units := c.roles[role]
		if len(units) == 1 {
			list = append(list, units[0])
			continue
		}
		for _, u := range units {
			list = append(list, u)
		}
		list = append(list, groupOf(sut.Service(role), units))
	}
	return list
}

// Metered are the replicas, and servers of the API, that are processes of their own.
func (c *Crew) Metered() (list []env.Metered) {
	for _, u := range c.units {
		if m, ok := u.(env.Metered); ok {
			list = append(list, m)
		}
	}
	return list
}

// ErrCutShort is the error of a role or server that kept running after a request to stop, or that
// something other than a fault killed. A loss of what it held cannot be attributed to the design.
var ErrCutShort = errors.New("cut short")

// Stop ends all that was started, in an orderly way where that takes less than
// half a minute, and returns what went wrong with it, such as ErrCutShort. Stop may be
// called again;
// it then does nothing and returns nil, because all was told.
func (c *Crew) Stop() (err error) {
	c.stop.Do(func() {
		for _, server := range c.api {
			if server.close != nil {
				err = errors.Join(err, server.close())
			}
		}
		err = errors.Join(err, each(c.units, unit.end))
	})
	return err
}

// complain logs what went wrong with a replica as soon as that is known.
func complain(log *slog.Logger, name string, err error) {
	if err != nil && log != nil {
		log.Error("a role ended", "role", name, "error", err)
	}
}
