package sqlbroker_test

import (
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/systems/sqlbroker"
)

// TestIdleReceivesDoNotRace: consumers who wait at an empty queue take nothing from each
// other, however many they are.
func TestIdleReceivesDoNotRace(t *testing.T) {
	races := sqlbroker.System().Races
	for name, test := range map[string]struct {
		messages int // for each of ten who wait at the same time
		raced    int64
	}{"an empty queue": {0, 0}, "a message for each": {1, 10}} {
		e := &evidence{}
		for n := range uint64(10) {
			got := make([]sqlbroker.Delivery, test.messages)
			e.do(n+1, sqlbroker.KindReceive, "queue-2", time.Duration(n)*time.Microsecond,
				sqlbroker.Demand{Most: 1}, int64(len(got)), got)
		}
		o, err := check.Overlap(history.Slice(e.records), races.Kinds, races.Idle)
		if err != nil || o.Raced != test.raced || o.Successful != test.raced {
			t.Errorf("%s: %+v, %v; %d raced", name, o, err, test.raced)
		}
	}
}
