package textsearch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/textsearch"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/index"
)

const ms = time.Millisecond

type evidence = suttest.Evidence[textsearch.Params, textsearch.Audit]

// shelf is the smallest correct service: an index in memory, and a list of all changes.
type shelf struct {
	api *api.Table[textsearch.Library]
	*index.Index
	log    []textsearch.LogRow
	titles []string // of the versions that were indexed
}

func newShelf(t suttest.TB) *shelf {
	t.Helper()
	x, err := index.Open(context.Background(), index.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{api: textsearch.API(), Index: x}
}

// Do performs an operation.
func (s *shelf) Do(op history.Op, answer func(history.Reply, error)) {
	answer(s.api.Do(context.Background(), library{s}, op))
}

// library is the shelf as users see it.
type library struct{ *shelf }

// Index adds a document.
func (l library) Index(
	ctx context.Context, req textsearch.IndexRequest,
) (textsearch.Changed, error) {
	seq, err := l.Put(ctx, req.Doc, req.Version, &analysis.Text{Title: req.Title, Tags: req.Tags,
		Description: req.Description, Body: req.Body})
	if err == nil {
		l.titles = append(l.titles, req.Title)
	}
	return l.made(textsearch.LogRow{Doc: req.Doc, Version: req.Version, Seq: int64(seq)}, err)
}

// Delete deletes a document.
func (l library) Delete(
	ctx context.Context, req textsearch.DeleteRequest,
) (textsearch.Changed, error) {
	seq, err := l.shelf.Delete(ctx, req.Doc, req.Version)
	return l.made(textsearch.LogRow{Doc: req.Doc, Version: req.Version, Seq: int64(seq),
		Deleted: true}, err)
}

func (l library) made(row textsearch.LogRow, err error) (textsearch.Changed, error) {
	if err != nil {
		return textsearch.Changed{}, fmt.Errorf("%w: %w", textsearch.ErrStale, err)
	}
	l.log = append(l.log, row)
	return textsearch.Changed{Seq: row.Seq}, nil
}

// Search looks everywhere.
func (l library) Search(
	_ context.Context, req textsearch.SearchRequest,
) (textsearch.Found, error) {
	s := l.Snapshot()
	defer s.Release()
	q, meant := analysis.Parse(req.Query, req.Mode, s)
	r := s.Search(q, req.Most, index.Exhaustive)
	f := textsearch.Found{Generation: int64(s.Generation()), Hits: []textsearch.Hit{},
		DidYouMean: meant, Documents: r.N, Length: r.Length}
	for _, h := range r.Hits {
		f.Hits = append(f.Hits, textsearch.Hit(h))
	}
	for term, n := range r.DF {
		f.Frequencies = append(f.Frequencies, textsearch.Frequency{Term: term, Documents: n})
	}
	return f, nil
}

// audit copies the shelf.
func (s *shelf) audit() textsearch.Audit {
	now := s.Snapshot()
	defer now.Release()
	a := textsearch.Audit{Scoring: "bm25f", Corrects: true, Log: slices.Clone(s.log),
		Documents: []textsearch.DocRow{}, Generation: int64(now.Generation()), Gone: now.Gone(),
		Finds: []textsearch.FindRow{}}
	now.Each(func(doc, version uint64) {
		a.Documents = append(a.Documents, textsearch.DocRow{Doc: doc, Version: version})
	})
	n := int64(len(a.Documents))
	a.Segments = []textsearch.Segment{{ID: 3, Documents: n - n/3, Bytes: 300, Whole: true},
		{ID: 9, Documents: n / 3, Bytes: 100, Whole: true}}
	for at, title := range slices.Backward(s.titles) {
		n := len(s.titles) - 1 - at
		words := strings.Fields(title)
		for i, f := range []textsearch.FindRow{{Query: words[len(words)-1]}, {Query: words[0], Most: 10},
			{Query: words[0], Most: 100}, {Query: words[0], Most: 10}} {
			if n >= 200 || i > 0 && n >= 20 {
				break
			}
			f.Found, _ = library{s}.Search(context.Background(),
				textsearch.SearchRequest{Query: f.Query, Mode: analysis.And, Most: max(10, f.Most)})
			a.Finds = append(a.Finds, f)
		}
	}
	return a
}

// shelfOf is a run of the correct service. A fault makes most attempts meet trouble for a while.
func shelfOf(
	t suttest.TB, seed uint64, p *textsearch.Params, trouble suttest.Trouble, fault bool,
) *evidence {
	t.Helper()
	load, err := textsearch.NewWorkload(seed, *p)
	if err != nil {
		t.Fatal(err)
	}
	w := suttest.NewWorld(seed, load, trouble)
	s := newShelf(t)
	e := &evidence{System: textsearch.System(), P: p}
	if fault {
		e.Windows = w.LoseAnswers()
	}
	w.Run(s, 150, 2*time.Second)
	e.Records, e.Audit = w.Records, s.audit()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return e
}

// crowd is of ordinary size.
func crowd() *textsearch.Params {
	p := textsearch.DefaultParams()
	p.Documents, p.Clients, p.Indexing, p.Deletes, p.Twins = 60, 10, 0.5, 0.4, 0.5
	p.FlushAt, p.MergeAt, p.MergePause = 12, 2, sut.Duration(300*ms)
	return &p
}

// anyCrowd is one of any kind.
func anyCrowd(t *rapid.T) *textsearch.Params {
	p := crowd()
	share := func(name string) float64 { return rapid.Float64Range(0, 1).Draw(t, name) }
	p.Documents = rapid.IntRange(1, 300).Draw(t, "documents")
	p.Clients = rapid.IntRange(1, 20).Draw(t, "clients")
	p.Indexing, p.Deletes, p.Rivals = share("indexing"), share("deletes"), share("rivals")
	p.Twins = share("twins")
	return p
}
