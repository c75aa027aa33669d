package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"stampede/systems/internal/prefix"
	"stampede/systems/textsearch/analysis"
)

func TestMain(m *testing.M) {
	// Bleve's workers are the package's, for ever.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// words are few, so that documents have many in common, and like each other in all ways.
var words = strings.Fields(`pizza pizzas piza pita new york newyork the of house home boat boot
	a night knight zürich naïve 北京 x`)

// drawn makes some text.
func drawn(r *rand.Rand, most int) string {
	list := make([]string, r.IntN(most+1))
	for i := range list {
		list[i] = words[r.IntN(len(words))]
	}
	return strings.Join(list, " ")
}

func someDocument(r *rand.Rand) *analysis.Text {
	return &analysis.Text{Title: drawn(r, 3), Tags: drawn(r, 2), Description: drawn(r, 4),
		Body: drawn(r, 12)}
}

type fatal interface {
	Helper()
	Fatalf(string, ...any)
	Fatal(...any)
}

// Get is what the snapshot knows of a document: the version of its newest change, and whether it is
// there or was deleted by that.
func (s *Snapshot) Get(doc uint64) (version uint64, there bool) {
	defer runtime.KeepAlive(s)
	for i := range s.leaves {
		l := &s.leaves[i]
		if l.seg == nil {
			for j, r := range l.rows {
				if r.doc == doc && !l.isOld(uint32(j)) {
					return r.Version, !r.gone
				}
			}
		} else if at, is := l.seg.find(doc); is && !l.isOld(at) {
			r := l.row(at)
			return r.Version, !r.gone
		}
	}
	return 0, false
}

// compare holds a snapshot against the documents that it should have.
func compare(t fatal, s *Snapshot, o *oracle, r *rand.Rand, queries int) {
	t.Helper()
	got, want := map[uint64]uint64{}, map[uint64]uint64{}
	s.Each(func(doc, version uint64) {
		if got[doc] > 0 {
			t.Fatalf("document %d is there twice", doc)
		}
		got[doc] = version
	})
	for doc := range o.Docs {
		k := o.newest(doc)
		if k == nil {
			continue
		}
		if !k.Deleted {
			want[doc] = k.Version
		}
		if version, there := s.Get(doc); version != k.Version || there == k.Deleted {
			t.Fatalf("document %d is %d %v, not %+v", doc, version, there, k)
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("generation %d has %v, not %v", s.Generation(), got, want)
	}
	for range queries {
		text := drawn(r, 4) + []string{"", "a", " hom", "z"}[r.IntN(4)]
		mode := []analysis.Mode{analysis.And, analysis.Or, analysis.Phrase, analysis.Prefix}[r.IntN(4)]
		q, meant := analysis.Parse(text, mode, s)
		again, other := analysis.Parse(text, mode, o)
		if !reflect.DeepEqual(q, again) || meant != other {
			t.Fatalf("%q (%s) is %v %q, not %v %q", text, mode, q, meant, again, other)
		}
		if r.IntN(4) == 0 { // all at once
			q.Must = append(q.Must, analysis.Group{Terms: analysis.Terms(drawn(r, 3)), Prefix: "pi"})
		}
		judge(t, s, o, q, 1+r.IntN(12))
		vocabulary(t, s, o, r)
	}
}

// vocabulary holds what a snapshot says of some term, which may be none, against the oracle.
func vocabulary(t fatal, s *Snapshot, o *oracle, r *rand.Rand) {
	t.Helper()
	term := []rune(words[r.IntN(len(words))])
	for range r.IntN(4) {
		at := r.IntN(len(term))
		term = slices.Replace(term, at, at+r.IntN(2), []rune("azü京")[r.IntN(4)])
	}
	a, b := string(term), analysis.Terms(words[r.IntN(len(words))] + " x")[0]
	for distance := 1; distance <= prefix.MaxEdits; distance++ {
		if got, want := s.Fuzzy(a, distance), o.Fuzzy(a, distance); !slices.Equal(got, want) {
			t.Fatalf("like %q by %d are %v, not %v", a, distance, got, want)
		}
	}
	for _, code := range append(analysis.Codes(a), analysis.Codes(b)...) {
		if got, want := s.Sounds(code), o.Sounds(code); !slices.Equal(got, want) {
			t.Fatalf("like %s sound %v, not %v", code, got, want)
		}
	}
	if got, want := s.Pair(b, a), o.Pair(b, a); got != want {
		t.Fatalf("%d documents have %q and %q, not %d", got, b, a, want)
	}
	if got, want := s.Pair("new", "york"), o.Pair("new", "york"); got != want {
		t.Fatalf("%d documents have new york, not %d", got, want)
	}
	for _, term := range []string{a, b} {
		if s.Frequency(term) != o.Frequency(term) || s.Has(term) != o.Has(term) {
			t.Fatalf("%d documents have %q, not %d", s.Frequency(term), term, o.Frequency(term))
		}
	}
}

// judge holds the answers to a query against those of the oracle.
func judge(t fatal, s *Snapshot, o *oracle, q analysis.Query, n int) {
	t.Helper()
	got := s.Search(q, n)
	want := o.search(q, n, got.DF)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v finds\n%v, not\n%v", q, got, want)
	}
	terms, asked := slices.Sorted(maps.Keys(got.DF)), o.Resolve(q).Terms
	if !slices.Equal(terms, asked) {
		t.Fatalf("%v has the terms %v, not %v", q, terms, asked)
	}
	for term, df := range got.DF {
		if live := o.Frequency(term); df < live || df > got.N {
			t.Fatalf("df of %q is %d; %d of %d documents have it", term, df, live, got.N)
		}
	}
}

// TestHistories: after any changes, flushes, merges and restarts, an index has and finds what the
// oracle has and finds; a snapshot does so after any later changes, too.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		d, opt := newDisk(), Options{FlushAt: 1 + r.IntN(8), MergeAt: 2 + r.IntN(2)}
		x := mustOpen(t, d, opt)
		defer func() { x.Close() }()
		o := newOracle()
		type held struct {
			*Snapshot
			o oracle
		}
		var snapshots []held
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			doc, version := uint64(r.IntN(12)), uint64(r.IntN(40))
			var err error
			switch r.IntN(12) {
			case 0:
				err = x.Flush(context.Background())
			case 1:
				if err = x.Close(); err == nil {
					x = mustOpen(t, d, opt)
				}
			case 4:
				s := x.Snapshot()
				compare(t, s, o, r, 1)
				snapshots = append(snapshots, held{s, *o})
			default:
				var text *analysis.Text // none deletes
				if r.IntN(4) != 0 {
					text = someDocument(r)
				}
				var seq uint64
				seq, err = x.Change(context.Background(), doc, version, text)
				err = staleOnly(o.change(doc, version, text), seq, err)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s := x.Snapshot()
		for _, h := range append(snapshots, held{s, *o}) {
			compare(t, h.Snapshot, &h.o, r, 4)
		}
	})
}

// staleOnly says whether an index took a change that the oracle took, and no other.
func staleOnly(want int64, seq uint64, err error) error {
	if errors.Is(err, ErrStale) && want == 0 {
		err = nil
	}
	if err == nil && seq != uint64(want) {
		return fmt.Errorf("a change has the number %d, not %d", seq, want)
	}
	return err
}

func mustOpen(t fatal, d files, o Options) *Index {
	t.Helper()
	o.FlushAt, o.MergeAt = cmp.Or(o.FlushAt, 4096), cmp.Or(o.MergeAt, 8)
	x, err := open(context.Background(), o, d)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// crash is a disk as a crash left it, and the highest change that was acknowledged before.
type crash struct {
	name  string
	acked uint64
	left  *disk
}

// flushing is the place of a crash while the folder is flushed.
const flushing = "flushing"

// crashing makes changes from several clients, and takes a copy of the disk at each place that the
// index passes. It returns the copies, and all changes by their sequence number.
func crashing(t fatal, seed uint64, opt Options) (crashes []crash, changes map[uint64]change) {
	r := rand.New(rand.NewPCG(seed, 2))
	d := newDisk()
	var mu sync.Mutex
	var acked uint64
	changes = map[uint64]change{}
	opt.Passed = func(place string) {
		mu.Lock()
		defer mu.Unlock()
		cut := d.cut(func(n int) int { return r.IntN(n + 1) })
		crashes = append(crashes, crash{place + ", power cut", acked, cut},
			crash{place + ", killed", acked, d.killed()})
	}
	x := mustOpen(t, d, opt)
	d.flushing = func() { opt.Passed(flushing) }
	var clients sync.WaitGroup
	for client := range 3 {
		r := rand.New(rand.NewPCG(seed, 10+uint64(client)))
		clients.Go(func() {
			for i := range 25 {
				c := change{Doc: uint64(r.IntN(8)), entry: entry{Version: uint64(i*3 + client)}}
				var err error
				if r.IntN(3) != 0 {
					c.Text = someDocument(r)
				}
				c.Seq, err = x.Change(context.Background(), c.Doc, c.Version, c.Text)
				mu.Lock()
				if err == nil {
					changes[c.Seq] = c
					acked = max(acked, c.Seq)
				} else if !errors.Is(err, ErrStale) {
					panic(err)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return crashes, changes
}

// TestCrashes: after a crash at any place, with or without what was not flushed, an index has each
// change that was acknowledged, and those up to its generation and no others.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		crashes, changes := crashing(t, seed, Options{FlushAt: 5, MergeAt: 2})
		r := rand.New(rand.NewPCG(seed, 3))
		places := map[string]bool{}
		r.Shuffle(len(crashes), func(i, j int) { crashes[i], crashes[j] = crashes[j], crashes[i] })
		for _, c := range crashes {
			if places[c.name] {
				continue // one of each is enough for this seed
			}
			places[c.name] = true
			if err := lost(c, changes, Wrong{}, r); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if len(places) != 2*(len(Places())+1) {
			t.Fatalf("only these places were passed: %v", slices.Sorted(maps.Keys(places)))
		}
	})
}

// failing makes failures errors.
type failing struct{}

func (failing) Helper()                        {}
func (failing) Fatalf(format string, a ...any) { panic(fmt.Errorf(format, a...)) }
func (failing) Fatal(a ...any)                 { panic(errors.New(fmt.Sprint(a...))) }

// caught is what a function fails with.
func caught(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = p.(error)
		}
	}()
	f()
	return nil
}

// lost says what is wrong with an index after a crash.
func lost(c crash, changes map[uint64]change, wrong Wrong, r *rand.Rand) error {
	opt := Options{FlushAt: 5, MergeAt: 2, Wrong: wrong}
	for range 2 { // it must be the same when it is opened again
		x, err := open(context.Background(), opt, c.left)
		if err != nil {
			return err
		}
		err = caught(func() {
			s := x.Snapshot()
			if s.Generation() < c.acked {
				failing{}.Fatalf("generation %d, and %d was acknowledged", s.Generation(), c.acked)
			}
			o := newOracle()
			for seq := uint64(1); seq <= s.Generation(); seq++ {
				o.change(changes[seq].Doc, changes[seq].Version, changes[seq].Text)
			}
			compare(failing{}, s, o, r, 1)
		})
		if err = errors.Join(err, x.Close()); err != nil {
			return err
		}
		c.left = c.left.cut(func(int) int { return 0 })
	}
	return nil
}
