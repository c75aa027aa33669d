package flashsale

import (
	"context"

	"stampede/harness/sut"
)

// unitsAsyncCommit is units_skip_locked whose commits are answered before they are in the log.
// Wrong when Postgres dies: buyers have a receipt and no order, or have paid for none, of the last
// moments, up to three times wal_writer_delay (200 ms). The end of the log is lost, and fsync does
// not guard against it.
func unitsAsyncCommit() variant {
	return unitRows().sells(variant{
		Name:       "units_async_commit",
		Idea:       "units_skip_locked with synchronous_commit off: a commit does not wait for the disk",
		Guarantees: "one owner for a unit in the stores; a crash leaves an earlier, consistent state",
		GivesUp:    "the orders of the last half second when Postgres crashes; others get their units",
		Breaks: []sut.Break{{Invariant: AckedDurable, Under: sut.PostgresCrash, Shows: sut.Alone},
			{Invariant: UnitExclusive, Under: sut.PostgresCrash, Shows: sut.AtTimes},
			{Invariant: PaymentExactlyOnce, Under: sut.PostgresCrash, Shows: sut.AtTimes},
			{Invariant: Conservation, Under: sut.PostgresCrash, Shows: sut.AtTimes}},
		Settings: map[string]string{"synchronous_commit": "off"},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newUnitShop(newBooks(st.DB, unitRows())), nil
		},
	})
}
