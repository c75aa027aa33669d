package index

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"stampede/systems/textsearch/analysis"
)

// put puts a document that must be taken.
func put(t fatal, x *Index, o *oracle, doc, version uint64, text *analysis.Text) {
	t.Helper()
	if _, err := x.Change(context.Background(), doc, version, text); err != nil {
		t.Fatal(err)
	}
	o.change(doc, version, text)
}

// long makes documents whose lists are many blocks long, with as many ties as documents of one
// kind, and with lens that differ where eight bits cannot say so.
func long(t fatal, x *Index, o *oracle, r *rand.Rand, docs int) {
	for _, doc := range r.Perm(docs) {
		text := &analysis.Text{Title: "common"}
		switch r.IntN(6) {
		case 0:
			text.Body = "anchor often " + strings.Repeat("filler ", 290+r.IntN(300))
		case 1:
			text.Body = "often seldom"
		case 2:
			text = &analysis.Text{Body: strings.Repeat("often ", 1+r.IntN(3)) + drawn(r, 6)}
		case 3:
			text.Tags, text.Body = "seldom", strings.Repeat("common ", r.IntN(3))
		}
		put(t, x, o, uint64(doc), 1, text)
	}
}

// TestPruned: with lists of many blocks, ties across them and any lens, a search that leaves blocks
// out finds what the oracle finds.
func TestPruned(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 4))
		x := mustOpen(t, newDisk(), Options{FlushAt: 600, MergeAt: 2 + r.IntN(2)})
		o := newOracle()
		long(t, x, o, r, 1500)
		for range 100 {
			doc := uint64(r.IntN(1500))
			if _, err := x.Change(t.Context(), doc, 2, nil); err == nil {
				o.change(doc, 2, nil)
			}
		}
		if seed != 0 {
			mustFlush(t, x)
		}
		s := x.Snapshot()
		for _, q := range []analysis.Query{
			{Must: []analysis.Group{{Terms: []string{"common"}}}},
			{Must: []analysis.Group{{Terms: []string{"anchor"}}}},
			{Must: []analysis.Group{{Terms: []string{"common", "often", "seldom", "pizza"}}}},
			{Must: []analysis.Group{{Terms: []string{"seldom"}}, {Terms: []string{"often", "filler"}}}},
			{Must: []analysis.Group{{Prefix: "f"}, {Terms: []string{"common"}}}},
			{Phrase: []analysis.Placed{{Term: "often"}, {Term: "seldom", Place: 1}}},
			{Phrase: []analysis.Placed{{Term: "often"}, {Term: "filler", Place: 61}}},
			{Phrase: []analysis.Placed{{Term: "often"}, {Term: "filler", Place: analysis.MaxPlace}}},
		} {
			for _, n := range []int{1, 10, 300} {
				if len(q.Phrase) > 0 && q.Phrase[1].Place == analysis.MaxPlace {
					if hits := s.Search(q, n).Hits; len(hits) > 0 {
						t.Fatalf("a phrase that is too long is found: %v", hits)
					}
					continue
				}
				judge(t, s, o, q, n)
			}
		}
		mustClose(t, x)
	}
}

func mustFlush(t fatal, x *Index) {
	t.Helper()
	if err := x.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t fatal, x *Index) {
	t.Helper()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFolder: an index in a folder is there again after it was closed, is open once only, and
// leaves no files behind; what a snapshot holds can be read after it was merged away.
func TestFolder(t *testing.T) {
	o := Options{Folder: t.TempDir(), FlushAt: 3, MergeAt: 2}
	x, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
		t.Fatalf("it was opened twice: %v", err)
	}
	r, all := rand.New(rand.NewPCG(6, 6)), newOracle()
	for doc := range uint64(10) {
		put(t, x, all, doc, 1, someDocument(r))
	}
	mustFlush(t, x)
	held, before := x.Snapshot(), *all
	for doc := range uint64(10) {
		put(t, x, all, doc, 2, someDocument(r))
	}
	mustFlush(t, x)
	compare(t, held, &before, r, 10)
	orphan := filepath.Join(o.Folder, segmentName(99))
	if err := os.WriteFile(orphan, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustClose(t, x)
	if _, err := x.Change(t.Context(), 1, 9, &analysis.Text{}); !errors.Is(err, ErrClosed) {
		t.Fatalf("a closed index was changed: %v", err)
	}
	if s := x.Snapshot(); s.Search(analysis.Query{}, 1).N != 0 {
		t.Fatal("a closed index has documents")
	}
	if x, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s := x.Snapshot()
	compare(t, s, all, r, 10)
	names, err := x.files.list()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{manifestName}
	for _, g := range s.Segments() {
		if !g.Whole {
			t.Errorf("%+v is not whole", g)
		}
		want = append(want, segmentName(g.ID))
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, logPrefix) })
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("the files are %v, not %v", names, want)
	}
	mustClose(t, x)
}

// TestTogether: searches while documents are changed and segments are merged. Each snapshot has one
// version of each document, in the order of generations, and finds it by that version's words.
func TestTogether(t *testing.T) {
	x, err := Open(t.Context(), Options{Folder: t.TempDir(), FlushAt: 16, MergeAt: 2})
	if err != nil {
		t.Fatal(err)
	}
	const docs, versions = 20, 30
	stop := make(chan struct{})
	var writers, readers sync.WaitGroup
	for doc := range uint64(docs) {
		writers.Go(func() {
			for version := uint64(1); version <= versions; version++ {
				text := &analysis.Text{Title: "v" + string(rune('a'+version)), Body: "pizza"}
				seq, err := x.Change(t.Context(), doc, version, text)
				if err != nil {
					t.Error(err)
					return
				}
				s := x.Snapshot()
				if known, there := s.Get(doc); s.Generation() < seq || known != version || !there {
					t.Errorf("generation %d has version %d of %d, after %d", s.Generation(), known,
						version, seq)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			var before uint64
			for {
				s := x.Snapshot()
				if s.Generation() < before {
					t.Errorf("generation %d follows %d", s.Generation(), before)
				}
				before = s.Generation()
				q, _ := analysis.Parse("pizza", analysis.And, s)
				found := s.Search(q, docs)
				if int64(len(found.Hits)) != found.N {
					t.Errorf("%d of %d documents are found", len(found.Hits), found.N)
				}
				s.Fuzzy("pizz", 1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	mustFlush(t, x)
	s := x.Snapshot()
	if n := len(s.Segments()); n == 0 || n > 6 {
		t.Errorf("there are %d segments", n)
	}
	mustClose(t, x)
}

// TestWrong: each thing that a known-wrong design does is noticed.
func TestWrong(t *testing.T) {
	for name, c := range map[string]struct {
		wrong            Wrong
		flushAt, mergeAt int
		do               func(t fatal, x *Index, o *oracle, r *rand.Rand)
	}{
		"MergeForgetsDeletes": {Wrong{MergeForgetsDeletes: true}, 10, 3, merging},
		"MarkedByPlace":       {Wrong{MarkedByPlace: true}, 10, 3, merging},
		"RoundedBounds":       {Wrong{RoundedBounds: true}, 400, 2, searching},
		"TiesPruned":          {Wrong{TiesPruned: true}, 400, 2, searching},
	} {
		t.Run(name, func(t *testing.T) {
			noticed := 0
			for seed := uint64(0); seed < 5 && noticed == 0; seed++ {
				for _, wrong := range []Wrong{{}, c.wrong} {
					err := caught(func() {
						x := mustOpen(failing{}, newDisk(),
							Options{FlushAt: c.flushAt, MergeAt: c.mergeAt, Wrong: wrong})
						defer x.Close()
						c.do(failing{}, x, newOracle(), rand.New(rand.NewPCG(seed, 8)))
					})
					if wrong == c.wrong && err != nil {
						noticed++
					}
					if wrong != c.wrong && err != nil {
						t.Error(err)
					}
				}
			}
			if noticed == 0 {
				t.Error("nothing was noticed")
			}
		})
	}
}

// merging replaces the last segment's documents while it is merged with two others, and compares.
// The output is too large to be merged with the segments of what replaces them.
func merging(t fatal, x *Index, o *oracle, r *rand.Rand) {
	ready := make(chan bool) // closed once the last put is over, which a full memory does not wait for
	x.opt.Passed = func(place string) {
		for doc := uint64(20); place == PlaceMerging && doc < 30; doc++ {
			<-ready
			text := someDocument(r)
			if _, err := x.Change(context.Background(), doc, 2, text); err == nil {
				o.change(doc, 2, text)
			}
		}
	}
	for doc := range uint64(30) {
		put(t, x, o, doc, 1, someDocument(r))
		if doc == 29 {
			close(ready)
		}
		if doc%10 == 9 {
			mustFlush(t, x)
		}
	}
	compare(t, x.Snapshot(), o, r, 20)
}

// searching makes long lists and searches them.
func searching(t fatal, x *Index, o *oracle, r *rand.Rand) {
	long(t, x, o, r, 1200)
	mustFlush(t, x)
	s := x.Snapshot()
	for n := range 40 {
		judge(t, s, o, analysis.Query{Must: []analysis.Group{
			{Terms: []string{"anchor", "common", "often", "filler"}[:1+n%4]}}}, 1+n/4)
	}
}

// TestWrongAfterCrashes: a crash shows what is acknowledged or listed too early.
func TestWrongAfterCrashes(t *testing.T) {
	for name, wrong := range map[string]Wrong{
		"right": {}, "ListedBeforeFlush": {ListedBeforeFlush: true},
		"AckBeforeFlush": {AckBeforeFlush: true},
	} {
		noticed := 0
		for seed := range uint64(5) {
			crashes, changes := crashing(t, seed, Options{FlushAt: 5, MergeAt: 2, Wrong: wrong})
			places := map[string]int{}
			for _, c := range crashes {
				if places[c.name]++; places[c.name] > 3 {
					continue
				}
				if wrong.ListedBeforeFlush != strings.HasSuffix(c.name, "killed") && wrong != (Wrong{}) {
					continue // a kill shows the first, and the power only shows the second
				}
				if lost(c, changes, wrong, rand.New(rand.NewPCG(seed, 9))) != nil {
					noticed++
				}
			}
		}
		if (noticed == 0) != (wrong == Wrong{}) {
			t.Errorf("%s was noticed %d times", name, noticed)
		}
	}
}

// TestFailedFlush: once a flush failed, an index acknowledges nothing more, even if the next flush
// says that all is well.
func TestFailedFlush(t *testing.T) {
	d := newDisk()
	x := mustOpen(t, d, Options{})
	o := newOracle()
	put(t, x, o, 1, 1, &analysis.Text{Title: "kept"})
	d.fails = errors.New("the disk is full")
	for version := range uint64(3) {
		_, err := x.Change(context.Background(), 1, 2+version, &analysis.Text{Title: "lost"})
		if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("a change ended with %v", err)
		}
		d.fails = nil
	}
	s := x.Snapshot()
	if s.Generation() != 1 {
		t.Errorf("generation %d is shown, and 1 was acknowledged", s.Generation())
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = mustOpen(t, d.cut(func(int) int { return 0 }), Options{})
	defer x.Close()
	s = x.Snapshot()
	compare(t, s, o, rand.New(rand.NewPCG(1, 1)), 1)
}

// FuzzFiles: any bytes are a file of a kind, or an error; and no other ones are a segment.
func FuzzFiles(f *testing.F) {
	x := mustOpen(f, newDisk(), Options{})
	for doc := range uint64(3) {
		put(f, x, newOracle(), doc, 1, someDocument(rand.New(rand.NewPCG(doc, 1))))
	}
	mustFlush(f, x)
	file, err := x.files.read(segmentName(0))
	mustClose(f, x)
	list := []change{{1, entry{2, 3, false}, &analysis.Text{Title: "pizza"}},
		{2, entry{9, 4, true}, nil}}
	log, wrong := framed(list)
	named, malformed := framed(manifest{3, 4, []uint64{1, 2}})
	if err := errors.Join(err, wrong, malformed); err != nil {
		f.Fatal(err)
	}
	segment := file.bytes
	f.Add(slices.Repeat(log, 2))
	f.Add(append(slices.Clone(log[:20]), log...))
	for _, good := range [][]byte{segment, log, named} {
		f.Add(good)
		f.Add(good[:len(good)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, notSegment := openSegment(0, &contents{b})
		if notSegment == nil && !slices.Equal(b, segment) {
			t.Fatalf("%d other bytes are a segment", len(b))
		}
		_, notManifest := decodeManifest(b)
		for _, err := range []error{notSegment, notManifest,
			decodeLog(b, func(change) error { return nil })} {
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
	})
}

// TestDamaged: a damaged file is an error, and one byte is enough; a log's torn end is none.
func TestDamaged(t *testing.T) {
	d := newDisk()
	x := mustOpen(t, d, Options{FlushAt: 4})
	r := rand.New(rand.NewPCG(1, 1))
	for doc := range uint64(11) {
		put(t, x, newOracle(), doc, 1, someDocument(r))
	}
	mustFlush(t, x)
	for doc := range uint64(3) {
		put(t, x, newOracle(), doc, 2, someDocument(r))
	}
	mustClose(t, x)
	names, err := d.list()
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.read(manifestName)
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeManifest(b.bytes)
	if err != nil || len(m.Segments) == 0 {
		t.Fatal(m, err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "segment") && !slices.ContainsFunc(m.Segments,
			func(id uint64) bool { return segmentName(id) == name }) {
			continue // left by a merge that was under way
		}
		for range 40 {
			bad := d.killed()
			f := bad.names[name]
			at := r.IntN(len(f.b) - 1)
			f.b[at] ^= 1 << r.IntN(8)
			x, err := open(t.Context(), Options{FlushAt: 4, MergeAt: 8}, bad)
			if err == nil && !strings.HasPrefix(name, logPrefix) {
				t.Errorf("byte %d of %s is damaged, and nobody noticed", at, name)
			}
			if err == nil {
				mustClose(t, x)
			} else if !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
		}
	}
}
