package index

import (
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

// oracle is what an index should have and find, at its newest generation. A copy of it stays as it
// is.
type oracle struct{ exact.Moment }

func newOracle() *oracle { return &oracle{exact.NewCorpus().At(0)} }

// newest is the last change of a document, nil if there is none.
func (o *oracle) newest(doc uint64) (last *exact.Version) {
	for _, v := range o.Docs[doc] {
		if v.Seq <= o.Generation {
			last = v
		}
	}
	return last
}

// change makes a change and returns its number, which is that of the first time if it is a repeat,
// and 0 if it is stale; no text deletes.
func (o *oracle) change(doc, version uint64, text *analysis.Text) int64 {
	if v := o.newest(doc); v != nil && v.Version >= version {
		if v.Version == version && v.Deleted == (text == nil) {
			return v.Seq
		}
		return 0
	}
	o.Generation++
	o.Add(exact.Version{Doc: doc, Version: version, Seq: o.Generation, Deleted: text == nil}, text)
	return o.Generation
}

// search finds the best n documents, with the df that an index has used.
func (o *oracle) search(q analysis.Query, n int, df map[string]int64) Result {
	r := Result{DF: df}
	r.N, r.Length = o.Size()
	r.Hits = o.Search(o.Resolve(q), n, func(term string) int64 { return df[term] })
	return r
}
