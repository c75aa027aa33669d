package run

import (
	"context"
	"maps"
	"slices"

	"stampede/harness/deploy"
	"stampede/harness/fault"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// inside says that the system under test runs in this process.
func (r *runner) inside() bool {
	return r.Target == "" && r.Scenario.Deploy != deploy.Processes &&
		r.Scenario.Deploy != deploy.Containers
}

// deploy puts the variant to work in its place and lets faults aim at its
// roles. Those that the variant does not have are absent.
func (r *runner) deploy(v sut.Variant, inst sut.Instance, p *place) (*deploy.Crew, error) {
	plan := deploy.Plan{System: r.System, Variant: v, Way: r.Scenario.Deploy,
		Replicas: r.Scenario.Replicas, Config: p.config, Launcher: r.Launcher, RunID: r.dir.ID(),
		Clients: max(r.Scenario.Load.MaxInFlight, r.Scenario.Load.Users),
		Log: func(name string) string {
			return r.dir.File(rundir.LogName(p.name + "_" + name))
		}}
	if r.Target != "" {
		plan.Way, plan.Replicas = deploy.InProcess, nil // the server is there already
	}
	// The roles outlive a first Ctrl-C: the drain still needs them.
	crew, err := deploy.Start(context.WithoutCancel(r.soft), plan, inst)
	if err != nil {
		return nil, err
	}
	p.targets = maps.Clone(p.targets)
	for _, component := range crew.Components() {
		p.targets[component.Service()] = fault.Target{Component: component}
	}
	for _, f := range r.Scenario.Faults {
		if _, ok := p.targets[sut.Service(f.Target)]; !ok {
			p.targets[sut.Service(f.Target)] = fault.Target{Absent: true}
		}
	}
	return crew, nil
}

// onStores are the faults that have a store as their target.
func onStores(faults []scenario.Fault) []scenario.Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f scenario.Fault) bool {
		return !sut.Service(f.Target).Store()
	})
}

// hits says whether a fault can be felt by a variant: it uses the store, or has
// the role.
func (j *judge) hits(f scenario.Fault, v sut.Variant) bool {
	whole, _ := sut.Service(f.Target).Split()
	switch {
	case v.Name == targetName:
		return true
	case whole.Store():
		return slices.Contains(v.Needs, whole)
	case whole == deploy.API:
		return true
	}
	return slices.ContainsFunc(v.Roles, func(role sut.Role) bool {
		return sut.Service(role.Name) == whole
	})
}
