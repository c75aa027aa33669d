package textsearch

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/systems/textsearch/analysis"
)

// postgresFTS asks Postgres's full-text search.
//
// The idea: the API makes terms of a text, and Postgres keeps them as a tsvector, in which titles
// have the weight A, tags B, descriptions C and bodies D. A GIN index finds documents by their
// terms. Each change takes the next number in its transaction; a search is one statement, and so
// one snapshot: the number of the last change, and the best documents as of it.
//
// The guarantee: each answer is of one generation, the newest there is; what is acknowledged is as
// durable as Postgres is.
//
// It gives up: BM25. Postgres ranks by ts_rank, which knows no frequencies of terms in other
// documents, and must read each document that matches to do so. Words are not corrected. Of a term
// that is in a document more than 256 times only the first 256 places are known.
func postgresFTS() variant {
	return served(variant{Name: "postgres_fts",
		Idea: "terms are a tsvector with weights A to D and a GIN index; a search is one statement " +
			"with the number of the last change",
		Guarantees: "each answer is of the newest generation, and as durable as Postgres",
		GivesUp: "BM25 for ts_rank, which reads every document that matches; words are not corrected, " +
			"and changes wait for each other",
		Places: []string{placeKept}, NotApplicable: noSegments(),
		State: design.State[Params]{Schema: `CREATE INDEX documents_terms ON documents USING gin (terms);`},
	}, func(st *opened) engine { return fts{inPostgres{opened: st, scoring: scoringOwn}} })
}

type fts struct{ inPostgres }

func (f fts) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (int64, error) {
	if text == nil {
		return f.keep(ctx, doc, version, nil, nil)
	}
	terms := vector(text)
	return f.keep(ctx, doc, version, text, &terms)
}

// vector writes the terms of a text as Postgres reads a tsvector. Between the fields there are more
// places than a phrase has.
func vector(text *analysis.Text) string {
	var b strings.Builder
	base, last, field := 1, 0, analysis.Title
	for _, t := range analysis.Tokens(text) {
		if t.Field != field {
			base, field = base+last+analysis.MaxPlace, t.Field
		}
		last = t.Position + 1
		fmt.Fprintf(&b, "%s:%d%c ", quoted(t.Term), base+t.Position, 'A'+rune(t.Field))
	}
	return b.String()
}

// quoted is a term as it is in a tsvector and a tsquery. It has letters, digits and marks only.
func quoted(term string) string { return `'` + term + `'` }

// asked writes a query as Postgres reads a tsquery, with a * in the place of what a prefix stands
// for, and that prefix; "" if it matches nothing.
func asked(q analysis.Query) (text, prefix string) {
	var all []string
	for _, g := range q.Must {
		var group []string
		for _, term := range g.Terms {
			group = append(group, quoted(term))
		}
		of := strings.Join(group, " | ")
		if g.Prefix != "" {
			of, prefix = of+"*", g.Prefix
		}
		all = append(all, "("+of+")")
	}
	phrase := ""
	for i, p := range q.Phrase {
		if i > 0 {
			phrase += fmt.Sprintf(" <%d> ", p.Place-q.Phrase[i-1].Place)
		}
		phrase += quoted(p.Term)
	}
	if phrase != "" {
		all = append(all, "("+phrase+")")
	}
	return strings.Join(all, " & "), prefix
}

// search asks, in one statement, which first looks up what the prefix stands for; see
// analysis.Group.
func (f fts) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	q, _ := analysis.Parse(req.Query, req.Mode, nil)
	text, prefix := asked(q)
	found.Hits = []Hit{}
	err = f.DB.Rows(ctx, `SELECT h.seq, coalesce(d.doc, 0), coalesce(d.version, 0), coalesce(d.score, 0)
		FROM head h LEFT JOIN LATERAL (
			SELECT doc, version, ts_rank('{0.1, 0.3, 0.5, 1}', terms, q)::float8 AS score
			FROM documents, (SELECT nullif(replace($1, '*', (
				SELECT coalesce(string_agg(' | ' || quote_literal(lexeme), ''), '') FROM (
					SELECT lexeme FROM documents, unnest(terms)
					WHERE $3 <> '' AND terms @@ (quote_literal(nullif($3, '')) || ':*')::tsquery
						AND starts_with(lexeme, $3)
					GROUP BY lexeme ORDER BY octet_length(lexeme), lexeme COLLATE "C" LIMIT $4) AS begun
				)), '')::tsquery AS q) AS asked
			WHERE terms @@ q ORDER BY score DESC, doc LIMIT $2) d ON true
		ORDER BY d.score DESC, d.doc`,
		[]any{text, req.Most, prefix, analysis.MaxPrefixed}, func(row pgx.CollectableRow) error {
			var h Hit
			err := row.Scan(&found.Generation, &h.Doc, &h.Version, &h.Score)
			if h.Doc != 0 {
				found.Hits = append(found.Hits, h)
			}
			return err
		})
	return found, stores.Failed("searching", err)
}
