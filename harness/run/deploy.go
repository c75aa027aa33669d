package run

import (
	"slices"

	"stampede/harness/deploy"
	"stampede/harness/fault"
	"stampede/harness/judge"
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
		Host:    r.host(),
		Log: func(name string) string {
			return r.dir.File(rundir.LogName(p.name + "_" + name))
		}}
	if r.Target != "" {
		plan.Way, plan.Replicas = deploy.InProcess, nil // the server is there already
	}
	proxies, err := r.services.proxiesFor(r, v, p)
	if err != nil {
		return nil, err
	}
	plan.Reach = proxies.reach
	// The roles outlive a first Ctrl-C: the drain still needs them.
	crew, err := deploy.Start(r.soft, plan, inst)
	if err != nil {
		return nil, err
	}
	for _, component := range crew.Components() {
		p.targets[component.Service()] = fault.Target{Component: component}
	}
	p.absent = absent(r.Scenario.Faults, v)
	return crew, nil
}

// host is where the servers of the API listen, "" for loopback.
func (r *runner) host() string {
	if r.Generators == nil {
		return ""
	}
	return r.Generators.Host
}

// urls are where the API's servers are.
func (r *runner) urls(crew *deploy.Crew) []string {
	if r.Target != "" {
		return []string{r.Target}
	}
	return crew.URLs()
}

// absent names the faults that aim at what the variant does not have.
func absent(faults []scenario.Fault, v sut.Variant) map[string]bool {
	names := map[string]bool{}
	for _, f := range faults {
		if !sut.Service(f.Target).Store() && !judge.Feels(v, f) {
			names[f.Name] = true
		}
	}
	return names
}

// onStores are the faults that have a store as their target.
func onStores(faults []scenario.Fault) []scenario.Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f scenario.Fault) bool {
		return !sut.Service(f.Target).Store()
	})
}
