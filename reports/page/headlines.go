package page

import (
	"fmt"
	"math"
	"slices"

	"stampede/harness/rundir"
	"stampede/reports/words"
)

// headline is what differs most between the designs in one source of telemetry.
type headline struct {
	source, design, text string
}

// String implements fmt.Stringer.
func (h headline) String() string { return h.text }

// The least of what a headline is about: sessions that wait, and cores that others took.
const (
	leastWaiting = 2
	leastTaken   = 0.2
)

// headlines say under which design the most sessions of a store waited for the same thing,
// if they were half of those at work, and how much CPU others took at most.
func headlines(bySource map[string][]storeLane) (list []headline) {
	for _, what := range []struct{ part, text string }{
		{"waiting for a lock", "waited for a lock"},
		{"waiting for an internal lock", "waited for a lightweight lock (LWLock)"},
		{"waiting for the disk", "waited for the disk"},
	} {
		most, of, when, whose := 0.0, 0.0, 0.0, ""
		for _, l := range sound(bySource["postgres"]) {
			if waiting, all, at := peak(l.of("sessions"), what.part); waiting > most {
				most, of, when, whose = waiting, all, at, l.Name
			}
		}
		if most >= leastWaiting && 2*most >= of {
			list = append(list, headline{"postgres", whose, fmt.Sprintf("%s: at %s s %.0f of %.0f "+
				"sessions %s.", whose, words.PlainNumber(math.Round(when*10)/10), most, of, what.text)})
		}
	}
	for _, part := range []struct{ name, text string }{
		{rundir.Hypervisor, "The hypervisor"}, {rundir.OtherPrograms, "Other programs"},
	} {
		most, whose := 0.0, ""
		for _, l := range sound(bySource["cpu"]) {
			if taken, _, _ := peak(l.of(rundir.Taken), part.name); taken > most {
				most, whose = taken, l.Name
			}
		}
		if most >= leastTaken {
			list = append(list, headline{"cpu", whose, fmt.Sprintf("%s took up to %s while %s ran.",
				part.text, amount(most, "cores"), whose)})
		}
	}
	return list
}

// sound are the lanes of designs that are no controls: what a known-wrong design waits for
// explains nothing that is asked.
func sound(lanes []storeLane) []storeLane {
	return slices.DeleteFunc(slices.Clone(lanes), func(l storeLane) bool { return l.Control() })
}

// peak is the highest value of a part, the sum of all parts in that sample, and when that was
// taken, in seconds.
func peak(parts []rundir.Series, name string) (most, all, when float64) {
	at := int64(-1)
	for _, s := range parts {
		for i, v := range s.Values {
			if s.Part == name && v > most {
				most, at = v, s.AtNS[i]
			}
		}
	}
	for _, s := range parts {
		for i, v := range s.Values {
			if s.AtNS[i] == at {
				all += v
			}
		}
	}
	return most, all, float64(at) / 1e9
}
