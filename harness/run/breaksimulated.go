package run

import (
	"cmp"
	"fmt"
	"time"

	"stampede/harness/fault"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// simulatedStore is a store that can die and freeze.
type simulatedStore interface {
	Restart()
	Pause()
	Resume()
}

// simulatedFault is a fault in force: how it ends, and what shows that it was there.
type simulatedFault struct {
	heal  func()
	proof func() string
	did   *fault.Effects // nil: nothing that anybody counts
}

// CheckSimulated refuses faults that no simulation knows, and those that overlap.
func CheckSimulated(faults []scenario.Fault) error {
	for _, f := range faults {
		if err := known(f); err != nil {
			return err
		}
	}
	return fault.Overlaps(faults)
}

// known refuses a fault that no simulation knows.
func known(f scenario.Fault) error {
	service := sut.Service(f.Target)
	if !service.Store() && knownOfRole(f) {
		return nil
	}
	switch service {
	case sut.Postgres, sut.Redis, sut.Kafka:
		switch kind := fault.Kind(f.Kind); kind {
		case fault.Kill, fault.Pause, fault.Latency, fault.Partition, fault.LostAck, fault.LostRequest:
			return nil
		case fault.PowerLoss:
			if service == sut.Redis {
				return nil
			}
		}
	}
	return fmt.Errorf("fault %q: a simulation has no %s of %s", f.Name, f.Kind, f.Target)
}

// breakSimulated plans the scenario's faults. Their windows get their evidence as they end.
func (r *runner) breakSimulated(c *sim.Cluster, design string) ([]history.Window, error) {
	v, _ := r.variant(design)
	windows := make([]history.Window, len(r.Scenario.Faults))
	for i, f := range r.Scenario.Faults {
		w := &windows[i]
		made, err := fault.Of(f)
		if err != nil {
			return nil, err
		}
		c.Redis.Journal = max(c.Redis.Journal, losing(f))
		*w = history.Window{Name: f.Name, Kind: history.FaultWindow, Fault: made.String()}
		w.Start = start + f.At.D()
		w.End = w.Start + f.For.D()
		role := !sut.Service(f.Target).Store()
		switch {
		case role && !judge.Feels(v, f):
			w.Effects = fault.NoEffects()
			continue
		case role && c.Replicas(f.Target) == nil:
			return nil, fmt.Errorf("fault %q: the model of %s has no %s", f.Name, v.Name, f.Target)
		}
		w.Recovered = w.End + back(r.Simulate.Machine, f)
		c.Sim.At(w.Start, func() {
			var in simulatedFault
			if role {
				in = injectRole(c, made, i)
			} else {
				in = inject(c, f)
			}
			c.Sim.At(w.End, func() {
				if proof := in.proof(); proof != "" {
					w.Evidence = []string{proof}
				}
				w.Effects = in.effects()
				in.heal()
			})
		})
	}
	return windows, nil
}

// inject puts a fault in force that CheckSimulated accepts.
func inject(c *sim.Cluster, f scenario.Fault) simulatedFault {
	var store simulatedStore
	kill := func() {}
	var link *sim.Link
	switch sut.Service(f.Target) {
	case sut.Postgres:
		store, link, kill = c.Postgres, c.Postgres.Client.Link, c.Postgres.Kill
	case sut.Redis:
		store, link, kill = c.Redis, c.Redis.Client.Link, func() { c.Redis.Kill(f.Wipe) }
	case sut.Kafka:
		store, link, kill = c.Kafka, c.Kafka.Client.Link, c.Kafka.Kill
	}
	lost := lostOn(link)
	switch fault.Kind(f.Kind) {
	case fault.Kill:
		kill()
		return simulatedFault{store.Restart, said("it was killed"), nil}
	case fault.PowerLoss:
		loses := losing(f)
		c.Redis.PowerLoss(loses)
		return simulatedFault{c.Redis.Restart, said("it lost its last " + loses.String()), nil}
	case fault.Pause:
		store.Pause()
		return simulatedFault{store.Resume, said("it was frozen"), nil}
	case fault.Latency:
		link.Impose(sim.Condition{Latency: f.Latency.D(), Jitter: f.Jitter.D()})
		return simulatedFault{func() { link.Impose(sim.Condition{}) }, said("each round trip took " +
			f.Latency.D().Round(time.Microsecond).String() + " longer"), nil}
	case fault.LostRequest:
		link.Impose(sim.Condition{LoseThere: true})
	case fault.LostAck:
		link.Impose(sim.Condition{LoseBack: true})
	default:
		link.Impose(sim.Condition{LoseThere: true, LoseBack: true})
	}
	return simulatedFault{func() { link.Impose(sim.Condition{}) }, lost, nil}
}

// said is a proof that there is in any case.
func said(what string) func() string { return func() string { return what } }

// lostOn says what is lost on a link from now on.
func lostOn(link *sim.Link) func() string {
	before := link.Lost()
	return func() string {
		if link.Lost() == before {
			return ""
		}
		return fmt.Sprintf("%d messages were lost", link.Lost()-before)
	}
}

// losing is how much a loss of power takes back, 0 of another fault.
func losing(f scenario.Fault) time.Duration {
	if fault.Kind(f.Kind) != fault.PowerLoss {
		return 0
	}
	return cmp.Or(f.Loses.D(), fault.DefaultLoses)
}

// back is how long a store takes to answer once a fault has ended.
func back(m sim.Machine, f scenario.Fault) time.Duration {
	if kind := fault.Kind(f.Kind); kind != fault.Kill && kind != fault.PowerLoss {
		return 0
	}
	return map[sut.Service]sut.Duration{sut.Postgres: m.Postgres.Recovery,
		sut.Redis: m.Redis.Restart, sut.Kafka: m.Kafka.Restart}[sut.Service(f.Target)].D()
}
