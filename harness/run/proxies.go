package run

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"stampede/harness/deploy"
	"stampede/harness/fault"
	"stampede/harness/judge"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// roleProxies are the proxies of roles that a fault cuts off from a store: each role has
// a proxy of its own before the one that all go through.
type roleProxies struct {
	// by has the proxies of a replica, by its name and the store.
	by map[sut.Service]map[sut.Service]fault.Proxies
	// reaches has where a replica finds its stores then.
	reaches map[sut.Service]deploy.Reach
}

// proxiesFor makes the proxies that the scenario's faults need for a variant, and
// lets faults aim at them.
func (s *services) proxiesFor(r *runner, v sut.Variant, p *place) (*roleProxies, error) {
	w := &roleProxies{by: map[sut.Service]map[sut.Service]fault.Proxies{},
		reaches: map[sut.Service]deploy.Reach{}}
	p.proxies = w
	for _, f := range r.Scenario.Faults {
		if f.From == "" || !judge.Feels(v, f) {
			continue
		}
		from, cut := sut.Service(f.From), fault.Proxies{}
		for _, name := range replicas(f, r.Scenario.Replicas) {
			proxies, err := w.cut(p, name, from)
			if err != nil {
				return w, err
			}
			cut = append(cut, proxies...)
		}
		p.targets[fault.Spot(sut.Service(f.Target), from)] = fault.Target{
			Component: s.cluster.Component(from), Proxies: cut}
	}
	return w, nil
}

// replicas are the names of those that a fault aims at.
func replicas(f scenario.Fault, counts map[string]int) []sut.Service {
	whole, number := sut.Service(f.Target).Split()
	count := counts[string(whole)]
	if number > 0 || count <= 1 {
		return []sut.Service{sut.Service(f.Target)}
	}
	var names []sut.Service
	for i := range count {
		names = append(names, deploy.Replica(string(whole), i+1))
	}
	return names
}

// cut puts proxies between a replica and a store, once.
func (w *roleProxies) cut(
	p *place, name, store sut.Service,
) (fault.Proxies, error) {
	if made, ok := w.by[name][store]; ok {
		return made, nil
	}
	reach, ok := w.reaches[name]
	if !ok {
		reach = deploy.Reach{PostgresURL: p.config.PostgresURL, ReplicaURL: p.config.ReplicaURL,
			RedisURL: p.config.RedisURL, Via: map[string]string{}}
		w.by[name] = map[sut.Service]fault.Proxies{}
	}
	for _, front := range p.targets[store].Proxies {
		// It outlives a first Ctrl-C: the drain still needs it.
		proxy, err := fault.NewProxy(context.Background(), fmt.Sprintf("%s for %s", store, name),
			front.Addr)
		if err != nil {
			return nil, err
		}
		w.by[name][store] = append(w.by[name][store], proxy)
		reach.Via[front.Addr()] = proxy.Addr()
	}
	var err error
	switch first := w.by[name][store]; {
	case len(first) == 0:
		return nil, fmt.Errorf("cutting %s off from %s: the store has no proxy", name, store)
	case store == sut.Postgres:
		reach.PostgresURL, err = fault.Rewrite(p.config.PostgresURL, first[0].Addr())
	case store == sut.Replica:
		reach.ReplicaURL, err = fault.Rewrite(p.config.ReplicaURL, first[0].Addr())
	case store == sut.Redis:
		reach.RedisURL, err = fault.Rewrite(p.config.RedisURL, first[0].Addr())
	}
	w.reaches[name] = reach
	return w.by[name][store], err
}

// reach is where a replica of a role, 0 if there is one, finds its stores.
func (w *roleProxies) reach(role string, replica int) (deploy.Reach, bool) {
	name := sut.Service(role)
	if replica > 0 {
		name = deploy.Replica(role, replica)
	}
	reach, ok := w.reaches[name]
	return reach, ok
}

// close ends the proxies. Where there were none it does nothing.
func (w *roleProxies) close() error {
	if w == nil {
		return nil
	}
	var errs []error
	for stores := range maps.Values(w.by) {
		for proxies := range maps.Values(stores) {
			errs = append(errs, proxies.Close())
		}
	}
	return errors.Join(errs...)
}
