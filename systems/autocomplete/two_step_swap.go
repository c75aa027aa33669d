package autocomplete

import (
	"context"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/objects"
)

// twoStepSwap replaces a segment and its companion one after the other. It is wrong.
//
// The idea: fst_segments with two objects of fixed names, which the builder overwrites, and
// which APIs read again and again. There are no versions in names, and nothing to tidy up.
//
// The guarantee: APIs have what is stored.
//
// It gives up: that both are of one version: between two writes, and for as long as a builder has
// died there, APIs answer with a new segment as if it were the old one.
func twoStepSwap() variant {
	return variant{Name: "two_step_swap",
		Idea:       "fst_segments, whose two objects are overwritten one after the other",
		Guarantees: "APIs have what is stored",
		GivesUp:    "that a segment and what is known of it are of one version",
		Breaks: []sut.Break{{Invariant: TopOfVersion, Under: sut.RoleCrash},
			{Invariant: TopOfVersion, Under: sut.Load, Shows: sut.AtTimes}},
		Roles: []role{builder(overwrite)},
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return searching(st, stored), nil
		},
	}
}

// The names of the two objects.
const (
	objectSegment   = "segment"
	objectCompanion = "companion"
)

// overwrite stores one, and then the other.
func overwrite(ctx context.Context, st *opened, t *tally) error {
	raw, about, err := t.built()
	if err != nil {
		return err
	}
	st.Config.Passed(placeBuilt)
	store := objects.In(st.DB)
	if err := store.Put(ctx, objectSegment, raw); err != nil {
		return err
	}
	st.Config.Passed(placeStored)
	return store.Put(ctx, objectCompanion, about)
}

// stored loads what there is.
func stored(ctx context.Context, s *segments) (*loaded, error) {
	var there bool
	err := s.DB.Row(ctx, `SELECT count(*) = 2 FROM objects`, nil, &there)
	if err != nil || !there {
		return nil, stores.Failed("looking for a segment", err)
	}
	store := objects.In(s.DB)
	raw, err := store.Get(ctx, objectSegment)
	if err != nil {
		return nil, err
	}
	about, err := store.Get(ctx, objectCompanion)
	if err != nil {
		return nil, err
	}
	return load(raw, about)
}
