package textsearch

import (
	"context"

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
	}, func(st *opened) engine { return scanner{inPostgres{opened: st, scoring: scoringBM25F}} })
}

type scanner struct{ inPostgres }

func (s scanner) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (int64, error) {
	return s.keep(ctx, doc, version, text, nil)
}

// search reads and ranks.
func (s scanner) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	c := exact.NewCorpus()
	err = s.DB.Rows(ctx, `SELECT h.seq, coalesce(c.doc, 0), coalesce(c.version, 0),
			coalesce(c.title, ''), coalesce(c.tags, ''), coalesce(c.description, ''), coalesce(c.body, '')
		FROM head h LEFT JOIN (documents d JOIN changes c USING (seq)) ON NOT d.deleted`, nil,
		func(row pgx.CollectableRow) error {
			v, t := exact.Version{}, analysis.Text{}
			err := row.Scan(&found.Generation, &v.Doc, &v.Version, &t.Title, &t.Tags, &t.Description,
				&t.Body)
			if err == nil && v.Doc != 0 {
				c.Add(v, &t)
			}
			return err
		})
	if err != nil {
		return found, stores.Failed("reading all documents", err)
	}
	m := c.At(found.Generation)
	q, _ := analysis.Parse(req.Query, req.Mode, nil)
	w := m.Resolve(q)
	found.Documents, found.Length = m.Size()
	for _, term := range w.Terms {
		found.Frequencies = append(found.Frequencies, Frequency{term, m.Frequency(term)})
	}
	found.Hits = m.Search(w, req.Most, m.Frequency)
	return found, nil
}
