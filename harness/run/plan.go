package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"stampede/harness/arrival"
	"stampede/harness/plain"
	"stampede/harness/scenario"
	"stampede/harness/sut"
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

// PlanOf makes the plan of a scenario for a seed, with the shortest load if that is to be
// fitted. An impossible arrival process is an error.
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
	process, err := sc.Load.Arrival.Schedule()
	if err != nil {
		return Plan{}, fmt.Errorf("load.arrival: %w", err)
	}
	p.Process, p.Over, p.Text = process, process.Over(), process.String()
	if a := sc.Load.Arrival; a.Over == scenario.Fit {
		p.Text = fmt.Sprintf("burst of %s over %s to %s, as this machine allows",
			plain.Count(int64(a.Ops)), a.OverLeast, a.OverMost)
	}
	p.Digest = process.Digest(p.ArrivalSeed)
	return p, nil
}

// ScenarioDigest identifies a resolved scenario of a system: the hex SHA-256 of its
// YAML, as a run records it.
func ScenarioDigest(sc scenario.Scenario, sys sut.System) (string, error) {
	text, err := shown(sc, sys)
	if err != nil {
		return "", fmt.Errorf("writing the resolved scenario: %w", err)
	}
	return digest(text), nil
}

// shown is a resolved scenario as YAML, without its secrets.
func shown(sc scenario.Scenario, sys sut.System) ([]byte, error) {
	sc, err := sc.WithoutSecrets(sys)
	if err != nil {
		return nil, err
	}
	return sc.YAML()
}

// digest is the hex SHA-256 of data.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
