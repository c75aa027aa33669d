package scenario

import (
	"time"

	"stampede/harness/deploy"
	"stampede/harness/sut"
)

// defaults is the scenario before a file is read: every default of the
// format except the systems' own, which System.Params returns, and two that
// depend on the system: all its variants, and the first one as baseline.
func defaults() Scenario {
	return Scenario{
		Repeats:  1,
		Provokes: []string{},
		Load: Load{
			MaxInFlight: 512,
			Queue:       100_000,
			Timeout:     Duration(5 * time.Second),
			Drain:       Duration(30 * time.Second),
		},
		Deploy: deploy.InProcess,
		Stores: Stores{MaxConns: 32, Kafka: sut.DefaultKafka()},
	}
}

// Profiles returns the names of the profiles, smallest first. The default
// profile exists even where a file does not mention it.
func Profiles() []string { return []string{"smoke", DefaultProfile, "full"} }

// DefaultProfile is applied when no other is asked for.
const DefaultProfile = "default"
