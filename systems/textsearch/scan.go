package textsearch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
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
	text *exact.Doc
}

// search reads and ranks.
func (s scanner) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	found.Hits = []Hit{}
	var docs []*scanned
	total, df := int64(0), map[string]int64{}
	err = s.DB.Rows(ctx, `SELECT h.seq, coalesce(c.doc, 0), coalesce(c.version, 0),
			coalesce(c.title, ''), coalesce(c.tags, ''), coalesce(c.description, ''), coalesce(c.body, '')
		FROM head h LEFT JOIN (documents d JOIN changes c USING (seq)) ON NOT d.deleted`, nil,
		func(row pgx.CollectableRow) error {
			d, t := &scanned{}, analysis.Text{}
			if err := row.Scan(&found.Generation, &d.Doc, &d.Version, &t.Title, &t.Tags, &t.Description,
				&t.Body); err != nil || d.Doc == 0 {
				return err
			}
			d.text = exact.Read(&t)
			docs, total = append(docs, d), total+d.text.Length
			for term := range d.text.TF {
				df[term]++
			}
			return nil
		})
	if err != nil {
		return found, stores.Failed("reading all documents", err)
	}
	if found.Documents = int64(len(docs)); found.Documents > 0 {
		found.Length = float64(total) / float64(len(docs))
	}
	q, _ := analysis.Parse(req.Query, req.Mode, everyTerm{})
	w := exact.Resolve(q, func(prefix string) []string {
		return slices.DeleteFunc(slices.Collect(maps.Keys(df)), func(term string) bool {
			return !strings.HasPrefix(term, prefix)
		})
	})
	for _, term := range w.Terms {
		found.Frequencies = append(found.Frequencies, Frequency{term, df[term]})
	}
	for _, d := range docs {
		if w.Fits(d.text) {
			d.Score = w.Score(d.text, found.Documents, found.Length, df)
			found.Hits = append(found.Hits, d.Hit)
		}
	}
	slices.SortFunc(found.Hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	found.Hits = found.Hits[:min(req.Most, len(found.Hits))]
	return found, nil
}

// final is an audit of exact scores.
func (s scanner) final(ctx context.Context, a *Audit) error {
	a.Scoring = scoringBM25F
	return s.inPostgres.final(ctx, a)
}
