package textsearch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/systems/textsearch/analysis"
)

// How scores are made.
const (
	scoringBM25F = "bm25f"
	scoringOwn   = "own"
)

// engine keeps documents and finds them.
type engine interface {
	// change makes a change, of which every search from then on knows. Without a text it deletes.
	change(ctx context.Context, doc, version uint64, text *analysis.Text) (seq int64, err error)
	search(ctx context.Context, req SearchRequest) (Found, error)
	// final reads all of an audit but Finds.
	final(ctx context.Context, a *Audit) error
	// during has the index open while do is at work.
	during(ctx context.Context, do func() error) error
	// reset closes the index, which is empty when it is opened again.
	reset() error
	Close() error
}

// library is the API of a design. Each search knows all changes that were acknowledged.
type library struct {
	*opened
	engine
}

// served completes a design by the API of an engine.
func served(v variant, build func(*opened) engine) variant {
	of := func(st *opened) (*library, error) {
		return design.Keep(st, func() (*library, error) { return &library{st, build(st)}, nil })
	}
	v.Open = func(_ context.Context, st *opened) (Library, error) { return of(st) }
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		l, err := of(st)
		if err != nil {
			return nil, err
		}
		return l.audit(ctx)
	}
	v.State.Reset = func(_ context.Context, st *opened) error {
		l, err := of(st)
		if err != nil {
			return err
		}
		return l.reset()
	}
	return v
}

// seed makes the number of the last change.
func seed(ctx context.Context, tx pgx.Tx, _ Params) error {
	_, err := tx.Exec(ctx, `INSERT INTO head VALUES (0)`)
	return err
}

// files says what there is in a design's folder.
func files(_ context.Context, st *opened) (string, error) {
	if st.Config.Folder == "" {
		return "", nil
	}
	list, err := os.ReadDir(st.Config.Folder)
	if err != nil {
		return "", fmt.Errorf("looking for files: %w", err)
	}
	if len(list) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d files", len(list)), nil
}

// Index keeps a version of a document.
func (l *library) Index(ctx context.Context, req IndexRequest) (Changed, error) {
	return l.make(ctx, req.Doc, req.Version, &req.Text)
}

// Delete keeps a deletion.
func (l *library) Delete(ctx context.Context, req DeleteRequest) (Changed, error) {
	return l.make(ctx, req.Doc, req.Version, nil)
}

func (l *library) make(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (Changed, error) {
	if err := ctx.Err(); err != nil {
		return Changed{}, fmt.Errorf("making no change: %w", err)
	}
	seq, err := l.change(ctx, doc, version, text)
	return Changed{Seq: seq}, err
}

// Search finds documents.
func (l *library) Search(ctx context.Context, req SearchRequest) (Found, error) {
	if err := ctx.Err(); err != nil {
		return Found{}, fmt.Errorf("searching nothing: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(l.Config))
	defer cancel()
	return l.search(ctx, req)
}

// In the end so many markers are searched for, and so many first words of titles, for as many hits
// as a search asks for and for the most that it may.
const (
	mostFinds, mostFirst = 200, 20
	fewHits, manyHits    = 10, 100
)

// audit reads the final truth.
func (l *library) audit(ctx context.Context) (any, error) {
	a := Audit{Log: []LogRow{}, Documents: []DocRow{}, Finds: []FindRow{}}
	err := l.during(ctx, func() error {
		if err := l.final(ctx, &a); err != nil {
			return err
		}
		slices.SortFunc(a.Log, func(x, y LogRow) int { return cmp.Compare(x.Seq, y.Seq) })
		slices.SortFunc(a.Documents, func(x, y DocRow) int { return cmp.Compare(x.Doc, y.Doc) })
		w, n := &workload{p: l.Params, author: author{words()}}, 0
		for _, row := range slices.Backward(a.Log) {
			if row.Deleted {
				continue
			}
			for _, ask := range askedInTheEnd(w.text(row.Version).Title, n) {
				found, err := l.search(ctx, ask)
				if err != nil {
					return err
				}
				a.Finds = append(a.Finds, FindRow{ask.Query, ask.Most, found})
			}
			n++
		}
		return nil
	})
	return a, err
}
