package adclicks

import (
	"context"
	"slices"
	"time"
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
	const none = "no consumer: a batch reads the archive, and not the log"
	return streaming(variant{
		Name:          "batch_only",
		Idea:          "a batch recounts the Parquet files from the first click on",
		Guarantees:    "an exact count of the archive",
		GivesUp:       "freshness, and work that grows with all that ever happened",
		NotApplicable: map[string]string{DashboardFresh: old, ConsumerLag: none},
	}, batchRole(decided))
}

// recount decides the archived clicks of a partition, from the first one on.
type recount func(ctx context.Context, st *opened, part int32) ([]decision, error)

// decided is the recount in Go.
func decided(ctx context.Context, st *opened, part int32) ([]decision, error) {
	events, err := archived(ctx, st, part)
	return decideAll(st.Params.rules(), events), err
}

// batchRole recounts the archive. More steps are taken in the transaction that stores the results.
func batchRole(count recount, more ...step) role {
	return role{Name: "batch", Summary: "recounts the archive from the first click on",
		Places: []string{placeDecided, placeStored}, Single: true,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			stands, err := standsNow(ctx, st)
			for _, s := range stands {
				if err == nil && s.Archived > s.Next {
					err = batch(ctx, st, s, count, more)
				}
				st.Config.Worked()
			}
			return st.Params.BatchEvery.D(), err
		}}
}

// batch recounts a partition, and stores what is new if nobody has done so meanwhile.
func batch(ctx context.Context, st *opened, s stand, count recount, more []step) error {
	decisions, err := count(ctx, st, s.Part)
	if err != nil || int64(len(decisions)) <= s.Next {
		return err
	}
	p := newPartition(s.Part, st.Params.rules())
	for _, d := range decisions {
		if err := p.follow(d); err != nil {
			return err
		}
	}
	p.from, p.read, p.pending = s.Next, p.decider.next, p.pending[s.Next:]
	st.Config.Passed(placeDecided)
	err = inOne(ctx, st, []*partition{p},
		append(slices.Clone(more), (*partition).moveOn, (*partition).write)...)
	if err == nil {
		st.Config.Passed(placeStored)
	}
	return err
}
