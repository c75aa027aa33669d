package textsearch_test

import (
	"context"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/textsearch"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

const ms = time.Millisecond

type evidence = suttest.Evidence[textsearch.Params, textsearch.Audit]

// shelf is the smallest correct service: all versions of all documents. In the frequencies that it
// says those count that are gone, as in an index that has not been merged.
type shelf struct {
	api *api.Table[textsearch.Library]
	exact.Moment
	titles []string // of the versions that were indexed
}

func newShelf(*suttest.World, *textsearch.Params) *shelf {
	return &shelf{api: textsearch.API(), Moment: exact.NewCorpus().At(0)}
}

// Do performs an operation.
func (s *shelf) Do(op history.Op, answer func(history.Reply, error)) {
	answer(s.api.Do(context.Background(), library{s}, op))
}

// library is the shelf as users see it.
type library struct{ *shelf }

// Index adds a document.
func (l library) Index(
	_ context.Context, req textsearch.IndexRequest,
) (textsearch.Changed, error) {
	changed, err := l.change(req.Doc, req.Version, &req.Text)
	if err == nil {
		l.titles = append(l.titles, req.Title)
	}
	return changed, err
}

// Delete deletes a document.
func (l library) Delete(
	_ context.Context, req textsearch.DeleteRequest,
) (textsearch.Changed, error) {
	return l.change(req.Doc, req.Version, nil)
}

func (l library) change(
	doc, version uint64, text *analysis.Text,
) (textsearch.Changed, error) {
	if list := l.Docs[doc]; len(list) > 0 && list[len(list)-1].Version >= version {
		last := list[len(list)-1]
		if last.Version == version && last.Deleted == (text == nil) {
			return textsearch.Changed{Seq: last.Seq}, nil
		}
		return textsearch.Changed{}, textsearch.ErrStale
	}
	l.Generation++
	l.Add(exact.Version{Doc: doc, Version: version, Seq: l.Generation, Deleted: text == nil}, text)
	return textsearch.Changed{Seq: l.Generation}, nil
}

// Search looks everywhere.
func (l library) Search(
	_ context.Context, req textsearch.SearchRequest,
) (textsearch.Found, error) {
	q, meant := analysis.Parse(req.Query, req.Mode, l.Moment)
	w := l.Resolve(q)
	f := textsearch.Found{Generation: l.Generation, DidYouMean: meant}
	f.Documents, f.Length = l.Size()
	df := func(term string) int64 { return min(f.Documents, l.Most(term)) }
	f.Hits = l.Moment.Search(w, req.Most, df)
	for _, term := range w.Terms {
		f.Frequencies = append(f.Frequencies, textsearch.Frequency{Term: term, Documents: df(term)})
	}
	return f, nil
}

// Audit copies the shelf.
func (s *shelf) Audit() textsearch.Audit {
	a := textsearch.Audit{Scoring: "bm25f", Corrects: true, Log: []textsearch.LogRow{},
		Documents: []textsearch.DocRow{}, Generation: s.Generation, Finds: []textsearch.FindRow{}}
	for _, v := range s.Log {
		a.Log = append(a.Log, textsearch.LogRow{Doc: v.Doc, Version: v.Version, Seq: v.Seq,
			Deleted: v.Deleted})
		if s.There(v) {
			a.Documents = append(a.Documents, textsearch.DocRow{Doc: v.Doc, Version: v.Version})
		}
	}
	n := int64(len(a.Documents))
	a.Gone = int64(len(a.Log)) - n
	a.Segments = []textsearch.Segment{{ID: 3, Documents: n - n/3, Bytes: 300, Whole: true},
		{ID: 9, Documents: n / 3, Bytes: 100, Whole: true}}
	for i, title := range slices.Backward(s.titles) {
		for _, ask := range textsearch.AskedInTheEnd(title, len(s.titles)-1-i) {
			found, _ := library{s}.Search(context.Background(), ask)
			a.Finds = append(a.Finds, textsearch.FindRow{Query: ask.Query, Most: ask.Most, Found: found})
		}
	}
	return a
}

// crowd is of ordinary size.
func crowd() *textsearch.Params {
	p := textsearch.DefaultParams()
	p.Documents, p.Clients, p.Indexing, p.Deletes, p.Twins = 60, 10, 0.5, 0.4, 0.5
	p.FlushAt, p.MergeAt, p.MergePause = 12, 2, sut.Duration(300*ms)
	return &p
}

// anyCrowd is one of any kind.
func anyCrowd(d suttest.Draw) *textsearch.Params {
	p := crowd()
	p.Documents = d.Int("documents", 1, 300)
	p.Clients = d.Int("clients", 1, 20)
	p.Indexing, p.Deletes, p.Rivals = d.Share("indexing"), d.Share("deletes"), d.Share("rivals")
	p.Twins = d.Share("twins")
	return p
}
