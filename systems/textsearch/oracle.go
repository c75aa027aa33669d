package textsearch

import (
	"cmp"
	"slices"

	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

// oracle says what any generation has. It shares nothing with the designs that index but the
// analysis of texts.
type oracle struct {
	*exact.Corpus
	of map[uint64]*exact.Version // by version
}

// newOracle takes the changes, and the text of each version that was asked for.
func newOracle(log []LogRow, texts map[uint64]*analysis.Text) *oracle {
	o := &oracle{exact.NewCorpus(), map[uint64]*exact.Version{}}
	for _, row := range slices.SortedFunc(slices.Values(log), func(a, b LogRow) int {
		return cmp.Compare(a.Seq, b.Seq)
	}) {
		o.of[row.Version] = o.Add(exact.Version{Doc: row.Doc, Version: row.Version, Seq: row.Seq,
			Deleted: row.Deleted}, texts[row.Version])
	}
	return o
}

// moment is the corpus at one generation.
type moment struct {
	exact.Moment
	of map[uint64]*exact.Version
}

// gone says whether a document's last change deleted it.
func (m moment) gone(doc uint64) bool {
	return slices.ContainsFunc(m.Docs[doc], func(v *exact.Version) bool {
		return v.Deleted && v.Seq <= m.Generation && m.Generation < v.Until
	})
}
