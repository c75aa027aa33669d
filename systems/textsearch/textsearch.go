// Package textsearch finds documents by their words while they are indexed, replaced and deleted.
// Its question: which designs answer each search with exactly the documents of one moment, and
// never with one that was deleted, through merges, crashes and restarts?
//
// Every change has a sequence number. A search names its generation: it reflects all changes up to
// that number and none above. So whoever knows the changes can say what every search should have
// found, and, where the formula is known, in which order and with which scores.
package textsearch

import (
	"context"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/index"
)

// The kinds of operations. A change has its sequence number as Reply.Value, a search its
// generation.
const (
	KindIndex  = "index"
	KindDelete = "delete"
	KindSearch = "search"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrStale: the version is not above the document's, and the change no repeat of the newest one.
	ErrStale = sut.Refusal("stale_version", "a newer version of the document is known")
	// ErrUnavailable: the index cannot be read now, or another process has it open.
	ErrUnavailable = sut.Refusal("unavailable", "the index cannot be used now")
)

// Library is the domain interface: what users ask for.
type Library interface {
	Index(ctx context.Context, req IndexRequest) (Changed, error)
	Delete(ctx context.Context, req DeleteRequest) (Changed, error)
	Search(ctx context.Context, req SearchRequest) (Found, error)
}

// IndexRequest adds a document, or replaces it by a newer version. Versions are the operations'
// identities: no two changes have the same.
type IndexRequest struct {
	Doc     uint64 `json:"-" path:"doc" op:"key,doc-" min:"1" max:"9007199254740991"`
	Version uint64 `json:"version" op:"id" min:"1" max:"9223372036854775807" doc:"above that of every earlier change of the document"`
	Client  uint64 `json:"client" op:"client,client-" min:"1" max:"9007199254740991"`
	analysis.Text
}

// DeleteRequest deletes a document, or notes that one is deleted that never was there.
type DeleteRequest struct {
	Doc     uint64 `json:"-" path:"doc" op:"key,doc-" min:"1" max:"9007199254740991"`
	Version uint64 `json:"-" query:"version" op:"id" min:"1" max:"9223372036854775807" doc:"above that of every earlier change of the document"`
	Client  uint64 `json:"-" query:"client" op:"client,client-" min:"1" max:"9007199254740991"`
}

// SearchRequest asks for documents.
type SearchRequest struct {
	ID     uint64        `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	Client uint64        `json:"-" query:"client" op:"client,client-" default:"1" min:"1" max:"9007199254740991"`
	Query  string        `json:"-" query:"q" op:"key" min:"1" max:"400" form:"text" example:"reliable garden"`
	Mode   analysis.Mode `json:"-" query:"mode" default:"and" enum:"and,or,phrase,prefix" doc:"documents have all words, one of them, all at these distances in one field, or all and a term that begins with the last; see The analysis in the README"`
	Most   int           `json:"-" query:"n" default:"10" min:"1" max:"100" doc:"how many hits at most"`
}

// Changed is the answer to a change that is kept.
type Changed struct {
	Seq    int64 `json:"seq" op:"value" min:"1" doc:"its sequence number; later changes have higher ones"`
	Within int64 `json:"visible_within_ms" min:"0" max:"10000" doc:"how soon every search is of a generation that has it; 0 is at once"`
}

// Found is the answer to a search.
type Found struct {
	Generation int64  `json:"generation" op:"value" min:"0" doc:"the answer reflects every change up to this number, and none above"`
	Hits       []Hit  `json:"hits" doc:"by score, the highest first; equal ones by document"`
	DidYouMean string `json:"did_you_mean,omitempty" doc:"what was searched instead, in terms, because a word was in no document; left out if no word was replaced"`
	// What the scores were reckoned from, by those who say that they use BM25F.
	Documents   int64       `json:"documents,omitzero" min:"0" doc:"how many documents there are, without those that are deleted or replaced; bm25f needs this, mean_length and frequencies"`
	Length      float64     `json:"mean_length,omitzero" min:"0" doc:"their mean length, in weighted terms, to nine digits"`
	Frequencies []Frequency `json:"frequencies,omitempty" doc:"of each term that was searched for, those of synonyms and prefixes too; what no document has may be left out"`
}

// Hit is a document that was found.
type Hit = analysis.Hit

// Frequency is how many documents have a term.
type Frequency struct {
	Term      string `json:"term"`
	Documents int64  `json:"documents" min:"0" doc:"documents that are deleted or replaced may still count"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Library] {
	return &api.Table[Library]{
		System: "textsearch", Title: "Text search",
		About: "The API of a service that finds documents by their words. stampede serves its own " +
			"designs over\nit, and judges any server that implements it.",
		Kinds: []api.Kind[Library]{
			api.Op(KindIndex, "PUT /v1/documents/{doc}", Library.Index, api.About{
				Summary: "Add a document, or replace it by a newer version.",
				Detail: "A repeat of the document's newest change, with its version, changes nothing and is " +
					"answered as the first time.",
				Reply: "It is kept for good."}),
			api.Op(KindDelete, "DELETE /v1/documents/{doc}", Library.Delete, api.About{
				Summary: "Delete a document.",
				Detail: "One that is not there is deleted too: only a higher version brings it back. A " +
					"repeat of the document's newest change is answered as the first time.",
				Reply: "No search of this generation or a later one finds it."}),
			api.Op(KindSearch, "GET /v1/search", Library.Search, api.About{
				Summary: "Find documents.", Reply: "The best ones, as of some generation.",
				Refuses: []error{ErrUnavailable}}),
		},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: ErrStale},
			{Status: http.StatusServiceUnavailable, Is: ErrUnavailable}},
		MaxBody: 256 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin without documents.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.FlushAt, p.MergeAt}, err
		},
		PendingMeans: "How much there is to do before searches find everything.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning, and says how large segments are where there are such.
type ResetRequest struct {
	FlushAt int `json:"flush_at" min:"1" max:"1000000" doc:"changes that are in memory before they become a segment"`
	MergeAt int `json:"merge_at" min:"2" max:"100" doc:"segments of one size that become one"`
}

// Audit is what can be read in the end: of the stores, or of a foreign server's audit endpoint.
type Audit struct {
	Scoring   string   `json:"scoring" enum:"bm25f,own" doc:"bm25f: to nine digits by the formula in the README, its terms added in the order of their bytes, with the figures that an answer says; own: in any way, but not all the same"`
	Corrects  bool     `json:"corrects" doc:"a word that is in no document is replaced, by all the rules in the README; synonyms are searched for in any case"`
	Log       []LogRow `json:"log" doc:"every change that was made, in any order"`
	Documents []DocRow `json:"documents" doc:"what there is now, each once"`
	// Generation is that of Documents.
	Generation int64     `json:"generation" min:"0" doc:"of the documents"`
	Gone       int64     `json:"gone" min:"0" doc:"how many versions that are deleted or replaced may still count in a frequency"`
	Finds      []FindRow `json:"finds" doc:"searches as of generation, a row each: for the last word of the title of each of the newest two hundred versions that were indexed, replaced and deleted ones too; for the newest twenty also for its first word, with n of 10, 100 and 10 again, in this order"`
	Segments   []Segment `json:"segments,omitempty" doc:"the files that make up the index, of a server that has such"`

	seen *seen
}

// LogRow is a change.
type LogRow struct {
	Doc     uint64 `json:"doc" min:"1"`
	Version uint64 `json:"version" min:"1"`
	Seq     int64  `json:"seq" min:"1"`
	Deleted bool   `json:"deleted" doc:"it was a deletion"`
}

// DocRow is a document.
type DocRow struct {
	Doc     uint64 `json:"doc" min:"1"`
	Version uint64 `json:"version" min:"1"`
}

// FindRow is what is found for a word.
type FindRow struct {
	Query string `json:"query" doc:"a word as it is in the title, between spaces; the mode is and"`
	Most  int    `json:"n,omitzero" min:"0" max:"100" doc:"how many hits at most; 0 is ten"`
	Found
}

// Segment is a file of an index that is not changed any more.
type Segment = index.Segment

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Documents int     `json:"documents" min:"1" max:"10000000" doc:"number of documents"`
	Skew      string  `json:"skew" enum:"uniform,zipf" doc:"how unevenly documents are changed"`
	Clients   int     `json:"clients" min:"1" max:"100000" doc:"number of clients"`
	Indexing  float64 `json:"indexing" min:"0" max:"1" doc:"share of the scheduled operations that index a document; the others search"`
	Deletes   float64 `json:"deletes" min:"0" max:"1" doc:"share of indexed documents that are deleted at once; and as many later, when they are in segments"`
	Rivals    float64 `json:"rivals" min:"0" max:"1" doc:"share of these that somebody replaces at the same time"`
	Twins     float64 `json:"twins" min:"0" max:"1" doc:"share of documents whose texts are alike, so that their scores are equal"`

	FlushAt    int          `json:"flush_at" min:"1" max:"1000000" doc:"changes that are in memory before they become a segment"`
	MergeAt    int          `json:"merge_at" min:"2" max:"100" doc:"segments of one size that become one"`
	MergePause sut.Duration `json:"merge_pause" min:"0s" max:"1m" doc:"how much longer a merge takes, as one of large segments does"`
}

// DefaultParams are a thousand documents, in segments that are small enough to be merged.
func DefaultParams() Params {
	return Params{Documents: 1000, Skew: "zipf", Clients: 50, Indexing: 0.4, Deletes: 0.2, Rivals: 0.5,
		Twins: 0.2, FlushAt: 100, MergeAt: 4, MergePause: sut.Duration(50 * time.Millisecond)}
}
