package textsearch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"stampede/harness/sut"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/index"
)

// AskedInTheEnd are the searches for a version in the end, after those for n newer ones.
func AskedInTheEnd(title string, n int) []SearchRequest { return askedInTheEnd(title, n) }

// Mutants are designs with a planted error each.
func Mutants() map[string]sut.Variant {
	of := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	wrong := func(w index.Wrong) sut.Variant {
		return of(served(variant{Name: "mutant", KeepsFiles: true}, func(st *opened) engine {
			return newSegmented(st, func(o *index.Options) {
				o.Wrong, o.Passed = w, func(place string) {
					if w.UpdateInTwo && place == index.PlaceLogged || place == index.PlaceMerging {
						sut.Pause(context.Background(), st.Params.MergePause.D()/10)
					}
				}
			})
		}))
	}
	cut := func(w index.Wrong) sut.Variant {
		return of(served(variant{Name: "mutant", KeepsFiles: true}, func(st *opened) engine {
			return newCutOff(st, w)
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
		"M181":      wrong(index.Wrong{MarkedByPlace: true}),
		"M183":      wrong(index.Wrong{UpdateInTwo: true}),
		"M184":      wrong(index.Wrong{RoundedBounds: true}),
		"M185":      wrong(index.Wrong{TiesPruned: true}),
		"power cut": cut(index.Wrong{}), "M190": cut(index.Wrong{AckBeforeFlush: true}),
		"M186": planted(diskSegments(), func(e engine) engine {
			var most atomic.Int64
			return changed{e, func(f *Found) {
				most.Store(max(most.Load(), f.Documents))
				f.Documents = most.Load()
			}}
		}),
		"M187": planted(diskSegments(), func(e engine) engine {
			return lax{e, analysis.Phrase, analysis.And}
		}),
		"M189": planted(diskSegments(), answers(func(f *Found) {
			if f.DidYouMean != "" {
				f.Hits, f.DidYouMean = []Hit{}, ""
			}
		})),
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
		"all matches any": planted(postgresFTS(), func(e engine) engine {
			return lax{e, analysis.And, analysis.Or}
		}),
		"some deletions are not kept": planted(scan(), func(e engine) engine {
			return forgetful{e}
		}),
		"indexed later": planted(blevePeer(), func(e engine) engine {
			return hasty{e.(*bleveEngine)}
		}),
	}
}

// cutOff is an index whose power is cut now and then: what was not flushed of a file is lost.
type cutOff struct {
	*segmented
	mu      sync.Mutex
	changes int
	flushed map[string]int64 // bytes of each file
}

func newCutOff(st *opened, w index.Wrong) *cutOff {
	c := &cutOff{flushed: map[string]int64{}}
	c.segmented = newSegmented(st, func(o *index.Options) {
		o.Wrong, o.Wrap = w, func(name string, f index.File) index.File {
			c.flush(name, 0)
			return &watchedFile{File: f, flushed: func(size int64) { c.flush(name, size) }}
		}
	})
	open := c.open
	c.open = func(ctx context.Context) (*index.Index, error) {
		if err := c.cut(); err != nil {
			return nil, err
		}
		return open(ctx)
	}
	return c
}

func (c *cutOff) flush(name string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed[name] = size
}

// cutEvery is after how many changes the power is cut: before the memory becomes a segment.
const cutEvery = 7

// change makes a change. The power is cut between two, when each was answered.
func (c *cutOff) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (int64, error) {
	c.mu.Lock()
	c.changes++
	due := c.changes%cutEvery == 0
	c.mu.Unlock()
	if due {
		if err := c.shut(); err != nil {
			return 0, err
		}
	}
	return c.segmented.change(ctx, doc, version, text)
}

// cut takes what was not flushed.
func (c *cutOff) cut() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, size := range c.flushed {
		path := filepath.Join(c.Config.Folder, name)
		if about, err := os.Stat(path); err == nil && about.Size() > size {
			if err := os.Truncate(path, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchedFile says how much of it is flushed.
type watchedFile struct {
	index.File
	size    int64
	flushed func(size int64)
}

func (f *watchedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.size += int64(n)
	return n, err
}

func (f *watchedFile) Sync() error {
	err := f.File.Sync()
	if err == nil {
		f.flushed(f.size)
	}
	return err
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

// lax takes one mode for another.
type lax struct {
	engine
	asked, taken analysis.Mode
}

func (l lax) search(ctx context.Context, req SearchRequest) (Found, error) {
	if req.Mode == l.asked {
		req.Mode = l.taken
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
