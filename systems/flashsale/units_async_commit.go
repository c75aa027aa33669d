package flashsale

import (
	"context"

	"stampede/harness/sut"
)

// unitsAsyncCommit: units_skip_locked without waiting for the disk. Wrong when
// Postgres dies.
//
// Idea: with synchronous_commit off a commit is answered before its record is in
// the log, which is written a moment later for many at once: the purchase costs
// no flush.
//
// Guarantee: that of units_skip_locked while Postgres lives; and always a state
// that once was, because what is lost is the end of the log.
//
// Gives up: what it acknowledged in the last moments, up to three times
// wal_writer_delay (200 ms), when Postgres or its machine dies: buyers with a
// receipt and no order. Fsync is on; this is not what it guards against.
func unitsAsyncCommit() variant {
	return unitRows().sells(variant{
		Name:       "units_async_commit",
		Idea:       "units_skip_locked with synchronous_commit off: a commit does not wait for the disk",
		Guarantees: "every unit has at most one owner, and a crash leaves an earlier, consistent state",
		GivesUp:    "the orders acknowledged in the last half second or so when Postgres crashes",
		Breaks:     []sut.Break{{Invariant: AckedDurable, Under: sut.PostgresCrash}},
		Settings:   map[string]string{"synchronous_commit": "off"},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newUnitShop(newBooks(st.DB, unitRows())), nil
		},
	})
}
