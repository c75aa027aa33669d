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

// Profiles returns the names of the profiles, smallest first. The default profile and the
// quick one exist even where a file does not mention them.
func Profiles() []string { return []string{"smoke", QuickProfile, DefaultProfile, FullProfile} }

const (
	// QuickProfile is the smallest set of variants that answers a scenario's question. It is
	// the default profile where a file has none.
	QuickProfile = "quick"
	// DefaultProfile is applied when no other is asked for.
	DefaultProfile = "default"
	// FullProfile sends the same on every machine.
	FullProfile = "full"
)

// ProfilesText lists the profiles for the help of a flag.
const ProfilesText = "smoke, quick, default or full"
