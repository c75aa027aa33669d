// Package autocomplete suggests what users may be about to type: the phrases that begin with it
// and were searched for most. Its question: which designs answer with the exact top of an index
// that they name, soon after a search and never with a blocked phrase?
//
// What is searched for goes to one log with one order. An index is what follows from the log up
// to a position, its version: counts over windows that roll with the log's own clock, the phrases
// that rise, and what each user searched for last. So whoever knows the log can say what every
// suggestion should have been.
package autocomplete

import (
	"context"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/internal/prefix"
)

// The kinds of operations. A query has its position in the log as Reply.Value, a suggestion the
// version of the index that answered it.
const (
	KindQuery   = "query"
	KindSuggest = "suggest"
	KindBlock   = "block"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnavailable: an index is being read, or it is not known what is blocked.
	ErrUnavailable = sut.Refusal("unavailable", "there are no suggestions now")
	// ErrOverloaded: the API has no room for another query.
	ErrOverloaded = sut.Refusal("overloaded", "the API has no room for another query")
)

// Suggester is the domain interface: what users ask for.
type Suggester interface {
	Query(ctx context.Context, req QueryRequest) (Kept, error)
	Suggest(ctx context.Context, req SuggestRequest) (Suggestions, error)
	Block(ctx context.Context, req BlockRequest) (api.Nothing, error)
}

// QueryRequest says what a user searched for.
type QueryRequest struct {
	ID     uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the query's identity"`
	User   uint64 `json:"user" op:"key,user-" min:"1" max:"9007199254740991"`
	Phrase string `json:"phrase" min:"1" max:"100" form:"text"`
}

// most is how many suggestions an answer has at most.
const most = prefix.Most

// SuggestRequest asks what may follow.
type SuggestRequest struct {
	ID     uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	User   uint64 `json:"-" query:"user" op:"key,user-" default:"0" max:"9007199254740991" doc:"whose searches come first; 0 is nobody's"`
	Prefix string `json:"-" query:"prefix" min:"1" max:"100" form:"text" example:"suggestion" doc:"what was typed so far, in characters of UTF-8, upper and lower case apart"`
	Edits  int    `json:"-" query:"edits" default:"0" min:"0" max:"2" doc:"how many characters of it may be wrong, missing or too many, compared with any beginning of a phrase; one needs a prefix of 6 characters, two need 9, and a shorter prefix is a bad request"`
	Most   int    `json:"-" query:"most" default:"10" min:"1" max:"10" doc:"how many suggestions at most"`
}

// shortest is how many characters of a prefix there are at least for each edit, and as many more:
// one part of them is right then, and long enough for a trigram.
const shortest = 3

// Check refuses edits that leave too little of a prefix.
func (r SuggestRequest) Check() error {
	if r.Edits > 0 && utf8.RuneCountInString(r.Prefix) < shortest*(r.Edits+1) {
		return errors.New("edits: the prefix is too short for so many; expected 6 characters or more " +
			"for one, and 9 for two")
	}
	return nil
}

// BlockRequest says that a phrase must not be suggested any more.
type BlockRequest struct {
	ID     uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the identity of this"`
	Phrase string `json:"phrase" op:"key" min:"1" max:"100" form:"text"`
}

// Kept is the answer to a query that is in the log.
type Kept struct {
	Position int64 `json:"position" op:"value" min:"1" doc:"its place in the log; later ones are higher"`
	Within   int64 `json:"visible_within_ms" min:"0" max:"60000" doc:"how soon every suggestion is of a version that has it; more than a scenario grants counts as that much"`
}

// Suggestions are the best phrases of a version of the index.
type Suggestions struct {
	Version int64        `json:"version" op:"value" min:"0" doc:"the position of the last query in the index; 0 if there is none"`
	Phrases []Suggestion `json:"phrases" doc:"the user's own, the newest first; then by score, and equal ones by their bytes"`
}

// Suggestion is one of them.
type Suggestion struct {
	Phrase   string `json:"phrase"`
	Score    int64  `json:"score" min:"0" doc:"by the windows of the reset, as of the version's slot; a phrase whose score is 0 is suggested only as one of a user's own"`
	Trending bool   `json:"trending" doc:"it is searched for more often lately than before, as rises and rises_least of the reset say; this does not change the order"`
	Personal bool   `json:"personal" doc:"it is one of the last ten different phrases that the user searched for, of which some may not fit or be blocked; they come first, whatever their score, also with edits"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Suggester] {
	return &api.Table[Suggester]{
		System: "autocomplete", Title: "Autocomplete",
		About: "The API of a service that completes what users type. stampede serves its own designs " +
			"over\nit, and judges any server that implements it.\n\nSuggestions have each query within " +
			"the time that a scenario grants (visible_within).",
		Kinds: []api.Kind[Suggester]{
			api.Op(KindQuery, "POST /v1/queries", Suggester.Query, api.About{
				Summary: "Count what a user searched for.", Reply: "It is in the log.",
				Detail: "Clients send each query once, even if its effect is unknown. The log has each at " +
					"most once.",
				Status: http.StatusCreated, Refuses: []error{ErrUnavailable, ErrOverloaded}}),
			api.Op(KindSuggest, "GET /v1/suggestions", Suggester.Suggest, api.About{
				Summary: "Complete what a user has typed.", Detail: "The user's own phrases come first.",
				Reply: "The best phrases, as of some version.", Refuses: []error{ErrUnavailable}}),
			api.Op(KindBlock, "POST /v1/blocked", Suggester.Block, api.About{
				Summary: "Never suggest a phrase again.",
				Reply:   "No suggestion that begins from now on has it.", Refuses: []error{ErrUnavailable}}),
		},
		Problems: []api.Problem{{Status: http.StatusServiceUnavailable, Is: ErrUnavailable},
			{Status: http.StatusTooManyRequests, Is: ErrOverloaded}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with an empty log, no blocks, and these windows.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.SlotMS, p.Recent, p.Baseline, p.Weight, p.Rises, p.Least}, err
		},
		PendingMeans: "How many queries of the log are not in every index.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning. Its windows say what a score is: recent_weight times the
// queries in the newest recent slots of the log, and once those in the baseline slots before.
type ResetRequest struct {
	SlotMS   int64 `json:"slot_ms" min:"10" max:"86400000" doc:"how many milliseconds of the log's clock a slot is"`
	Recent   int64 `json:"recent" min:"1" max:"10000" doc:"how many of the newest slots are recent"`
	Baseline int64 `json:"baseline" min:"1" max:"100000" doc:"how many slots before them are the baseline; older ones count for nothing"`
	Weight   int64 `json:"recent_weight" min:"1" max:"1000" doc:"what a recent query counts; one of the baseline counts 1"`
	Rises    int64 `json:"rises" min:"1" max:"1000" doc:"a phrase is trending if it has at least so many times as many queries in a recent slot, on average, as in one of the baseline, where it may have none"`
	Least    int64 `json:"rises_least" min:"1" max:"1000000" doc:"and at least so many recent queries"`
}

// Audit is what can be read in the end: of the stores, or of a foreign server's audit endpoint.
type Audit struct {
	Log     []LogRow   `json:"log" doc:"every query, in any order"`
	Blocked []BlockRow `json:"blocked" doc:"every block, one row for each op_id, also of a phrase that was blocked before"`
	Lists   []ListRow  `json:"lists" doc:"the ten best suggestions now for user 0, for each first character of a phrase in the log; an empty list if all of these are blocked or have no score"`
	// IndexBytes is how large an index is, 0 if nobody says.
	IndexBytes int64 `json:"index_bytes,omitzero" min:"0" doc:"about how large the index is, without users' own phrases"`

	seen *seen
}

// LogRow is a query in the log.
type LogRow struct {
	ID       uint64 `json:"op_id" min:"1"`
	User     uint64 `json:"user" min:"1"`
	Phrase   string `json:"phrase"`
	Position int64  `json:"position" min:"1"`
	Slot     int64  `json:"slot" min:"0" doc:"the newest slot in the log by then; that of a query is the milliseconds of its time divided by slot_ms"`
}

// BlockRow is a phrase that is blocked.
type BlockRow struct {
	ID     uint64 `json:"op_id" min:"1"`
	Phrase string `json:"phrase"`
}

// ListRow is what is suggested for a prefix.
type ListRow struct {
	Prefix  string       `json:"prefix"`
	Version int64        `json:"version" min:"0"`
	Phrases []Suggestion `json:"phrases"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	SlotMS   int64 `json:"slot_ms" min:"10" max:"86400000" doc:"how many milliseconds of the log's clock a slot is"`
	Recent   int64 `json:"recent" min:"1" max:"10000" doc:"how many of the newest slots are recent"`
	Baseline int64 `json:"baseline" min:"1" max:"100000" doc:"how many slots before them are the baseline; older ones count for nothing"`
	Weight   int64 `json:"recent_weight" min:"1" max:"1000" doc:"what a recent query counts; one of the baseline counts 1"`
	Rises    int64 `json:"rises" min:"1" max:"1000" doc:"a phrase is trending if it has at least so many times as many queries in a recent slot, on average, as in one of the baseline, where it may have none"`
	Least    int64 `json:"rises_least" min:"1" max:"1000000" doc:"and at least so many recent queries"`

	Phrases      int     `json:"phrases" min:"10" max:"10000000" doc:"number of phrases"`
	Users        int     `json:"users" min:"1" max:"10000000" doc:"number of users"`
	Regulars     int     `json:"regulars" min:"1" max:"100000" doc:"the users who search all the time"`
	RegularShare float64 `json:"regular_share" min:"0" max:"1" doc:"share of the searches that are theirs"`
	Typed        float64 `json:"typed" min:"0" max:"1" doc:"share of searches that are typed, with a suggestion for each of five characters"`
	Mistyped     float64 `json:"mistyped" min:"0" max:"1" doc:"share of the searches that are not typed, before which a wrong prefix is completed"`
	Blocks       float64 `json:"blocks" min:"0" max:"1" doc:"share of searches after which their phrase is blocked, while others type it"`
	News         float64 `json:"news" min:"0" max:"1" doc:"share of searches that are for the news of the moment"`
	NewsEvery    int     `json:"news_every" min:"1" max:"1000000" doc:"after how many searches the news are others"`

	ReadEvery      sut.Duration `json:"read_every" min:"1ms" max:"1m" doc:"how often indexes take in what is in the log"`
	BuildEvery     sut.Duration `json:"build_every" min:"1ms" max:"10m" doc:"how often a segment is built"`
	VisibleWithin  sut.Duration `json:"visible_within" min:"1ms" max:"1m" doc:"how soon a query must be in the index, which is what designs promise"`
	BlockLease     sut.Duration `json:"block_lease" min:"100ms" max:"1m" doc:"for how long an API knows what is blocked without asking"`
	BlockRefresh   sut.Duration `json:"block_refresh" min:"10ms" max:"1m" doc:"how often cached_blocks reads what is blocked"`
	SessionTimeout sut.Duration `json:"session_timeout" min:"1s" max:"24h" doc:"silence after which a reader of the log loses it"`
}

// DefaultParams are two thousand phrases, and windows of an hour and of a day.
func DefaultParams() Params {
	return Params{
		SlotMS: time.Minute.Milliseconds(), Recent: 60, Baseline: 1380, Weight: 4, Rises: 3, Least: 5,
		Phrases: 2000, Users: 2000, Regulars: 40, RegularShare: 0.3,
		Typed: 0.5, Mistyped: 0.1, Blocks: 0.02, News: 0.05, NewsEvery: 200,
		ReadEvery:      sut.Duration(20 * time.Millisecond),
		BuildEvery:     sut.Duration(200 * time.Millisecond),
		VisibleWithin:  sut.Duration(2 * time.Second),
		BlockLease:     sut.Duration(time.Second),
		BlockRefresh:   sut.Duration(500 * time.Millisecond),
		SessionTimeout: sut.Duration(6 * time.Second)}
}

// within is the promise of all designs, in milliseconds.
func (p Params) within() int64 { return p.VisibleWithin.D().Milliseconds() }
