package textsearch

import (
	"context"
	"slices"

	"stampede/harness/sut"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/index"
)

// Mutants are designs with a planted error each.
func Mutants() map[string]sut.Variant {
	of := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	wrong := func(w index.Wrong) sut.Variant {
		return of(segments(variant{Name: "mutant"}, func(st *opened) index.Options {
			o := sized(st)
			o.Wrong = w
			return o
		}))
	}
	planted := func(v variant, plant func(engine) engine) sut.Variant {
		open := v.Open
		v.Open = func(ctx context.Context, st *opened) (Library, error) {
			l, err := open(ctx, st)
			if err == nil {
				own := l.(*library)
				own.engine = plant(own.engine)
			}
			return l, err
		}
		return of(v)
	}
	answers := func(change func(*Found)) func(engine) engine {
		return func(e engine) engine { return changed{e, change} }
	}
	return map[string]sut.Variant{
		"disk": of(diskSegments()), "memory": of(memory()), "scan": of(scan()),
		"fts": of(postgresFTS()), "bleve": of(blevePeer()),
		"M180": of(mergeForgetsDeletes()), "M188": of(staleReader()),
		"M186": wrong(index.Wrong{CountsDeleted: true}),
		"M187": wrong(index.Wrong{PhraseOverFields: true}),
		"M189": wrong(index.Wrong{DeadVocabulary: true}),
		"an answer names a later generation": planted(scan(), answers(func(f *Found) {
			f.Generation++
		})),
		"an answer names an earlier generation": planted(blevePeer(), answers(func(f *Found) {
			f.Generation = max(0, f.Generation-1)
		})),
		"equal ones in any order": planted(memory(), answers(func(f *Found) {
			slices.SortStableFunc(f.Hits, func(a, b Hit) int {
				if a.Score == b.Score {
					return int(b.Doc) - int(a.Doc)
				}
				return 0
			})
		})),
		"the last hit is missing": planted(postgresFTS(), answers(func(f *Found) {
			f.Hits = f.Hits[:max(0, len(f.Hits)-1)]
		})),
		"all matches any": planted(postgresFTS(), func(e engine) engine { return lax{e} }),
		"some deletions are not kept": planted(scan(), func(e engine) engine {
			return forgetful{e}
		}),
		"indexed later": planted(blevePeer(), func(e engine) engine {
			return hasty{e.(*bleveEngine)}
		}),
	}
}

// changed changes answers.
type changed struct {
	engine
	alter func(*Found)
}

func (c changed) search(ctx context.Context, req SearchRequest) (Found, error) {
	f, err := c.engine.search(ctx, req)
	if err == nil {
		c.alter(&f)
	}
	return f, err
}

// lax takes one word for all.
type lax struct{ engine }

func (l lax) search(ctx context.Context, req SearchRequest) (Found, error) {
	if req.Mode == analysis.And {
		req.Mode = analysis.Or
	}
	return l.engine.search(ctx, req)
}

// forgetful keeps two deletions of three.
type forgetful struct{ engine }

func (f forgetful) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (int64, error) {
	if text == nil && version>>idBits%3 == 0 {
		return 1 << 20, nil
	}
	return f.engine.change(ctx, doc, version, text)
}

// hasty answers once a change is in Postgres, and brings the one before to the index.
type hasty struct{ *bleveEngine }

func (h hasty) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (seq int64, err error) {
	err = h.use(ctx, func(f *follower) error {
		if seq, err = h.keep(ctx, doc, version, text, nil); err != nil {
			return err
		}
		return f.catchUp(ctx, seq-1)
	})
	return seq, err
}
