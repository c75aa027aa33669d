// Package recentsearches keeps what each user searched for: the last ten terms, for whoever taps
// the search bar, and all of them. Its question: which designs show an acknowledged search on every
// device, and never lose one?
//
// A user's searches and forgettings are one sequence of changes. The list is what follows from
// it: a search puts its term first, and the eleventh goes; a term that is forgotten goes. Half of
// the users look at the list within five seconds, hence it lies in Redis; what was searched for
// lies in Postgres, and after a while in an archive.
package recentsearches

import (
	"context"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/internal/sketch"
)

// The kinds of operations. A search and a forgetting have the version that they made as
// Reply.Value, a look and a login that of the list, a history how many changes it shows.
const (
	KindSearch  = "search"
	KindForget  = "forget"
	KindRecent  = "recent"
	KindLogin   = "login"
	KindHistory = "history"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnavailable: a store that is written first is away, so that nothing was stored.
	ErrUnavailable = sut.Refusal("unavailable", "the stores cannot be reached now")
	// ErrOverloaded: the API has no room for another request.
	ErrOverloaded = sut.Refusal("overloaded", "the API has no room for another request")
)

// Recents is the domain interface: what users ask for.
type Recents interface {
	Search(ctx context.Context, req SearchRequest) (Kept, error)
	Forget(ctx context.Context, req ForgetRequest) (Kept, error)
	Recent(ctx context.Context, req UserRequest) (List, error)
	Login(ctx context.Context, req LoginRequest) (List, error)
	History(ctx context.Context, req HistoryRequest) (History, error)
}

// SearchRequest says what a user searched for.
type SearchRequest struct {
	ID   uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the search's identity, which no other request of any user has"`
	User uint64 `json:"user" op:"key,user-" min:"1" max:"9007199254740991"`
	Term string `json:"term" min:"1" max:"100" form:"text" doc:"terms are compared byte by byte"`
}

// ForgetRequest removes a term from a user's list.
type ForgetRequest struct {
	ID   uint64 `json:"-" query:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the forgetting's identity, which no other request of any user has"`
	User uint64 `json:"-" path:"user" op:"key,user-" min:"1" max:"9007199254740991"`
	Term string `json:"-" query:"term" min:"1" max:"100" form:"text"`
}

// UserRequest asks for a user's list.
type UserRequest struct {
	ID   uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	User uint64 `json:"-" path:"user" op:"key,user-" min:"1" max:"9007199254740991"`
}

// LoginRequest says that a user is there, and will look soon.
type LoginRequest struct {
	ID   uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807"`
	User uint64 `json:"user" op:"key,user-" min:"1" max:"9007199254740991"`
}

// HistoryRequest asks for the newest changes of a user's list.
type HistoryRequest struct {
	ID   uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	User uint64 `json:"-" path:"user" op:"key,user-" min:"1" max:"9007199254740991"`
	Most int    `json:"-" query:"most" default:"100" min:"1" max:"1000" doc:"how many at most"`
}

// Kept is the answer to a change that will not be lost.
type Kept struct {
	Version int64 `json:"version" op:"value" min:"1" doc:"that of the change; a user's later changes have higher ones"`
	Within  int64 `json:"visible_within_ms" min:"0" max:"10000" doc:"how soon every list and every history shows it; 0 means already"`
}

// List is what a user searched for lately.
type List struct {
	Version int64    `json:"version" op:"value" min:"0" doc:"that of the user's last change that the list includes, a search or a forgetting; 0 if there is none"`
	Terms   []string `json:"terms" doc:"the newest first, at most ten"`
}

// History is some changes of a user's list.
type History struct {
	Found   int      `json:"found" op:"value" min:"0" doc:"how many there are in this answer"`
	Changes []Change `json:"changes" doc:"the newest first"`
}

// Change is a search, or a term that was forgotten.
type Change struct {
	Version   int64  `json:"version" min:"1"`
	Term      string `json:"term"`
	Forgotten bool   `json:"forgotten"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Recents] {
	return &api.Table[Recents]{
		System: "recentsearches", Title: "Recent searches",
		About: "The API of a service that remembers what users searched for. stampede serves its own " +
			"designs over\nit, and judges any server that implements it.",
		Kinds: []api.Kind[Recents]{
			api.Op(KindSearch, "POST /v1/searches", Recents.Search, api.About{
				Summary: "Keep what a user searched for.", Reply: "It is kept, and will be in the list.",
				Status: http.StatusCreated, Refuses: []error{ErrUnavailable, ErrOverloaded}}),
			api.Op(KindForget, "DELETE /v1/users/{user}/recent", Recents.Forget, api.About{
				Summary: "Forget a term.", Detail: "The history still says that it was searched for, and " +
					"forgotten. Forgetting a term that is not in the list is a change too.",
				Reply: "It will not be in the list.", Refuses: []error{ErrUnavailable, ErrOverloaded}}),
			api.Op(KindRecent, "GET /v1/users/{user}/recent", Recents.Recent, api.About{
				Summary: "Read the terms that a user searched for lately.", Reply: "They, as of some change."}),
			api.Op(KindLogin, "POST /v1/logins", Recents.Login, api.About{
				Summary: "Have a user's list at hand.", Detail: "The server may prepare it: a read may follow.",
				Reply: "The list, as a read of it answers."}),
			api.Op(KindHistory, "GET /v1/users/{user}/history", Recents.History, api.About{
				Summary: "Read a user's changes, archived ones too.", Reply: "The newest ones."}),
		},
		Problems: []api.Problem{{Status: http.StatusServiceUnavailable, Is: ErrUnavailable},
			{Status: http.StatusTooManyRequests, Is: ErrOverloaded}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with users who have not searched for anything.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Users}, err
		},
		PendingMeans: "How many changes are not in the history or not in the lists.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	Users int `json:"users" min:"1" doc:"how many users there are, numbered from 1; no request names another"`
}

// Audit is what can be read in the end: of the stores, or of a foreign server's audit endpoint.
type Audit struct {
	Changes []ChangeRow `json:"changes" doc:"every change of every user, archived or not"`
	Lists   []ListRow   `json:"lists" doc:"the list of each user who changed it, as devices are shown it"`
	// Log and Counts are those of a design that has them, else nil.
	Log    []ChangeRow `json:"log,omitzero" doc:"what is in the log; left out if changes do not come to one first"`
	Counts []CountRow  `json:"counts,omitzero" doc:"how many searches there were for each term, by all users, forgotten later or not; left out if nobody counts them"`

	seen *seen
}

// CountRow is how often a term was searched for.
type CountRow struct {
	Term     string `json:"term" min:"1"`
	Searches int64  `json:"searches" min:"1"`
}

// ChangeRow is a change that is kept.
type ChangeRow struct {
	ID        uint64 `json:"op_id" min:"1"`
	User      uint64 `json:"user" min:"1"`
	Version   int64  `json:"version" min:"1"`
	Term      string `json:"term"`
	Forgotten bool   `json:"forgotten"`
}

// ListRow is a user's list.
type ListRow struct {
	User    uint64   `json:"user" min:"1"`
	Version int64    `json:"version" min:"0"`
	Terms   []string `json:"terms"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Users        int     `json:"users" min:"2" max:"10000000" doc:"number of users"`
	Regulars     int     `json:"regulars" min:"1" max:"100000" doc:"the users who search all the time"`
	RegularShare float64 `json:"regular_share" min:"0" max:"1" doc:"share of the searches that are theirs"`
	Terms        int     `json:"terms" min:"1" max:"10000" doc:"terms that a user searches for"`
	Reads        float64 `json:"reads" min:"0" max:"1" doc:"share of searches after which three devices look at the list"`
	Forgets      float64 `json:"forgets" min:"0" max:"1" doc:"share of searches whose term is forgotten at once, while another device searches"`
	Logins       float64 `json:"logins" min:"0" max:"1" doc:"share of searches before which the user logs in"`
	Histories    float64 `json:"histories" min:"0" max:"1" doc:"share of searches after which the history is read"`

	Slow    float64      `json:"slow" min:"0" max:"1" doc:"share of changes whose transaction goes on for slow_for, as if it also did something else"`
	SlowFor sut.Duration `json:"slow_for" min:"0s" max:"5s" doc:"for how long"`

	TTL            sut.Duration `json:"ttl" min:"1s" max:"720h" doc:"how long Redis keeps a list that nobody changes"`
	ArchiveAfter   sut.Duration `json:"archive_after" min:"1s" max:"87600h" doc:"the age at which changes are archived"`
	RelayEvery     sut.Duration `json:"relay_every" min:"1ms" max:"1m" doc:"how often the relays, and the readers of a log, do their work"`
	VisibleWithin  sut.Duration `json:"visible_within" min:"1ms" max:"10s" doc:"how soon a design that changes lists later promises to do so"`
	SessionTimeout sut.Duration `json:"session_timeout" min:"1s" max:"24h" doc:"silence after which a reader of the log loses its partitions"`
}

// DefaultParams are two thousand users, of whom forty search all the time.
func DefaultParams() Params {
	return Params{Users: 2000, Regulars: 40, RegularShare: 0.5, Terms: 20,
		Reads: 0.5, Forgets: 0.1, Logins: 0.1, Histories: 0.05,
		Slow: 0.02, SlowFor: sut.Duration(150 * time.Millisecond),
		TTL: sut.Duration(7 * 24 * time.Hour), ArchiveAfter: sut.Duration(180 * 24 * time.Hour),
		RelayEvery:     sut.Duration(20 * time.Millisecond),
		VisibleWithin:  sut.Duration(2 * time.Second),
		SessionTimeout: sut.Duration(6 * time.Second)}
}

// slow says for how long the transaction of an operation goes on.
func (p Params) slow(op uint64) time.Duration {
	if float64(sketch.Hash(op)>>11)/(1<<53) < p.Slow {
		return p.SlowFor.D()
	}
	return 0
}

// within is the promise of a design that changes lists later, in milliseconds.
func (p Params) within() int64 { return p.VisibleWithin.D().Milliseconds() }

// most is how many terms a list has.
const most = 10

// after is a list after a change.
func (l List) after(c Change) List {
	next := List{Version: c.Version, Terms: []string{}}
	if !c.Forgotten {
		next.Terms = append(next.Terms, c.Term)
	}
	for _, term := range l.Terms {
		if term != c.Term && len(next.Terms) < most {
			next.Terms = append(next.Terms, term)
		}
	}
	return next
}
