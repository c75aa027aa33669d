package commentary

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sync/singleflight"
)

// plan is what a design does of its own.
type plan struct {
	// look reads a match. For those who know a version, it may leave out the comments if it is
	// still that one.
	look func(s server, ctx context.Context, match uint64, known int64) (view, error)
	// keep adds a change, once, and gives it its version; nil is to Postgres.
	keep func(ctx context.Context, st *opened, c *ChangeRow) error
	// beside are statements in the transaction of a change, with the match as $1.
	beside []string
	// then is called once a change is kept; nil does nothing.
	then func(ctx context.Context, st *opened, c ChangeRow) error
	// within is how soon all viewers see a change.
	within func(Params) (ms int64)
	// tagged says whether answers have ETags, cache who may keep them.
	tagged bool
	cache  func(Params) string
}

// inPostgres completes a design by an API that keeps changes in Postgres first.
func inPostgres(v variant, d plan) variant {
	v.Open = func(_ context.Context, st *opened) (Commentary, error) { return newServer(st, d), nil }
	v.Places = append(v.Places, placeCommitted)
	v.State.Audit = audited(d, changes)
	return v
}

// audited reads what viewers are shown of the matches that have changes.
func audited(
	d plan, changes func(context.Context, *opened) ([]ChangeRow, error),
) func(context.Context, *opened) (any, error) {
	return func(ctx context.Context, st *opened) (any, error) {
		list, err := changes(ctx, st)
		a, s := Audit{Changes: list, Pages: []PageRow{}, Past: []PageRow{}}, newServer(st, d)
		for i, c := range list {
			if i > 0 && list[i-1].Match == c.Match {
				continue
			}
			v, failed := s.look(s, ctx, c.Match, -1)
			all, wrong := s.Past(ctx, PastRequest{Match: c.Match, Before: maxID, Most: math.MaxInt32})
			if err = errors.Join(err, failed, wrong); err != nil {
				break
			}
			a.Pages = append(a.Pages, PageRow{c.Match, v.version, v.since(0)})
			a.Past = append(a.Past, PageRow{c.Match, all.Version, all.Comments})
		}
		return a, err
	}
}

// server is the API of a design.
type server struct {
	*opened
	plan
	flights *singleflight.Group
}

func newServer(st *opened, d plan) server { return server{st, d, &singleflight.Group{}} }

// atOnce is the promise that a change is seen by all who look from then on.
func atOnce(Params) int64 { return 0 }

// noStore says that nobody may keep an answer.
func noStore(Params) string { return "no-store" }

// mustAsk says that who keeps an answer must ask whether it is still the same.
func mustAsk(Params) string { return "no-cache" }

// Publish keeps a comment.
func (s server) Publish(ctx context.Context, req PublishRequest) (Published, error) {
	return s.change(ctx, ChangeRow{ID: req.ID, Match: req.Match, Ball: req.Ball, Text: req.Text})
}

// Correct keeps a correction.
func (s server) Correct(ctx context.Context, req CorrectRequest) (Published, error) {
	return s.change(ctx,
		ChangeRow{ID: req.ID, Match: req.Match, Comment: req.Comment, Text: req.Text})
}

func (s server) change(ctx context.Context, c ChangeRow) (Published, error) {
	add := s.keep
	if add == nil {
		add = func(ctx context.Context, st *opened, c *ChangeRow) error {
			return keep(ctx, st, c, s.beside...)
		}
	}
	if err := add(ctx, s.opened, &c); err != nil {
		return Published{}, err
	}
	s.Config.Passed(placeCommitted)
	if s.then != nil {
		if err := s.then(ctx, s.opened, c); err != nil {
			s.Config.Warn("a change is seen later", err)
		}
	}
	return Published{c.Version, s.within(s.Params)}, nil
}

// Latest reads what is new.
func (s server) Latest(ctx context.Context, req LatestRequest) (Latest, error) {
	known := int64(-1)
	if s.tagged {
		known = tagged(req.Have)
	}
	v, err := s.look(s, ctx, req.Match, known)
	if err == nil && v.version < req.Since { // a copy that is older than what the viewer has
		v, err = kept(ctx, s.opened, req.Match)
	}
	if err == nil && v.version < req.Since { // nor does Postgres have it
		err = ErrUnavailable
	}
	if err != nil {
		return Latest{}, err
	}
	tag := ""
	if s.tagged {
		tag = tagOf(v.version)
	}
	return s.answer(req, v, tag), nil
}

// answer makes the answer of a view, which has an ETag or none.
func (s server) answer(req LatestRequest, v view, tag string) Latest {
	if tag != "" && has(req.Have, tag) {
		return Latest{ETag: tag, Cache: s.cache(s.Params), Unchanged: true}
	}
	return Latest{Version: v.version, NextPoll: s.Params.PollEvery.D().Milliseconds(),
		Comments: v.since(req.Since), ETag: tag, Cache: s.cache(s.Params)}
}

// has says whether a viewer has the answer with an ETag, by the weak comparison of RFC 9110 section
// 13.1.2.
func has(have, tag string) bool {
	for one := range strings.SplitSeq(have, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// tagOf is the ETag of the answers of a version.
func tagOf(version int64) string { return fmt.Sprintf(`"v%d"`, version) }

// tagged is the version of an ETag, -1 if it is none of ours.
func tagged(tag string) int64 {
	number, _ := strings.CutPrefix(strings.Trim(tag, `"`), "v")
	if version, err := strconv.ParseInt(number, 10, 64); err == nil && tagOf(version) == tag {
		return version
	}
	return -1
}

// inRows reads a match in Postgres.
func inRows(s server, ctx context.Context, match uint64, _ int64) (view, error) {
	return kept(ctx, s.opened, match)
}
