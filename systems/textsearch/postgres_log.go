package textsearch

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/textsearch/analysis"
)

// placeKept is when a change is in Postgres, and its client does not know.
const placeKept = "kept"

// inPostgres keeps changes in Postgres: what the engines have in common that are built on it.
type inPostgres struct {
	*opened
	nothingOpen
	scoring string
}

// keep makes a change. terms are of postgres_fts.
func (p inPostgres) keep(
	ctx context.Context, doc, version uint64, text *analysis.Text, terms *string,
) (seq int64, err error) {
	deleted := text == nil
	if deleted {
		text = &analysis.Text{}
	}
	err = p.DB.Row(ctx, `SELECT change($1, $2, $3, $4, $5, $6, $7, $8::text::tsvector)`,
		[]any{int64(doc), int64(version), deleted, text.Title, text.Tags, text.Description, text.Body,
			terms}, &seq)
	if err != nil {
		return 0, stores.Failed("making a change", err)
	}
	if seq == 0 {
		return 0, ErrStale
	}
	p.Config.Passed(placeKept)
	return seq, nil
}

// final reads the changes, and what the documents are by their table.
func (p inPostgres) final(ctx context.Context, a *Audit) error {
	a.Scoring = p.scoring
	return p.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if err = tx.QueryRow(ctx, `SELECT seq FROM head`).Scan(&a.Generation); err != nil {
			return stores.Failed("reading the generation", err)
		}
		a.Log, err = stores.CollectOn[LogRow](ctx, tx,
			`SELECT doc, version, seq, deleted FROM changes`)
		if err == nil {
			a.Documents, err = stores.CollectOn[DocRow](ctx, tx,
				`SELECT doc, version FROM documents WHERE NOT deleted`)
		}
		return stores.Failed("reading the changes", err)
	})
}

// nothingOpen is the part of an engine that has only the harness's connections.
type nothingOpen struct{}

func (nothingOpen) during(_ context.Context, do func() error) error { return do() }
func (nothingOpen) reset() error                                    { return nil }
func (nothingOpen) Close() error                                    { return nil }
