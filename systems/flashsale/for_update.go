package flashsale

import "context"

// forUpdate keeps a row for each unit, and all buyers queue for the first one that is free.
// Whoever gets the lock takes the unit; the others wait for the very same row, find it taken,
// and go on to the next. Nobody passes over a unit whose buyer may yet fail.
func forUpdate() variant {
	return unitRows().sells(variant{
		Name:       "for_update",
		Idea:       "a row per unit; each buyer locks the first free one and waits if it is locked",
		Guarantees: "every unit has at most one owner, and sold out means that all have one",
		GivesUp:    "parallelism: all buyers wait for the same row, then all for the next",
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newWaitingShop(newBooks(st.DB, unitRows()), takeUnit), nil
		},
	})
}
