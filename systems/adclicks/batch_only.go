package adclicks

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// batchOnly has no stream: a batch recounts the archive again and again.
//
// The idea: the archive is the source of truth anyway, so a batch reads all of it, decides every
// click from the first on, and replaces the results.
//
// The guarantee: what is shown is an exact count of the archive. A batch that dies leaves nothing
// behind, and the next one begins at the first click.
//
// It gives up: freshness, which is that of the last batch, and time that grows with the archive.
func batchOnly() variant {
	const old = "figures are those of the last batch, by design"
	return streaming(variant{
		Name:          "batch_only",
		Idea:          "a batch recounts the Parquet files from the first click on",
		Guarantees:    "an exact count of the archive",
		GivesUp:       "freshness, and work that grows with all that ever happened",
		NotApplicable: map[string]string{DashboardFresh: old},
	}, batchRole())
}

// batchRole recounts the archive. More steps are taken in the transaction that stores the results.
func batchRole(more ...func(*partition, context.Context, pgx.Tx) error) role {
	return role{Name: "batch", Summary: "recounts the archive from the first click on",
		Places: []string{placeDecided, placeStored}, Single: true,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			stands, err := standsNow(ctx, st)
			for _, s := range stands {
				if err == nil && s.archived > s.next {
					err = batch(ctx, st, s, more)
				}
				st.Config.Worked()
			}
			return st.Params.BatchEvery.D(), err
		}}
}

// batch recounts a partition, and stores what is new if nobody has done so meanwhile.
func batch(
	ctx context.Context, st *opened, s stand,
	more []func(*partition, context.Context, pgx.Tx) error,
) error {
	events, err := archived(ctx, st, s.part)
	if err != nil {
		return err
	}
	p := newPartition(s.part, st.Params.rules())
	for _, e := range events {
		if err := p.take(e); err != nil {
			return err
		}
	}
	if p.decider.next <= s.next {
		return nil
	}
	p.from, p.read, p.pending = s.next, p.decider.next, p.pending[s.next:]
	st.Config.Passed(placeDecided)
	err = inOne(ctx, st, []*partition{p},
		append(slices.Clone(more), (*partition).moveOn, (*partition).write)...)
	if err == nil {
		st.Config.Passed(placeStored)
	}
	return err
}
