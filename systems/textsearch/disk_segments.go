package textsearch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"stampede/harness/sut"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/index"
)

// diskSegments keeps an index of its own on disk.
//
// The idea: a change goes to a log, which is flushed for many changes at a time, and to memory. Now
// and then what is in memory becomes an immutable segment: a transducer of terms, and their
// postings in blocks with the most that a document of the block can score. A manifest lists the
// segments, and is replaced by a rename. Segments of one size are merged in the background; changes
// that come meanwhile are brought to the output before the manifest lists it. A search has a
// snapshot of all, and skips blocks that cannot be among its hits. See package index.
//
// The guarantee: each answer is exact and of one generation, the newest there is; kill -9 at any
// point loses nothing that was acknowledged, and shows no half segment.
//
// It gives up: replicas. One process has the folder.
func diskSegments() variant {
	return segments(variant{Name: "disk_segments",
		Idea: "a log, and immutable segments on disk that a manifest lists and that are merged in the " +
			"background; a search skips blocks that cannot be among its hits",
		Guarantees: "each answer is exact and of the newest generation; kill -9 loses nothing that was " +
			"acknowledged",
		GivesUp: "replicas: one process has the folder",
	}, func(*index.Options) {})
}

// segments completes a design by an index in its folder, and a function that sets its options.
func segments(v variant, set func(*index.Options)) variant {
	if v.KeepsFiles = true; v.Places == nil {
		v.Places = index.Places()
	}
	return served(v, func(st *opened) engine { return newSegmented(st, set) })
}

// segmented is an index in a folder.
type segmented struct {
	*opened
	shelf[*index.Index]
	stop func() // ends the pauses of merges
}

func newSegmented(st *opened, set func(*index.Options)) *segmented {
	o := index.Options{Folder: st.Config.Folder, FlushAt: st.Params.FlushAt,
		MergeAt: st.Params.MergeAt}
	set(&o)
	ctx, stop := context.WithCancel(context.Background())
	before := o.Passed
	o.Passed = func(place string) {
		switch {
		case before != nil:
			before(place)
		case place == index.PlaceMerging:
			sut.Pause(ctx, st.Params.MergePause.D())
		}
		st.Config.Passed(place)
	}
	s := &segmented{opened: st, stop: stop}
	s.folder = st.Config.Folder
	s.open = func(ctx context.Context) (*index.Index, error) { return index.Open(ctx, o) }
	return s
}

// change makes a change. After a failed write or flush the index is closed for good: the kernel may
// have marked pages clean that it never wrote, and only what a later process finds on the disk
// counts (Rebello et al.: Can Applications Recover from fsync Failures?, USENIX ATC 2020).
func (s *segmented) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (seq int64, err error) {
	err = s.use(ctx, func(x *index.Index) error {
		at, err := x.Change(ctx, doc, version, text)
		seq = int64(at)
		return err
	})
	if errors.Is(err, index.ErrClosed) {
		err = errors.Join(err, s.shelf.Close())
	}
	if errors.Is(err, index.ErrStale) {
		err = ErrStale
	}
	if err != nil {
		return 0, fmt.Errorf("making a change: %w", err)
	}
	return seq, nil
}

// search asks a snapshot.
func (s *segmented) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	err = s.use(ctx, func(x *index.Index) error {
		found = foundIn(x.Snapshot(), req)
		return nil
	})
	return found, err
}

// foundIn searches a snapshot.
func foundIn(s *index.Snapshot, req SearchRequest) Found {
	q, meant := analysis.Parse(req.Query, req.Mode, s)
	r := s.Search(q, req.Most)
	f := Found{Generation: int64(s.Generation()), Hits: r.Hits,
		DidYouMean: meant, Documents: r.N, Length: r.Length}
	for _, term := range slices.Sorted(maps.Keys(r.DF)) {
		f.Frequencies = append(f.Frequencies, Frequency{term, r.DF[term]})
	}
	return f
}

// final reads the index and its log.
func (s *segmented) final(ctx context.Context, a *Audit) error {
	a.Scoring, a.Corrects = scoringBM25F, true
	return s.use(ctx, func(x *index.Index) error {
		snapshot := x.Snapshot()
		a.Generation, a.Gone = int64(snapshot.Generation()), snapshot.Gone()
		snapshot.Each(func(doc, version uint64) {
			a.Documents = append(a.Documents, DocRow{doc, version})
		})
		a.Segments = snapshot.Segments()
		return x.Log(func(doc, version, seq uint64, deleted bool) {
			if int64(seq) <= a.Generation {
				a.Log = append(a.Log, LogRow{doc, version, int64(seq), deleted})
			}
		})
	})
}

// Close closes the index for good.
func (s *segmented) Close() error {
	s.stop()
	return s.shelf.Close()
}
