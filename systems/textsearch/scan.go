package textsearch

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/index"
)

// scan reads every document, to compare.
//
// The idea: documents are rows in Postgres. A search reads all of them in one statement, and so in
// one snapshot with the number of the last change, analyses each text, and ranks those that match.
//
// The guarantee: exact answers as of the last change, with nothing to keep up to date.
//
// It gives up: time in proportion to the corpus.
func scan() variant {
	return served(variant{Name: "scan",
		Idea:       "a search reads every document from Postgres in one statement, and analyses it",
		Guarantees: "the exact answer as of the last change, with no index to keep",
		GivesUp:    "time in proportion to the whole corpus, for each search",
		Places:     []string{placeKept}, NotApplicable: noSegments(),
	}, func(st *opened) engine { return scanner{inPostgres{st}} })
}

type scanner struct{ inPostgres }

func (s scanner) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (int64, error) {
	return s.keep(ctx, doc, version, text, nil)
}

// scanned is a document with its terms.
type scanned struct {
	Hit
	places map[string][]place // of each term
	tf     map[string]int
	length int
}

// place is where a term is.
type place struct {
	field analysis.Field
	at    int
}

// search reads and ranks.
func (s scanner) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	found.Hits = []Hit{}
	var docs []*scanned
	total := 0
	err = s.DB.Rows(ctx, `SELECT h.seq, coalesce(c.doc, 0), coalesce(c.version, 0),
			coalesce(c.title, ''), coalesce(c.tags, ''), coalesce(c.description, ''), coalesce(c.body, '')
		FROM head h LEFT JOIN (documents d JOIN changes c USING (seq)) ON NOT d.deleted`, nil,
		func(row pgx.CollectableRow) error {
			d, t := &scanned{places: map[string][]place{}, tf: map[string]int{}}, analysis.Text{}
			if err := row.Scan(&found.Generation, &d.Doc, &d.Version, &t.Title, &t.Tags, &t.Description,
				&t.Body); err != nil || d.Doc == 0 {
				return err
			}
			d.add(analysis.Tokens(&t))
			docs, total = append(docs, d), total+d.length
			return nil
		})
	if err != nil {
		return found, stores.Failed("reading all documents", err)
	}
	if found.Documents = int64(len(docs)); found.Documents > 0 {
		found.Length = float64(total) / float64(len(docs))
	}
	q, _ := analysis.Parse(req.Query, req.Mode, everyTerm{})
	found.rank(q, docs, req.Most)
	return found, nil
}

func (d *scanned) add(tokens []analysis.Token) {
	for _, t := range tokens {
		d.places[t.Term] = append(d.places[t.Term], place{t.Field, t.Position})
		d.tf[t.Term] += t.Field.Weight()
		d.length += t.Field.Weight()
	}
}

// has says whether a document matches a query.
func (d *scanned) has(q analysis.Query, groups [][]string) bool {
	for _, g := range groups {
		if !slices.ContainsFunc(g, func(term string) bool { return d.tf[term] > 0 }) {
			return false
		}
	}
	return len(q.Phrase) == 0 || slices.ContainsFunc(d.places[q.Phrase[0].Term], func(p place) bool {
		for _, next := range q.Phrase {
			at := place{p.field, p.at - q.Phrase[0].Place + next.Place}
			if !slices.Contains(d.places[next.Term], at) {
				return false
			}
		}
		return true
	})
}

// rank finds the best of some documents by BM25F; see package index.
func (f *Found) rank(q analysis.Query, docs []*scanned, most int) {
	if len(q.Must) == 0 && len(q.Phrase) == 0 {
		return
	}
	df := map[string]int64{}
	for _, d := range docs {
		for term := range d.tf {
			df[term]++
		}
	}
	asked, groups := map[string]bool{}, make([][]string, len(q.Must))
	for i, g := range q.Must {
		groups[i] = slices.Concat(g.Terms, begun(df, g.Prefix))
		for _, term := range groups[i] {
			asked[term] = true
		}
	}
	for _, p := range q.Phrase {
		asked[p.Term] = true
	}
	terms := slices.Sorted(maps.Keys(asked))
	for _, term := range terms {
		f.Frequencies = append(f.Frequencies, Frequency{term, df[term]})
	}
	for _, d := range docs {
		if d.has(q, groups) {
			for _, of := range f.Frequencies {
				if tf := float64(d.tf[of.Term]); tf > 0 {
					rare := math.Log(1 + (float64(f.Documents-of.Documents)+0.5)/(float64(of.Documents)+0.5))
					long := 1 - index.B + index.B*float64(d.length)/f.Length
					d.Score += rare * (index.K1 + 1) / (1 + index.K1*long/tf)
				}
			}
			f.Hits = append(f.Hits, d.Hit)
		}
	}
	slices.SortFunc(f.Hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	f.Hits = f.Hits[:min(most, len(f.Hits))]
}

// begun are the terms that begin with a prefix, as analysis.Group has them.
func begun(df map[string]int64, prefix string) (list []string) {
	if prefix == "" {
		return nil
	}
	for term := range df {
		if strings.HasPrefix(term, prefix) {
			list = append(list, term)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return list[:min(analysis.MaxPrefixed, len(list))]
}

// final is an audit of exact scores.
func (s scanner) final(ctx context.Context, a *Audit) error {
	a.Scoring = scoringBM25F
	return s.inPostgres.final(ctx, a)
}
