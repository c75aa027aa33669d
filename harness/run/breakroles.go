package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// knownOfRole says whether a fault of a role, or of the API, is known in a simulation.
func knownOfRole(f scenario.Fault) bool {
	switch fault.Kind(f.Kind) {
	case fault.Kill, fault.Pause, fault.Restart, fault.Crash, fault.Churn:
		return true
	case fault.Partition:
		return f.From == string(sut.Postgres) || f.From == string(sut.Redis)
	}
	return false
}

// injectRole puts a fault of a role in force. A simulated replica is always stopped as by SIGKILL,
// also where a fault stops it orderly, which is no harder to survive.
func injectRole(c *sim.Cluster, f fault.Fault, number int) simulatedFault {
	list := c.Replicas(string(f.Target))
	each := func(do func(*sim.Replica)) {
		for _, r := range list {
			do(r)
		}
	}
	start := func() { each((*sim.Replica).Start) }
	switch f.Kind {
	case fault.Pause:
		each((*sim.Replica).Pause)
		return simulatedFault{func() { each((*sim.Replica).Resume) }, said("it was frozen"), nil}
	case fault.Partition:
		link := c.Postgres.Client.Link
		if f.From == sut.Redis {
			link = c.Redis.Client.Link
		}
		proof := lostOn(link)
		each(func(r *sim.Replica) { r.Cut(link) })
		return simulatedFault{func() { each((*sim.Replica).Mend) }, proof, nil}
	case fault.Crash:
		each(func(r *sim.Replica) { r.Arm(f.Place, f.Passage) })
		return crashed(list, f, start)
	case fault.Churn:
		return churned(c.Sim, list, f, number)
	}
	did := fault.Effects{}
	each(func(r *sim.Replica) {
		r.Kill()
		did.PIDs = append(did.PIDs, r.Number+1)
	})
	if f.Kind == fault.Restart {
		start()
		return simulatedFault{func() {}, said("it was stopped and started"), nil}
	}
	return simulatedFault{start, said("it was killed"), &did}
}

// crashed ends what Arm has begun: those that died live again.
func crashed(list []*sim.Replica, f fault.Fault, start func()) simulatedFault {
	did := fault.Effects{}
	return simulatedFault{start, func() string {
		var said []string
		for _, r := range list {
			if r.Arm("", 0); !r.Down() {
				continue
			}
			said = append(said, fmt.Sprintf("%s reached %q and was killed there", r.Name, f.Place))
			did.Crashes = append(did.Crashes, env.Crash{Name: r.Name, Place: f.Place, Passage: f.Passage})
		}
		return strings.Join(said, ", ")
	}, &did}
}

// churned kills one replica after the other and starts it again, as fault's churn does.
func churned(s *sim.Sim, list []*sim.Replica, f fault.Fault, number int) simulatedFault {
	draw, over, did := s.Stream(fmt.Sprintf("churn.%d", number)), false, fault.Effects{}
	half := func() time.Duration {
		return f.Every/4 + time.Duration(draw.IntN(int(f.Every/2)+1))
	}
	var step func()
	step = func() {
		if over {
			return
		}
		r := list[draw.IntN(len(list))]
		r.Kill()
		did.Kills++
		s.After(half(), func() {
			r.Start()
			s.After(half(), step)
		})
	}
	step()
	return simulatedFault{func() {
		over = true
		for _, r := range list {
			r.Start()
		}
	}, func() string { return fmt.Sprintf("replicas were killed %d times", did.Kills) }, &did}
}

// effects is what a fault did, as a window has it.
func (f simulatedFault) effects() json.RawMessage {
	if f.did == nil {
		return nil
	}
	text, err := json.Marshal(f.did)
	if err != nil {
		return nil // it has numbers and texts alone
	}
	return text
}
