package flashsale

import (
	"context"
	"errors"
	"time"

	"stampede/harness/sim"
)

// unitsSkipLocked lets every buyer lock a unit row of its own, so nobody waits for anybody;
// order, unit and log are one statement. "Sold out" is true, because a shelf whose last units
// are locked by others is looked at again, this time waiting for them.
func unitsSkipLocked() variant {
	return unitRows().sells(variant{
		Name:       "units_skip_locked",
		Idea:       "a row per unit; each buyer locks the first free one, skipping locked rows",
		Guarantees: "every unit has at most one owner, and sold out means that all have one",
		GivesUp:    "one commit per unit, and a row for every unit that is ever sold",
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newUnitShop(newBooks(st.DB, unitRows())), nil
		},
		Model: unitRows().modelled(skipsLocked),
	})
}

// skipsLocked is its model. Who waits for locked units looks again a thousand times a second.
func skipsLocked(m *model) func(*sim.Process, BuyRequest) (claim, error) {
	skip := func(_ *sim.Process, item string) (int64, bool, bool) {
		unit, skipped, ok := m.shelf.Claim(item)
		return unit, ok, skipped > 0
	}
	return func(p *sim.Process, req BuyRequest) (claim, error) {
		c, err := m.claims(p, req, skip)
		if !errors.Is(err, errBusy) {
			return c, err
		}
		return m.claims(p, req, func(p *sim.Process, item string) (int64, bool, bool) {
			for {
				unit, taken, locked := skip(p, item)
				if taken || !locked {
					return unit, taken, false
				}
				p.Do(sim.Harmless(m.Sim.Delay(time.Millisecond)))
			}
		})
	}
}

// takeUnit takes the first unit on the shelf, waiting for its lock. It may
// be followed by SKIP LOCKED, and then may come back empty-handed although a
// unit is about to come free.
const takeUnit = `
    SELECT unit_no, version + 1 FROM units
    WHERE item = $1 AND state = 'available' AND EXISTS (SELECT FROM allowed)
    ORDER BY unit_no LIMIT 1 FOR UPDATE`

// onShelf looks for a unit without regard to locks.
const onShelf = `EXISTS (SELECT FROM units WHERE item = $1 AND state = 'available')`

// unitShop sells unit rows.
type unitShop struct {
	ledgerShop
	skip, wait string // the statements that pass over locked units or wait for them
}

func newUnitShop(b *books) *unitShop {
	return &unitShop{
		ledgerShop: ledgerShop{b},
		skip:       b.buyStatement(takeUnit+` SKIP LOCKED`, onShelf),
		wait:       b.buyStatement(takeUnit, `false`),
	}
}

// Buy takes a unit.
func (s *unitShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	c, err := s.claim(ctx, req)
	return c.Order, err
}

// claim takes a unit. When all that are left are locked it queues for them:
// their buyers may yet fail, and a unit that came back would have been denied
// to somebody for no reason.
func (s *unitShop) claim(ctx context.Context, req BuyRequest) (claim, error) {
	c, err := s.books.buy(ctx, s.skip, req)
	if errors.Is(err, errBusy) {
		return s.books.buy(ctx, s.wait, req)
	}
	return c, err
}
