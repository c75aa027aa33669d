// Package commentary is the live text commentary of matches: a few write, and everybody looks
// again every few seconds. Its question: which designs keep viewers up to date when a wicket
// falls and ten times as many look, and at what cost?
//
// The comments of a match and their corrections are one sequence of changes, its versions. What a
// viewer is shown is what follows from the changes up to a version: the newest thirty comments, or
// those of them that have changed since the version that the viewer has. HTTP says when that may be
// kept, by whom, and whether it is still the same.
package commentary

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/bounds"
	"stampede/harness/sut"
)

// The kinds of operations. The value of a change is the version that it made, and that of a look
// the version that it was shown, 0 if it was told that nothing has changed.
const (
	KindPublish = "publish"
	KindCorrect = "correct"
	KindLatest  = "latest"
	KindPast    = "past"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrNoComment: what is to be corrected is not there, or too old to be corrected.
	ErrNoComment = sut.Refusal("no_comment", "there is no such comment, or it is too old")
	// ErrUnavailable: a store is away, so that nothing was stored, or what is there is too old.
	ErrUnavailable = sut.Refusal("unavailable", "comments cannot be kept or shown now")
)

// Commentary is the domain interface: what commentators and viewers ask for.
type Commentary interface {
	Publish(ctx context.Context, req PublishRequest) (Published, error)
	Correct(ctx context.Context, req CorrectRequest) (Published, error)
	Latest(ctx context.Context, req LatestRequest) (Latest, error)
	Past(ctx context.Context, req PastRequest) (Past, error)
}

// PublishRequest is a new comment.
type PublishRequest struct {
	ID    uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the comment's identity, unique among all changes of all matches: who is not told that it is kept, or does not see it, sends it again, and is answered with its first version"`
	Match uint64 `json:"-" path:"match" op:"key,match-" min:"1" max:"9007199254740991"`
	Ball  string `json:"ball" min:"1" max:"20" form:"text" doc:"over and ball, such as 10.3"`
	Text  string `json:"text" min:"1" max:"500" form:"text"`
}

// CorrectRequest replaces the text of a comment.
type CorrectRequest struct {
	ID      uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the correction's identity, unique as that of a comment: one that was kept is answered with its first version, even if the comment is too old by then"`
	Match   uint64 `json:"-" path:"match" op:"key,match-" min:"1" max:"9007199254740991"`
	Comment int64  `json:"-" path:"comment" min:"1" max:"9007199254740991"`
	Text    string `json:"text" min:"1" max:"500" form:"text"`
}

// LatestRequest asks for what is new. Its identity is in a header, because a cache tells requests
// apart by their URLs.
type LatestRequest struct {
	ID    uint64 `json:"-" header:"X-Request-Id" op:"id" min:"1" max:"9223372036854775807"`
	Match uint64 `json:"-" path:"match" op:"key,match-" min:"1" max:"9007199254740991"`
	Since int64  `json:"-" query:"since" default:"0" min:"0" max:"9007199254740991" doc:"the version that the viewer has: comments that have not changed since are left out"`
	Wait  int64  `json:"-" query:"wait" default:"0" min:"0" max:"10000" doc:"milliseconds for which a server may keep a viewer waiting for something newer than since; it need not wait"`
	Have  string `json:"-" header:"If-None-Match" max:"1000" doc:"one ETag, of an answer to the same match, since and wait; which version a viewer has is said by since alone"`
}

// PastRequest asks for older comments.
type PastRequest struct {
	ID     uint64 `json:"-" header:"X-Request-Id" op:"id" min:"1" max:"9223372036854775807"`
	Match  uint64 `json:"-" path:"match" op:"key,match-" min:"1" max:"9007199254740991"`
	Before int64  `json:"-" query:"before" default:"9007199254740991" min:"1" max:"9007199254740991" doc:"comments with lower ids"`
	Most   int    `json:"-" query:"most" default:"30" min:"1" max:"100" doc:"how many at most"`
}

// Published is the answer to a change that will not be lost.
type Published struct {
	Version int64 `json:"version" op:"value" min:"1" doc:"that of the match with the change, and the id of a new comment; later changes have higher ones"`
	Within  int64 `json:"visible_within_ms" min:"0" max:"10000" doc:"how soon every viewer who looks, or scrolls back, sees it; 0 means already"`
}

// Latest is what is new.
type Latest struct {
	Version  int64     `json:"version" op:"value" min:"0" max:"9007199254740991" doc:"all changes up to it are in this answer, and it may be higher than the last of them"`
	NextPoll int64     `json:"next_poll_ms" min:"0" max:"600000" doc:"when to look again; answers with one ETag may differ in it"`
	Comments []Comment `json:"comments" doc:"the newest first: of the newest thirty those that have changed since the version that was asked about"`

	ETag      string `json:"etag,omitempty" header:"ETag" max:"100" doc:"The name of this version and these comments among the answers to the same match, since and wait. It may be left out."`
	Cache     string `json:"cache,omitempty" header:"Cache-Control" max:"200" doc:"Who may keep this answer, and for how long."`
	Served    string `json:"served,omitempty" header:"Cache-Status" max:"200" doc:"Which caches the answer went through, by RFC 9211."`
	Unchanged bool   `json:"unchanged,omitempty" status:"304" doc:"It is as it was."`
}

// Past is some comments.
type Past struct {
	Version  int64     `json:"version" op:"value" min:"0" max:"9007199254740991" doc:"all changes up to it are in this answer"`
	Comments []Comment `json:"comments" doc:"the newest first"`
}

// Comment is what was said of a ball.
type Comment struct {
	ID      int64  `json:"id" min:"1"`
	Version int64  `json:"version" min:"1" doc:"that of its last correction, or its id"`
	Ball    string `json:"ball"`
	Text    string `json:"text"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Commentary] {
	const path = "/v1/matches/{match}/commentary"
	return &api.Table[Commentary]{
		System: "commentary", Title: "Live commentary",
		About: "The API of the live commentary of matches. stampede serves its own designs over it, " +
			"and\njudges any server that implements it, with whatever stands in front of it.",
		Kinds: []api.Kind[Commentary]{
			api.Op(KindPublish, "POST "+path, Commentary.Publish, api.About{
				Summary: "Publish a comment.", Reply: "It is kept, and will be seen.",
				Status: http.StatusCreated, Refuses: []error{ErrUnavailable}}),
			api.Op(KindCorrect, "PUT "+path+"/{comment}", Commentary.Correct, api.About{
				Summary: "Correct a comment.", Detail: "It keeps its place. One of the newest thirty can " +
					"be corrected.",
				Reply: "It is kept, and will be seen.", Refuses: []error{ErrNoComment, ErrUnavailable}}),
			api.Op(KindLatest, "GET "+path+"/latest", Commentary.Latest, api.About{
				Summary: "Read what is new.", Refuses: []error{ErrUnavailable},
				Detail: "An answer is never older than since: a server that is behind says unavailable.",
				Reply:  "The newest comments, as of some version."}),
			api.Op(KindPast, "GET "+path, Commentary.Past, api.About{Refuses: []error{},
				Summary: "Read older comments, archived ones too.", Reply: "They, as of some version."}),
		},
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrNoComment},
			{Status: http.StatusServiceUnavailable, Is: ErrUnavailable}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with matches of which nothing was said.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Matches}, err
		},
		PendingMeans: "How many changes are not kept for good, or not seen yet by who has nothing.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	Matches int `json:"matches" min:"1" doc:"they are numbered from 1; others are not asked for"`
}

// Audit is what can be read in the end: of the stores, or of a foreign server's audit endpoint.
type Audit struct {
	Changes []ChangeRow `json:"changes" doc:"every change, in any order"`
	Pages   []PageRow   `json:"pages" doc:"what a viewer who has nothing is shown of each match with comments, a row each: the newest thirty"`
	Past    []PageRow   `json:"past" doc:"all comments of each match with comments, a row each, without a bound, archived ones too"`

	seen *seen
}

// ChangeRow is a change that is kept.
type ChangeRow struct {
	ID      uint64 `json:"op_id" min:"1"`
	Match   uint64 `json:"match" min:"1"`
	Version int64  `json:"version" min:"1"`
	Comment int64  `json:"comment" min:"1" doc:"the comment that it is about: its own version, if that is new"`
	Ball    string `json:"ball" doc:"that of the comment; a correction may leave it empty"`
	Text    string `json:"text"`
}

// PageRow is what is shown of a match.
type PageRow struct {
	Match    uint64    `json:"match" min:"1"`
	Version  int64     `json:"version" min:"0" doc:"that of its last change, or a higher one"`
	Comments []Comment `json:"comments" doc:"the newest first"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Matches   int          `json:"matches" min:"1" max:"100000" doc:"number of matches"`
	HotShare  float64      `json:"hot_share" min:"0" max:"1" doc:"share of the viewers and commentators who are at the first match"`
	Publishes float64      `json:"publishes" min:"0" max:"1" doc:"share of the arrivals that are commentators with a new comment, not viewers"`
	Corrects  float64      `json:"corrects" min:"0" max:"1" doc:"share of comments that are corrected soon"`
	Polls     int          `json:"polls" min:"0" max:"40" doc:"how often a viewer looks again"`
	PollEvery sut.Duration `json:"poll_every" min:"1ms" max:"10m" doc:"after how long, which is also what servers recommend"`
	Apps      float64      `json:"apps" min:"0" max:"1" doc:"share of the viewers who ask for what is new since their version; others ask for all"`
	Wait      sut.Duration `json:"wait" min:"0s" max:"10s" doc:"for how long an app lets itself be kept waiting for something new"`
	Pasts     float64      `json:"pasts" min:"0" max:"1" doc:"share of the viewers who scroll back"`

	CopyFor      sut.Duration `json:"copy_for" min:"100ms" max:"5s" doc:"how long a copy in Redis is used before it is read anew"`
	MaxAge       sut.Duration `json:"max_age" min:"1s" max:"5s" doc:"how long an edge uses an answer, in whole seconds"`
	ArchiveAfter sut.Duration `json:"archive_after" min:"1s" max:"87600h" doc:"the age at which comments are archived"`
	WriteEvery   sut.Duration `json:"write_every" min:"1ms" max:"1m" doc:"how often a design that answers before it writes to Postgres does so"`
}

// DefaultParams are twenty matches, of which half of the viewers see the first.
func DefaultParams() Params {
	return Params{Matches: 20, HotShare: 0.5, Publishes: 0.05, Corrects: 0.1,
		Polls: 10, PollEvery: sut.Duration(500 * time.Millisecond), Apps: 0.5,
		Wait: sut.Duration(time.Second), Pasts: 0.05,
		CopyFor:      sut.Duration(time.Second),
		MaxAge:       sut.Duration(3 * time.Second),
		ArchiveAfter: sut.Duration(30 * 24 * time.Hour),
		WriteEvery:   sut.Duration(50 * time.Millisecond)}
}

// Validate says what is wrong with them.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if p.MaxAge.D()%time.Second != 0 {
		err = errors.Join(err, fmt.Errorf("max_age: expected whole seconds, got %v", p.MaxAge.D()))
	}
	return err
}

// maxID is more than the id of any comment.
const maxID = 9007199254740991

// newest is how many comments a viewer who has nothing is shown.
const newest = 30

// view is a match as of a version: the newest comments, the newest first.
type view struct {
	version  int64
	comments []Comment
}

// since are the comments that have changed after a version.
func (v view) since(version int64) []Comment {
	list := []Comment{}
	for _, c := range v.comments {
		if c.Version > version {
			list = append(list, c)
		}
	}
	return list
}
