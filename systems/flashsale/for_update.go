package flashsale

import "context"

// forUpdate: a row for each unit; all buyers queue for the first one.
//
// Idea: SELECT … FOR UPDATE of the first unit on the shelf. Whoever gets the
// lock takes the unit; all others wait for the very same row, find it taken,
// and go on to the next.
//
// Guarantee: a unit has one owner, and "sold out" is true, because nobody
// passes over a unit whose buyer may yet fail.
//
// Gives up: everything that a row per unit could give. Each commit wakes all
// who wait, and all but one of them queue again.
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
