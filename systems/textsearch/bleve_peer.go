package textsearch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/collector"
	"github.com/blevesearch/bleve/v2/search/query"
	bleveindex "github.com/blevesearch/bleve_index_api"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/systems/textsearch/analysis"
)

// blevePeer asks Bleve, an engine that many Go programs have.
//
// The idea: changes are kept in Postgres, and then go to a Bleve index in the design's folder, as
// many at once as there are. A batch also has the number of its last change, so that a search reads
// the generation from the reader that it searches. What a crash takes from the index is read
// again from Postgres when it is opened.
//
// The guarantee: each answer is of one generation; what is acknowledged is as durable as Postgres,
// and seen at once.
//
// It gives up: scores by the formula, because Bleve scores each field by itself; replicas; and a
// change is made twice.
func blevePeer() variant {
	return served(variant{Name: "bleve",
		Idea: "changes are kept in Postgres and then brought to a Bleve index on disk, in batches that " +
			"have the number of their last change",
		Guarantees: "each answer is of the newest generation, and as durable as Postgres",
		GivesUp:    "replicas, and scores over all fields together; words are not corrected",
		KeepsFiles: true, Places: []string{placeKept, placeApplied}, NotApplicable: noSegments(),
		State: design.State[Params]{Schema: `CREATE INDEX changes_doc ON changes (doc, seq);`},
	}, func(st *opened) engine { return newBleve(st) })
}

// placeApplied is when a batch is in the index, and its clients do not know.
const placeApplied = "applied"

// generationKey is under which a batch has the number of its last change.
const generationKey = "generation"

// fields are the names of analysis.Field.
func fields() [analysis.Fields]string {
	return [analysis.Fields]string{"title", "tags", "description", "body"}
}

// bleveEngine is a Bleve index behind changes in Postgres.
type bleveEngine struct {
	inPostgres
	shelf[*follower]
}

func newBleve(st *opened) *bleveEngine {
	b := &bleveEngine{inPostgres: inPostgres{opened: st, scoring: scoringOwn}}
	b.folder = st.Config.Folder
	b.open = func(ctx context.Context) (*follower, error) { return openFollower(ctx, st) }
	return b
}

// change keeps a change and brings it to the index.
func (b *bleveEngine) change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (seq int64, err error) {
	err = b.use(ctx, func(f *follower) error {
		if seq, err = b.keep(ctx, doc, version, text, nil); err != nil {
			return err
		}
		if err := f.catchUp(ctx, seq); err != nil {
			return stores.Unknown("indexing a change", err)
		}
		return nil
	})
	return seq, err
}

func (b *bleveEngine) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	err = b.use(ctx, func(f *follower) error {
		found, err = f.search(ctx, req)
		return err
	})
	return found, err
}

// final brings what is left to the index, and says which documents that has.
func (b *bleveEngine) final(ctx context.Context, a *Audit) error {
	if err := b.inPostgres.final(ctx, a); err != nil {
		return err
	}
	return b.use(ctx, func(f *follower) error {
		err := f.catchUp(ctx, a.Generation)
		if err != nil {
			return err
		}
		a.Documents, err = f.documents(ctx)
		return err
	})
}

// follower brings changes to an index, in their order.
type follower struct {
	*opened
	index bleve.Index
	at    atomic.Int64 // the last change that is in the index

	mu sync.Mutex // of who brings changes
}

// openFollower opens the index of a folder, or makes it, and brings what is missing.
func openFollower(ctx context.Context, st *opened) (f *follower, err error) {
	f = &follower{opened: st}
	path := filepath.Join(st.Config.Folder, "bleve")
	// Postgres has what is not flushed. An index that is open elsewhere is not waited for.
	settings := map[string]any{"unsafe_batch": true, "bolt_timeout": "100ms"}
	f.index, err = bleve.OpenUsing(path, settings)
	if errors.Is(err, bleve.ErrorIndexPathDoesNotExist) {
		var m mapping.IndexMapping
		if m, err = termsOnly(); err == nil {
			f.index, err = bleve.NewUsing(path, m, bleve.Config.DefaultIndexType,
				bleve.Config.DefaultKVStore, settings)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening Bleve: %w", err)
	}
	err = f.read(func(_ bleveindex.IndexReader, generation int64) error {
		f.at.Store(generation)
		return nil
	})
	if err == nil {
		var head int64
		if err = st.DB.Row(ctx, `SELECT seq FROM head`, nil, &head); err == nil {
			err = f.catchUp(ctx, head)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.index.Close())
	}
	return f, nil
}

// termsOnly is a mapping of fields that have terms with spaces between them.
func termsOnly() (mapping.IndexMapping, error) {
	m := bleve.NewIndexMapping()
	if err := m.AddCustomAnalyzer("terms",
		map[string]any{"type": custom.Name, "tokenizer": whitespace.Name}); err != nil {
		return nil, fmt.Errorf("making an analyzer: %w", err)
	}
	field := bleve.NewTextFieldMapping()
	field.Analyzer, field.Store, field.IncludeInAll, field.DocValues = "terms", false, false, false
	doc := bleve.NewDocumentStaticMapping()
	for _, name := range fields() {
		doc.AddFieldMappingsAt(name, field)
	}
	m.DefaultMapping = doc
	return m, nil
}

// An identity is a document and its version.
func idOf(doc, version int64) string { return fmt.Sprintf("%d-%d", doc, version) }

func partsOf(id string) (doc, version uint64, err error) {
	_, err = fmt.Sscanf(id, "%d-%d", &doc, &version)
	return doc, version, err
}

// batchMost is how many changes a batch has at most.
const batchMost = 500

// change is a row of changes, with its columns in their order.
type change struct {
	Seq, Doc, Version int64
	Deleted           bool
	Before            int64 // the version of the document's change before, 0 if there was none
	analysis.Text
}

// catchUp brings all changes to the index, at least those up to a number.
func (f *follower) catchUp(ctx context.Context, seq int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.at.Load() < seq {
		list, err := stores.Collect[change](ctx, f.DB, `SELECT seq, doc, version, deleted,
				coalesce((SELECT version FROM changes b
					WHERE b.doc = c.doc AND b.seq < c.seq ORDER BY b.seq DESC LIMIT 1), 0),
				title, tags, description, body
			FROM changes c WHERE seq > $1 ORDER BY seq LIMIT $2`, f.at.Load(), batchMost)
		if err != nil {
			return fmt.Errorf("reading changes: %w", err)
		}
		batch, at := f.index.NewBatch(), f.at.Load()
		for i := range list {
			at = list[i].Seq
			err = errors.Join(err, list[i].addTo(batch))
		}
		batch.SetInternal([]byte(generationKey), binary.BigEndian.AppendUint64(nil, uint64(at)))
		if err == nil {
			err = f.index.Batch(batch)
		}
		if err != nil {
			return fmt.Errorf("bringing changes to Bleve: %w", err)
		}
		f.at.Store(at)
		f.Config.Passed(placeApplied)
	}
	return nil
}

// addTo adds a change to a batch.
func (c *change) addTo(batch *bleve.Batch) error {
	if c.Before > 0 {
		batch.Delete(idOf(c.Doc, c.Before))
	}
	if c.Deleted {
		return nil
	}
	return batch.Index(idOf(c.Doc, c.Version), spaced(&c.Text))
}

// spaced are the terms of each field with spaces between them, and a dot for each stop word.
func spaced(t *analysis.Text) map[string]any {
	var list [analysis.Fields][]string
	for _, token := range analysis.Tokens(t) {
		field := &list[token.Field]
		for len(*field) < token.Position {
			*field = append(*field, "·")
		}
		*field = append(*field, token.Term)
	}
	doc := map[string]any{}
	for f, name := range fields() {
		doc[name] = strings.Join(list[f], " ")
	}
	return doc
}

// documents lists what is in the index.
func (f *follower) documents(ctx context.Context) ([]DocRow, error) {
	n, err := f.index.DocCount()
	if err != nil {
		return nil, fmt.Errorf("counting documents: %w", err)
	}
	all, err := f.index.SearchInContext(ctx,
		bleve.NewSearchRequestOptions(query.NewMatchAllQuery(), int(n), 0, false))
	if err != nil {
		return nil, fmt.Errorf("listing documents: %w", err)
	}
	list := make([]DocRow, len(all.Hits))
	for i, m := range all.Hits {
		if list[i].Doc, list[i].Version, err = partsOf(m.ID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// search asks a reader for its generation and for documents.
func (f *follower) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	found.Hits = []Hit{}
	q, _ := analysis.Parse(req.Query, req.Mode, nil)
	err = f.read(func(r bleveindex.IndexReader, generation int64) error {
		found.Generation = generation
		for i, g := range q.Must {
			more, err := begun(ctx, r, g.Prefix)
			if err != nil {
				return err
			}
			q.Must[i].Terms = slices.Concat(g.Terms, more)
		}
		asked := bleveQuery(q)
		if asked == nil {
			return nil
		}
		s, err := asked.Searcher(ctx, r, f.index.Mapping(), search.SearcherOptions{})
		if err != nil {
			return err
		}
		top := collector.NewTopNCollector(req.Most, 0, search.SortOrder{&search.SortScore{Desc: true}})
		if err := errors.Join(top.Collect(ctx, s, r), s.Close()); err != nil {
			return err
		}
		for _, m := range top.Results() {
			doc, version, err := partsOf(m.ID)
			if err != nil {
				return err
			}
			found.Hits = append(found.Hits, Hit{Doc: doc, Version: version, Score: m.Score})
		}
		return nil
	})
	if err != nil {
		return Found{}, fmt.Errorf("searching with Bleve: %w", err)
	}
	return found, nil
}

// begun are the terms that a prefix stands for; see analysis.Group.
func begun(
	ctx context.Context, r bleveindex.IndexReader, prefix string,
) (list []string, err error) {
	if prefix == "" {
		return nil, nil
	}
	in := map[string][]string{} // the fields of each term
	for _, name := range fields() {
		dict, err := r.FieldDictPrefix(name, []byte(prefix))
		if err != nil {
			return nil, err
		}
		entry, err := dict.Next()
		for ; err == nil && entry != nil; entry, err = dict.Next() {
			in[entry.Term] = append(in[entry.Term], name)
		}
		if err := errors.Join(err, dict.Close()); err != nil {
			return nil, err
		}
	}
	list = analysis.Prefixed(slices.Collect(maps.Keys(in)), func(term string) bool {
		var documents uint64 // without those that are gone, which dictionaries still have
		for _, name := range in[term] {
			postings, failed := r.TermFieldReader(ctx, []byte(term), name, false, false, false)
			if failed == nil {
				documents += postings.Count()
				failed = postings.Close()
			}
			err = errors.Join(err, failed)
		}
		return documents > 0
	})
	return list, err
}

// bleveQuery is a query without prefixes in Bleve's terms; nil if it matches nothing.
func bleveQuery(q analysis.Query) query.Query {
	var all []query.Query
	for _, g := range q.Must {
		var group []query.Query
		for _, name := range fields() {
			for _, term := range g.Terms {
				one := query.NewTermQuery(term)
				one.SetField(name)
				group = append(group, one)
			}
		}
		all = append(all, query.NewDisjunctionQuery(group))
	}
	if n := len(q.Phrase); n > 0 {
		places := make([]string, q.Phrase[n-1].Place+1) // "" is any term
		for _, p := range q.Phrase {
			places[p.Place] = p.Term
		}
		var fielded []query.Query
		for _, name := range fields() {
			fielded = append(fielded, query.NewPhraseQuery(places, name))
		}
		all = append(all, query.NewDisjunctionQuery(fielded))
	}
	if len(all) == 0 {
		return nil
	}
	return query.NewConjunctionQuery(all)
}

// read lets do work with a reader of the newest generation.
func (f *follower) read(do func(r bleveindex.IndexReader, generation int64) error) error {
	advanced, err := f.index.Advanced()
	if err != nil {
		return fmt.Errorf("reading Bleve: %w", err)
	}
	r, err := advanced.Reader()
	if err != nil {
		return fmt.Errorf("reading Bleve: %w", err)
	}
	raw, err := r.GetInternal([]byte(generationKey))
	if err == nil {
		var generation int64
		if len(raw) == 8 {
			generation = int64(binary.BigEndian.Uint64(raw))
		}
		err = do(r, generation)
	}
	return errors.Join(err, r.Close())
}

// Close closes the index.
func (f *follower) Close() error { return f.index.Close() }
