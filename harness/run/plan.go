package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"stampede/harness/arrival"
	"stampede/harness/scenario"
)

// Plan is a scenario's load, made concrete by a seed.
type Plan struct {
	// Process is the arrival process; unused with closed-loop users.
	Process arrival.Process
	// ArrivalSeed and WorkloadSeed are drawn from the run's seed, so that
	// neither stream disturbs the other.
	ArrivalSeed, WorkloadSeed uint64
	// Over is how long operations are scheduled, Digest identifies their due
	// times, and Text describes them on one line.
	Over   time.Duration
	Digest string
	Text   string
}

// PlanOf makes the plan of a scenario for a seed. An impossible arrival
// process is an error.
func PlanOf(sc scenario.Scenario, seed uint64) (Plan, error) {
	streams := rand.New(rand.NewPCG(seed, 0x7374616d70656465))
	p := Plan{ArrivalSeed: streams.Uint64(), WorkloadSeed: streams.Uint64()}
	if sc.Load.Users > 0 {
		p.Over = sc.Load.Duration.D()
		p.Text = fmt.Sprintf("%d closed-loop users, thinking %s, for %s",
			sc.Load.Users, sc.Load.Think, sc.Load.Duration)
		p.Digest = digest([]byte(p.Text))
		return p, nil
	}
	process, err := processOf(sc.Load.Arrival)
	if err != nil {
		return Plan{}, fmt.Errorf("load.arrival: %w", err)
	}
	p.Process, p.Over, p.Text = process, process.Over(), process.String()
	p.Digest = process.Digest(p.ArrivalSeed)
	return p, nil
}

// processOf makes the arrival process that a scenario describes.
func processOf(a scenario.Arrival) (arrival.Process, error) {
	p, err := shapeOf(a)
	if err != nil || !a.Poisson || a.Process == "poisson" {
		return p, err
	}
	return arrival.Poisson(p)
}

func shapeOf(a scenario.Arrival) (arrival.Process, error) {
	over := a.Over.D()
	switch a.Process {
	case "constant":
		return arrival.Constant(a.Rate, over)
	case "poisson":
		p, err := arrival.Constant(a.Rate, over)
		if err != nil {
			return p, err
		}
		return arrival.Poisson(p)
	case "ramp":
		return arrival.Ramp(a.Rate, a.To, over)
	case "step":
		steps := make([]arrival.Step, len(a.Steps))
		for i, s := range a.Steps {
			steps[i] = arrival.Step{Rate: s.Rate, For: s.For.D()}
		}
		return arrival.Steps(steps)
	case "spike":
		return arrival.Spike(a.Rate, a.To, a.At.D(), a.For.D(), over)
	case "sine":
		return arrival.Sine(a.Rate, a.To, a.Period.D(), over)
	case "burst":
		return arrival.Burst(a.Ops, over)
	case "trace":
		times := make([]time.Duration, len(a.Trace))
		for i, d := range a.Trace {
			times[i] = d.D()
		}
		return arrival.Trace(times)
	}
	return arrival.Process{}, fmt.Errorf("there is no arrival process %q", a.Process)
}

// digest is the hex SHA-256 of data.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
