package adclicks

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// placeMoved is where the offsets are stored, and the results are not.
const placeMoved = "moved"

// offsetsFirst stores offsets before results. It is wrong where aggregators die.
//
// The idea: an offset that is committed at once keeps clicks from being processed twice.
//
// The guarantee: at most once.
//
// It gives up: the clicks of a flush whose process dies between the two. Whoever comes after it
// goes on behind them.
func offsetsFirst() variant {
	r := aggregatorRole(func(a *aggregator) {
		a.load, a.store = loadBehindOffsets, storeOffsetsFirst
	})
	r.Places = []string{placeDecided, placeMoved, placeStored}
	return streaming(variant{
		Name:       "offsets_first",
		Idea:       "offsets are committed first, and the results stored in a second transaction",
		Guarantees: "no click is processed twice",
		GivesUp:    "correctness: a crash between the two loses clicks",
		Breaks: []sut.Break{{Invariant: ClicksOnce, Under: sut.RoleCrash},
			{Invariant: DashboardTrue, Under: sut.RoleCrash, Shows: sut.AtTimes}},
	}, r)
}

// loadBehindOffsets goes on where the offsets are, whatever was stored.
func loadBehindOffsets(
	ctx context.Context, st *opened, numbers []int32,
) (map[int32]*partition, error) {
	list, err := loadAll(ctx, st, numbers)
	for _, p := range list {
		p.from, p.decider.next = p.read, p.read
	}
	return list, err
}

func storeOffsetsFirst(ctx context.Context, st *opened, list []*partition) error {
	if err := inOne(ctx, st, list, (*partition).moveReading); err != nil {
		return err
	}
	st.Config.Passed(placeMoved)
	return inOne(ctx, st, list, (*partition).catchUp, (*partition).write)
}

// moveReading stores up to where clicks are read.
func (p *partition) moveReading(ctx context.Context, tx pgx.Tx) error {
	return p.move(ctx, tx, `UPDATE progress SET read_offset = $3
		WHERE part = $1 AND read_offset = $2`, p.number, p.from, p.read)
}

// catchUp stores up to where there are results.
func (p *partition) catchUp(ctx context.Context, tx pgx.Tx) error {
	return p.move(ctx, tx, `UPDATE progress SET next_offset = $2, max_ms = $3 WHERE part = $1`,
		p.number, p.decider.next, p.decider.maxMS)
}
